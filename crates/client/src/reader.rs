//! Reading the log of a topic, without a subscription.
//!
//! A [`Reader`] has one [`partition::PartitionReader`] for each partition. Each keeps the offset that comes next, and
//! checks that what the broker sends continues there: a hole would be an error, not silence.

mod partition;

use std::collections::VecDeque;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use danube_model::{Epoch, Message, Offset, TimeMs, TopicName};

use crate::{Client, Result, Start};
use partition::PartitionReader;

/// What a reader yields.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A message.
    Message(Received),
    /// Offsets `[from, to)` will never be readable.
    Gap {
        /// The topic, or the partition of it.
        topic: TopicName,
        /// The first of them.
        from: Offset,
        /// The offset behind the last.
        to: Offset,
        /// The reason, in a word of the log's format.
        why: String,
    },
    /// Offsets `[from, to)` can't be read from any tier at present; reading goes on behind them.
    Damage {
        /// The topic, or the partition of it.
        topic: TopicName,
        /// The first of them.
        from: Offset,
        /// The offset behind the last.
        to: Offset,
        /// Where the damage is.
        file: String,
        /// What is damaged.
        message: String,
    },
    /// All below the durable end was yielded. A reader that follows says so each time that it gets there.
    CaughtUp {
        /// The topic, or the partition of it.
        topic: TopicName,
        /// The durable end.
        durable_end: Offset,
    },
}

/// A message with its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The topic, or the partition of it.
    pub topic: TopicName,
    /// Its offset there.
    pub offset: Offset,
    /// The ownership under which it was stored.
    pub epoch: Epoch,
    /// When the broker received it, by the broker's clock.
    pub receive_time: TimeMs,
    /// The message.
    pub message: Message,
}

/// Settings of a reader, and [`ReaderBuilder::open`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before it is opened"]
pub struct ReaderBuilder {
    client: Client,
    topic: TopicName,
    settings: Settings,
}

/// How the log of one partition is read.
#[derive(Clone, Debug)]
struct Settings {
    start: Start,
    end: Option<Offset>,
    follow: bool,
    timeout: Duration,
    /// Other partitions may reach further than this one.
    is_one_of_several: bool,
}

impl ReaderBuilder {
    pub(crate) fn new(client: Client, topic: TopicName) -> ReaderBuilder {
        let settings = Settings {
            start: Start::Earliest,
            end: None,
            follow: false,
            timeout: Duration::from_secs(60),
            is_one_of_several: false,
        };
        ReaderBuilder { client, topic, settings }
    }

    /// Where to begin, in each partition. Default: [`Start::Earliest`]. An offset beyond the end is an error; where it is beyond
    /// the ends of some of several partitions, those have nothing to read, unless they are followed.
    pub fn start(mut self, start: Start) -> ReaderBuilder {
        self.settings.start = start;
        self
    }

    /// Before which offset to stop, in each partition. Default: nowhere.
    pub fn end(mut self, end: Option<Offset>) -> ReaderBuilder {
        self.settings.end = end;
        self
    }

    /// Whether to wait for more at the durable end, instead of ending there. Default: no.
    pub fn follow(mut self, follow: bool) -> ReaderBuilder {
        self.settings.follow = follow;
        self
    }

    /// How long the broker may be out of reach before reading fails. Default: 60 s.
    pub fn timeout(mut self, timeout: Duration) -> ReaderBuilder {
        self.settings.timeout = timeout;
        self
    }

    /// Finds the topic's partitions. Reading begins with the first [`Reader::next`].
    ///
    /// # Errors
    /// What the broker refused, or that it could not be asked.
    pub async fn open(self) -> Result<Reader> {
        let mut topics = self.client.partitions(&self.topic).await?;
        if topics.is_empty() {
            // The broker says itself that there is no such topic.
            topics.push(self.topic);
        }
        let settings = Settings { is_one_of_several: topics.len() > 1, ..self.settings };
        let partition = |topic| PartitionReader::new(self.client.clone(), topic, settings.clone());
        Ok(Reader {
            partitions: topics.into_iter().map(partition).collect(),
            ready: VecDeque::new(),
        })
    }
}

/// Reads a topic, or all partitions of one, each in the order of its log. Reconnects by itself and goes on where it was.
#[derive(Debug)]
pub struct Reader {
    partitions: Vec<PartitionReader>,
    /// Partitions that have items at hand.
    ready: VecDeque<usize>,
}

impl Reader {
    /// The next item; `None` at the end of what was asked for. Cancel safe.
    ///
    /// # Errors
    /// What the broker refused, damage on the way to the client ([`danube_model::ErrorKind::Corrupt`]), or that the broker
    /// was out of reach for too long. Reading can go on: the next call tries again from where the error was.
    pub async fn next(&mut self) -> Result<Option<Item>> {
        loop {
            while let Some(at) = self.ready.front() {
                if let Some(item) = self.partitions[*at].take()? {
                    return Ok(Some(item));
                }
                self.ready.pop_front();
            }
            match self.fill().await {
                None => return Ok(None),
                Some((at, Ok(()))) => self.ready.push_back(at),
                Some((_, Err(error))) => return Err(error),
            }
        }
    }

    /// Waits until some partition has items at hand, or failed; `None` when all have ended.
    async fn fill(&mut self) -> Option<(usize, Result<()>)> {
        let partitions = self.partitions.iter_mut().enumerate();
        let mut waits: Vec<_> = partitions
            .filter(|(_, partition)| !partition.has_ended())
            .map(|(at, partition)| Box::pin(async move { (at, partition.fill().await) }))
            .collect();
        if waits.is_empty() {
            return None;
        }
        let first = std::future::poll_fn(|context| {
            for wait in &mut waits {
                if let Poll::Ready(done) = wait.as_mut().poll(context) {
                    return Poll::Ready(done);
                }
            }
            Poll::Pending
        });
        Some(pin!(first).await)
    }
}
