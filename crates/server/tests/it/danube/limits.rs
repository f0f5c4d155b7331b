//! `policies.*` on every way in: this protocol and the native one.

use std::time::{Duration, Instant};

use danube_client::{Compression, ErrorKind, Start, SubscriptionType};
use danube_env::Env;
use danube_proto::danube::ConsumerRequest;
use danube_proto::danube::consumer_request::SubscriptionType as WireType;
use tonic::Code;

use super::consuming::{next, subscription};
use super::registering::when;
use super::{Peer, message, refused};
use crate::fixture::{Directory, TOPIC, client, message as native_message, producer};

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn now() -> Instant {
    Instant::now()
}

/// What takes three seconds at the rate of a test. A slow machine only takes longer.
fn check(took: Duration) {
    assert!((2_700..6_000).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_publishes_too_fast_waits_and_nobody_else_does() {
    let directory = Directory::new();
    let server = directory.start_with("policies: {max_publish_rate: 50}").await;
    // All on one connection but the peer.
    let client = client(&server);
    let fast = client.producer(TOPIC).unwrap().open().await.unwrap();
    let other = client.producer("/default/other").unwrap().open().await.unwrap();
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    let native = async {
        for _ in 0..75 {
            fast.send(native_message("native")).await.unwrap().await.unwrap();
        }
    };
    let unary = async {
        for _ in 0..75 {
            peer.send(message(id, "unary")).await.unwrap();
        }
    };
    let begun = now();
    let others = async {
        tokio::join!(native, unary);
        check(begun.elapsed());
    };
    let unharmed = async {
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            let begun = now();
            other.send(native_message("other")).await.unwrap().await.unwrap();
            client.admin().list_subscriptions(&TOPIC.parse().unwrap()).await.unwrap();
            longest = longest.max(begun.elapsed());
            Env::real().clock.sleep(Duration::from_millis(100)).await;
        }
        assert!(longest < Duration::from_secs(1), "{longest:?}");
    };
    tokio::join!(others, unharmed);
    server.stop().await.unwrap();
}

/// A stop does not wait for what is beyond the rate, nor for its producers.
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_beyond_the_rate_holds_up_no_stop_and_leaves_when_it_goes() {
    let directory = Directory::new();
    let settings = "policies: {max_publish_rate: 1, max_producers_per_topic: 2}";
    let server = directory.start_with(settings).await;
    let open = async || client(&server).producer(TOPIC).unwrap().batch_bytes(1).open().await;
    let (gone, stays) = (open().await.unwrap(), open().await.unwrap());
    for producer in [&gone, &stays] {
        for _ in 0..30 {
            let _delivery = producer.send(native_message("slow")).await.unwrap();
        }
    }
    drop(gone);
    when(async || open().await.ok().map(drop)).await;
    let begun = now();
    server.stop().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_hands_out_no_more_than_its_rate() {
    let directory = Directory::new();
    let server = directory.start_with("policies: {max_subscription_dispatch_rate: 50}").await;
    let producer = producer(&server).await;
    for _ in 0..200 {
        let _delivery = producer.send(native_message("m")).await.unwrap();
    }
    producer.flush().await.unwrap();
    let peer = Peer::of(&server);
    let client = client(&server);
    let create = async |name: &str| {
        let (topic, name) = (TOPIC.parse().unwrap(), name.parse().unwrap());
        let kind = SubscriptionType::Exclusive;
        client.admin().create_subscription(&topic, &name, kind, Start::Earliest).await.unwrap();
    };
    create("s").await;
    create("n").await;
    let unary = async {
        let id = peer.subscribe(subscription(TOPIC)).await.unwrap();
        let begun = now();
        let mut stream = peer.receive(id).await.unwrap();
        for _ in 0..150 {
            next(&mut stream).await;
        }
        check(begun.elapsed());
    };
    let native = async {
        let consumer = client.consumer(TOPIC, "n").unwrap();
        let begun = now();
        let mut consumer = consumer.open().await.unwrap();
        for _ in 0..150 {
            consumer.next().await.unwrap();
        }
        check(begun.elapsed());
    };
    tokio::join!(unary, native);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_and_consumers_beyond_the_limits_are_refused() {
    let directory = Directory::new();
    let settings = "policies: {max_subscriptions_per_topic: 2, max_consumers_per_topic: 3, max_consumers_per_subscription: 2}";
    let server = directory.start_with(settings).await;
    let (client, peer) = (client(&server), Peer::of(&server));
    peer.producer(TOPIC).await.unwrap();
    let unary = async |subscription_name: &str, consumer: &str| {
        let request = ConsumerRequest {
            consumer_name: consumer.to_owned(),
            subscription: subscription_name.to_owned(),
            subscription_type: WireType::Shared.into(),
            ..subscription(TOPIC)
        };
        peer.subscribe(request).await
    };
    let native = async |subscription: &str, consumer: &str| {
        let consumer = Some(consumer.parse().unwrap());
        // It would wait for somebody to leave.
        let builder = client.consumer(TOPIC, subscription).unwrap().timeout(Duration::ZERO);
        builder
            .kind(SubscriptionType::Shared)
            .name(consumer)
            .open()
            .await
            .map_err(|error| error.kind())
    };
    let _first = native("s", "a").await.unwrap();
    unary("s", "b").await.unwrap();
    refused(unary("s", "c").await, Code::ResourceExhausted);
    assert_eq!(native("s", "c").await.err(), Some(ErrorKind::Exhausted));
    unary("u", "a").await.unwrap();
    refused(unary("u", "b").await, Code::ResourceExhausted);
    assert_eq!(native("u", "b").await.err(), Some(ErrorKind::Exhausted), "three of the topic");
    refused(unary("v", "a").await, Code::ResourceExhausted);
    let (topic, name) = (TOPIC.parse().unwrap(), "v".parse().unwrap());
    let kind = SubscriptionType::Shared;
    let created = client.admin().create_subscription(&topic, &name, kind, Start::Latest).await;
    assert_eq!(created.unwrap_err().kind(), ErrorKind::Exhausted);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_the_size_is_refused_compressed_or_not() {
    let directory = Directory::new();
    let server = directory.start_with("policies: {max_message_size: 1000}").await;
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    peer.send(message(id, "x".repeat(1_000))).await.unwrap();
    refused(peer.send(message(id, "x".repeat(1_001))).await, Code::InvalidArgument);
    for compression in [Compression::None, Compression::Zstd] {
        let builder = client(&server).producer(TOPIC).unwrap().compression(compression);
        let producer = builder.open().await.unwrap();
        producer.send(native_message("x".repeat(1_000))).await.unwrap().await.unwrap();
        let sent = match producer.send(native_message("x".repeat(1_001))).await {
            Ok(delivery) => delivery.await.map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::Invalid);
    }
    server.stop().await.unwrap();
}
