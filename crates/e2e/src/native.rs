//! The native client, for harness code that is not async: a runtime of its own around it.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::time::Duration;

use danube_client::admin::TopicDescription;
use danube_client::{
    Client, Creation, Delivery, Durability, Item, Message, Producer, Reader, Receipt, Start,
};
use tokio::runtime::Runtime;

use crate::broker::Broker;
use crate::checker::{Drain, Drained, History};

/// Everything asked of a broker that runs is answered within this time.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Messages that [`Native::send_all`] has in flight.
const IN_FLIGHT_MAX: usize = 4096;

/// A connection to a broker.
pub struct Native {
    runtime: Runtime,
    client: Client,
}

/// A message of a topic as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// Its place.
    pub offset: u64,
    /// The message.
    pub message: Message,
}

/// A topic, read to its durable end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// What could be read, in that order.
    pub messages: Vec<Read>,
    /// Offsets that never will be readable, `[from, to)`.
    pub gaps: Vec<std::ops::Range<u64>>,
    /// Offsets that are damaged, `[from, to)`, and the file that is.
    pub damage: Vec<(std::ops::Range<u64>, String)>,
}

impl Native {
    /// A client of a broker, also across its restarts.
    ///
    /// # Panics
    ///
    /// If there is no runtime to be had.
    #[must_use]
    pub fn of(broker: &Broker) -> Self {
        Self::at(&broker.url())
    }

    /// A client of a broker at a URL.
    ///
    /// # Panics
    ///
    /// If there is no runtime to be had.
    #[must_use]
    pub fn at(url: &str) -> Self {
        let runtime = runtime();
        let client = {
            let _entered = runtime.enter();
            Client::connect(url).expect("it is the URL of a broker")
        };
        Self { runtime, client }
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for a future.
    ///
    /// # Panics
    ///
    /// If that takes longer than a minute.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.wait_at_most(ANSWER_MAX, future)
    }

    /// Waits for a future.
    ///
    /// # Panics
    ///
    /// If that takes longer than `limit`.
    pub fn wait_at_most<T>(&self, limit: Duration, future: impl Future<Output = T>) -> T {
        let limited = async { tokio::time::timeout(limit, future).await };
        self.runtime.block_on(limited).unwrap_or_else(|_| panic!("no answer within {limit:?}"))
    }

    /// Runs a future beside the harness.
    pub fn beside<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.spawn(future)
    }

    /// A producer to a topic, which is created at this level if it is missing.
    ///
    /// # Panics
    ///
    /// If it can't be opened.
    #[must_use]
    pub fn producer(&self, topic: &str, durability: Durability) -> Producer {
        let opening = self.client.producer(topic).expect("the name of a topic");
        let opening = opening.create(Some(creation(durability)));
        self.wait(opening.open())
            .unwrap_or_else(|error| panic!("{topic} can't be opened: {error:?}"))
    }

    /// Sends messages, many at a time, and waits until all are acknowledged. Returns their offsets, in their order.
    ///
    /// # Panics
    ///
    /// If one is not acknowledged, or it takes longer than ten minutes.
    pub fn send_all(
        &self,
        producer: &Producer,
        messages: impl IntoIterator<Item = Message>,
    ) -> Vec<u64> {
        let sending = async {
            let mut in_flight: VecDeque<Delivery> = VecDeque::new();
            let mut offsets = Vec::new();
            for message in messages {
                if in_flight.len() == IN_FLIGHT_MAX {
                    offsets.push(acknowledged(in_flight.pop_front()).await);
                }
                in_flight
                    .push_back(producer.send(message).await.expect("a message that can be sent"));
            }
            while !in_flight.is_empty() {
                offsets.push(acknowledged(in_flight.pop_front()).await);
            }
            offsets
        };
        self.wait_at_most(Duration::from_secs(600), sending)
    }

    /// Describes a topic.
    ///
    /// # Panics
    ///
    /// If the broker refuses.
    #[must_use]
    pub fn describe(&self, topic: &str) -> TopicDescription {
        let name = topic.parse().expect("the name of a topic");
        let described = self.wait(self.client.admin().describe_topic(&name));
        described.unwrap_or_else(|error| panic!("{topic} can't be described: {error:?}"))
    }

    /// The first offset of a topic that a subscription has not settled.
    ///
    /// # Panics
    ///
    /// If the broker refuses.
    #[must_use]
    pub fn floor(&self, topic: &str, subscription: &str) -> u64 {
        let topic = topic.parse().expect("the name of a topic");
        let subscription = subscription.parse().expect("the name of a subscription");
        let admin = self.client.admin();
        let described = self.wait(admin.describe_subscription(&topic, &subscription));
        described.expect("the subscription is there")[0].floor.get()
    }

    /// Reads a topic from its start to its durable end.
    ///
    /// # Panics
    ///
    /// If reading fails, or ends before the durable end.
    #[must_use]
    pub fn read(&self, topic: &str) -> Contents {
        let reader = self.client.reader(topic).expect("the name of a topic").start(Start::Earliest);
        self.wait_at_most(Duration::from_secs(600), async {
            let mut reader = reader.open().await.expect("the topic can be read");
            contents(&mut reader, topic).await
        })
    }

    /// Reads topics for the checker.
    ///
    /// # Panics
    ///
    /// If reading fails, or something is damaged.
    #[must_use]
    pub fn drains(&self, history: &History, topics: &[String]) -> BTreeMap<String, Drain> {
        topics.iter().map(|topic| (topic.clone(), self.drain(history, topic))).collect()
    }

    fn drain(&self, history: &History, topic: &str) -> Drain {
        let start = self.describe(topic).start.get();
        let contents = self.read(topic);
        assert!(contents.damage.is_empty(), "{topic} is damaged: {:?}", contents.damage);
        let records = contents.messages.iter().map(|read| {
            Drained::of(
                history,
                read.offset,
                read.message.key.as_ref().map(|key| key.as_str().to_owned()),
                &read.message.payload,
            )
        });
        Drain { start, records: records.collect(), gaps: contents.gaps.clone() }
    }
}

/// How a topic of this level is created.
#[must_use]
pub fn creation(durability: Durability) -> Creation {
    Creation { durability: Some(durability), ..Creation::default() }
}

/// A runtime for clients.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be started")
}

async fn acknowledged(delivery: Option<Delivery>) -> u64 {
    let delivery = delivery.expect("something is in flight");
    let Receipt { offset, .. } =
        delivery.await.unwrap_or_else(|error| panic!("not acknowledged: {error:?}"));
    offset.get()
}

async fn contents(reader: &mut Reader, topic: &str) -> Contents {
    let mut contents = Contents::default();
    loop {
        let next = reader.next().await;
        match next.unwrap_or_else(|error| panic!("{topic} can't be read: {error:?}")) {
            Some(Item::Message(received)) => contents
                .messages
                .push(Read { offset: received.offset.get(), message: received.message }),
            Some(Item::Gap { from, to, .. }) => contents.gaps.push(from.get()..to.get()),
            Some(Item::Damage { from, to, file, .. }) => {
                contents.damage.push((from.get()..to.get(), file));
            }
            Some(Item::CaughtUp { .. }) => {}
            None => return contents,
        }
    }
}
