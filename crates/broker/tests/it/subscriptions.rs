//! Subscriptions on a simulated machine: who gets what, what is settled, and what is left of it after a stop.

mod absent;
mod consuming;
mod failing;
mod races;

use std::future::Future;

use danube_broker::{
    Consumer, Delivered, Result, Settle, Subscribe, SubscriptionDescription, Window,
};
use danube_env::sim::World;
use danube_model::{ConsumerId, SubscriptionName, SubscriptionType, Text};

use super::*;

const S: &str = "s";

fn sub(text: &str) -> SubscriptionName {
    text.parse().expect("a good name")
}

pub(crate) fn subscribe(consumer: &str, kind: SubscriptionType) -> Subscribe {
    Subscribe {
        subscription: sub(S),
        consumer: consumer.parse().expect("a good name"),
        kind,
        filters: Vec::new(),
        start: Start::Earliest,
    }
}

/// A broker with a topic.
async fn with_topic(world: &World) -> (Broker, Topic) {
    let broker = open(&world.machine("broker").env()).await;
    broker.create_topic(new_topic("/default/t")).await.expect("it works");
    let topic = broker.topic(&name("/default/t")).expect("it is there");
    (broker, topic)
}

async fn attach(topic: &Topic, consumer: &str, kind: SubscriptionType) -> Attached {
    let id = topic.subscribe(subscribe(consumer, kind)).await.expect("it works");
    Attached::new(topic.broker().attach_consumer(id, Window::Unlimited).await.expect("it works"))
}

/// A consumer of its own subscription.
pub(crate) async fn waiting(topic: &Topic) -> Attached {
    attach(topic, "c", SubscriptionType::Exclusive).await
}

/// A consumer, record by record.
pub(crate) struct Attached {
    consumer: Consumer,
    pending: std::collections::VecDeque<Got>,
    /// Of the cursor, of what came last.
    incarnation: u64,
}

/// A delivered record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Got {
    offset: u64,
    value: String,
    deliveries: u32,
}

impl Attached {
    fn new(consumer: Consumer) -> Attached {
        Attached { consumer, pending: Default::default(), incarnation: 0 }
    }

    async fn next(&mut self) -> Result<Got> {
        while self.pending.is_empty() {
            for delivered in self.consumer.next().await? {
                let Delivered::Records { deliveries, incarnation, .. } = delivered else {
                    continue;
                };
                self.incarnation = incarnation;
                for record in delivered.decode().expect("it decodes") {
                    let (offset, record) = record.expect("it decodes");
                    let value = record.value.expect("it has a value");
                    let value = String::from_utf8(value.to_vec()).expect("text");
                    self.pending.push_back(Got { offset: offset.get(), value, deliveries });
                }
            }
        }
        Ok(self.pending.pop_front().expect("there is one"))
    }

    /// The offsets of the next `count` records.
    pub(crate) async fn offsets(&mut self, count: usize) -> Vec<u64> {
        let mut offsets = Vec::new();
        while offsets.len() < count {
            offsets.push(self.next().await.expect("it works").offset);
        }
        offsets
    }

    /// Whether it is told nothing for some time, not even that something is missing.
    pub(crate) async fn hears_nothing(&mut self, world: &World) -> bool {
        within(world, Duration::from_secs(5), self.consumer.next()).await.is_none()
    }

    pub(crate) async fn acknowledge(&self, offset: u64) {
        let range = Offset::new(offset)..Offset::new(offset + 1);
        let acknowledge = Settle::Acknowledge(vec![range]);
        self.consumer.settle(acknowledge, self.incarnation).await.expect("it works");
    }

    pub(crate) async fn refuse(&self, offset: u64, delay_ms: u64) {
        let (offset, reason) = (Offset::new(offset), "no good".to_owned());
        let refuse = Settle::Refuse { offset, delay_ms, reason };
        self.consumer.settle(refuse, self.incarnation).await.expect("it works");
    }
}

async fn publish(topic: &Topic, values: std::ops::Range<u64>) {
    for value in values {
        topic.append(batch(&value.to_string())).await.expect("it works");
    }
}

fn keyed(keys: &[&str]) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None, BatchLimits::default());
    for key in keys {
        let key = Some(Text::from(*key).into_bytes());
        let value = Some(Bytes::from_static(b"v"));
        builder.append(&Record { key, value, ..Record::default() }).expect("it is small");
    }
    builder.finish(None).expect("it has records")
}

async fn describe(topic: &Topic) -> SubscriptionDescription {
    topic.describe_subscription(&sub(S)).await.expect("it works")
}

/// What a future gives within a time, if it does.
async fn within<T>(world: &World, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = world.sleep(limit) => None,
    }
}
