//! A broker in memory that keeps the promises of the protocol, and fails as it is told.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use danube_client::{Client, ErrorKind, Failure, Outcome};
use danube_model::{Batch, BatchLimits, Message, Sequence};
use danube_proto::stream::consume_request::Request as Consume;
use danube_proto::stream::produce_request::{self, Request as Produce};
use danube_proto::stream::produce_response::{Ack, Answer, Closed, Opened, Refused, answer};
use danube_proto::stream::stream_server::{Stream, StreamServer};
use danube_proto::stream::*;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::network::spawn;

/// What to do with a batch that arrives.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    None,
    /// The stream breaks before the batch is looked at.
    CutBefore,
    /// The batch is stored, and the stream breaks.
    CutAfter,
    /// A definite refusal.
    Refuse {
        is_retryable: bool,
    },
    /// Stored, and refused with an unknown outcome.
    StoreAndRefuse,
    /// Stored, and nothing is said.
    Silence,
}

/// Decides about each batch that arrives; the number counts them.
pub(crate) type Plan = Box<dyn FnMut(u64) -> Fault + Send>;

pub(crate) struct Topic {
    pub(crate) batches: Vec<Batch>,
    next_offset: u64,
    producers: HashMap<u64, Producer>,
}

struct Producer {
    epoch: u16,
    expected: Sequence,
    taken: HashMap<(u16, u32), u64>,
}

#[derive(Clone)]
pub(crate) struct FakeBroker {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    /// How many batches have arrived.
    pub(crate) arrived: watch::Sender<u64>,
    /// What consumers have asked for, and on which stream.
    pub(crate) consume_requests: watch::Sender<Vec<(usize, Consume)>>,
}

struct State {
    topics: HashMap<String, Topic>,
    partitions: HashMap<String, Vec<String>>,
    plan: Plan,
    /// What a read of a topic is answered with, one stream after the other.
    reads: HashMap<String, Vec<Vec<Result<ReadResponse, Status>>>>,
    read_requests: Vec<ReadRequest>,
    /// What is sent to consumers, one stream after the other.
    consumes: VecDeque<Vec<Result<ConsumeResponse, Status>>>,
    /// Whether consumers are told that their settlements are noted.
    answers_settlements: bool,
}

