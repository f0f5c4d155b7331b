//! One message that is late.

use std::collections::BTreeMap;
use std::time::Duration;

use danube_client::{Consumer, Durability, Message, SubscriptionType};
use tokio::sync::watch;

use crate::broker::{Broker, Options};
use crate::consume::{self, Did, Journal, Worker};
use crate::wait::{Stopwatch, pause, within};
use crate::{Measured, Native};

const TOPIC: &str = "/default/late";
const MESSAGES: u64 = 200;
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long the first message is held, by everyone who gets it.
const HELD: Duration = Duration::from_secs(7);

/// Lets two consumers acknowledge everything at once but the first message. That one comes again, once per time-out, and
/// every other message once.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn run() -> Measured {
    let timeout = TIMEOUT.as_millis().to_string();
    let options = Options::default().setting("dispatch.failure_policy.ack_timeout_ms", &timeout);
    let mut broker = Broker::start(options);
    let native = Native::of(&broker);
    let producer = native.producer(TOPIC, Durability::PageCache);
    let journal = Journal::new(Stopwatch::start());
    let (release, released) = watch::channel(false);
    let _workers = ["a", "b"].map(|name| {
        let (journal, released) = (journal.clone(), released.clone());
        let opening = |client: &danube_client::Client| {
            let opening = client.consumer(TOPIC, "s").expect("names");
            opening.kind(SubscriptionType::Shared).prefetch(100)
        };
        Worker::start(&broker.url(), opening, |consumer| work(name, consumer, journal, released))
    });
    native.send_all(&producer, (0..MESSAGES).map(|_| Message::default()));
    within(Duration::from_secs(5), "first message", || journal.taken_at(0));
    pause(HELD);
    release.send_replace(true);
    within(Duration::from_secs(5), "end", || (native.floor(TOPIC, "s") == MESSAGES).then_some(()));
    broker.stop();
    let mut taken: BTreeMap<u64, Vec<Duration>> = BTreeMap::new();
    for event in journal.events().iter().filter(|event| event.did == Did::Took) {
        taken.entry(event.offset).or_default().push(event.at);
    }
    let first = taken.remove(&0).expect("it was waited for");
    assert_eq!(first.len() as u64, 1 + HELD.as_secs() / TIMEOUT.as_secs(), "{first:?}");
    // Handing it over takes a moment, which is not always as long.
    let gap = first.windows(2).map(|pair| pair[1] - pair[0]).min().expect("it came again");
    assert!(gap > TIMEOUT * 9 / 10, "{first:?}");
    let others: Vec<_> = taken.iter().filter(|(_, times)| times.len() > 1).collect();
    assert!(others.is_empty(), "these came again: {others:?}");
    assert_eq!(taken.len() as u64, MESSAGES - 1);
    Measured::default()
        .with("deliveries of the late message", first.len())
        .with("shortest time between two, s", gap.as_secs_f64())
}

/// Acknowledges everything at once but the first message.
async fn work(
    name: &'static str,
    mut consumer: Consumer,
    journal: Journal,
    mut released: watch::Receiver<bool>,
) {
    let mut held = Vec::new();
    loop {
        tokio::select! {
            delivered = consume::message(&mut consumer) => {
                journal.took(name, &delivered);
                let (offset, place) = (delivered.received.offset.get(), delivered.place);
                match offset {
                    0 => held.push(place),
                    _ => journal.ack(name, &consumer, offset, place),
                }
            }
            _ = released.wait_for(|released| *released), if !held.is_empty() => {
                held.drain(..).for_each(|place| journal.ack(name, &consumer, 0, place));
            }
        }
    }
}
