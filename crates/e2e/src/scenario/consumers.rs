//! A broker that is killed under consumers of all types (P4).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use danube_client::{Consumer, Durability, Place, Start, SubscriptionType};

use super::kills::assert_no_panic;
use crate::broker::{Broker, Options};
use crate::checker::{self, Expectation, History};
use crate::consume::{self, Did, Event, Journal, Worker};
use crate::load::{Load, Shape};
use crate::native::Native;
use crate::wait::{Stopwatch, pause, within};
use crate::{Generator, Measured};

const TOPIC: &str = "/default/consumers";
/// From an acknowledgement until it can't be lost any more: the default interval in which cursors are saved, and a margin.
const SAVING_MAX: Duration = Duration::from_secs(2);
/// By then a client has noticed that its connection broke.
const NOTICE_MAX: Duration = Duration::from_secs(1);
/// After a restart each consumer that can have messages gets some within this time.
const STALL_MAX: Duration = Duration::from_secs(10);
/// A kill comes this long after the earliest moment at which acknowledgements are safe, at most.
const MOMENT_MAX_MS: u64 = 1000;
/// Even offsets that the consumer of `odd` holds back.
const HELD: usize = 100;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Rounds that end in `SIGKILL`.
    pub kills: usize,
    /// How often cursors are saved; at most the default.
    pub flush_interval: Duration,
    /// Where the moments come from.
    pub seed: u64,
}

/// In what order messages come for the first time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Offset,
    Key,
    Any,
}

/// A subscription, and the filters of each of its consumers.
struct Subscription {
    name: &'static str,
    kind: SubscriptionType,
    order: Order,
    consumers: &'static [(&'static str, &'static [&'static str])],
}

/// Of `odd` odd offsets are acknowledged at once, and even ones late.
const SUBSCRIPTIONS: [Subscription; 6] = [
    Subscription {
        name: "exclusive",
        kind: SubscriptionType::Exclusive,
        order: Order::Offset,
        consumers: &[("a", &[])],
    },
    Subscription {
        name: "odd",
        kind: SubscriptionType::Exclusive,
        order: Order::Offset,
        consumers: &[("a", &[])],
    },
    Subscription {
        name: "failover",
        kind: SubscriptionType::Failover,
        order: Order::Offset,
        consumers: &[("a", &[]), ("b", &[])],
    },
    Subscription {
        name: "shared",
        kind: SubscriptionType::Shared,
        order: Order::Any,
        consumers: &[("a", &[]), ("b", &[])],
    },
    // Together they take every key while any of them is there.
    Subscription {
        name: "keys",
        kind: SubscriptionType::KeyShared,
        order: Order::Key,
        consumers: &[("a", &[]), ("b", &["*"]), ("c", &["k?", "k1?", "k2?"])],
    },
    Subscription {
        name: "filtered",
        kind: SubscriptionType::KeyShared,
        order: Order::Key,
        consumers: &[("a", &["k1*"])],
    },
];
const KEYS: u64 = 24;

/// When a broker was killed, when it had gone, and when it was up again.
#[derive(Clone, Copy)]
struct Fault {
    killed: Duration,
    gone: Duration,
    up: Duration,
}

/// Whether an acknowledgement may be unknown when the message comes again.
fn may_be_lost(faults: &[Fault], acked: Duration, taken: Duration) -> bool {
    faults.iter().any(|fault| {
        let is_saved = acked + SAVING_MAX < fault.killed;
        !is_saved && acked < fault.up + NOTICE_MAX && taken > fault.killed
    })
}

/// Whether an acknowledgement comes too late for the delivery that it is for.
fn is_void(faults: &[Fault], taken: Duration, acked: Duration) -> bool {
    faults.iter().any(|fault| taken < fault.killed && acked > fault.gone)
}