impl FakeBroker {
    pub(crate) async fn start() -> FakeBroker {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = State {
            topics: HashMap::new(),
            partitions: HashMap::new(),
            plan: Box::new(|_| Fault::None),
            reads: HashMap::new(),
            read_requests: Vec::new(),
            consumes: VecDeque::new(),
            answers_settlements: true,
        };
        let broker = FakeBroker {
            address: listener.local_addr().unwrap(),
            state: Arc::new(Mutex::new(state)),
            arrived: watch::Sender::new(0),
            consume_requests: watch::Sender::new(Vec::new()),
        };
        let stream = StreamServer::new(broker.clone());
        let incoming = tokio_stream::StreamExt::map(Accepted(listener), Ok::<_, std::io::Error>);
        spawn(async move {
            let server = tonic::transport::Server::builder().add_service(stream);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        broker
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&format!("http://{}", self.address)).unwrap()
    }

    pub(crate) fn plan(&self, plan: impl FnMut(u64) -> Fault + Send + 'static) {
        self.state.lock().unwrap().plan = Box::new(plan);
    }

    pub(crate) fn partition(&self, topic: &str, partitions: u32) {
        let names = (0..partitions).map(|i| format!("{topic}-part-{i}")).collect();
        self.state.lock().unwrap().partitions.insert(topic.to_owned(), names);
    }

    pub(crate) fn answer_reads(
        &self,
        topic: &str,
        streams: Vec<Vec<Result<ReadResponse, Status>>>,
    ) {
        self.state.lock().unwrap().reads.insert(topic.to_owned(), streams);
    }

    /// Each stream stays open behind what is sent, unless that is an error.
    pub(crate) fn answer_consumes(&self, streams: Vec<Vec<Result<ConsumeResponse, Status>>>) {
        self.state.lock().unwrap().consumes = streams.into();
    }

    pub(crate) fn answer_settlements(&self, answers: bool) {
        self.state.lock().unwrap().answers_settlements = answers;
    }

    /// Waits until consumers have asked for something.
    pub(crate) async fn asked(&self, is_it: impl Fn(&[(usize, Consume)]) -> bool) {
        let mut requests = self.consume_requests.subscribe();
        let asked = requests.wait_for(|requests| is_it(requests));
        tokio::time::timeout(Duration::from_secs(10), asked).await.unwrap().unwrap();
    }

    async fn serve_consumer(
        &self,
        mut requests: Streaming<ConsumeRequest>,
        responses: mpsc::Sender<Result<ConsumeResponse, Status>>,
    ) {
        let mut stream = 0;
        while let Ok(Some(request)) = requests.message().await {
            let request = request.request.unwrap();
            let mut answers = Vec::new();
            match &request {
                Consume::Open(_) => {
                    self.consume_requests.send_modify(|requests| {
                        let opened =
                            |(_, request): &&(usize, Consume)| matches!(request, Consume::Open(_));
                        stream = 1 + requests.iter().filter(opened).count();
                    });
                    let scripted = self.state.lock().unwrap().consumes.pop_front();
                    answers = scripted.unwrap_or_else(|| vec![Err(Status::unavailable("over"))]);
                }
                Consume::Settle(settle) if self.state.lock().unwrap().answers_settlements => {
                    let settled = consume_response::Settled { number: settle.number };
                    answers.push(Ok(items([consume_response::item::Item::Settled(settled)])));
                }
                Consume::Settle(_) | Consume::Credit(_) | Consume::Seek(_) => {}
            }
            self.consume_requests.send_modify(|requests| requests.push((stream, request)));
            for answer in answers {
                let is_last = answer.is_err();
                if responses.send(answer).await.is_err() || is_last {
                    return;
                }
            }
        }
    }

    pub(crate) fn read_requests(&self) -> Vec<ReadRequest> {
        self.state.lock().unwrap().read_requests.clone()
    }

    /// What is stored in a topic, with its offsets.
    pub(crate) fn stored(&self, topic: &str) -> Vec<(u64, Message)> {
        let state = self.state.lock().unwrap();
        let Some(topic) = state.topics.get(topic) else { return Vec::new() };
        let mut stored = Vec::new();
        for batch in &topic.batches {
            for item in batch.records(1 << 24).unwrap() {
                let (offset, record) = item.unwrap();
                stored.push((offset.get(), Message::from_record(&record).unwrap()));
            }
        }
        stored
    }

    async fn serve(&self, mut requests: Streaming<ProduceRequest>, answers: Answers) {
        let mut topics: HashMap<u32, String> = HashMap::new();
        while let Ok(Some(request)) = requests.message().await {
            let answer = match request.request.unwrap() {
                Produce::Open(open) => {
                    topics.insert(open.alias, open.topic.clone());
                    self.open(open)
                }
                Produce::Close(_) => continue,
                Produce::Batch(batch) => match self.batch(&topics[&batch.alias], batch) {
                    Ok(Some(answer)) => answer,
                    Ok(None) => continue,
                    Err(status) => {
                        let _ = answers.send(Err(status)).await;
                        return;
                    }
                },
            };
            let answers_of_it = vec![Answer { answer: Some(answer) }];
            if answers.send(Ok(ProduceResponse { answers: answers_of_it })).await.is_err() {
                return;
            }
        }
    }

    fn open(&self, open: produce_request::Open) -> answer::Answer {
        if open.create.is_none() && !self.state.lock().unwrap().topics.contains_key(&open.topic) {
            let failure = Failure {
                kind: ErrorKind::NotFound,
                outcome: Outcome::Definite,
                is_retryable: false,
                message: format!("there is no topic {}", open.topic),
                hint: Some("create it".to_owned()),
            };
            return answer::Answer::Closed(Closed {
                alias: open.alias,
                failure: Some(failure.into()),
            });
        }
        let mut state = self.state.lock().unwrap();
        state.topics.entry(open.topic).or_insert_with(|| Topic {
            batches: Vec::new(),
            next_offset: 0,
            producers: HashMap::new(),
        });
        answer::Answer::Opened(Opened {
            alias: open.alias,
            topic_id: vec![7; 16].into(),
            epoch: 3,
            max_message_bytes: 1 << 20,
            durability: Durability::Disk.into(),
            reliability: Reliability::Reliable.into(),
        })
    }

    fn batch(
        &self,
        topic: &str,
        request: produce_request::Batch,
    ) -> Result<Option<answer::Answer>, Status> {
        let mut state = self.state.lock().unwrap();
        let mut number = 0;
        self.arrived.send_modify(|arrived| {
            number = *arrived;
            *arrived += 1;
        });
        let fault = (state.plan)(number);
        let batch = Batch::verify(request.batch, &BatchLimits::default()).unwrap();
        let topic = state.topics.get_mut(topic).unwrap();
        let refused = |outcome, is_retryable, expected| {
            refusal(request.alias, &batch, outcome, is_retryable, expected)
        };
        match fault {
            Fault::CutBefore => return Err(Status::unavailable("cut before")),
            Fault::Refuse { is_retryable } => {
                return Ok(Some(refused(Outcome::Definite, is_retryable, None)));
            }
            Fault::None | Fault::CutAfter | Fault::StoreAndRefuse | Fault::Silence => {}
        }
        let (base_offset, duplicate) = match topic.append(&batch) {
            Ok(stored) => stored,
            Err(expected) => return Ok(Some(refused(Outcome::Definite, false, Some(expected)))),
        };
        match fault {
            Fault::CutAfter => Err(Status::unavailable("cut after")),
            Fault::StoreAndRefuse => Ok(Some(refused(Outcome::Unknown, true, None))),
            Fault::Silence => Ok(None),
            Fault::None | Fault::CutBefore | Fault::Refuse { .. } => {
                Ok(Some(answer::Answer::Ack(Ack {
                    alias: request.alias,
                    base_sequence: batch.producer().unwrap().base_sequence.get() as i32,
                    base_offset,
                    count: batch.record_count(),
                    epoch: 3,
                    durability: Durability::Disk.into(),
                    duplicate,
                })))
            }
        }
    }
}

fn refusal(
    alias: u32,
    batch: &Batch,
    outcome: Outcome,
    is_retryable: bool,
    expected: Option<Sequence>,
) -> answer::Answer {
    let failure = Failure {
        kind: ErrorKind::Exhausted,
        outcome,
        is_retryable,
        message: "the plan says so".to_owned(),
        hint: None,
    };
    answer::Answer::Refused(Refused {
        alias,
        base_sequence: batch.producer().unwrap().base_sequence.get() as i32,
        failure: Some(failure.into()),
        expected_sequence: expected.map(|sequence| sequence.get() as i32),
    })
}

impl Topic {
    fn append(&mut self, batch: &Batch) -> Result<(u64, bool), Sequence> {
        let number = batch.producer().expect("the client numbers its batches");
        let producer = self.producers.entry(number.id.get()).or_insert_with(|| Producer {
            epoch: 0,
            expected: Sequence::ZERO,
            taken: HashMap::new(),
        });
        let key = (number.epoch, number.base_sequence.get());
        if let Some(base_offset) = producer.taken.get(&key) {
            return Ok((*base_offset, true));
        }
        let expected =
            if number.epoch > producer.epoch { Sequence::ZERO } else { producer.expected };
        if number.epoch < producer.epoch || number.base_sequence != expected {
            return Err(expected);
        }
        producer.epoch = number.epoch;
        producer.expected = number.base_sequence.plus(batch.record_count());
        producer.taken.insert(key, self.next_offset);
        let base_offset = self.next_offset;
        self.next_offset += u64::from(batch.record_count());
        self.batches.push(stamped(batch, base_offset));
        Ok((base_offset, false))
    }
}

/// The batch with another base offset, which its checksum leaves out.
pub(crate) fn stamped(batch: &Batch, base_offset: u64) -> Batch {
    let mut bytes = batch.bytes().to_vec();
    bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
    Batch::checksummed(bytes.into()).unwrap()
}

type Answers = mpsc::Sender<Result<ProduceResponse, Status>>;

#[tonic::async_trait]
impl Stream for FakeBroker {
    async fn lookup(
        &self,
        request: Request<LookupRequest>,
    ) -> Result<Response<LookupResponse>, Status> {
        let topic = request.into_inner().topic;
        let state = self.state.lock().unwrap();
        let is_plain = state.topics.contains_key(&topic) || state.reads.contains_key(&topic);
        let partitions = match state.partitions.get(&topic) {
            Some(partitions) => partitions.clone(),
            None if is_plain => vec![topic],
            None => Vec::new(),
        };
        Ok(Response::new(LookupResponse { partitions }))
    }

