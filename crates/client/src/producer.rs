//! Producing messages.
//!
//! ```text
//!   send ──▶ gather: a lane for each partition ──▶ driver ──▶ link ──▶ broker
//!    ▲        encodes, seals full batches           │ ▲
//!    │                                      machine │ │ what to send, what became of it
//!    └── Delivery ◀── settlement ◀──────────────────┘─┘
//! ```
//!
//! Reading order: `machine` (all decisions, no I/O), `gather`, `settlement`, `driver` with `partition` and `link`.

mod driver;
mod gather;
mod link;
mod machine;
mod partition;
mod route;
mod settlement;

use std::sync::Arc;
use std::time::Duration;

use danube_model::{Compression, ErrorKind, Message, Text, TimeMs, TopicName};
use danube_proto::convert;
use danube_proto::stream::Expectation;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::backoff::Backoff;
use crate::world::{Clock, random, sleep, spawn, wall_time};
use crate::{Client, Durability, Error, Outcome, Reliability, Result, admin};
use driver::Driver;
use gather::Gather;
pub use settlement::{Delivery, Receipt};

/// How a producer's missing topic is to be created, and what an existing one must be. What is not said agrees with
/// everything and is the broker's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Creation {
    /// How many partitions; `None` for a topic that is not partitioned, or whatever it is if it exists.
    pub partitions: Option<u32>,
    /// Whether it is a durable log.
    pub reliability: Option<Reliability>,
    /// What an acknowledgement means.
    pub durability: Option<Durability>,
}

/// Settings of a producer, and [`ProducerBuilder::open`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before it is opened"]
pub struct ProducerBuilder {
    client: Client,
    topic: TopicName,
    name: Option<Text>,
    create: Option<Creation>,
    gather: gather::Settings,
    linger: Duration,
    timeout: Duration,
}

impl ProducerBuilder {
    pub(crate) fn new(client: Client, topic: TopicName) -> ProducerBuilder {
        ProducerBuilder {
            client,
            topic,
            name: None,
            create: Some(Creation::default()),
            gather: gather::Settings {
                compression: Compression::None,
                batch_bytes: 256 << 10,
                room_bytes: 64 << 20,
                room_messages: 1_000_000,
            },
            linger: Duration::from_millis(1),
            timeout: Duration::from_secs(60),
        }
    }

    /// A name, which descriptions show and each message carries. Default: none.
    pub fn name(mut self, name: &str) -> ProducerBuilder {
        self.name = Text::new(bytes::Bytes::copy_from_slice(name.as_bytes()));
        self
    }

    /// How a missing topic is created, if the broker allows that; `None`: it must exist. Default: as the broker likes.
    pub fn create(mut self, create: Option<Creation>) -> ProducerBuilder {
        self.create = create;
        self
    }

    /// How batches are compressed. Default: not at all.
    pub fn compression(mut self, compression: Compression) -> ProducerBuilder {
        self.gather.compression = compression;
        self
    }

    /// A batch of this size is sent without waiting for more, in bytes before compression. Default: 256 KiB.
    pub fn batch_bytes(mut self, bytes: usize) -> ProducerBuilder {
        self.gather.batch_bytes = bytes;
        self
    }

    /// How long a batch waits for more messages while an earlier one is in flight; when none is, nothing waits. Default:
    /// 1 ms.
    pub fn linger(mut self, linger: Duration) -> ProducerBuilder {
        self.linger = linger;
        self
    }

    /// How many messages may be unconfirmed, at least one; more wait in [`Producer::send`]. Default: 1,000,000.
    pub fn unconfirmed_messages(mut self, messages: usize) -> ProducerBuilder {
        self.gather.room_messages = messages.max(1);
        self
    }

    /// How many bytes of messages may be unconfirmed; more wait in [`Producer::send`]. A message that is larger waits until
    /// it is alone. Default: 64 MiB.
    pub fn unconfirmed_bytes(mut self, bytes: usize) -> ProducerBuilder {
        self.gather.room_bytes = bytes.clamp(1, u32::MAX as usize);
        self
    }

    /// How long a message, and opening, is tried again before it fails. Default: 60 s.
    pub fn timeout(mut self, timeout: Duration) -> ProducerBuilder {
        self.timeout = timeout;
        self
    }

    /// Opens the topic, all its partitions if it has some. Tries again until the time-out where that may help.
    ///
    /// # Errors
    /// What the broker refused for good, or [`Error::TimedOut`]. Dropping the future opens nothing, but may create.
    pub async fn open(self) -> Result<Producer> {
        let clock = Clock::start();
        let topics = self.partitions(&clock).await?;
        let gather = Arc::new(Gather::new(&topics, random(), self.gather));
        let settings = driver::Settings {
            name: self.name.as_ref().map_or_else(String::new, |name| name.as_str().to_owned()),
            create: self.create.map(|create| Expectation {
                reliability: convert::wire_reliability(create.reliability),
                durability: convert::wire_durability(create.durability),
            }),
            linger: self.linger,
            timeout: self.timeout,
        };
        let (opening, opened) = oneshot::channel();
        let driver =
            Driver::new(self.client, settings, gather.clone(), clock, topics.clone(), opening);
        let producer = Producer {
            shared: Arc::new(Shared { task: Some(spawn(driver.run())), gather, clock, topics }),
            name: self.name,
        };
        match opened.await {
            Ok(result) => result.map(|()| producer),
            Err(_) => Err(producer.closed(Outcome::Definite)),
        }
    }

