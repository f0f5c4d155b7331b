//! Bytes that no client would send, and calls that nobody serves.

use bytes::{Buf, BufMut, Bytes};
use danube_server::Server;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::{Peer, message};
use crate::fixture::{Directory, TOPIC, payloads};

/// Messages as their bytes.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

async fn call(server: &Server, method: &'static str, bytes: Bytes) -> Result<Bytes, Status> {
    let url = format!("http://{}", server.addresses().client);
    let channel: Channel = Endpoint::from_shared(url).unwrap().connect_lazy();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static(method);
    Ok(grpc.unary(Request::new(bytes), path, Raw).await?.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_and_huge_messages_cost_no_other_connection_anything() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let producer = peer.producer(TOPIC).await.unwrap();
    for method in [
        "/danube.ProducerService/CreateProducer",
        "/danube.ProducerService/SendMessage",
        "/danube.Discovery/TopicLookup",
        "/danube.HealthCheck/HealthCheck",
        "/danube.ConsumerService/Subscribe",
        "/danube.ConsumerService/ReceiveMessages",
        "/danube.ConsumerService/Ack",
        "/danube.ConsumerService/Nack",
        "/danube.stream.v1.Stream/Lookup",
        "/danube.stream.v1.Stream/Produce",
        "/danube.stream.v1.Stream/Read",
        "/danube.stream.v1.Stream/Consume",
        "/danube.admin.v1.Admin/CreateTopic",
        "/danube.admin.v1.Admin/CreateSubscription",
        "/danube.admin.v1.Admin/SeekSubscription",
    ] {
        for garbage in [&[0xff; 40][..], b"\x0a\xff\xff\xff\xff\x0f", b"\x1a\x02\xff\xfe"] {
            // Which of the errors it is depends on which field is broken.
            call(&server, method, Bytes::from_static(garbage)).await.unwrap_err();
        }
        let huge = call(&server, method, vec![0xff; 40 << 20].into()).await.unwrap_err();
        assert_ne!(huge.code(), Code::Ok);
    }
    peer.send(message(producer, "still here")).await.unwrap();
    assert_eq!(payloads(&server).await, ["still here"]);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_a_later_version_are_passed_over() {
    let directory = Directory::new();
    let server = directory.start().await;
    // The request's id, a topic, and a field 99.
    let request = Bytes::from_static(b"\x08\x05\x12\x0a/default/t\x9a\x06\x01x");
    let response = call(&server, "/danube.Discovery/TopicPartitions", request).await;
    assert_eq!(response.unwrap(), b"\x08\x05"[..], "the request's id and no partitions");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_served_is_unimplemented() {
    let directory = Directory::new();
    let server = directory.start().await;
    for method in [
        "/danube.StorageService/ListSegmentDescriptors",
        "/danube.AuthService/Authenticate",
        "/danube.edge.EdgeReplicatorService/RegisterEdge",
        "/danube_schema.SchemaRegistry/GetLatestSchema",
    ] {
        let status = call(&server, method, Bytes::new()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{method}");
    }
    server.stop().await.unwrap();
}
