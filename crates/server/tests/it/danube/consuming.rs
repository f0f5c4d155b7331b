//! Consumers: subscribing, streams, and settling.

use std::time::Duration;

use danube_client::Client;
use danube_env::Env;
use danube_proto::danube::consumer_request::SubscriptionType;
use danube_proto::danube::health_check_request::ClientType;
use danube_proto::danube::health_check_response::ClientStatus;
use danube_proto::danube::{
    AckRequest, ConsumerRequest, HealthCheckRequest, MsgId, NackRequest, ProducerRequest,
    ReceiveRequest, StreamMessage,
};
use tonic::{Code, Status, Streaming};

use super::{Peer, message, refused, registration};
use crate::fixture::{Directory, TOPIC, bad_topics, client, message as native_message};

/// Of the consumer `c` of the exclusive subscription `s`.
pub(super) fn subscription(topic: &str) -> ConsumerRequest {
    ConsumerRequest {
        request_id: 4,
        topic_name: topic.to_owned(),
        consumer_name: "c".to_owned(),
        subscription: "s".to_owned(),
        subscription_type: SubscriptionType::Exclusive.into(),
        key_filters: Vec::new(),
    }
}

impl Peer {
    pub(super) async fn subscribe(&self, request: ConsumerRequest) -> Result<u64, Status> {
        let expected = (request.request_id, request.consumer_name.clone());
        let response = self.consumers.clone().subscribe(request).await?.into_inner();
        assert_eq!((response.request_id, response.consumer_name), expected);
        assert!((1..1 << 63).contains(&response.consumer_id));
        Ok(response.consumer_id)
    }

    pub(super) async fn receive(
        &self,
        consumer_id: u64,
    ) -> Result<Streaming<StreamMessage>, Status> {
        let request = ReceiveRequest { request_id: 1, consumer_id };
        Ok(self.consumers.clone().receive_messages(request).await?.into_inner())
    }

    async fn ack(&self, msg_id: Option<MsgId>, subscription: &str) -> Result<(), Status> {
        let subscription_name = subscription.to_owned();
        let request = AckRequest { request_id: 6, msg_id, subscription_name };
        let response = self.consumers.clone().ack(request).await?;
        assert_eq!(response.get_ref().request_id, 6);
        Ok(())
    }

    async fn nack(&self, msg_id: Option<MsgId>, subscription: &str) -> Result<(), Status> {
        let (delay_ms, reason) = (Some(0), Some("r".repeat(100_000)));
        let subscription_name = subscription.to_owned();
        let request = NackRequest { request_id: 6, msg_id, subscription_name, delay_ms, reason };
        let response = self.consumers.clone().nack(request).await?;
        assert_eq!(response.get_ref().request_id, 6);
        Ok(())
    }
}

pub(super) async fn next(stream: &mut Streaming<StreamMessage>) -> StreamMessage {
    stream.message().await.unwrap().expect("a stream never just ends")
}

/// How a stream ends.
async fn end(stream: &mut Streaming<StreamMessage>) -> Code {
    loop {
        match stream.message().await {
            Ok(message) => drop(message.expect("a stream never just ends")),
            Err(status) => return status.code(),
        }
    }
}

