//! Subscriptions over the native protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use danube_client::admin::{SubscriptionDescription, TopicSettings};
use danube_client::{
    Consumed, Consumer, ConsumerBuilder, Creation, Delivered, ErrorKind, Message, Offset, Producer,
    Reliability, Start, SubscriptionName, SubscriptionType, TopicName,
};
use danube_env::Env;
use danube_proto::convert::{wire_start, wire_subscription_type};
use danube_proto::stream::consume_request::{Credit, Open, Refusal, Request, Seek, Settle};
use danube_proto::stream::consume_response::item::Item;
use danube_proto::stream::stream_client::StreamClient;
use danube_proto::stream::{ConsumeRequest, ConsumeResponse, Range};
use danube_server::Server;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use crate::fixture::{Directory, TOPIC, client, message, producer};

fn topic() -> TopicName {
    TOPIC.parse().unwrap()
}

fn subscription() -> SubscriptionName {
    "s".parse().unwrap()
}

fn consumer(server: &Server) -> ConsumerBuilder {
    client(server).consumer(TOPIC, "s").unwrap().start(Start::Earliest)
}

fn named(server: &Server, name: &str) -> ConsumerBuilder {
    consumer(server).name(Some(name.parse().unwrap()))
}

async fn produce(producer: &Producer, numbers: std::ops::Range<u64>) {
    let mut deliveries = Vec::new();
    for number in numbers {
        deliveries.push(producer.send(message(number.to_string())).await.unwrap());
    }
    for delivery in deliveries {
        delivery.await.unwrap();
    }
}

/// The next message, which comes within 10 s.
async fn next(consumer: &mut Consumer) -> Delivered {
    let next = tokio::time::timeout(Duration::from_secs(10), consumer.next()).await;
    match next.expect("a message comes").unwrap().unwrap() {
        Consumed::Message(delivered) => delivered,
        other => panic!("{other:?}"),
    }
}

async fn offsets(consumer: &mut Consumer, count: usize) -> Vec<u64> {
    let mut offsets = Vec::new();
    for _ in 0..count {
        offsets.push(next(consumer).await.received.offset.get());
    }
    offsets
}

