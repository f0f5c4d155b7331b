//! Setting a subscription back while its consumer acknowledges.

use std::collections::BTreeMap;
use std::time::Duration;

use danube_client::{Client, Consumer, Durability, Message, Offset, Place, Start};
use tokio::sync::watch;

use crate::broker::{Broker, Options};
use crate::consume::{self, Did, Journal, Worker};
use crate::wait::{Stopwatch, pause, within};
use crate::{Measured, Native};

const MESSAGES: u64 = 1000;
/// What the consumer has acknowledged before the subscription is set back, and to where that is.
const ACKED: u64 = 900;
const TARGET: u64 = 100;
/// A consumer that is there gets what it was set back to within this time.
const BACK_MAX: Duration = Duration::from_secs(5);

/// Sets a subscription back while its consumer acknowledges what it holds, and kills the broker as soon as that is answered;
/// and again without the kill, when acknowledgements come even later. The consumer gets everything from there on, the first
/// first.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn run(rounds: usize) -> Measured {
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let mut slowest = Duration::ZERO;
    for number in 0..rounds {
        let topic = format!("/default/kept-{number}");
        slowest = slowest.max(attached(&broker, &native, &topic));
        killed(&mut broker, &native, &format!("/default/killed-{number}"));
    }
    broker.stop();
    Measured::default()
        .with("rounds with a kill and without", rounds)
        .with("slowest first message after it, ms", slowest.as_secs_f64() * 1e3)
}

/// A consumer that has everything and has acknowledged most of it.
struct Busy {
    journal: Journal,
    worker: Worker,
    go_on: watch::Sender<bool>,
}

impl Busy {
    fn start(broker: &Broker, native: &Native, topic: &str) -> Self {
        let producer = native.producer(topic, Durability::PageCache);
        let journal = Journal::new(Stopwatch::start());
        let (go_on, goes_on) = watch::channel(false);
        let work = |consumer| work(consumer, journal.clone(), goes_on);
        let worker = Worker::start(&broker.url(), opening(topic), work);
        native.send_all(&producer, (0..MESSAGES).map(|_| Message::default()));
        within(Duration::from_secs(10), "last message", || journal.taken_at(MESSAGES - 1));
        Self { journal, worker, go_on }
    }
}

fn opening(topic: &str) -> impl Fn(&Client) -> danube_client::ConsumerBuilder {
    move |client| client.consumer(topic, "s").expect("names")
}

/// Acknowledges at once what comes below [`ACKED`], or for the second time. What it holds it acknowledges when it is told to
/// go on, one by one, and all once more when something has come again.
async fn work(mut consumer: Consumer, journal: Journal, mut goes_on: watch::Receiver<bool>) {
    let mut held: BTreeMap<u64, Place> = BTreeMap::new();
    let mut is_told = false;
    loop {
        tokio::select! {
            delivered = consume::message(&mut consumer) => {
                journal.took("c", &delivered);
                let (offset, place) = (delivered.received.offset.get(), delivered.place);
                if is_told {
                    held.values().for_each(|place| consumer.ack(*place));
                    held.clear();
                }
                if offset < ACKED || is_told {
                    journal.ack("c", &consumer, offset, place);
                } else {
                    held.insert(offset, place);
                }
            }
            _ = goes_on.wait_for(|goes_on| *goes_on), if !is_told => {
                is_told = true;
                for place in held.values() {
                    consumer.ack(*place);
                    pause(Duration::from_micros(200));
                }
            }
        }
    }
}

/// Sets the subscription back.
fn seek(native: &Native, topic: &str) {
    let (topic, subscription) = (topic.parse().expect("a name"), "s".parse().expect("a name"));
    let to = Start::Offset(Offset::new(TARGET));
    let admin = native.client().admin();
    native.wait(admin.seek_subscription(&topic, &subscription, to)).expect("it is there");
}

/// Without a kill. Returns how long the first message took.
fn attached(broker: &Broker, native: &Native, topic: &str) -> Duration {
    let busy = Busy::start(broker, native, topic);
    busy.go_on.send_replace(true);
    let before = busy.journal.events().len();
    seek(native, topic);
    let watch = Stopwatch::start();
    within(BACK_MAX, "message after the seek", || {
        (busy.journal.events().len() > before).then_some(())
    });
    let took = watch.elapsed();
    within(Duration::from_secs(10), "end", || (native.floor(topic, "s") == MESSAGES).then_some(()));
    let events = busy.journal.events();
    let again = events[before..].iter().filter(|event| event.did == Did::Took);
    let again: Vec<_> = again.map(|event| event.offset).collect();
    assert!(again.iter().copied().eq(TARGET..MESSAGES), "not all came again: {again:?}");
    took
}

/// With a kill as soon as it is answered.
fn killed(broker: &mut Broker, native: &Native, topic: &str) {
    let busy = Busy::start(broker, native, topic);
    busy.go_on.send_replace(true);
    seek(native, topic);
    broker.kill9();
    drop(busy.worker);
    broker.restart();
    let journal = Journal::new(Stopwatch::start());
    let work = |consumer| consume::prompt("c", consumer, journal.clone());
    let _worker = Worker::start(&broker.url(), opening(topic), work);
    within(Duration::from_secs(10), "last message", || journal.taken_at(MESSAGES - 1));
    let events = journal.events();
    let taken = events.iter().filter(|event| event.did == Did::Took).map(|event| event.offset);
    assert!(taken.eq(TARGET..MESSAGES), "it begins elsewhere: {:?}", events.first());
}