fn id(offset: u64) -> Option<MsgId> {
    Some(MsgId { topic_name: TOPIC.to_owned(), topic_offset: offset, ..MsgId::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_delivered_as_they_were_sent_and_the_stream_begins_before_them() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let producer = peer.producer(TOPIC).await.unwrap();
    peer.send(message(producer, "before the subscription")).await.unwrap();
    let consumer = peer.subscribe(subscription(TOPIC)).await.unwrap();
    assert_eq!(peer.health(ClientType::Consumer, consumer).await, ClientStatus::Ok);
    let mut stream = peer.receive(consumer).await.unwrap();
    let attributes = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), String::new())];
    let full = StreamMessage {
        attributes: attributes.into(),
        schema_id: Some(5),
        schema_version: Some(6),
        routing_key: Some("k".to_owned()),
        ..message(producer, "full")
    };
    let bare = StreamMessage {
        publish_time: 0,
        producer_name: String::new(),
        request_id: 0,
        ..message(producer, "")
    };
    let empty_key = StreamMessage { routing_key: Some(String::new()), ..message(producer, "x") };
    for (offset, sent) in (1..).zip([full, bare, empty_key]) {
        peer.send(sent.clone()).await.unwrap();
        let mut expected = sent;
        expected.msg_id.as_mut().unwrap().topic_offset = offset;
        let found = next(&mut stream).await;
        assert_eq!(found, expected);
        peer.ack(found.msg_id, "s").await.unwrap();
    }
    let native = client(&server).producer(TOPIC).unwrap().open().await.unwrap();
    native.send(native_message("native")).await.unwrap().await.unwrap();
    let found = next(&mut stream).await;
    assert_eq!((found.payload.as_ref(), found.msg_id.unwrap().topic_offset), (&b"native"[..], 4));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_t_be_subscribed_to_is_refused() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let refused = async |request, code| refused(peer.subscribe(request).await, code);
    refused(subscription(TOPIC), Code::NotFound).await;
    assert!(peer.partitions(TOPIC).await.unwrap().is_empty(), "nothing was created");
    peer.producer(TOPIC).await.unwrap();
    peer.producer("/default/parted-part-0").await.unwrap();
    refused(subscription("/default/parted"), Code::NotFound).await;
    for topic in bad_topics() {
        refused(subscription(&topic), Code::InvalidArgument).await;
    }
    for name in [String::new(), "x".repeat(5_000), "a\nb".to_owned()] {
        let request = ConsumerRequest { consumer_name: name.clone(), ..subscription(TOPIC) };
        refused(request, Code::InvalidArgument).await;
        let request = ConsumerRequest { subscription: name, ..subscription(TOPIC) };
        refused(request, Code::InvalidArgument).await;
    }
    for subscription_type in [-1, 4, 99] {
        let request = ConsumerRequest { subscription_type, ..subscription(TOPIC) };
        refused(request, Code::InvalidArgument).await;
    }
    peer.subscribe(subscription(TOPIC)).await.unwrap();
    let other_name = ConsumerRequest { consumer_name: "d".to_owned(), ..subscription(TOPIC) };
    refused(other_name, Code::FailedPrecondition).await;
    let subscription_type = SubscriptionType::Shared.into();
    let other_type = ConsumerRequest { subscription_type, ..subscription(TOPIC) };
    refused(other_type, Code::FailedPrecondition).await;
    server.stop().await.unwrap();
}

