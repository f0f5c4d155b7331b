//! One `Read` stream: a log from a place on, in responses of many items.

use bytes::Bytes;
use danube_broker::{Broker, Error, Read, Reader, Start};
use danube_model::frame::FrameKind;
use danube_model::{Frame, Offset, TopicName};
use danube_proto::convert;
use danube_proto::stream::read_response::{self, Item, item};
use danube_proto::stream::{ReadRequest, ReadResponse};
use tokio::sync::mpsc;
use tonic::Status;

use super::{status, topics};
use crate::caps;
use crate::sessions::Sessions;

type Responses = mpsc::Sender<Result<ReadResponse, Status>>;

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    topic: TopicName,
    start: Start,
    end: Offset,
    follow: bool,
    response_bytes: usize,
}

impl Plan {
    pub(crate) fn decode(request: &ReadRequest) -> danube_proto::Result<Plan> {
        let start = topics::start(convert::start("start", request.start)?);
        let response_bytes = match request.max_response_bytes {
            0 => caps::READ_RESPONSE_BYTES_MAX,
            bytes => (bytes as usize).min(caps::READ_RESPONSE_BYTES_MAX),
        };
        Ok(Plan {
            topic: convert::topic_name("topic", &request.topic)?,
            start,
            end: request.end.map_or(Ok(Offset::MAX), |end| convert::offset("end", end))?,
            follow: request.follow,
            response_bytes,
        })
    }
}

/// A log that is being read.
pub(crate) struct Reading {
    plan: Plan,
    reader: Reader,
    started: read_response::Started,
}

/// Why a response is complete.
enum Full {
    /// There is more.
    More,
    /// At the durable end.
    CaughtUp,
    /// At the end of what was asked for.
    End,
}

impl Reading {
    pub(crate) async fn open(broker: &Broker, plan: Plan) -> Result<Reading, Error> {
        let topic = broker.topic(&plan.topic)?;
        let reader = topic.read(plan.start).await?;
        let started = read_response::Started {
            topic_id: Bytes::copy_from_slice(topic.id().as_bytes()),
            offset: reader.offset().get(),
            durable_end: reader.ends().durable.get(),
        };
        Ok(Reading { plan, reader, started })
    }

    /// Sends until there is no more to send, the client is gone, or the broker stops.
    pub(crate) async fn run(mut self, sessions: Sessions, responses: Responses) {
        let mut stopping = sessions.stopping();
        let mut items = vec![item(item::Item::Started(self.started.clone()))];
        loop {
            let bytes_max = caps::read_response_bytes(self.plan.response_bytes, sessions.count());
            self.reader.hold(bytes_max);
            let gathered = tokio::select! {
                biased;
                () = stopping.wait() => Err(status::stopping()),
                () = responses.closed() => return,
                gathered = self.gather(&mut items, bytes_max) => gathered.map_err(|error| status::status(&error)),
            };
            let full = match gathered {
                Ok(full) => full,
                Err(status) => {
                    // The client may be gone.
                    let _ = responses.send(Err(status)).await;
                    return;
                }
            };
            let response = ReadResponse { items: std::mem::take(&mut items) };
            if responses.send(Ok(response)).await.is_err() {
                return;
            }
            match full {
                Full::More => {}
                Full::End => return,
                Full::CaughtUp if !self.plan.follow => return,
                Full::CaughtUp => tokio::select! {
                    biased;
                    () = stopping.wait() => {
                        let _ = responses.send(Err(status::stopping())).await;
                        return;
                    }
                    () = responses.closed() => return,
                    ends = self.reader.more() => if ends.closed {
                        let _ = responses.send(Err(status::log_closed())).await;
                        return;
                    },
                },
            }
        }
    }

    /// Reads until a response is full.
    async fn gather(&mut self, items: &mut Vec<Item>, bytes_max: usize) -> Result<Full, Error> {
        let mut bytes = 0;
        loop {
            if self.reader.offset() >= self.plan.end {
                return Ok(Full::End);
            }
            if bytes >= bytes_max || items.len() >= caps::READ_RESPONSE_ITEMS_MAX {
                return Ok(Full::More);
            }
            let next = match self.reader.next().await? {
                Read::Frame(frame) => {
                    let next = frame_item(&frame);
                    if let item::Item::Batch(batch) = &next {
                        bytes += batch.batch.len();
                    }
                    next
                }
                Read::Trimmed { from, to } => item::Item::Gap(topics::gap(from, to, "retention")),
                Read::Damage(damage) => {
                    item::Item::Damage(topics::damage(damage.from, damage.to, &damage))
                }
                Read::CaughtUp(durable_end) => {
                    let durable_end = durable_end.get();
                    items.push(item(item::Item::CaughtUp(read_response::CaughtUp { durable_end })));
                    return Ok(Full::CaughtUp);
                }
            };
            items.push(item(next));
        }
    }
}

fn frame_item(frame: &Frame) -> item::Item {
    match (frame.kind(), frame.batch_bytes()) {
        (FrameKind::Batch, batch) => item::Item::Batch(read_response::Batch {
            batch: batch.expect("a batch frame has one"),
            receive_time_ms: frame.receive_time().get(),
        }),
        (FrameKind::Gap { next, reason }, _) => {
            item::Item::Gap(topics::gap(frame.base(), next, reason.as_str()))
        }
    }
}

fn item(item: item::Item) -> Item {
    Item { item: Some(item) }
}
