//! Producers: registering, their ids, their health, and what becomes of those that go.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use danube_client::TopicName;
use danube_client::admin::TopicSettings;
use danube_env::Env;
use danube_env::clock::Clock;
use danube_proto::danube::health_check_request::ClientType;
use danube_proto::danube::health_check_response::ClientStatus;
use danube_proto::danube::{
    DispatchStrategy, HealthCheckRequest, ProducerRequest, SchemaReference,
};
use danube_server::Server;
use tonic::Code;

use super::{Peer, message, refused, registration};
use crate::fixture::{Directory, TOPIC, bad_topics, client, payloads, producer};

async fn producers(server: &Server) -> Vec<String> {
    let topic: TopicName = TOPIC.parse().unwrap();
    let described = client(server).admin().describe_topic(&topic).await.unwrap();
    described.producers.into_iter().map(|producer| producer.name).collect()
}

/// Tries until it works; who runs the tests sets the deadline.
pub(super) async fn when<T>(mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        Env::real().clock.sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_name_is_one_producer_and_every_id_is_positive() {
    let directory = Directory::new();
    let server = directory.start().await;
    let (one, other) = (Peer::of(&server), Peer::of(&server));
    let id = one.producer(TOPIC).await.unwrap();
    assert_eq!(other.producer(TOPIC).await.unwrap(), id, "no takeover, and no refusal");
    let mut ids = vec![id];
    for number in 0..50 {
        let producer_name = format!("q-{number}");
        let request = ProducerRequest { producer_name, ..registration(TOPIC) };
        ids.push(one.create(request).await.unwrap());
    }
    ids.push(one.producer("/default/other").await.unwrap());
    assert!(ids.iter().all(|id| (1..1 << 63).contains(id)), "{ids:?}");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are different");
    assert_eq!(producers(&server).await.len(), 51);
    for (peer, payload) in [(one, "one"), (other, "other")] {
        peer.send(message(id, payload)).await.unwrap();
    }
    assert_eq!(payloads(&server).await, ["one", "other"]);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_t_be_registered_is_refused() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let refused = async |request, code| refused(peer.create(request).await, code);
    for topic_name in bad_topics() {
        refused(ProducerRequest { topic_name, ..registration("") }, Code::InvalidArgument).await;
    }
    for producer_name in [String::new(), "x".repeat(5_000), "a\nb".to_owned()] {
        let request = ProducerRequest { producer_name, ..registration(TOPIC) };
        refused(request, Code::InvalidArgument).await;
    }
    for number in [-1, 2, 99] {
        let request = ProducerRequest { dispatch_strategy: number, ..registration(TOPIC) };
        refused(request, Code::InvalidArgument).await;
        let request = ProducerRequest { producer_access_mode: number, ..registration(TOPIC) };
        refused(request, Code::InvalidArgument).await;
    }
    refused(registration("/nowhere/t"), Code::NotFound).await;
    assert!(peer.partitions(TOPIC).await.unwrap().is_empty(), "nothing was created");

    peer.producer(TOPIC).await.unwrap();
    let dispatch_strategy = DispatchStrategy::NonReliable.into();
    let other_strategy = ProducerRequest { dispatch_strategy, ..registration(TOPIC) };
    refused(other_strategy, Code::FailedPrecondition).await;
    let subject = "s".to_owned();
    let schema_ref = Some(SchemaReference { subject, ..SchemaReference::default() });
    let schema = ProducerRequest { schema_ref, ..registration(TOPIC) };
    refused(schema, Code::FailedPrecondition).await;
    let schema_ref = Some(SchemaReference::default());
    peer.create(ProducerRequest { schema_ref, ..registration(TOPIC) }).await.unwrap();
    let exclusive = ProducerRequest { producer_access_mode: 1, ..registration(TOPIC) };
    peer.create(exclusive).await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_and_its_partitions_exclude_each_other_and_agree() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    peer.producer("/default/plain").await.unwrap();
    refused(peer.producer("/default/plain-part-0").await, Code::AlreadyExists);
    peer.producer("/default/parted-part-0").await.unwrap();
    refused(peer.producer("/default/parted").await, Code::AlreadyExists);
    let dispatch_strategy = DispatchStrategy::NonReliable.into();
    let sibling = registration("/default/parted-part-1");
    let sibling = ProducerRequest { dispatch_strategy, ..sibling };
    refused(peer.create(sibling).await, Code::FailedPrecondition);
    assert_eq!(peer.partitions("/default/parted").await.unwrap(), ["/default/parted-part-0"]);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slip_in_the_name_of_a_partition_makes_no_topic() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let named = async |name: &str, topic: &str| {
        let producer_name = name.to_owned();
        peer.create(ProducerRequest { producer_name, ..registration(topic) }).await
    };
    for name in ["p", "p-0", "p1", "1"] {
        let said = refused(named(name, "/default/x-part-1").await, Code::InvalidArgument);
        assert!(said.contains("/default/x-part-1 is the name of a partition"), "{said}");
    }
    assert!(peer.partitions("/default/x").await.unwrap().is_empty());
    // So a client does that makes one partition, and numbers no producer then.
    named("p", "/default/x-part-0").await.unwrap();
    refused(named("p", "/default/x-part-1").await, Code::InvalidArgument);
    assert_eq!(peer.partitions("/default/x").await.unwrap(), ["/default/x-part-0"]);
    named("p-1", "/default/x-part-1").await.unwrap();
    assert_eq!(peer.partitions("/default/x").await.unwrap().len(), 2);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_topics_are_not_found_where_they_are_not_created() {
    let directory = Directory::new();
    let server = directory.start_with("auto_create_topics: false").await;
    let peer = Peer::of(&server);
    refused(peer.producer(TOPIC).await, Code::NotFound);
    let topic = TOPIC.parse().unwrap();
    let settings = TopicSettings::default();
    client(&server).admin().create_topic(&topic, None, &settings).await.unwrap();
    peer.producer(TOPIC).await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_beyond_the_limit_wait_until_one_has_gone() {
    let directory = Directory::new();
    let server = directory.start_with("policies: {max_producers_per_topic: 2}").await;
    let peer = Peer::of(&server);
    let named = async |name: &str| {
        let producer_name = name.to_owned();
        peer.create(ProducerRequest { producer_name, ..registration(TOPIC) }).await
    };
    named("a").await.unwrap();
    let native = producer(&server).await;
    refused(named("b").await, Code::ResourceExhausted);
    named("a").await.unwrap();
    peer.producer("/default/other").await.unwrap();
    native.close().await.unwrap();
    when(async || named("b").await.ok()).await;
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_from_before_a_restart_is_unavailable_and_registering_again_helps() {
    let directory = Directory::new();
    let server = directory.start().await;
    let id = Peer::of(&server).producer(TOPIC).await.unwrap();
    server.stop().await.unwrap();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    refused(peer.send(message(id, "early")).await, Code::Unavailable);
    assert_eq!(peer.health(ClientType::Producer, id).await, ClientStatus::Close);
    let id = peer.producer(TOPIC).await.unwrap();
    assert_eq!(peer.health(ClientType::Producer, id).await, ClientStatus::Ok);
    assert_eq!(peer.health(ClientType::Consumer, id).await, ClientStatus::Close);
    let mut health = peer.health.clone();
    let unknown = HealthCheckRequest { request_id: 1, client: 2, id };
    refused(health.health_check(unknown).await, Code::InvalidArgument);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_producer_of_a_deleted_topic_is_unavailable() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    client(&server).admin().delete_topic(&TOPIC.parse().unwrap()).await.unwrap();
    for _ in 0..2 {
        refused(peer.send(message(id, "lost")).await, Code::Unavailable);
    }
    let id = peer.producer(TOPIC).await.unwrap();
    peer.send(message(id, "kept")).await.unwrap();
    assert_eq!(payloads(&server).await, ["kept"]);
    server.stop().await.unwrap();
}

/// Minutes pass in a fraction of a second.
struct Hasty(Arc<dyn Clock>);

impl Clock for Hasty {
    fn wall_ms(&self) -> u64 {
        self.0.wall_ms()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let hurry = if duration >= Duration::from_secs(60) { 2_000 } else { 1 };
        self.0.sleep(duration / hurry)
    }
}

/// There is no call to leave.
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_is_not_heard_of_for_minutes_is_forgotten() {
    let directory = Directory::new();
    let mut env = Env::real();
    env.clock = Arc::new(Hasty(env.clock));
    let server = Server::start(&directory.config(""), env).await.unwrap();
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    when(async || producers(&server).await.is_empty().then_some(())).await;
    refused(peer.send(message(id, "late")).await, Code::Unavailable);
    server.stop().await.unwrap();
}
