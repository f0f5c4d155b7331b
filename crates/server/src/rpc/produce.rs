//! One `Produce` stream: batches in, answers out.
//!
//! ```text
//!  requests ─▶ receive: decode, verify, submit ─▶ queue ─▶ answer: a lane for each alias ─▶ answers
//!                                                          waits for the oldest of each
//! ```
//!
//! Both halves run in one task. Receiving waits while the log or the queue is full, or the topic of a batch is beyond its
//! rate, and so, through HTTP/2, does the client; answers go on meanwhile. So topics of one stream wait for each other: who
//! doesn't want that opens a stream for each. Each batch that was received is answered before the stream ends, unless the
//! client is gone.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;

use bytes::Bytes;
use danube_broker::{Appended, Appending, Broker, Error};
use danube_model::{Batch, BatchLimits, Epoch, ErrorKind};
use danube_proto::stream::produce_request::{self, Request};
use danube_proto::stream::produce_response::{Ack, Answer, Closed, Opened, Refused, answer};
use danube_proto::stream::{ProduceRequest, ProduceResponse};
use danube_proto::{Failure, Reliability, convert};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::status;
use super::topics::{self, Expected, MissingPartition};
use crate::caps;
use crate::sessions::Stopping;

type Answers = mpsc::Sender<Result<ProduceResponse, Status>>;

/// Serves a stream until the client ends it, breaks it, or the broker stops.
pub(crate) async fn run(
    broker: Broker,
    stopping: Stopping,
    requests: Streaming<ProduceRequest>,
    answers: Answers,
) {
    let (queue, queued) = mpsc::channel(caps::UNANSWERED_PER_STREAM_MAX);
    let (client, aliases) = (answers.clone(), HashMap::new());
    let receiver = Receiver { broker, stopping, client, queue, aliases };
    let mut answering = Answering {
        answers: answers.clone(),
        lanes: HashMap::new(),
        heads: FuturesUnordered::new(),
    };
    let (end, ()) = tokio::join!(receiver.run(requests), answering.run(queued));
    if let Err(status) = end {
        // The client may be gone.
        let _ = answers.send(Err(status)).await;
    }
}

/// What has been received and is to be answered under an alias, in its turn.
struct Pending {
    alias: u32,
    what: What,
}

enum What {
    Ready(answer::Answer),
    Appending { base_sequence: i32, appending: Appending },
}

/// The first half.
struct Receiver {
    broker: Broker,
    stopping: Stopping,
    /// Closed once the client is gone.
    client: Answers,
    queue: mpsc::Sender<Pending>,
    /// What has been opened; `None` once it has ended.
    aliases: HashMap<u32, Option<OpenTopic>>,
}

struct OpenTopic {
    topic: danube_broker::Topic,
    is_reliable: bool,
    limits: BatchLimits,
    _attached: danube_broker::Attached,
}

impl Receiver {
    /// `Ok` if the client ended the stream; else how it is to end.
    async fn run(mut self, mut requests: Streaming<ProduceRequest>) -> Result<(), Status> {
        loop {
            let request = tokio::select! {
                biased;
                () = self.stopping.wait() => return Err(status::stopping()),
                request = requests.message() => request?,
            };
            let Some(request) = request else { return Ok(()) };
            // A request of a kind that only a newer client knows can't be passed over: it may need an answer.
            let request = request.request.ok_or_else(|| status::protocol("an empty request"))?;
            let pending = match request {
                Request::Open(open) => vec![self.open(open).await?],
                Request::Batch(batch) => self.batch(batch).await?,
                Request::Close(close) => vec![self.close(close.alias)?],
            };
            for pending in pending {
                if self.queue.send(pending).await.is_err() {
                    // The client no longer takes answers.
                    return Ok(());
                }
            }
        }
    }

    async fn open(&mut self, open: produce_request::Open) -> Result<Pending, Status> {
        let alias = open.alias;
        if self.aliases.contains_key(&alias) {
            return Err(status::protocol("an alias is used twice"));
        }
        let answer = match self.try_open(open).await {
            Ok((opened, topic)) => {
                self.aliases.insert(alias, Some(topic));
                answer::Answer::Opened(opened)
            }
            Err(failure) => {
                self.aliases.insert(alias, None);
                answer::Answer::Closed(Closed { alias, failure: Some(failure.into()) })
            }
        };
        Ok(Pending { alias, what: What::Ready(answer) })
    }

