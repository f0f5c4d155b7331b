//! Many topics, and what they cost.

use std::time::Duration;

use danube_client::{Client, Consumed, Durability, Item, Message, Start};

use crate::broker::{Broker, Options};
use crate::usage::{descriptors, resident_kib};
use crate::wait::Stopwatch;
use crate::{Measured, Native, native};

/// A broker that was killed is ready within this time, and within these.
const READY_MAX: Duration = Duration::from_secs(5);
const RESIDENT_MAX_KIB: u64 = 400 << 10;
const DESCRIPTORS_MAX: usize = 2_000;
/// What an idle topic may cost.
const IDLE_TOPIC_MAX_KIB: u64 = 32;
/// Topics that are worked at at once.
const AT_ONCE: usize = 64;
/// Of one topic.
const MESSAGES: usize = 8;
const MESSAGE_BYTES: usize = 1 << 10;
/// Whatever is done with all topics.
const ALL_MAX: Duration = Duration::from_secs(600);

/// Kills a broker with so many topics that have data, and starts it again; then reads all of them, and sends to each.
///
/// # Panics
///
/// If it takes too long, too much memory or too many descriptors, or something is lost.
#[must_use]
pub fn with_data(topics: usize) -> Measured {
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let watch = Stopwatch::start();
    each(&native, topics, |client, topic| async move { send(&client, &topic, MESSAGES).await });
    let filling = watch.elapsed();
    let filled = Used::of(&broker);
    broker.kill9();
    let watch = Stopwatch::start();
    broker.restart();
    let ready = watch.elapsed();
    let started = Used::of(&broker);
    let native = Native::of(&broker);
    each(&native, topics, |client, topic| async move { read(&client, &topic, MESSAGES).await });
    let read_all = Used::of(&broker);
    each(&native, topics, |client, topic| async move { send(&client, &topic, 1).await });
    let sent_to_all = Used::of(&broker);
    let measured = Measured::default()
        .with("topics", topics)
        .with("creating and filling one, ms", filling.as_secs_f64() * 1e3 / topics as f64)
        .with("filled", filled)
        .with("ready after SIGKILL, ms", ready.as_millis())
        .with("started", started)
        .with("all read", read_all)
        .with("sent to all", sent_to_all);
    assert!(ready < READY_MAX, "{measured}");
    for used in [filled, started, read_all, sent_to_all] {
        let is_within = used.kib < RESIDENT_MAX_KIB && used.descriptors < DESCRIPTORS_MAX;
        assert!(is_within, "{measured}");
    }
    broker.stop();
    measured
}

/// Sends one message to each of so many topics, and leaves them alone.
///
/// # Panics
///
/// If they cost too much.
#[must_use]
pub fn idle(topics: usize) -> Measured {
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    // What grows once has grown.
    each(&native, AT_ONCE, |client, topic| async move {
        send(&client, &format!("{topic}-first"), 1).await
    });
    let empty = Used::of(&broker);
    each(&native, topics, |client, topic| async move { send(&client, &topic, 1).await });
    let idle = Used::of(&broker);
    let kib = idle.kib.saturating_sub(empty.kib) as f64 / topics as f64;
    let measured = Measured::default()
        .with("topics", topics)
        .with("empty", empty)
        .with("idle", idle)
        .with("one topic, KiB", format!("{kib:.1}"));
    assert!(kib < IDLE_TOPIC_MAX_KIB as f64, "{measured}");
    broker.stop();
    measured
}

/// One subscription of a topic with so many partitions gets all that is in them.
///
/// # Panics
///
/// If it does not, or that takes too many descriptors.
#[must_use]
pub fn partitions(partitions: u32) -> Measured {
    let options = Options::default().setting("storage.wal.advanced.cache_capacity", "1MiB");
    let mut broker = Broker::start(options);
    let native = Native::of(&broker);
    let topic = "/default/wide";
    let settings = danube_client::Creation {
        partitions: Some(partitions),
        ..native::creation(Durability::Disk)
    };
    let opening = native.client().producer(topic).expect("the name of a topic");
    let producer = native.wait(opening.create(Some(settings)).open()).expect("it is new");
    let count = partitions as usize * MESSAGES;
    native.send_all(&producer, (0..count).map(|_| message()));
    let opening = native.client().consumer(topic, "s").expect("names").start(Start::Earliest);
    let mut most = Used::of(&broker);
    let mut consumer = native.wait(opening.open()).expect("it is new");
    for taken in 0..count {
        let next = native.wait(consumer.next()).expect("it goes on");
        let Some(Consumed::Message(delivered)) = next else { panic!("{next:?}") };
        consumer.ack(delivered.place);
        if taken % 100 == 0 {
            most = most.max(Used::of(&broker));
        }
    }
    let measured =
        Measured::default().with("partitions", partitions).with("consuming, at most", most);
    assert!(most.descriptors < DESCRIPTORS_MAX && most.kib < RESIDENT_MAX_KIB, "{measured}");
    broker.stop();
    measured
}

/// What a broker has taken.
#[derive(Clone, Copy, Debug)]
struct Used {
    kib: u64,
    descriptors: usize,
}

impl Used {
    fn of(broker: &Broker) -> Self {
        Self { kib: resident_kib(broker), descriptors: descriptors(broker) }
    }

    fn max(self, other: Self) -> Self {
        Self { kib: self.kib.max(other.kib), descriptors: self.descriptors.max(other.descriptors) }
    }
}

impl std::fmt::Display for Used {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MiB, {} descriptors", self.kib >> 10, self.descriptors)
    }
}

/// Does something with each topic, some at a time.
fn each<F: Future<Output = ()> + Send + 'static>(
    native: &Native,
    topics: usize,
    work: impl Fn(Client, String) -> F + Clone + Send + Sync + 'static,
) {
    let workers: Vec<_> = (0..AT_ONCE.min(topics))
        .map(|first| {
            let (client, work) = (native.client().clone(), work.clone());
            native.beside(async move {
                for number in (first..topics).step_by(AT_ONCE) {
                    work(client.clone(), format!("/default/topic-{number}")).await;
                }
            })
        })
        .collect();
    for worker in workers {
        native.wait_at_most(ALL_MAX, worker).expect("a worker does not panic");
    }
}

async fn send(client: &Client, topic: &str, messages: usize) {
    let opening = client.producer(topic).expect("the name of a topic");
    let opening = opening.create(Some(native::creation(Durability::Disk)));
    let producer = opening.open().await.expect("it can be opened");
    let mut deliveries = Vec::new();
    for _ in 0..messages {
        deliveries.push(producer.send(message()).await.expect("a message that can be sent"));
    }
    for delivery in deliveries {
        delivery.await.expect("it is acknowledged");
    }
    producer.close().await.expect("all is acknowledged");
}

async fn read(client: &Client, topic: &str, messages: usize) {
    let opening = client.reader(topic).expect("the name of a topic").start(Start::Earliest);
    let mut reader = opening.open().await.expect("the topic is there");
    let mut count = 0;
    while let Some(item) = reader.next().await.expect("it can be read") {
        match item {
            Item::Message(_) => count += 1,
            Item::CaughtUp { .. } => {}
            other => panic!("{topic}: {other:?}"),
        }
    }
    assert_eq!(count, messages, "{topic}");
}

fn message() -> Message {
    Message { payload: vec![7; MESSAGE_BYTES].into(), ..Message::default() }
}
