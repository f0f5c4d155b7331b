//! Consumers that come and go while a key-shared subscription is busy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use danube_client::{
    Client, Consumer, ConsumerBuilder, Durability, Message, SubscriptionType, Text,
};
use tokio::sync::watch;

use crate::broker::{Broker, Options};
use crate::consume::{self, Did, Event, Journal, Worker};
use crate::wait::{Stopwatch, pause, within};
use crate::{Measured, Native};

const MESSAGES: u64 = 1000;
const KEYS: u64 = 10;
/// How long one message is worked at by the first consumer.
const WORK: Duration = Duration::from_millis(1);
/// All is handled by then.
const ROUND_MAX: Duration = Duration::from_secs(30);

/// In each round a consumer holds half of all messages without handling them, another comes, the first begins, a third comes,
/// and the first is killed. Of each key messages are handled in their order, none while somebody else has an earlier one; and
/// everyone has something to do.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn run(rounds: usize) -> Measured {
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let watch = Stopwatch::start();
    let mut again = 0;
    for number in 0..rounds {
        let (events, killed) = round(&broker, &native, &format!("/default/swap-{number}"));
        again += check(&events, killed);
    }
    broker.stop();
    Measured::default()
        .with("rounds", rounds)
        .with("messages handled again after the kill", again)
        .with("a round, s", watch.elapsed().as_secs_f64() / rounds as f64)
}

/// What happened, and when the first consumer was killed.
fn round(broker: &Broker, native: &Native, topic: &str) -> (Vec<Event>, Duration) {
    let clock = Stopwatch::start();
    let journal = Journal::new(clock);
    let (begin, begun) = watch::channel(false);
    let open = |name: &'static str, prefetch| {
        move |client: &Client| -> ConsumerBuilder {
            let opening = client.consumer(topic, "s").expect("names").prefetch(prefetch);
            opening.kind(SubscriptionType::KeyShared).name(Some(name.parse().expect("a name")))
        }
    };
    let start = |name, prefetch| {
        let work = |consumer| consume::prompt(name, consumer, journal.clone());
        Worker::start(&broker.url(), open(name, prefetch), work)
    };
    let producer = native.producer(topic, Durability::PageCache);
    let work = |consumer| slowly("c1", consumer, journal.clone(), begun);
    let first = Worker::start(&broker.url(), open("c1", MESSAGES / 2), work);
    native.send_all(&producer, (0..MESSAGES / 2).map(keyed));
    let _second = start("c2", 1);
    native.send_all(&producer, (MESSAGES / 2..MESSAGES).map(keyed));
    begin.send_replace(true);
    handled(&journal, MESSAGES * 7 / 10);
    let _third = start("c3", 1);
    handled(&journal, MESSAGES * 8 / 10);
    let killed = clock.elapsed();
    drop(first);
    handled(&journal, MESSAGES);
    let events = journal.events().clone();
    (events, killed)
}

fn keyed(number: u64) -> Message {
    let key = Text::new(format!("key-{}", number % KEYS).into());
    Message { key, ..Message::default() }
}

/// Waits until so many messages were handled by anyone.
fn handled(journal: &Journal, messages: u64) {
    within(ROUND_MAX, "further message", || {
        let events = journal.events();
        let acked = events.iter().filter(|event| event.did == Did::Acked);
        let offsets: BTreeSet<_> = acked.map(|event| event.offset).collect();
        (offsets.len() as u64 >= messages).then_some(())
    });
}

/// Takes nothing until it is told to, and then needs some time for each message.
async fn slowly(
    name: &'static str,
    mut consumer: Consumer,
    journal: Journal,
    mut begun: watch::Receiver<bool>,
) {
    begun.wait_for(|begun| *begun).await.expect("the round goes on");
    loop {
        let delivered = consume::message(&mut consumer).await;
        journal.took(name, &delivered);
        pause(WORK);
        journal.ack(name, &consumer, delivered.received.offset.get(), delivered.place);
    }
}

/// Checks a round. Returns how many messages were taken more than once.
fn check(events: &[Event], killed: Duration) -> usize {
    let mut highest: HashMap<&str, u64> = HashMap::new();
    let mut seen = BTreeSet::new();
    let mut again = 0;
    let mut held: BTreeMap<u64, &Event> = BTreeMap::new();
    for event in events {
        let Event { at, offset, consumer, ref key, did } = *event;
        if did == Did::Acked {
            held.remove(&offset);
            continue;
        }
        let earlier = held.range(..offset).map(|(_, earlier)| *earlier).find(|earlier| {
            let is_gone = earlier.consumer == "c1" && at >= killed;
            earlier.key == *key && earlier.consumer != consumer && !is_gone
        });
        assert!(earlier.is_none(), "{event:?} while {earlier:?} is not acknowledged");
        held.insert(offset, event);
        if seen.insert(offset) {
            let before = highest.insert(key, offset);
            assert!(before.is_none_or(|before| before < offset), "{event:?} after {before:?}");
        } else {
            again += 1;
        }
    }
    let busy: BTreeSet<_> = events.iter().map(|event| event.consumer).collect();
    assert_eq!(busy.len(), 3, "only {busy:?} had something to do");
    again
}
