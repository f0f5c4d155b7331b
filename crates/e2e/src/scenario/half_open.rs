//! Connections that stay up while nothing passes.

use std::collections::BTreeSet;
use std::time::Duration;

use danube_client::{Client, Durability, Message, SubscriptionType};

use crate::broker::{Broker, Options};
use crate::consume::{self, Did, Journal, Worker};
use crate::forwarder::Forwarder;
use crate::wait::{Stopwatch, pause, within};
use crate::{Measured, Native};

const TOPIC: &str = "/default/half-open";
/// By then the broker has let go of a silent consumer, and a client is back on an open path.
const NOTICE_MAX: Duration = Duration::from_secs(60);
/// How long clients behind the frozen path keep trying, and how long one does that is to fail.
const PATIENCE: Duration = Duration::from_secs(600);
const IMPATIENCE: Duration = Duration::from_secs(5);
/// Messages before the path freezes, while it is frozen, and afterwards.
const MESSAGES: u64 = 100;

/// Freezes the path of two consumers and a producer for so long, or until the broker has noticed if that takes longer. What
/// the one consumer held comes to another that shares its subscription; the second, who has a subscription for itself,
/// gets everything once the path is open; and the producer's message is stored, once. If the path is frozen for at least a
/// minute, a reader that tries for a few seconds only must have failed meanwhile.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn run(frozen: Duration) -> Measured {
    let mut broker = Broker::start(Options::default());
    let forwarder = Forwarder::start(&broker);
    let (native, behind) = (Native::of(&broker), Native::at(forwarder.url()));
    let producer = native.producer(TOPIC, Durability::PageCache);
    let clock = Stopwatch::start();
    let (shared, alone) = (Journal::new(clock), Journal::new(clock));
    let open = |name: &'static str, kind| {
        move |client: &Client| {
            client.consumer(TOPIC, name).expect("names").kind(kind).timeout(PATIENCE)
        }
    };
    let sharing = open("shared", SubscriptionType::Shared);
    let journal = shared.clone();
    let _silent = Worker::start(forwarder.url(), sharing, |mut consumer| async move {
        loop {
            journal.took("silent", &consume::message(&mut consumer).await);
        }
    });
    let prompt = |journal: &Journal| {
        let journal = journal.clone();
        |consumer| consume::prompt("prompt", consumer, journal)
    };
    let _prompt = Worker::start(&broker.url(), sharing, prompt(&shared));
    let _alone =
        Worker::start(forwarder.url(), open("alone", SubscriptionType::Exclusive), prompt(&alone));
    let far_producer = behind.client().producer(TOPIC).expect("names").timeout(PATIENCE);
    let far_producer = behind.wait(far_producer.open()).expect("the topic is there");
    let send = || native.send_all(&producer, (0..MESSAGES).map(|_| Message::default()));
    send();
    reached(&alone, MESSAGES, "message by an open path");
    within(NOTICE_MAX, "message for the silent one", || {
        shared.events().iter().any(|event| event.consumer == "silent").then_some(())
    });

    let reader = behind.client().reader(TOPIC).expect("names").follow(true).timeout(IMPATIENCE);
    let mut reader = behind.wait(reader.open()).expect("the topic can be read");
    behind.wait(reader.next()).expect("the path is open");
    let failing = behind.beside(async move { while reader.next().await.is_ok() {} });

    forwarder.freeze();
    let watch = Stopwatch::start();
    send();
    let sending = behind.beside(async move {
        let delivery = far_producer.send(Message::default()).await;
        delivery.expect("a message that can be sent").await
    });
    within(NOTICE_MAX, "end of what the silent one held", || {
        (acknowledged(&shared).len() as u64 >= 2 * MESSAGES).then_some(())
    });
    let noticed = watch.elapsed();
    if frozen >= NOTICE_MAX {
        behind.wait_at_most(NOTICE_MAX.saturating_sub(noticed), failing).expect("no panic");
    }
    pause(frozen.saturating_sub(watch.elapsed()));
    assert_eq!(acknowledged(&alone).len() as u64, MESSAGES, "the path is frozen");

    forwarder.thaw();
    let watch = Stopwatch::start();
    let receipt = behind.wait_at_most(NOTICE_MAX, sending).expect("no panic");
    receipt.unwrap_or_else(|error| panic!("not acknowledged: {error:?}"));
    send();
    reached(&alone, 3 * MESSAGES + 1, "message by the path that is open again");
    let back = watch.elapsed();
    assert_eq!(native.describe(TOPIC).durable_end.get(), 3 * MESSAGES + 1, "each is stored once");
    broker.stop();
    Measured::default()
        .with("until others had what the silent consumer held, s", noticed.as_secs_f64())
        .with("from the open path until all had come, s", back.as_secs_f64())
}

/// Waits until so many messages were acknowledged.
fn reached(journal: &Journal, messages: u64, what: &str) {
    within(NOTICE_MAX, what, || (acknowledged(journal).len() as u64 >= messages).then_some(()));
}

fn acknowledged(journal: &Journal) -> BTreeSet<u64> {
    let events = journal.events();
    events.iter().filter(|event| event.did == Did::Acked).map(|event| event.offset).collect()
}