    /// The topic's partitions, created if need be.
    async fn partitions(&self, clock: &Clock) -> Result<Vec<TopicName>> {
        let mut last = None;
        tokio::select! {
            biased;
            found = self.keep_finding(&mut last) => return found,
            () = clock.sleep_until(self.timeout) => {}
        }
        Err(Error::TimedOut {
            topic: self.topic.clone(),
            after: self.timeout,
            outcome: Outcome::Definite,
            last: Some(Box::new(last.unwrap_or_else(|| self.client.late()))),
        })
    }

    /// Tries until it works or is refused for good. `last` is why it did not work before.
    async fn keep_finding(&self, last: &mut Option<Error>) -> Result<Vec<TopicName>> {
        let mut backoff = Backoff::new(random());
        loop {
            match self.find_partitions().await {
                Err(error) if error.is_retryable() => {
                    *last = Some(error);
                    sleep(backoff.next()).await;
                }
                found => return found,
            }
        }
    }

    async fn find_partitions(&self) -> Result<Vec<TopicName>> {
        let wanted = self.create.and_then(|create| create.partitions);
        let mut found = self.client.partitions(&self.topic).await?;
        if found.is_empty() && wanted.is_some_and(|partitions| partitions > 0) {
            self.create_partitioned(wanted).await?;
            found = self.client.partitions(&self.topic).await?;
        }
        if found.is_empty() {
            // The broker creates it when it is opened, or says that there is no such topic.
            return Ok(vec![self.topic.clone()]);
        }
        let is_plain = found.len() == 1 && found[0] == self.topic;
        let partitions = if is_plain { 0 } else { found.len() as u32 };
        match wanted {
            Some(expected) if expected != partitions => {
                let topic = self.topic.clone();
                Err(Error::Partitions { topic, found: partitions, expected })
            }
            _ => Ok(found),
        }
    }

    async fn create_partitioned(&self, partitions: Option<u32>) -> Result<()> {
        let create = self.create.unwrap_or_default();
        let settings = admin::TopicSettings {
            reliability: create.reliability,
            durability: create.durability,
            ..admin::TopicSettings::default()
        };
        let created = self.client.admin().create_topic(&self.topic, partitions, &settings).await;
        match created {
            // Somebody else was faster.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            created => created.map(|_| ()),
        }
    }
}

/// Sends messages to one topic, or to the partitions of one. Cheap to clone; all clones share batches and limits.
///
/// Messages of one producer keep their order within a partition. A message with a key goes to the partition of its key;
/// for the others partitions take turns batch by batch, beginning at a random one. When the last clone is dropped, what is not confirmed fails: call
/// [`Producer::close`] or [`Producer::flush`] before that.
#[derive(Clone, Debug)]
pub struct Producer {
    shared: Arc<Shared>,
    name: Option<Text>,
}

#[derive(Debug)]
struct Shared {
    topics: Vec<TopicName>,
    gather: Arc<Gather>,
    clock: Clock,
    task: Option<JoinHandle<()>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.gather.close();
    }
}

impl Producer {
    /// Hands a message over; waits while too much is unconfirmed. The [`Delivery`] tells when it is confirmed:
    /// `producer.send(message).await?.await?` waits for both. A publish time of 0 becomes now, a missing producer name this
    /// producer's.
    ///
    /// Cancel safe: until it returns, nothing was handed over.
    ///
    /// # Errors
    /// If the message can't be sent at all: too large, or with a reserved attribute. Definite.
    pub async fn send(&self, mut message: Message) -> Result<Delivery> {
        if message.publish_time == TimeMs::ZERO {
            message.publish_time = wall_time();
        }
        if message.producer_name.is_none() {
            message.producer_name.clone_from(&self.name);
        }
        self.shared.gather.add(&message, self.shared.clock.now()).await
    }

    /// Sends what was handed over without waiting for more, and returns when all of it is confirmed or has failed.
    /// Dropping the future stops nothing.
    ///
    /// # Errors
    /// [`Error::Closed`] if the producer was closed before.
    pub async fn flush(&self) -> Result<()> {
        let flushed = self.shared.gather.flush();
        flushed.await.map_err(|_| self.closed(Outcome::Unknown))
    }

    /// Flushes, and ends the producer with all its clones.
    ///
    /// # Errors
    /// As [`Producer::flush`].
    pub async fn close(self) -> Result<()> {
        let flushed = self.flush().await;
        self.shared.gather.close();
        if let Some(task) = Arc::into_inner(self.shared).and_then(|mut shared| shared.task.take()) {
            task.await.expect("the driver does not panic");
        }
        flushed
    }

    /// The topic, or its partitions by number.
    pub fn topics(&self) -> &[TopicName] {
        &self.shared.topics
    }

    fn closed(&self, outcome: Outcome) -> Error {
        Error::Closed { topic: self.shared.topics[0].clone(), outcome }
    }
}