/// Some clients ask a thousand times a second.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_consumer_is_unavailable_after_a_while() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let clock = Env::real().clock;
    for unknown in [0, 7, u64::MAX] {
        let before = clock.monotonic();
        refused(peer.receive(unknown).await, Code::Unavailable);
        assert!(clock.monotonic() - before >= Duration::from_millis(450));
        // Told once that it is closed, a client subscribes again; it must not be told for ever.
        assert_eq!(peer.health(ClientType::Consumer, unknown).await, ClientStatus::Close);
        let client = ClientType::Consumer.into();
        let again = HealthCheckRequest { request_id: 1, client, id: unknown };
        refused(peer.health.clone().health_check(again).await, Code::NotFound);
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn late_repeated_and_unknown_settlements_are_no_error_and_malformed_ones_are() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let producer = peer.producer(TOPIC).await.unwrap();
    let consumer = peer.subscribe(subscription(TOPIC)).await.unwrap();
    let mut stream = peer.receive(consumer).await.unwrap();
    peer.send(message(producer, "x")).await.unwrap();
    let found = next(&mut stream).await;
    for _ in 0..2 {
        peer.ack(found.msg_id.clone(), "s").await.unwrap();
        peer.nack(found.msg_id.clone(), "s").await.unwrap();
    }
    for offset in [5, 1 << 40, i64::MAX as u64, u64::MAX] {
        peer.ack(id(offset), "s").await.unwrap();
        peer.nack(id(offset), "s").await.unwrap();
    }
    let elsewhere = Some(MsgId { topic_name: "/default/u".to_owned(), ..MsgId::default() });
    let nameless = Some(MsgId::default());
    for (msg_id, subscription, code) in [
        (None, "s", Code::InvalidArgument),
        (nameless, "s", Code::InvalidArgument),
        (id(0), "", Code::InvalidArgument),
        (elsewhere, "s", Code::NotFound),
        (id(0), "unknown", Code::Unavailable),
    ] {
        refused(peer.ack(msg_id.clone(), subscription).await, code);
        refused(peer.nack(msg_id, subscription).await, code);
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_given_back_comes_again() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let producer = peer.producer(TOPIC).await.unwrap();
    let consumer = peer.subscribe(subscription(TOPIC)).await.unwrap();
    let mut stream = peer.receive(consumer).await.unwrap();
    peer.send(message(producer, "again")).await.unwrap();
    let first = next(&mut stream).await;
    peer.nack(first.msg_id.clone(), "s").await.unwrap();
    assert_eq!(next(&mut stream).await, first);
    server.stop().await.unwrap();
}

/// Two processes under one name would take the stream from each other without end.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_consumer_of_a_name_replaces_the_older_for_good() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let producer = peer.producer(TOPIC).await.unwrap();
    let older = peer.subscribe(subscription(TOPIC)).await.unwrap();
    let mut older_stream = peer.receive(older).await.unwrap();
    peer.send(message(producer, "held")).await.unwrap();
    let held = next(&mut older_stream).await;

    let newer = peer.subscribe(subscription(TOPIC)).await.unwrap();
    assert_ne!(newer, older);
    assert_eq!(end(&mut older_stream).await, Code::FailedPrecondition);
    refused(peer.receive(older).await, Code::FailedPrecondition);
    let client = ClientType::Consumer.into();
    let stale = HealthCheckRequest { request_id: 1, client, id: older };
    refused(peer.health.clone().health_check(stale).await, Code::NotFound);
    let mut stream = peer.receive(newer).await.unwrap();
    assert_eq!(next(&mut stream).await, held, "what the older one held");
    // The same id again is a reconnection.
    let mut again = peer.receive(newer).await.unwrap();
    assert_eq!(next(&mut again).await, held);
    peer.ack(held.msg_id, "s").await.unwrap();
    assert_eq!(peer.health(ClientType::Consumer, newer).await, ClientStatus::Ok);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_unavailable_and_identities_survive_a_restart() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let producer = peer.producer(TOPIC).await.unwrap();
    let consumer = peer.subscribe(subscription(TOPIC)).await.unwrap();
    let mut stream = peer.receive(consumer).await.unwrap();
    for payload in ["settled", "held"] {
        peer.send(message(producer, payload)).await.unwrap();
    }
    let settled = next(&mut stream).await;
    peer.ack(settled.msg_id, "s").await.unwrap();
    let held = next(&mut stream).await;
    let (code, stopped) = tokio::join!(end(&mut stream), server.stop());
    stopped.unwrap();
    assert_eq!(code, Code::Unavailable);

    let server = directory.start().await;
    let peer = Peer::of(&server);
    assert_eq!(peer.health(ClientType::Consumer, consumer).await, ClientStatus::Ok);
    let mut stream = peer.receive(consumer).await.unwrap();
    assert_eq!(next(&mut stream).await, held, "what was settled does not come again");
    let admin = client(&server).admin();
    let topic = TOPIC.parse().unwrap();
    let (code, deleted) = tokio::join!(end(&mut stream), admin.delete_topic(&topic));
    deleted.unwrap();
    assert_eq!(code, Code::Unavailable);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_gets_the_keys_it_wants_and_nothing_it_could_not_take() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let producer = peer.producer(TOPIC).await.unwrap();
    let subscription_type = SubscriptionType::KeyShared.into();
    let key_filters = vec!["b?g".to_owned(), "small*".to_owned()];
    let request = ConsumerRequest { subscription_type, key_filters, ..subscription(TOPIC) };
    let consumer = peer.subscribe(request).await.unwrap();
    let mut stream = peer.receive(consumer).await.unwrap();
    native(&client(&server), "big", 5 << 20).await;
    for key in ["other", "small-1", "Small", "small-2"] {
        let routing_key = Some(key.to_owned());
        peer.send(StreamMessage { routing_key, ..message(producer, "x") }).await.unwrap();
    }
    for expected in ["small-1", "small-2"] {
        let found = next(&mut stream).await;
        assert_eq!(found.routing_key.as_deref(), Some(expected));
        peer.ack(found.msg_id, "s").await.unwrap();
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_non_reliable_topic_passes_on_and_keeps_nothing() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let producer = peer.create(ProducerRequest { dispatch_strategy: 0, ..registration(TOPIC) });
    let producer = producer.await.unwrap();
    refused(peer.producer(TOPIC).await, Code::FailedPrecondition);
    peer.send(message(producer, "nobody listens")).await.unwrap();
    let consumer = peer.subscribe(subscription(TOPIC)).await.unwrap();
    let mut stream = peer.receive(consumer).await.unwrap();
    for payload in ["one", "two"] {
        peer.send(message(producer, payload)).await.unwrap();
        let found = next(&mut stream).await;
        assert_eq!(found, message(producer, payload), "clients take offset 0 as not reliable");
        peer.ack(found.msg_id.clone(), "s").await.unwrap();
        peer.nack(found.msg_id, "s").await.unwrap();
    }
    server.stop().await.unwrap();
}

/// A message that is no problem for a native reader.
async fn native(client: &Client, key: &str, bytes: usize) {
    let producer = client.producer(TOPIC).unwrap().open().await.unwrap();
    let mut message = native_message(vec![b'x'; bytes]);
    message.key = Some(key.into());
    producer.send(message).await.unwrap().await.unwrap();
}