    type ProduceStream = ReceiverStream<Result<ProduceResponse, Status>>;

    async fn produce(
        &self,
        request: Request<Streaming<ProduceRequest>>,
    ) -> Result<Response<Self::ProduceStream>, Status> {
        let (answers, receiver) = mpsc::channel(16);
        let broker = self.clone();
        spawn(async move { broker.serve(request.into_inner(), answers).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type ReadStream = ReceiverStream<Result<ReadResponse, Status>>;

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let mut state = self.state.lock().unwrap();
        let Some(streams) = state.reads.get_mut(&request.topic).filter(|s| !s.is_empty()) else {
            return Err(Status::unavailable("nothing to answer with"));
        };
        let responses = streams.remove(0);
        state.read_requests.push(request);
        let (sender, receiver) = mpsc::channel(responses.len().max(1));
        for response in responses {
            sender.try_send(response).unwrap();
        }
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type ConsumeStream = ReceiverStream<Result<ConsumeResponse, Status>>;

    async fn consume(
        &self,
        request: Request<Streaming<ConsumeRequest>>,
    ) -> Result<Response<Self::ConsumeStream>, Status> {
        let (responses, receiver) = mpsc::channel(16);
        let broker = self.clone();
        spawn(async move { broker.serve_consumer(request.into_inner(), responses).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// One response of these items.
pub(crate) fn items(
    items: impl IntoIterator<Item = consume_response::item::Item>,
) -> ConsumeResponse {
    let item = |item| consume_response::Item { item: Some(item) };
    ConsumeResponse { items: items.into_iter().map(item).collect() }
}

/// Accepted connections.
struct Accepted(TcpListener);

impl tokio_stream::Stream for Accepted {
    type Item = tokio::net::TcpStream;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<tokio::net::TcpStream>> {
        self.0.poll_accept(context).map(|accepted| {
            let (stream, _) = accepted.unwrap();
            stream.set_nodelay(true).unwrap();
            Some(stream)
        })
    }
}
