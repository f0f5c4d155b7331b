//! A broker on a file system whose power is cut under load (P1, P3).

use std::time::Duration;

use danube_client::Durability;

use crate::broker::{Broker, Options};
use crate::checker::{self, Expectation, History, Loss};
use crate::load::{Load, Shape};
use crate::scenario::kills::assert_no_panic;
use crate::volume::{Kind, Volume};
use crate::wait::{Stopwatch, pause};
use crate::{Generator, Measured, Native};

/// A cut comes up to this long after the load has been seen to work.
const MOMENT_MAX_MS: u64 = 500;
/// Messages that are acknowledged between two cuts, at the least.
const PROGRESS: u64 = 50;
/// Room for the journal and what is written between cuts. XFS is not made below 300 MiB.
const VOLUME_BYTES: u64 = 768 << 20;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The file system.
    pub kind: Kind,
    /// The level of all topics.
    pub durability: Durability,
    /// How often the power is cut.
    pub cuts: usize,
    /// Where the moments come from.
    pub seed: u64,
}

/// Cuts the power under a broker that is under load, mounts what is left and starts it again. What was acknowledged at
/// `disk` is there; what `page_cache` lost lies in explicit gaps, and no offset is used twice.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn run(extent: Extent) -> Measured {
    let Extent { kind, durability, cuts, seed } = extent;
    let chance = Generator::new(seed);
    let history = History::new(chance.next());
    let mut volume = Volume::new(kind, VOLUME_BYTES);
    // What page_cache syncs behind the acknowledgement must not hide what a cut takes.
    let options = Options::default()
        .data_dir(volume.path().join("data"))
        .setting("storage.wal.advanced.file_sync.interval_ms", "60000");
    let mut broker = Broker::start(options);
    let native = Native::of(&broker);
    let mut shape = Shape::of(durability);
    // What a cut took may never be stored: producers then begin anew, soon.
    shape.timeout = Duration::from_secs(20);
    let load = Load::start(&broker, &history, "p", &shape);
    let mut starting_ms = Vec::new();
    for _ in 0..cuts {
        load.progress(PROGRESS);
        pause(Duration::from_millis(chance.below(MOMENT_MAX_MS)));
        history.fault("power cut");
        volume.cut();
        broker.kill9();
        volume.remount();
        let watch = Stopwatch::start();
        broker.restart();
        starting_ms.push(watch.elapsed().as_millis());
    }
    load.progress(PROGRESS);
    let acknowledged = load.stop();
    let drains = native.drains(&history, &shape.topics);
    let gaps: usize = drains.values().map(|drain| drain.gaps.len()).sum();
    let loss = if durability.waits_for_disk() { Loss::Forbidden } else { Loss::InGaps };
    let expectation = Expectation { loss, ok_min: 100, faults_min: cuts, ..Expectation::default() };
    let verdict = checker::check(&history.events(), &drains, expectation);
    verdict.assert_good();
    let is_lossless = gaps == 0;
    assert_eq!(is_lossless, durability.waits_for_disk(), "{gaps} gaps at {durability:?}");
    broker.stop();
    assert_no_panic(&broker);
    drop(broker);
    Measured::default()
        .with("acknowledged messages", acknowledged)
        .with("unknown messages", verdict.counts.unknown)
        .with("cuts", cuts)
        .with("gaps", gaps)
        .with("longest start, ms", starting_ms.iter().max().unwrap_or(&0))
}
