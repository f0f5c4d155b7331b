//! One stream of deliveries: what a consumer gets, as messages, until it goes, is replaced, or the broker stops.

use std::pin::Pin;

use danube_broker::{Consumer, Delivered, Settle, Topic};
use danube_model::{Message, Offset, Record, TopicName};
use danube_proto::danube::{StreamMessage, delivered, encoded_bytes};
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::caps;
use crate::rpc::status;
use crate::sessions::{Sessions, Stopping};

/// Messages, and then the error that ends them.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<StreamMessage, Status>> + Send>>;

/// The stream of a consumer. It never just ends: clients would give up, or ask again without a pause.
pub(crate) fn messages(topic: &Topic, consumer: Consumer, sessions: &Sessions) -> Messages {
    let (sender, messages) = mpsc::channel(caps::DELIVERIES_WAITING_MAX);
    let (ended, end) = oneshot::channel();
    let (is_reliable, topic) = (topic.is_reliable(), topic.name().clone());
    let receiving = Receiving { topic, is_reliable, consumer, messages: sender };
    let receiving = receiving.run(sessions.stopping());
    sessions.spawn("receive", async {
        // The client may be gone.
        let _ = ended.send(receiving.await);
    });
    let end = async { Err(end.await.unwrap_or_else(|_| status::stopping())) };
    Box::pin(ReceiverStream::new(messages).map(Ok).chain(stream::once(end)))
}

struct Receiving {
    topic: TopicName,
    is_reliable: bool,
    consumer: Consumer,
    messages: mpsc::Sender<StreamMessage>,
}

/// The client takes no more.
struct Gone;

impl Receiving {
    /// Hands on what comes, and returns how it ended.
    async fn run(mut self, mut stopping: Stopping) -> Status {
        tokio::select! {
            biased;
            () = stopping.wait() => status::stopping(),
            end = self.hand_on() => end,
        }
    }

    async fn hand_on(&mut self) -> Status {
        loop {
            let next = tokio::select! {
                biased;
                () = self.messages.closed() => return status::stopping(),
                next = self.consumer.next() => next,
            };
            match next {
                Ok(pieces) => {
                    for piece in pieces {
                        if let Err(Gone) = self.send(&piece).await {
                            return status::stopping();
                        }
                    }
                }
                Err(error) => return status::consuming(&error),
            }
        }
    }

    async fn send(&self, piece: &Delivered) -> Result<(), Gone> {
        // Clients of this protocol know of no gaps.
        let Delivered::Records { range, incarnation, .. } = piece else { return Ok(()) };
        let mut next = range.start;
        let records = piece.decode().into_iter().flatten();
        for record in records.map_while(Result::ok) {
            let (offset, record) = record;
            next = offset + 1;
            match self.message(offset, &record) {
                Ok(message) => self.messages.send(message).await.map_err(|_| Gone)?,
                Err(reason) => self.reject(offset, *incarnation, reason).await,
            }
        }
        while next < range.end {
            self.reject(next, *incarnation, "it can't be decoded".to_owned()).await;
            next += 1;
        }
        Ok(())
    }

    /// A record as a message, or why its client could not take it.
    fn message(&self, offset: Offset, record: &Record) -> Result<StreamMessage, String> {
        let message = Message::from_record(record).map_err(|error| error.to_string())?;
        // Clients tell by the offset whether a topic is reliable.
        let offset = if self.is_reliable { offset } else { Offset::ZERO };
        let message = delivered(&self.topic, offset, message);
        let (bytes, limit) = (encoded_bytes(&message), caps::DELIVERED_BYTES_MAX);
        if bytes > limit {
            return Err(format!("its {bytes} bytes are more than the {limit} that clients take"));
        }
        Ok(message)
    }

    async fn reject(&self, offset: Offset, incarnation: u64, reason: String) {
        tracing::warn!(topic = %self.topic, %offset, reason, "a message can't be delivered");
        // The consumer may have been replaced meanwhile.
        let _ = self.consumer.settle(Settle::Reject { offset, reason }, incarnation).await;
    }
}
