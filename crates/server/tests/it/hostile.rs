//! Clients that break the rules: they get an error, and nobody else notices.

use danube_model::{
    Batch, BatchBuilder, BatchLimits, BatchProducer, ErrorKind, ProducerId, Sequence,
};
use danube_proto::stream::produce_request::{self, Request};
use danube_proto::stream::produce_response::answer::Answer;
use danube_proto::stream::stream_client::StreamClient;
use danube_proto::stream::{
    ConsumeRequest, Expectation, ProduceRequest, ReadRequest, consume_request,
};
use danube_proto::{Failure, Outcome, admin};
use danube_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use crate::fixture::{Directory, TOPIC, bad_topics, message, payloads, producer};

fn channel(address: std::net::SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy()
}

/// A produce stream without any client's help.
struct Raw {
    requests: mpsc::Sender<ProduceRequest>,
    answers: Streaming<danube_proto::stream::ProduceResponse>,
}

impl Raw {
    async fn connect(server: &Server) -> Raw {
        let (requests, receiver) = mpsc::channel(16);
        let mut client = StreamClient::new(channel(server.addresses().client));
        let answers = client.produce(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Raw { requests, answers }
    }

    async fn send(&self, request: Request) {
        self.requests.send(ProduceRequest { request: Some(request) }).await.unwrap();
    }

    async fn open(&mut self, alias: u32, topic: &str) -> Answer {
        let create = Some(Expectation::default());
        let (topic, producer_name) = (topic.to_owned(), String::new());
        self.send(Request::Open(produce_request::Open { alias, topic, producer_name, create }))
            .await;
        self.answer().await.unwrap()
    }

    async fn batch(
        &mut self,
        alias: u32,
        batch: impl Into<bytes::Bytes>,
    ) -> Result<Answer, Status> {
        let batch = batch.into();
        self.send(Request::Batch(produce_request::Batch { alias, batch })).await;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<Answer, Status> {
        let response = self.answers.message().await?.expect("the stream goes on");
        assert_eq!(response.answers.len(), 1);
        Ok(response.answers[0].answer.clone().unwrap())
    }
}

fn batch(epoch: u16, sequence: u32) -> Batch {
    let mut builder = BatchBuilder::new(danube_model::Compression::None, BatchLimits::default());
    builder.append(&message(sequence.to_string()).to_record().unwrap()).unwrap();
    let id = ProducerId::new(77).unwrap();
    let base_sequence = Sequence::new(sequence).unwrap();
    builder.finish(Some(BatchProducer { id, epoch, base_sequence })).unwrap()
}

fn refusal(answer: Answer) -> (Failure, Option<i32>) {
    match answer {
        Answer::Refused(refused) => (refused.failure.unwrap().into(), refused.expected_sequence),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sequences_are_held_to_their_order_and_repeats_are_stored_once() {
    let directory = Directory::new();
    let server = directory.start().await;
    let mut raw = Raw::connect(&server).await;
    assert!(matches!(raw.open(1, TOPIC).await, Answer::Opened(_)));
    for (epoch, sequence, expected) in
        [(0, 5, Some(0)), (0, 0, None), (0, 2, Some(1)), (0, 1, None)]
    {
        let answer = raw.batch(1, batch(epoch, sequence).bytes().clone()).await.unwrap();
        match expected {
            None => assert!(matches!(answer, Answer::Ack(ack) if !ack.duplicate)),
            Some(_) => {
                let (failure, found) = refusal(answer);
                assert_eq!((failure.outcome, found), (Outcome::Definite, expected));
            }
        }
    }
    match raw.batch(1, batch(0, 0).bytes().clone()).await.unwrap() {
        Answer::Ack(ack) => assert_eq!((ack.base_offset, ack.duplicate), (0, true)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(raw.batch(1, batch(1, 0).bytes().clone()).await.unwrap(), Answer::Ack(_)));
    let (failure, _) = refusal(raw.batch(1, batch(0, 2).bytes().clone()).await.unwrap());
    assert_eq!(failure.outcome, Outcome::Definite);
    assert_eq!(payloads(&server).await, ["0", "1", "0"]);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_batches_are_refused_and_the_stream_goes_on() {
    let directory = Directory::new();
    let server = directory.start().await;
    let mut raw = Raw::connect(&server).await;
    assert!(matches!(raw.open(7, TOPIC).await, Answer::Opened(_)));
    let good = batch(0, 0).bytes().to_vec();
    for at in [8, 16, 20, 40, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let (failure, expected) = refusal(raw.batch(7, bad).await.unwrap());
        assert_eq!((failure.outcome, expected), (Outcome::Definite, None));
        assert!(!failure.is_retryable);
    }
    assert!(matches!(raw.batch(7, good).await.unwrap(), Answer::Ack(_)));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_a_stream_that_are_broken_end_it() {
    let directory = Directory::new();
    let server = directory.start().await;
    let mut raw = Raw::connect(&server).await;
    let status = raw.batch(1, batch(0, 0).bytes().clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let mut raw = Raw::connect(&server).await;
    assert!(matches!(raw.open(1, TOPIC).await, Answer::Opened(_)));
    assert_eq!(raw.batch(1, "short").await.unwrap_err().code(), Code::InvalidArgument);
    let mut raw = Raw::connect(&server).await;
    assert!(matches!(raw.open(1, "no topic").await, Answer::Closed(_)));
    // What came before the client heard of it is passed over.
    let passed_over = batch(0, 0).bytes().clone();
    raw.send(Request::Batch(produce_request::Batch { alias: 1, batch: passed_over })).await;
    assert!(matches!(raw.open(2, TOPIC).await, Answer::Opened(_)));
    raw.send(Request::Close(produce_request::Close { alias: 2 })).await;
    assert!(
        matches!(raw.answer().await.unwrap(), Answer::Closed(closed) if closed.failure.is_none())
    );
    assert!(payloads(&server).await.is_empty());
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_make_no_sense_are_refused() {
    let directory = Directory::new();
    let server = directory.start().await;
    let mut client = StreamClient::new(channel(server.addresses().client));
    for topic in ["", "x", "/default/missing"] {
        let request = ReadRequest { topic: topic.to_owned(), ..ReadRequest::default() };
        let failure = Failure::from(client.read(request).await.unwrap_err());
        assert_eq!(failure.outcome, Outcome::Definite);
    }
    server.stop().await.unwrap();
}

/// Why a consume stream is refused that begins so.
async fn refused_consumer(channel: &Channel, request: consume_request::Request) -> Failure {
    let requests = tokio_stream::once(ConsumeRequest { request: Some(request) });
    let status = match StreamClient::new(channel.clone()).consume(requests).await {
        Ok(responses) => responses.into_inner().message().await.expect_err("it is refused"),
        Err(status) => status,
    };
    let failure = Failure::from(status);
    assert_eq!(failure.outcome, Outcome::Definite, "nothing was done: {failure:?}");
    failure
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_words_that_make_no_sense_are_refused_wherever_they_stand() {
    let directory = Directory::new();
    let server = directory.start().await;
    let producer = producer(&server).await;
    let channel = channel(server.addresses().client);
    let check = |failure: Failure| {
        assert!(failure.kind == ErrorKind::Invalid && !failure.is_retryable, "{failure:?}");
    };
    let open = consume_request::Open {
        topic: TOPIC.to_owned(),
        subscription: "s".to_owned(),
        consumer: "c".to_owned(),
        ..consume_request::Open::default()
    };
    let mut opens = Vec::new();
    let mut raw = Raw::connect(&server).await;
    let mut calls = admin::admin_client::AdminClient::new(channel.clone());
    for (alias, topic) in (1..).zip(bad_topics()) {
        match raw.open(alias, &topic).await {
            Answer::Closed(closed) => check(closed.failure.unwrap().into()),
            other => panic!("{other:?}"),
        }
        let request = admin::CreateTopicRequest { topic: topic.clone(), ..Default::default() };
        check(calls.create_topic(request).await.unwrap_err().into());
        let request = admin::DescribeTopicRequest { topic: topic.clone() };
        check(calls.describe_topic(request).await.unwrap_err().into());
        opens.push(consume_request::Open { topic, ..open.clone() });
    }
    for name in [String::new(), "x".repeat(5_000), "a\nb".to_owned()] {
        opens.push(consume_request::Open { subscription: name.clone(), ..open.clone() });
        opens.push(consume_request::Open { consumer: name, ..open.clone() });
    }
    for number in [-1, 5, 99] {
        opens.push(consume_request::Open { r#type: number, ..open.clone() });
    }
    for filters in [vec!["x".repeat(5_000)], vec!["*".to_owned(); 5_000]] {
        opens.push(consume_request::Open { filters, ..open.clone() });
    }
    for open in opens {
        check(refused_consumer(&channel, consume_request::Request::Open(open)).await);
    }
    let early = consume_request::Request::Credit(consume_request::Credit::default());
    check(refused_consumer(&channel, early).await);
    producer.send(message("still here")).await.unwrap().await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_are_not_there_are_unimplemented_on_every_port() {
    let directory = Directory::new();
    let server = directory.start().await;
    let addresses = server.addresses();
    for address in [addresses.admin, addresses.raft] {
        let mut client = admin::admin_client::AdminClient::new(channel(address));
        let status = client.list_namespaces(admin::ListNamespacesRequest {}).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
    }
    server.stop().await.unwrap();
}

/// Whatever bytes come, the connection ends and the server goes on.
#[tokio::test(flavor = "multi_thread")]
async fn other_protocols_and_garbage_end_the_connection_only() {
    let directory = Directory::new();
    let server = directory.start().await;
    let producer = producer(&server).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let claims_a_gigabyte = [&preface[..], &[0xff; 64]].concat();
    for garbage in [&b"GET / HTTP/1.1\r\nhost: d\r\n\r\n"[..], &[0; 4096], &claims_a_gigabyte] {
        let mut stream = TcpStream::connect(server.addresses().client).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut answer = Vec::new();
        // Ends, or breaks: either is fine.
        let _ = stream.read_to_end(&mut answer).await;
    }
    producer.send(message("still here")).await.unwrap().await.unwrap();
    server.stop().await.unwrap();
}
