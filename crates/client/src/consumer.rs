//! Consuming: the messages of a subscription, each to be settled.
//!
//! ```text
//!  broker ─▶ link: one stream for each partition ─▶ inbox ─▶ Consumer::next: batches taken apart
//!         ◀─ settlements of a few ms, credit ◀── lane ◀── ack, nack, what was taken
//! ```
//!
//! A link reconnects by itself. What was not acknowledged on the stream that broke comes again, and acknowledgements for
//! it are void: the subscription may have been set back meanwhile, and they would undo that.

mod delivery;
mod inbox;
mod lane;
mod link;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use danube_model::{ConsumerName, Offset, SubscriptionName, SubscriptionType, TopicName};
use danube_proto::convert;
use danube_proto::stream::consume_request::Open;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::reader::Received;
use crate::world::{Clock, random, spawn};
use crate::{Client, Error, Result, Start};
use delivery::{Arrivals, Arrived, OpenPiece};
use inbox::Inbox;
use lane::{Lane, Window};
use link::Link;

/// Bytes of batches that may wait in a consumer, of all partitions together; each may have [`PARTITION_BYTES_MIN`].
const WAITING_BYTES: u64 = 8 << 20;
const PARTITION_BYTES_MIN: u64 = 256 << 10;

/// What a consumer yields.
#[derive(Clone, Debug, PartialEq)]
pub enum Consumed {
    /// A message, to be acknowledged.
    Message(Delivered),
    /// Offsets `[from, to)` will never be readable; nothing is to be done about them.
    Gap {
        /// The topic, or the partition of it.
        topic: TopicName,
        /// The first of them.
        from: Offset,
        /// The offset behind the last.
        to: Offset,
        /// The reason, in a word of the log's format, or `retention`.
        why: String,
    },
    /// Offsets `[from, to)` can't be read from any tier at present and were skipped.
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
}

/// A message of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The message with its place in the log.
    pub received: Received,
    /// How often it was delivered, this time included, as far as the broker remembers.
    pub delivery_count: u32,
    /// What it is acknowledged by.
    pub place: Place,
}

/// One delivery of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    partition: usize,
    /// Which of the partition's streams.
    stream: u64,
    /// Of the subscription's cursor: it has another one each time that it is set anew.
    incarnation: u64,
    offset: Offset,
}

/// Settings of a consumer, and [`ConsumerBuilder::open`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before it is opened"]
pub struct ConsumerBuilder {
    client: Client,
    topic: TopicName,
    subscription: SubscriptionName,
    kind: SubscriptionType,
    name: Option<ConsumerName>,
    filters: Vec<String>,
    start: Start,
    prefetch: u64,
    limit: u64,
    linger: Duration,
    timeout: Duration,
}

impl ConsumerBuilder {
    pub(crate) fn new(client: Client, topic: TopicName, subscription: SubscriptionName) -> Self {
        ConsumerBuilder {
            client,
            topic,
            subscription,
            kind: SubscriptionType::Exclusive,
            name: None,
            filters: Vec::new(),
            start: Start::Latest,
            prefetch: 1_000,
            limit: u64::MAX,
            linger: Duration::from_millis(2),
            timeout: Duration::from_secs(60),
        }
    }

    /// Who of the subscription's consumers gets what. Default: exclusive.
    pub fn kind(mut self, kind: SubscriptionType) -> Self {
        self.kind = kind;
        self
    }

    /// The consumer's name within the subscription; it takes over from one that has the same. Default: a random one.
    pub fn name(mut self, name: Option<ConsumerName>) -> Self {
        self.name = name;
        self
    }

    /// Globs over the keys that it takes, key-shared only. Default: none, which is every key.
    pub fn filters(mut self, filters: Vec<String>) -> Self {
        self.filters = filters;
        self
    }

    /// Where the subscription begins if it is new. Default: [`Start::Latest`].
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// How many messages of each partition may wait in the consumer, at least 1. Default: 1000.
    pub fn prefetch(mut self, messages: u64) -> Self {
        self.prefetch = messages.max(1);
        self
    }

    /// After how many messages it ends; it does not ask a partition for more. Default: never.
    pub fn limit(mut self, messages: Option<u64>) -> Self {
        self.limit = messages.unwrap_or(u64::MAX);
        self
    }

