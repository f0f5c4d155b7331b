"""The published Python client of Danube, unmodified, for tests: the same commands and output as danube-peer, which says
what they mean."""

import argparse
import asyncio
import json
import os
import sys
import time

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, SubType

# A message that failed is sent again, as an application would do, for so long, with such pauses.
SEND_MAX_SECONDS = 30
SEND_PAUSE_SECONDS = 0.1
KINDS = {
    "exclusive": SubType.EXCLUSIVE,
    "shared": SubType.SHARED,
    "failover": SubType.FAILOVER,
    "key-shared": SubType.KEY_SHARED,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=os.environ.get("DANUBE_URL"))
    commands = parser.add_subparsers(dest="command", required=True)
    produce = commands.add_parser("produce")
    produce.add_argument("topic")
    produce.add_argument("--name", default="p")
    produce.add_argument("--producers", type=int, default=1)
    produce.add_argument("--count", type=int, required=True)
    produce.add_argument("--start", type=int, default=0)
    produce.add_argument("--partitions", type=int)
    produce.add_argument("--keys", type=int)
    produce.add_argument("--attributes", action="store_true")
    produce.add_argument("--size", type=int)
    produce.add_argument("--non-reliable", action="store_true")
    consume = commands.add_parser("consume")
    consume.add_argument("topic")
    consume.add_argument("--subscription", default="s")
    consume.add_argument("--name", default="c")
    consume.add_argument("--type", choices=KINDS, default="exclusive")
    consume.add_argument("--count", type=int, required=True)
    consume.add_argument("--idle", type=int, default=30)
    consume.add_argument("--no-ack", action="store_true")
    consume.add_argument("--nack-first", action="store_true")
    consume.add_argument("--filter", action="append", default=[])
    return parser.parse_args()


async def connect(url: str) -> DanubeClient:
    return await DanubeClientBuilder().service_url(url).build()


async def send(producer, what: str, payload: bytes, attributes, key) -> None:
    deadline = time.monotonic() + SEND_MAX_SECONDS
    while True:
        try:
            if key is None:
                await producer.send(payload, attributes)
            else:
                await producer.send_with_key(payload, attributes, key)
            return
        except Exception as error:
            print(f"{what} failed: {error}", file=sys.stderr)
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(SEND_PAUSE_SECONDS)


async def produce_one(args: argparse.Namespace, name: str) -> None:
    client = await connect(args.url)
    strategy = DispatchStrategy.NON_RELIABLE if args.non_reliable else DispatchStrategy.RELIABLE
    builder = client.new_producer().with_topic(args.topic).with_name(name)
    builder = builder.with_dispatch_strategy(strategy)
    if args.partitions is not None:
        builder = builder.with_partitions(args.partitions)
    producer = builder.build()
    await producer.create()
    for number in range(args.start, args.start + args.count):
        payload = f"{name}:{number}:".encode()
        if args.size is not None:
            payload = payload[: args.size].ljust(args.size, b"x")
        attributes = {"n": str(number), "empty": ""} if args.attributes else None
        key = f"k{number % args.keys}" if args.keys is not None else None
        await send(producer, f"{name}:{number}", payload, attributes, key)
        print(f"{name}:{number}", flush=True)
    await producer.close()


async def produce(args: argparse.Namespace) -> None:
    several = args.producers > 1
    names = [args.name + (str(number) if several else "") for number in range(args.producers)]
    await asyncio.gather(*(produce_one(args, name) for name in names))


async def consume(args: argparse.Namespace) -> None:
    client = await connect(args.url)
    builder = client.new_consumer().with_topic(args.topic).with_consumer_name(args.name)
    builder = builder.with_subscription(args.subscription)
    builder = builder.with_subscription_type(KINDS[args.type]).with_key_filters(args.filter)
    consumer = builder.build()
    await consumer.subscribe()
    messages = await consumer.receive()
    print("ready", flush=True)
    seen = set()
    for _ in range(args.count):
        message = await asyncio.wait_for(messages.get(), args.idle)
        identity = (message.msg_id.topic_name, message.msg_id.topic_offset)
        fields = {
            "topic": identity[0],
            "offset": identity[1],
            "key": message.routing_key if message.HasField("routing_key") else None,
            "attributes": dict(message.attributes),
            "publish_time": message.publish_time,
            "producer": message.producer_name,
            "producer_id": message.msg_id.producer_id,
            "request_id": message.request_id,
            "payload": message.payload.decode(),
        }
        try:
            if args.nack_first and identity not in seen:
                seen.add(identity)
                await consumer.nack(message, 0, "not yet")
            elif not args.no_ack:
                await consumer.ack(message)
        except Exception as error:
            # It comes again then.
            print(f"{fields} is not settled: {error}", file=sys.stderr)
        print(json.dumps(fields), flush=True)
    await consumer.close()


if __name__ == "__main__":
    args = arguments()
    asyncio.run({"produce": produce, "consume": consume}[args.command](args))