    async fn try_open(&self, open: produce_request::Open) -> Result<(Opened, OpenTopic), Failure> {
        if self.aliases.len() >= caps::ALIASES_PER_STREAM_MAX {
            return Err(status::exhausted(
                "too many topics on one stream",
                caps::ALIASES_PER_STREAM_MAX,
            ));
        }
        let invalid = |error: danube_proto::Error| status::invalid_failure(&error);
        let name = convert::topic_name("topic", &open.topic).map_err(invalid)?;
        let expected = open.create.as_ref().map(Expected::decode).transpose().map_err(invalid)?;
        let failed = |error: Error| status::failure(&error);
        let missing = MissingPartition::Refused;
        let topic = topics::for_producer(&self.broker, &name, expected, missing).await;
        let topic = topic.map_err(failed)?;
        let attached = topic.attach(open.producer_name).map_err(failed)?;
        let is_reliable = topic.is_reliable();
        let (epoch, durability, reliability) = if is_reliable {
            let (epoch, durability) = topic.open().await.map_err(failed)?;
            (epoch, Some(durability), Reliability::Reliable)
        } else {
            (Epoch::ZERO, None, Reliability::NonReliable)
        };
        let message_bytes_max = topic.message_bytes_max();
        let opened = Opened {
            alias: open.alias,
            topic_id: Bytes::copy_from_slice(topic.id().as_bytes()),
            epoch: epoch.get(),
            max_message_bytes: u32::try_from(message_bytes_max).unwrap_or(u32::MAX),
            durability: convert::wire_durability(durability),
            reliability: convert::wire_reliability(Some(reliability)),
        };
        let limits = BatchLimits::for_message_bytes(message_bytes_max as usize);
        Ok((opened, OpenTopic { topic, is_reliable, limits, _attached: attached }))
    }

    /// Nothing is to be answered for a batch that came after its alias had ended.
    async fn batch(&mut self, request: produce_request::Batch) -> Result<Vec<Pending>, Status> {
        let alias = request.alias;
        let opened = self.aliases.get(&alias);
        let opened =
            opened.ok_or_else(|| status::protocol("a batch under an alias that is not open"))?;
        let Some(open) = opened else { return Ok(Vec::new()) };
        let base_sequence = base_sequence(&request.batch)?;
        let answer = |answer| Pending { alias, what: What::Ready(answer) };
        let batch = match Batch::verify(request.batch, &open.limits) {
            Ok(batch) => batch,
            Err(error) => {
                let failure = status::invalid_failure(&error);
                return Ok(vec![answer(refused(alias, base_sequence, failure, None))]);
            }
        };
        let take = async {
            if open.is_reliable {
                let appending = open.topic.submit(batch).await?;
                return Ok(What::Appending { base_sequence, appending });
            }
            open.topic.publish(&batch).await?;
            Ok(What::Ready(passed_on(alias, base_sequence, &batch)))
        };
        // It may wait for long.
        let taken = tokio::select! {
            biased;
            taken = take => taken,
            () = self.stopping.wait() => Err(Error::Stopping),
            () = self.client.closed() => return Ok(Vec::new()),
        };
        match taken {
            Ok(what) => Ok(vec![Pending { alias, what }]),
            Err(error) => {
                let failure = status::failure(&error);
                let expected = error.expected_sequence();
                let mut pending =
                    vec![answer(refused(alias, base_sequence, failure.clone(), expected))];
                if failure.kind == ErrorKind::NotFound {
                    // The topic is gone; another under its name has to be opened.
                    self.aliases.insert(alias, None);
                    let failure = Some(failure.into());
                    pending.push(answer(answer::Answer::Closed(Closed { alias, failure })));
                }
                Ok(pending)
            }
        }
    }

    fn close(&mut self, alias: u32) -> Result<Pending, Status> {
        let open = self.aliases.get_mut(&alias);
        let open = open.ok_or_else(|| status::protocol("closing an alias that is not open"))?;
        *open = None;
        let closed = answer::Answer::Closed(Closed { alias, failure: None });
        Ok(Pending { alias, what: What::Ready(closed) })
    }
}