    /// How long acknowledgements are gathered before they are sent, unless many come. Default: 2 ms.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// How long the broker may be out of reach before consuming fails. Default: 60 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Finds the topic's partitions, and waits until the broker has taken the consumer in each.
    ///
    /// # Errors
    /// What the broker refused, a subscription of another type or one that somebody else has
    /// ([`danube_model::ErrorKind::Conflict`]) for example, or that it could not be asked.
    pub async fn open(self) -> Result<Consumer> {
        let mut topics = self.client.partitions(&self.topic).await?;
        if topics.is_empty() {
            // The broker says itself that there is no such topic.
            topics.push(self.topic.clone());
        }
        let name = match &self.name {
            Some(name) => name.clone(),
            None => format!("consumer-{:016x}", random()).parse()?,
        };
        let window = Window {
            messages: self.prefetch,
            bytes: (WAITING_BYTES / topics.len() as u64).max(PARTITION_BYTES_MIN),
        };
        let clock = Clock::start();
        let inbox = Arc::new(Inbox::new(topics.len()));
        let lane = |_: &TopicName| Arc::new(Lane::new(clock, self.linger, window, self.limit));
        let lanes: Vec<_> = topics.iter().map(lane).collect();
        let link = |(partition, topic): (usize, &TopicName)| {
            let (inbox, lane) = (Arc::clone(&inbox), Arc::clone(&lanes[partition]));
            let open = self.request(topic, &name);
            let link = Link::new(self.client.clone(), clock, self.timeout, open, lane, inbox);
            spawn(link.run(partition))
        };
        let links = topics.iter().enumerate().map(link).collect();
        let settler = Settler { lanes: lanes.into() };
        let tallies = vec![Tally::default(); topics.len()];
        let consumer = Consumer {
            topics,
            settler,
            links,
            inbox,
            arrivals: None,
            piece: None,
            spent: None,
            tallies,
            left: self.limit,
        };
        consumer.inbox.opened().await?;
        Ok(consumer)
    }

    fn request(&self, topic: &TopicName, name: &ConsumerName) -> Open {
        Open {
            topic: topic.to_string(),
            subscription: self.subscription.to_string(),
            r#type: convert::wire_subscription_type(self.kind),
            consumer: name.to_string(),
            filters: self.filters.clone(),
            start: Some(convert::wire_start(self.start)),
            credit: None,
        }
    }
}

/// A consumer of a subscription of a topic, or of all partitions of one. Reconnects by itself.
///
/// Dropping it sends the acknowledgements that were given and leaves; [`Consumer::close`] also waits for that.
#[derive(Debug)]
pub struct Consumer {
    topics: Vec<TopicName>,
    settler: Settler,
    links: Vec<JoinHandle<()>>,
    inbox: Arc<Inbox>,
    /// What is being taken apart, and the piece of it.
    arrivals: Option<Arrivals>,
    piece: Option<OpenPiece>,
    /// The piece before, whose batch the next one may go on with.
    spent: Option<OpenPiece>,
    /// One for each partition.
    tallies: Vec<Tally>,
    /// Messages until the limit.
    left: u64,
}

/// Acknowledges messages of a consumer, from wherever they are handled. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Settler {
    lanes: Arc<[Arc<Lane>]>,
}

/// Whether a consumer is connected with the broker. It tries again by itself. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    lost: watch::Receiver<Option<Error>>,
    /// As [`Connection::changed`] has told.
    was_lost: bool,
}

impl Connection {
    /// Why it is lost, at least for one partition; `None` while it is there.
    pub fn lost(&self) -> Option<Error> {
        self.lost.borrow().clone()
    }

    /// Waits until it is lost, or is back, which is `None`, and tells each in turn. After the consumer's end nothing more
    /// comes. Cancel safe.
    pub async fn changed(&mut self) -> Option<Error> {
        let was_lost = self.was_lost;
        let changed = self.lost.wait_for(|lost| lost.is_some() != was_lost).await;
        let Ok(lost) = changed.map(|lost| lost.clone()) else { return pending().await };
        self.was_lost = lost.is_some();
        lost
    }
}

impl Consumer {
    /// What comes next; `None` behind the limit. Cancel safe.
    ///
    /// # Errors
    /// What the broker refused, such as a consumer whose name a newer one has taken
    /// ([`danube_model::ErrorKind::Fenced`]), or that it was out of reach for too long; then nothing more comes. A batch that
    /// can't be decoded, which is passed over.
    pub async fn next(&mut self) -> Result<Option<Consumed>> {
        while self.left > 0 {
            if let Some(next) = self.take()? {
                return Ok(Some(next));
            }
            self.arrivals = Some(self.inbox.next().await?);
        }
        Ok(None)
    }