/// Kills a broker under four producers and the consumers of six subscriptions. Every message comes to each of them, in its
/// order, and is acknowledged; what was acknowledged before the cursors were last saved never comes again, in whatever order
/// it was; and after each start nobody waits for ever.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn run(extent: Extent) -> Measured {
    let chance = Generator::new(extent.seed);
    let history = History::new(chance.next());
    let interval = format!("{}ms", extent.flush_interval.as_millis());
    let options = Options::default()
        .setting("dispatch.cursor_flush_interval", &interval)
        // Who holds back even offsets is not late.
        .setting("dispatch.failure_policy.ack_timeout_ms", "0");
    let mut broker = Broker::start(options);
    let native = Native::of(&broker);
    drop(native.producer(TOPIC, Durability::PageCache));
    let clock = Stopwatch::start();
    let draining = Arc::new(AtomicBool::new(false));
    let journals = SUBSCRIPTIONS.each_ref().map(|_| Journal::new(clock));
    let workers = start(&broker, &journals, &draining);
    let load = Load::start(&broker, &history, "p", &shape());
    let mut faults = Vec::new();
    for _ in 0..extent.kills {
        pause(SAVING_MAX + NOTICE_MAX + Duration::from_millis(chance.below(MOMENT_MAX_MS)));
        let killed = clock.elapsed();
        history.fault("SIGKILL");
        broker.kill9();
        let gone = clock.elapsed();
        broker.restart();
        faults.push(Fault { killed, gone, up: clock.elapsed() });
        progress(&journals, clock.elapsed());
    }
    let acknowledged = load.stop();
    draining.store(true, Ordering::Relaxed);
    let end = native.describe(TOPIC).durable_end.get();
    settled(&native, end);
    drop(workers);
    let drains = native.drains(&history, &[TOPIC.to_owned()]);
    let expectation =
        Expectation { ok_min: 100, faults_min: extent.kills, ..Expectation::default() };
    checker::check(&history.events(), &drains, expectation).assert_good();
    broker.stop();
    assert_no_panic(&broker);
    let again = check(&journals, &faults, end);
    Measured::default()
        .with("acknowledged messages", acknowledged)
        .with("kills", extent.kills)
        .with("messages that came again, of all subscriptions", again)
}

fn shape() -> Shape {
    Shape {
        producers: 4,
        topics: vec![TOPIC.to_owned()],
        in_flight: 1,
        keys: KEYS,
        pause: Duration::from_millis(2),
        ..Shape::of(Durability::PageCache)
    }
}

fn start(broker: &Broker, journals: &[Journal], draining: &Arc<AtomicBool>) -> Vec<Worker> {
    let url = broker.url();
    let mut workers = Vec::new();
    for (subscription, journal) in SUBSCRIPTIONS.iter().zip(journals) {
        for (name, filters) in subscription.consumers {
            let opening = |client: &danube_client::Client| {
                let opening = client.consumer(TOPIC, subscription.name).expect("names");
                let filters = filters.iter().map(|filter| (*filter).to_owned()).collect();
                let name = Some(name.parse().expect("a name"));
                opening.kind(subscription.kind).name(name).filters(filters).start(Start::Earliest)
            };
            let journal = journal.clone();
            workers.push(match subscription.name {
                "odd" => {
                    let draining = Arc::clone(draining);
                    let work = |consumer| odd_first(name, consumer, journal, draining);
                    Worker::start(&url, opening, work)
                }
                _ => {
                    let work = |consumer| consume::prompt(name, consumer, journal);
                    Worker::start(&url, opening, work)
                }
            });
        }
    }
    workers
}

/// Acknowledges odd offsets at once, and even ones when more than [`HELD`] wait, or nothing comes at the end. Of those that
/// come again it acknowledges the new delivery: they come from the lowest on.
async fn odd_first(
    name: &'static str,
    mut consumer: Consumer,
    journal: Journal,
    draining: Arc<AtomicBool>,
) {
    let mut held: BTreeMap<u64, Place> = BTreeMap::new();
    loop {
        let next = consume::message(&mut consumer);
        let mut held_max = HELD;
        match tokio::time::timeout(Duration::from_millis(100), next).await {
            Ok(delivered) => {
                journal.took(name, &delivered);
                let (offset, place) = (delivered.received.offset.get(), delivered.place);
                match offset % 2 {
                    0 => drop(held.insert(offset, place)),
                    _ => journal.ack(name, &consumer, offset, place),
                }
            }
            Err(_) if draining.load(Ordering::Relaxed) => held_max = 0,
            Err(_) => {}
        }
        while held.len() > held_max {
            let (offset, place) = held.pop_first().expect("it is not empty");
            journal.ack(name, &consumer, offset, place);
        }
    }
}