async fn describe(server: &Server) -> SubscriptionDescription {
    let admin = client(server).admin();
    admin.describe_subscription(&topic(), &subscription()).await.unwrap().remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_in_any_order_stays_so_and_the_rest_comes_again() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..1_000).await;
    let mut consuming = consumer(&server).open().await.unwrap();
    for number in 0..1_000 {
        let delivered = next(&mut consuming).await;
        assert_eq!(delivered.received.offset.get(), number);
        assert_eq!(delivered.received.message.payload, number.to_string());
        assert_eq!(delivered.delivery_count, 1);
        if number % 10 != 3 {
            consuming.ack(delivered.place);
        }
    }
    consuming.close().await.unwrap();
    let described = describe(&server).await;
    assert_eq!((described.floor.get(), described.lag, described.in_flight), (3, 100, 0));
    assert_eq!(described.acked_ranges.len(), 100);
    assert_eq!(described.acked_ranges[0], Offset::new(4)..Offset::new(13));
    server.stop().await.unwrap();

    let server = directory.start().await;
    let mut consuming = consumer(&server).open().await.unwrap();
    let left: Vec<u64> = (0..1_000).filter(|number| number % 10 == 3).collect();
    assert_eq!(offsets(&mut consuming, 100).await, left);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_comes_again_alone() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..3).await;
    let mut consuming = consumer(&server).open().await.unwrap();
    let first = next(&mut consuming).await;
    consuming.nack(first.place, Duration::ZERO, "not now");
    assert_eq!(offsets(&mut consuming, 2).await, [1, 2]);
    let again = next(&mut consuming).await;
    assert_eq!((again.received.offset.get(), again.delivery_count), (0, 2));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exclusive_subscription_is_refused_while_taken_and_free_as_soon_as_it_is_left() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..1).await;
    for round in 0..20 {
        let first = named(&server, &format!("first-{round}")).open().await.unwrap();
        let error = named(&server, "second").open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        first.close().await.unwrap();
    }
    let error = consumer(&server).kind(SubscriptionType::Shared).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");

    let mut first = named(&server, "same").open().await.unwrap();
    let before = next(&mut first).await.delivery_count;
    let mut second = named(&server, "same").open().await.unwrap();
    assert_eq!(first.next().await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(next(&mut second).await.delivery_count, before + 1);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_at_once_what_the_first_has_not_acknowledged() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..10).await;
    let failover = |name| named(&server, name).kind(SubscriptionType::Failover);
    let mut first = failover("first").open().await.unwrap();
    let mut second = failover("second").open().await.unwrap();
    for _ in 0..4 {
        let delivered = next(&mut first).await;
        first.ack(delivered.place);
    }
    let clock = Env::real().clock;
    let before = clock.monotonic();
    // It sends its acknowledgements as it goes.
    drop(first);
    assert_eq!(offsets(&mut second, 6).await, [4, 5, 6, 7, 8, 9]);
    let took = clock.monotonic() - before;
    assert!(took < Duration::from_secs(1), "{took:?}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seek_reaches_consumers_that_are_there() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..100).await;
    let mut consuming = consumer(&server).open().await.unwrap();
    for _ in 0..100 {
        let delivered = next(&mut consuming).await;
        consuming.ack(delivered.place);
    }
    let noted = async {
        while describe(&server).await.floor < Offset::new(100) {
            Env::real().clock.sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), noted).await.unwrap();
    let to = Start::Offset(Offset::new(90));
    client(&server).admin().seek_subscription(&topic(), &subscription(), to).await.unwrap();
    assert_eq!(offsets(&mut consuming, 10).await, (90..100).collect::<Vec<_>>());
    assert_eq!(describe(&server).await.floor.get(), 90);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seek_while_acknowledgements_fly_is_not_undone_by_them() {
    let directory = Directory::new();
    let server = directory.start_with("storage: {durability: page_cache}").await;
    produce(&producer(&server).await, 0..1_000).await;
    let admin = client(&server).admin();
    for round in 0..20 {
        let mut consuming = consumer(&server).open().await.unwrap();
        let settler = consuming.settler();
        let mut held = Vec::new();
        while held.len() < 900 {
            let place = next(&mut consuming).await.place;
            settler.ack(place);
            held.push(place);
        }
        let late = async {
            for _ in 0..10 {
                held.iter().for_each(|place| settler.ack(*place));
                Env::real().clock.sleep(Duration::from_millis(round % 3)).await;
            }
        };
        let to = Start::Offset(Offset::new(100));
        let (topic, subscription) = (topic(), subscription());
        let (sought, ()) = tokio::join!(admin.seek_subscription(&topic, &subscription, to), late);
        sought.unwrap();
        // What was on its way before the seek may come once more before that.
        let again = async { while next(&mut consuming).await.received.offset.get() != 100 {} };
        tokio::time::timeout(Duration::from_secs(5), again).await.expect("it gets 100");
        held.iter().for_each(|place| settler.ack(*place));
        consuming.close().await.unwrap();
        assert_eq!(describe(&server).await.floor.get(), 100);
        admin.seek_subscription(&topic, &subscription, Start::Earliest).await.unwrap();
    }
    server.stop().await.unwrap();
}

fn keyed(key: u64, payload: u64) -> Message {
    Message { key: Some(format!("key-{key}").into()), ..message(payload.to_string()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_stay_in_order_and_filters_take_only_theirs() {
    let directory = Directory::new();
    let server = directory.start().await;
    let producer = producer(&server).await;
    let mut deliveries = Vec::new();
    for number in 0..500 {
        deliveries.push(producer.send(keyed(number % 10, number)).await.unwrap());
    }
    for delivery in deliveries {
        delivery.await.unwrap();
    }
    let shared = |name| named(&server, name).kind(SubscriptionType::KeyShared).prefetch(20);
    // The one that takes all is first: keys that nobody takes are skipped.
    let mut second = shared("second").open().await.unwrap();
    let filters = vec!["k?y-0".to_owned(), "other-*".to_owned()];
    let mut first = shared("first").filters(filters).open().await.unwrap();
    let mut last = BTreeMap::new();
    for _ in 0..500 {
        let (delivered, is_first) = tokio::select! {
            delivered = next(&mut first) => (delivered, true),
            delivered = next(&mut second) => (delivered, false),
        };
        let key = delivered.received.message.key.clone().unwrap();
        if is_first {
            assert_eq!(key.as_str(), "key-0");
            first.ack(delivered.place);
        } else {
            second.ack(delivered.place);
        }
        let before = last.insert(key.as_str().to_owned(), delivered.received.offset);
        assert!(before < Some(delivered.received.offset), "{key:?}");
    }
    server.stop().await.unwrap();
}

/// They were passed over, and the consumer got every key.
#[tokio::test(flavor = "multi_thread")]
async fn filters_of_what_is_not_key_shared_are_refused() {
    use SubscriptionType::{Exclusive, Failover, Shared};
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..1).await;
    for kind in [Exclusive, Failover, Shared] {
        let filtered = consumer(&server).kind(kind).filters(vec!["a*".to_owned()]);
        let error = filtered.open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{kind:?}");
        assert!(error.to_string().contains("s, which is not key-shared"), "{error}");
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_consumer_gets_a_message_at_once() {
    let directory = Directory::new();
    let server = directory.start_with("storage: {durability: page_cache}").await;
    let producer = producer(&server).await;
    produce(&producer, 0..1).await;
    let mut consuming = consumer(&server).open().await.unwrap();
    next(&mut consuming).await;
    let env = Env::real();
    let mut times = Vec::new();
    for round in 0..100 {
        env.clock.sleep(Duration::from_millis(round % 10)).await;
        let confirmed = producer.send(message("x")).await.unwrap();
        let before = env.clock.monotonic();
        let delivered = next(&mut consuming).await;
        times.push(env.clock.monotonic() - before);
        confirmed.await.unwrap();
        consuming.ack(delivered.place);
    }
    times.sort_unstable();
    assert!(times[50] < Duration::from_millis(20), "median {:?}", times[50]);
    assert!(times[99] < Duration::from_secs(1), "{:?}", times[99]);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_of_a_topic_and_its_partitions_are_created_listed_and_deleted() {
    let directory = Directory::new();
    let server = directory.start().await;
    let admin = client(&server).admin();
    admin.create_topic(&topic(), Some(2), &TopicSettings::default()).await.unwrap();
    let create = async || {
        let (kind, start) = (SubscriptionType::Shared, Start::Latest);
        admin.create_subscription(&topic(), &subscription(), kind, start).await
    };
    create().await.unwrap();
    assert_eq!(create().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(admin.list_subscriptions(&topic()).await.unwrap(), [subscription()]);
    let described = admin.describe_subscription(&topic(), &subscription()).await.unwrap();
    assert_eq!(described.len(), 2);
    assert_eq!(described[1].kind, Some(SubscriptionType::Shared));
    assert_eq!(described[1].topic.as_str(), "/default/t-part-1");
    let part = admin.describe_topic(&described[1].topic).await.unwrap();
    assert_eq!(part.subscriptions, ["s"]);

    let mut consuming = consumer(&server).kind(SubscriptionType::Shared).open().await.unwrap();
    admin.delete_subscription(&topic(), &subscription()).await.unwrap();
    assert_eq!(consuming.next().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(admin.list_subscriptions(&topic()).await.unwrap().is_empty());
    let error = admin.delete_subscription(&topic(), &subscription()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_non_reliable_topic_passes_on_and_keeps_nothing() {
    let directory = Directory::new();
    let server = directory.start().await;
    let creation = Creation { reliability: Some(Reliability::NonReliable), ..Creation::default() };
    let producer = client(&server).producer(TOPIC).unwrap().create(Some(creation));
    let producer = producer.open().await.unwrap();
    produce(&producer, 0..5).await;
    let mut consuming = consumer(&server).open().await.unwrap();
    for number in 5..2_005 {
        let delivery = producer.send(message(number.to_string())).await.unwrap();
        let delivered = next(&mut consuming).await;
        assert_eq!(delivered.received.message.payload, number.to_string());
        consuming.ack(delivered.place);
        let receipt = delivery.await.unwrap();
        assert_eq!((receipt.offset, receipt.durability), (Offset::ZERO, None));
    }
    consuming.close().await.unwrap();
    assert_eq!(describe(&server).await.in_flight, 0);

    let mut reader = client(&server).reader(TOPIC).unwrap().open().await.unwrap();
    let error = reader.next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("is not reliable and has no log"), "{error}");
    server.stop().await.unwrap();
}

/// A stream without a client around it.
struct Bare {
    requests: mpsc::Sender<ConsumeRequest>,
    responses: Streaming<ConsumeResponse>,
}

impl Bare {
    async fn open(server: &Server, credit: Credit) -> Bare {
        Bare::open_as(server, "bare", SubscriptionType::Exclusive, credit).await
    }

    async fn open_as(server: &Server, name: &str, kind: SubscriptionType, credit: Credit) -> Bare {
        let url = format!("http://{}", server.addresses().client);
        let channel = tonic::transport::Endpoint::from_shared(url).unwrap().connect().await;
        let mut calls = StreamClient::new(channel.unwrap());
        let (requests, receiver) = mpsc::channel(16);
        let open = Open {
            topic: TOPIC.to_owned(),
            subscription: "s".to_owned(),
            r#type: wire_subscription_type(kind),
            consumer: name.to_owned(),
            filters: Vec::new(),
            start: Some(wire_start(Start::Earliest)),
            credit: Some(credit),
        };
        let open = ConsumeRequest { request: Some(Request::Open(open)) };
        requests.send(open).await.unwrap();
        let responses = calls.consume(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Bare { requests, responses }
    }

    async fn ask(&self, request: Request) {
        self.requests.send(ConsumeRequest { request: Some(request) }).await.unwrap();
    }

    /// Of deliveries of an incarnation.
    async fn acknowledge(&self, number: u64, acknowledged: Vec<Range>, incarnation: u64) {
        let refused = Vec::new();
        self.ask(Request::Settle(Settle { number, acknowledged, refused, incarnation })).await;
    }

    /// Ranges that are delivered before `is_last`.
    async fn until(&mut self, is_last: impl Fn(&Item) -> bool) -> Vec<Range> {
        let mut ranges = Vec::new();
        loop {
            let response = self.responses.message().await.unwrap().unwrap();
            for item in response.items.into_iter().filter_map(|item| item.item) {
                if is_last(&item) {
                    return ranges;
                }
                if let Item::Delivery(delivery) = item {
                    ranges.push(Range { from: delivery.from, to: delivery.to });
                }
            }
        }
    }
}

fn settled(number: u64) -> impl Fn(&Item) -> bool {
    move |item| matches!(item, Item::Settled(settled) if settled.number >= number)
}

#[tokio::test(flavor = "multi_thread")]
async fn credit_bounds_messages_and_bytes_and_settlements_are_taken_without_it() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..10).await;
    let mut bare = Bare::open(&server, Credit { messages: 3, bytes: 0 }).await;
    bare.ask(Request::Settle(Settle { number: 1, ..Settle::default() })).await;
    assert!(bare.until(settled(1)).await.is_empty(), "not a byte was asked for");
    bare.ask(Request::Credit(Credit { messages: 0, bytes: 1 })).await;
    let first = bare.until(|item| matches!(item, Item::Delivery(d) if d.to == 3)).await;
    assert!(first.iter().all(|range| range.to <= 3), "{first:?}");
    bare.ask(Request::Credit(Credit { messages: 7, bytes: 0 })).await;
    let acknowledged = vec![Range { from: 0, to: 3 }];
    bare.acknowledge(2, acknowledged, 1).await;
    assert!(bare.until(settled(2)).await.is_empty(), "the bytes are used up");
    assert_eq!(describe(&server).await.floor.get(), 3);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ranges_settle_what_one_would_and_endlessly_many_end_the_stream() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..10).await;
    let mut bare = Bare::open(&server, Credit { messages: 100, bytes: 1 << 20 }).await;
    bare.until(|item| matches!(item, Item::Delivery(delivery) if delivery.to == 10)).await;
    let singles = (0..10_000).rev().map(|offset| Range { from: offset, to: offset + 1 });
    bare.acknowledge(1, singles.collect(), 1).await;
    bare.until(settled(1)).await;
    assert_eq!(describe(&server).await.floor.get(), 10);
    bare.acknowledge(2, vec![Range { from: 0, to: 1 }; 65_537], 1).await;
    let ended = bare.responses.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::InvalidArgument, "{ended}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seek_of_the_stream_divides_what_was_delivered_before_from_what_is_behind() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..10).await;
    let mut bare = Bare::open(&server, Credit { messages: 100, bytes: 1 << 20 }).await;
    bare.until(|item| matches!(item, Item::Delivery(delivery) if delivery.to == 10)).await;
    let to = Some(wire_start(Start::Offset(Offset::new(8))));
    bare.ask(Request::Seek(Seek { to })).await;
    bare.until(|item| matches!(item, Item::Sought(sought) if sought.offset == 8)).await;
    let behind = bare.until(|item| matches!(item, Item::Delivery(d) if d.to == 10)).await;
    assert!(behind.iter().all(|range| range.from >= 8), "{behind:?}");
    // A late acknowledgement of what was delivered before does not count for what was delivered again.
    let acknowledged = || vec![Range { from: 8, to: 10 }];
    bare.acknowledge(1, acknowledged(), 1).await;
    bare.until(settled(1)).await;
    assert_eq!(describe(&server).await.floor.get(), 8);
    bare.acknowledge(2, acknowledged(), 2).await;
    bare.until(settled(2)).await;
    assert_eq!(describe(&server).await.floor.get(), 10);
    server.stop().await.unwrap();
}

/// A consumer settled what another one held, and one that had got nothing settled everything.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_of_what_another_stream_holds_is_void() {
    let directory = Directory::new();
    let server = directory.start().await;
    let (credit, none) = (Credit { messages: 10, bytes: 1 << 20 }, Credit::default());
    let open = |name, credit| Bare::open_as(&server, name, SubscriptionType::Shared, credit);
    produce(&producer(&server).await, 0..20).await;
    let mut first = open("first", credit).await;
    first.until(|item| matches!(item, Item::Delivery(delivery) if delivery.to == 10)).await;
    let mut second = open("second", credit).await;
    second.until(|item| matches!(item, Item::Delivery(delivery) if delivery.to == 20)).await;
    let mut third = open("third", none).await;
    third.until(|item| matches!(item, Item::Opened(_))).await;

    let all = || vec![Range { from: 0, to: 100 }];
    second.acknowledge(1, vec![Range { from: 0, to: 3 }], 1).await;
    second.until(settled(1)).await;
    third.acknowledge(1, all(), 1).await;
    let refused = vec![Refusal { offset: 0, ..Refusal::default() }];
    let refuse = Settle { number: 2, refused, incarnation: 1, ..Settle::default() };
    third.ask(Request::Settle(refuse)).await;
    third.until(settled(2)).await;
    let described = describe(&server).await;
    assert_eq!((described.floor.get(), described.lag, described.in_flight), (0, 20, 20));

    second.acknowledge(2, all(), 1).await;
    second.until(settled(2)).await;
    assert_eq!(describe(&server).await.acked_ranges, [Offset::new(10)..Offset::new(20)]);
    first.acknowledge(1, all(), 1).await;
    first.until(settled(1)).await;
    assert_eq!(describe(&server).await.floor.get(), 20);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_quick_with_consumers_and_counts_what_they_have_acknowledged() {
    let directory = Directory::new();
    let server = directory.start().await;
    produce(&producer(&server).await, 0..10).await;
    let mut bare = Bare::open(&server, Credit { messages: 100, bytes: 1 << 20 }).await;
    bare.until(|item| matches!(item, Item::Delivery(delivery) if delivery.to == 10)).await;
    let acknowledged = vec![Range { from: 0, to: 7 }];
    bare.acknowledge(1, acknowledged, 1).await;
    bare.until(settled(1)).await;
    let clock = Env::real().clock;
    let before = clock.monotonic();
    server.stop().await.unwrap();
    let took = clock.monotonic() - before;
    assert!(took < Duration::from_secs(2), "{took:?}");
    let server = directory.start().await;
    assert_eq!(describe(&server).await.floor.get(), 7);
    server.stop().await.unwrap();
}
