//! The package `danube`, as its clients call it: what they are answered, with which status.

mod consuming;
mod discovery;
mod limits;
mod raw;
mod registering;
mod sending;

use danube_proto::danube::consumer_service_client::ConsumerServiceClient;
use danube_proto::danube::discovery_client::DiscoveryClient;
use danube_proto::danube::health_check_client::HealthCheckClient;
use danube_proto::danube::health_check_request::ClientType;
use danube_proto::danube::health_check_response::ClientStatus;
use danube_proto::danube::producer_service_client::ProducerServiceClient;
use danube_proto::danube::{
    DispatchStrategy, HealthCheckRequest, MsgId, ProducerRequest, StreamMessage, TopicLookupRequest,
};
use danube_server::Server;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::fixture::TOPIC;

/// A client of the protocol without any client's help.
#[derive(Clone)]
struct Peer {
    consumers: ConsumerServiceClient<Channel>,
    producers: ProducerServiceClient<Channel>,
    discovery: DiscoveryClient<Channel>,
    health: HealthCheckClient<Channel>,
}

impl Peer {
    /// On a connection of its own.
    fn of(server: &Server) -> Peer {
        Peer::at(&format!("http://{}", server.addresses().client))
    }

    fn at(url: &str) -> Peer {
        let channel = Endpoint::from_shared(url.to_owned()).unwrap().connect_lazy();
        Peer {
            consumers: ConsumerServiceClient::new(channel.clone()),
            producers: ProducerServiceClient::new(channel.clone())
                .max_encoding_message_size(64 << 20),
            discovery: DiscoveryClient::new(channel.clone()),
            health: HealthCheckClient::new(channel),
        }
    }

    async fn create(&self, request: ProducerRequest) -> Result<u64, Status> {
        let request_id = request.request_id;
        let response = self.producers.clone().create_producer(request).await?.into_inner();
        assert_eq!(response.request_id, request_id);
        Ok(response.producer_id)
    }

    /// The id of a producer on a reliable topic.
    async fn producer(&self, topic: &str) -> Result<u64, Status> {
        self.create(registration(topic)).await
    }

    async fn send(&self, message: StreamMessage) -> Result<(), Status> {
        let request_id = message.request_id;
        let response = self.producers.clone().send_message(message).await?.into_inner();
        assert_eq!(response.request_id, request_id);
        Ok(())
    }

    async fn partitions(&self, topic: &str) -> Result<Vec<String>, Status> {
        let request = TopicLookupRequest { request_id: 5, topic: topic.to_owned() };
        let response = self.discovery.clone().topic_partitions(request).await?.into_inner();
        assert_eq!(response.request_id, 5);
        Ok(response.partitions)
    }

    async fn health(&self, client: ClientType, id: u64) -> ClientStatus {
        let request = HealthCheckRequest { request_id: 1, client: client.into(), id };
        self.health.clone().health_check(request).await.unwrap().into_inner().status()
    }
}

/// Of a producer on a reliable topic, named as clients do it.
fn registration(topic: &str) -> ProducerRequest {
    let number = topic.rsplit_once("-part-").map_or("0", |(_, number)| number);
    ProducerRequest {
        request_id: 3,
        producer_name: format!("p-{number}"),
        topic_name: topic.to_owned(),
        schema_ref: None,
        producer_access_mode: 0,
        dispatch_strategy: DispatchStrategy::Reliable.into(),
    }
}

/// To [`TOPIC`].
fn message(producer_id: u64, payload: impl Into<bytes::Bytes>) -> StreamMessage {
    let (topic_name, broker_addr) = (TOPIC.to_owned(), "http://b:1/".to_owned());
    StreamMessage {
        request_id: 7,
        msg_id: Some(MsgId { producer_id, topic_name, broker_addr, topic_offset: 0 }),
        payload: payload.into(),
        publish_time: 1_700_000_000_001,
        producer_name: "p-0".to_owned(),
        ..StreamMessage::default()
    }
}

/// A refusal of which nothing was done.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code) -> String {
    let status = result.expect_err("it is refused");
    assert_eq!(status.code(), code, "{status:?}");
    let outcome = status.metadata().get("danube-outcome").map(|outcome| outcome.to_str().unwrap());
    assert_eq!(outcome, Some("definite"), "{status:?}");
    status.message().to_owned()
}