/// Waits until everyone has got something after a moment; of a failover subscription, one.
fn progress(journals: &[Journal], after: Duration) {
    for (subscription, journal) in SUBSCRIPTIONS.iter().zip(journals) {
        let least = match subscription.kind {
            SubscriptionType::Failover => 1,
            _ => subscription.consumers.len(),
        };
        let what = format!("progress of {}", subscription.name);
        within(STALL_MAX, &what, || {
            let events = journal.events();
            let recent = events.iter().rev().take_while(|event| event.at > after);
            let who: BTreeSet<_> = recent.map(|event| event.consumer).collect();
            (who.len() >= least).then_some(())
        });
    }
}

/// Waits until all subscriptions have settled everything.
fn settled(native: &Native, end: u64) {
    for subscription in &SUBSCRIPTIONS {
        within(Duration::from_secs(60), &format!("end of {}", subscription.name), || {
            (native.floor(TOPIC, subscription.name) == end).then_some(())
        });
    }
}

/// Checks what came to whom. Returns how many messages came again.
fn check(journals: &[Journal], faults: &[Fault], end: u64) -> u64 {
    let keys: HashMap<u64, String> = {
        let events = journals[0].events();
        let taken = events.iter().filter(|event| event.did == Did::Took);
        taken.map(|event| (event.offset, event.key.clone())).collect()
    };
    let mut again = 0;
    for (subscription, journal) in SUBSCRIPTIONS.iter().zip(journals) {
        let events = journal.events();
        let found = replay(subscription, &events, faults);
        let is_for_it =
            |offset: &u64| subscription.name != "filtered" || keys[offset].starts_with("k1");
        let expected: BTreeSet<u64> = (0..end).filter(is_for_it).collect();
        let missing: Vec<_> = expected.difference(&found.settled).take(10).collect();
        assert!(missing.is_empty(), "{} has not got, or not kept, {missing:?}", subscription.name);
        assert_eq!(found.settled.len(), expected.len(), "{} got too much", subscription.name);
        if subscription.name == "odd" {
            let least = faults.len() as u64 * HELD as u64 / 2;
            assert!(found.even_again >= least, "only {} came again", found.even_again);
        }
        again += found.again;
    }
    again
}

#[derive(Default)]
struct Found {
    /// What was acknowledged and has not come again since.
    settled: BTreeSet<u64>,
    again: u64,
    even_again: u64,
}

/// A message, as far as events were gone through.
struct Message {
    taken: Duration,
    acked: Option<Duration>,
}

/// Goes through what happened in one subscription.
fn replay(subscription: &Subscription, events: &[Event], faults: &[Fault]) -> Found {
    let Subscription { name, order, .. } = *subscription;
    let mut found = Found::default();
    let mut messages: HashMap<u64, Message> = HashMap::new();
    let mut highest: HashMap<&str, u64> = HashMap::new();
    for event in events {
        let Event { at, offset, .. } = *event;
        if event.did == Did::Acked {
            let message = messages.get_mut(&offset).expect("it was taken before");
            if !is_void(faults, message.taken, at) {
                message.acked = Some(at);
                found.settled.insert(offset);
            }
            continue;
        }
        let Some(before) = messages.insert(offset, Message { taken: at, acked: None }) else {
            let lane = if order == Order::Key { &*event.key } else { "" };
            let before = highest.insert(lane, offset);
            let rises = order == Order::Any || before.is_none_or(|before| before < offset);
            assert!(rises, "{name}: {offset} after {before:?}");
            continue;
        };
        if let Some(acked) = before.acked {
            let is_lost = may_be_lost(faults, acked, at);
            assert!(is_lost, "{name}: {offset} was acknowledged at {acked:?} and came at {at:?}");
        }
        found.again += 1;
        found.even_again += u64::from(offset % 2 == 0);
        found.settled.remove(&offset);
    }
    found
}