/// Completes with an alias and the answer that is in its turn.
type Head = Pin<Box<dyn Future<Output = (u32, answer::Answer)> + Send>>;

/// The second half.
struct Answering {
    answers: Answers,
    /// What waits behind the oldest of each alias. An alias is here while something is in its turn.
    lanes: HashMap<u32, VecDeque<What>>,
    /// The oldest of each alias.
    heads: FuturesUnordered<Head>,
}

impl Answering {
    /// Answers all that comes out of the queue; returns early if the client is gone.
    async fn run(&mut self, mut queued: mpsc::Receiver<Pending>) {
        let mut is_closed = false;
        while !is_closed || !self.heads.is_empty() {
            tokio::select! {
                biased;
                Some(first) = self.heads.next(), if !self.heads.is_empty() => {
                    if self.send(first).await.is_err() {
                        return;
                    }
                }
                pending = queued.recv(), if !is_closed => match pending {
                    Some(Pending { alias, what }) => self.enqueue(alias, what),
                    None => is_closed = true,
                },
            }
        }
    }

    fn enqueue(&mut self, alias: u32, what: What) {
        match self.lanes.get_mut(&alias) {
            Some(lane) => lane.push_back(what),
            None => {
                self.lanes.insert(alias, VecDeque::new());
                self.heads.push(Box::pin(answered(alias, what)));
            }
        }
    }

    /// Sends an answer, and with it all that are ready.
    async fn send(&mut self, first: (u32, answer::Answer)) -> Result<(), ()> {
        let mut answers = Vec::new();
        let mut next = Some(first);
        while let Some((alias, answer)) = next {
            self.turn(alias);
            answers.push(Answer { answer: Some(answer) });
            let may_take = answers.len() < caps::ANSWERS_PER_MESSAGE_MAX;
            next = if may_take { self.heads.next().now_or_never().flatten() } else { None };
        }
        self.answers.send(Ok(ProduceResponse { answers })).await.map_err(|_| ())
    }

    /// The oldest of an alias was answered: the next is in its turn.
    fn turn(&mut self, alias: u32) {
        let lane = self.lanes.get_mut(&alias).expect("an alias in its turn has a lane");
        match lane.pop_front() {
            Some(what) => self.heads.push(Box::pin(answered(alias, what))),
            None => {
                self.lanes.remove(&alias);
            }
        }
    }
}

async fn answered(alias: u32, what: What) -> (u32, answer::Answer) {
    let answer = match what {
        What::Ready(answer) => answer,
        What::Appending { base_sequence, appending } => match appending.wait().await {
            Ok(appended) => ack(alias, base_sequence, &appended),
            Err(error) => {
                refused(alias, base_sequence, status::failure(&error), error.expected_sequence())
            }
        },
    };
    (alias, answer)
}

fn ack(alias: u32, base_sequence: i32, appended: &Appended) -> answer::Answer {
    answer::Answer::Ack(Ack {
        alias,
        base_sequence,
        base_offset: appended.base.get(),
        count: appended.base.distance(appended.next) as u32,
        epoch: appended.epoch.get(),
        durability: convert::wire_durability(Some(appended.level)),
        duplicate: appended.duplicate,
    })
}

/// A batch was handed to whoever listens.
fn passed_on(alias: u32, base_sequence: i32, batch: &Batch) -> answer::Answer {
    let count = batch.offset_span();
    answer::Answer::Ack(Ack { alias, base_sequence, count, ..Ack::default() })
}

fn refused(
    alias: u32,
    base_sequence: i32,
    failure: Failure,
    expected: Option<danube_model::Sequence>,
) -> answer::Answer {
    let expected_sequence = expected.map(convert::wire_sequence);
    answer::Answer::Refused(Refused {
        alias,
        base_sequence,
        failure: Some(failure.into()),
        expected_sequence,
    })
}

/// Where a batch has its base sequence; the answer to one that can't be read needs it, too.
fn base_sequence(batch: &Bytes) -> Result<i32, Status> {
    const AT: usize = 53;
    let field = batch.get(AT..AT + 4).and_then(|field| field.try_into().ok());
    field.map(i32::from_be_bytes).ok_or_else(|| status::protocol("a batch without a header"))
}
