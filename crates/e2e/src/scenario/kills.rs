//! A broker that is killed or stopped under load, again and again (P1, P3).

use std::time::Duration;

use danube_client::{Durability, Item, Start};

use crate::broker::{Broker, Options};
use crate::checker::{self, Expectation, History};
use crate::load::{Load, Shape};
use crate::wait::{Stopwatch, pause};
use crate::{Generator, Measured, Native};

/// A fault comes up to this long after the load has been seen to work.
const MOMENT_MAX_MS: u64 = 1000;
/// Messages that are acknowledged between two faults, at the least.
const PROGRESS: u64 = 20;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The level of all topics.
    pub durability: Durability,
    /// Rounds that end in `SIGKILL`.
    pub kills: usize,
    /// Rounds that end in `SIGTERM`.
    pub stops: usize,
    /// Where the moments come from.
    pub seed: u64,
}

/// Kills and stops a broker under load from idempotent producers, in random order at random moments. In the end every
/// acknowledged message is at its offset, once, and offsets are dense. A stop ends in less than 3 s with exit code 0
/// although a reader waits for more.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn run(extent: Extent) -> Measured {
    let Extent { durability, kills, stops, seed } = extent;
    let chance = Generator::new(seed);
    let history = History::new(chance.next());
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let shape = Shape::of(durability);
    let load = Load::start(&broker, &history, "p", &shape);
    let (mut kills_left, mut stops_left) = (kills, stops);
    let (mut stopping_ms, mut starting_ms) = (Vec::new(), Vec::new());
    while kills_left + stops_left > 0 {
        load.progress(PROGRESS);
        let is_kill = chance.below((kills_left + stops_left) as u64) < kills_left as u64;
        let reader = native.beside(follow(native.client().clone(), shape.topics[0].clone()));
        pause(Duration::from_millis(chance.below(MOMENT_MAX_MS)));
        if is_kill {
            history.fault("SIGKILL");
            broker.kill9();
            kills_left -= 1;
        } else {
            history.fault("SIGTERM");
            let watch = Stopwatch::start();
            broker.stop();
            stopping_ms.push(watch.elapsed().as_millis());
            stops_left -= 1;
        }
        reader.abort();
        let watch = Stopwatch::start();
        broker.restart();
        starting_ms.push(watch.elapsed().as_millis());
    }
    load.progress(PROGRESS);
    let acknowledged = load.stop();
    let drains = native.drains(&history, &shape.topics);
    let expectation =
        Expectation { ok_min: 100, faults_min: kills + stops, ..Expectation::default() };
    let verdict = checker::check(&history.events(), &drains, expectation);
    verdict.assert_good();
    broker.stop();
    assert_no_panic(&broker);
    Measured::default()
        .with("acknowledged messages", acknowledged)
        .with("unknown messages", verdict.counts.unknown)
        .with("kills", kills)
        .with("stops", stops)
        .with("longest start under load, ms", starting_ms.iter().max().unwrap_or(&0))
        .with("longest stop under load, ms", stopping_ms.iter().max().unwrap_or(&0))
}

/// Reads and waits for more, until the broker goes.
async fn follow(client: danube_client::Client, topic: String) {
    let reader = client.reader(&topic).expect("the name of a topic").start(Start::Latest);
    let Ok(mut reader) = reader.follow(true).open().await else { return };
    while let Ok(Some(item)) = reader.next().await {
        debug_assert!(!matches!(item, Item::Damage { .. }), "damaged: {item:?}");
    }
}

/// No task of a broker may have panicked.
///
/// # Panics
///
/// If one did.
pub fn assert_no_panic(broker: &Broker) {
    let log = broker.log();
    let said = log.lines().find(|line| line.contains("panicked"));
    assert!(said.is_none(), "{said:?} in\n{log}");
}