    /// The next thing at hand.
    fn take(&mut self) -> Result<Option<Consumed>> {
        let Some(Arrivals { partition, stream, items }) = &mut self.arrivals else {
            return Ok(None);
        };
        let (partition, stream) = (*partition, *stream);
        let (topic, lane) = (&self.topics[partition], &self.settler.lanes[partition]);
        let tally = &mut self.tallies[partition];
        loop {
            if !lane.is_current(stream) {
                // It comes again.
                (self.arrivals, self.piece) = (None, None);
                return Ok(None);
            }
            if let Some(piece) = self.piece.take_if(|piece| !lane.counts(piece.incarnation())) {
                // The subscription was set anew: it comes again, unless it lies before that.
                tally.add(stream, piece.rest(), lane, self.left);
            }
            if let Some(mut piece) = self.piece.take() {
                let incarnation = piece.incarnation();
                let next = piece.next(topic).transpose();
                if let Some(Ok((received, delivery_count))) = next {
                    self.piece = Some(piece);
                    self.left -= 1;
                    tally.add(stream, Window { messages: 1, bytes: 0 }, lane, self.left);
                    let offset = received.offset;
                    let place = Place { partition, stream, incarnation, offset };
                    let delivered = Delivered { received, delivery_count, place };
                    return Ok(Some(Consumed::Message(delivered)));
                }
                tally.add(stream, piece.rest(), lane, self.left);
                next.transpose()?;
                self.spent = Some(piece);
            }
            let topic = topic.clone();
            match items.next() {
                None => {
                    self.arrivals = None;
                    return Ok(None);
                }
                Some(Arrived::Piece(piece)) if !lane.counts(piece.incarnation) => {
                    tally.add(stream, piece.whole(), lane, self.left);
                }
                Some(Arrived::Piece(piece)) => {
                    self.piece = Some(OpenPiece::new(piece, self.spent.take())?);
                }
                Some(Arrived::Gap { from, to, why }) => {
                    return Ok(Some(Consumed::Gap { topic, from, to, why }));
                }
                Some(Arrived::Damage { from, to, file, message }) => {
                    return Ok(Some(Consumed::Damage { topic, from, to, file, message }));
                }
            }
        }
    }

    /// The message is handled. It is sent within a few milliseconds, together with others.
    pub fn ack(&self, place: Place) {
        self.settler.ack(place);
    }

    /// The message could not be handled, and is wanted again: after `delay`, or later if the subscription's policy says so.
    pub fn nack(&self, place: Place, delay: Duration, reason: &str) {
        self.settler.nack(place, delay, reason);
    }

    /// Tells when the connection is lost, and when it is back.
    pub fn connection(&self) -> Connection {
        self.inbox.connection()
    }

    /// Acknowledges from elsewhere than where messages are taken.
    pub fn settler(&self) -> Settler {
        self.settler.clone()
    }

    /// Sends the acknowledgements that were given, waits until the broker has noted them, and leaves.
    ///
    /// # Errors
    /// If the broker has not said so: some of the messages may come again.
    pub async fn close(mut self) -> Result<()> {
        self.settler.lanes.iter().for_each(|lane| lane.close());
        for link in self.links.drain(..) {
            link.await.expect("a link does not panic, and nobody aborts it");
        }
        let failed = self.settler.lanes.iter().find_map(|lane| lane.failure());
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.settler.lanes.iter().for_each(|lane| lane.close());
    }
}

impl Settler {
    /// As [`Consumer::ack`]. After the consumer was closed it does nothing.
    pub fn ack(&self, place: Place) {
        if let Some(lane) = self.lanes.get(place.partition) {
            lane.acknowledge(place);
        }
    }

    /// As [`Consumer::nack`]. After the consumer was closed it does nothing.
    pub fn nack(&self, place: Place, delay: Duration, reason: &str) {
        if let Some(lane) = self.lanes.get(place.partition) {
            lane.refuse(place, delay, reason);
        }
    }
}

/// What of a partition was taken and the broker was not told of.
#[derive(Clone, Debug, Default)]
struct Tally {
    stream: u64,
    taken: Window,
}

impl Tally {
    fn add(&mut self, stream: u64, taken: Window, lane: &Lane, left: u64) {
        if self.stream != stream {
            (self.stream, self.taken) = (stream, Window::default());
        }
        self.taken.messages += taken.messages;
        self.taken.bytes += taken.bytes;
        if lane.is_worth_telling(self.taken) {
            lane.took(stream, std::mem::take(&mut self.taken), left);
        }
    }
}
