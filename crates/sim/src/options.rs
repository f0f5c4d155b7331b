//! What a seed chooses for its world.

use std::fmt;
use std::time::Duration;

use danube_env::sim::Generator;
use danube_log::Config;

use crate::faults::LOG_PARTS;

/// Where the hot tier is, on the simulated machine.
pub const ROOT: &str = "/wal";

/// Size of a volume that never fills.
pub const LARGE_VOLUME: u64 = 1 << 40;

/// The world of one seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// What all of it follows from.
    pub seed: u64,
    /// Processes, one after the other, before the faults end.
    pub lives: u64,
    /// Topics.
    pub topics: usize,
    /// Which levels they are opened at.
    pub levels: Levels,
    /// Producers of each topic.
    pub producers: u64,
    /// Batches that each of them sends in a life, at most.
    pub batches: u64,
    /// Batches that each has in flight, at most.
    pub depth: u64,
    /// Records of a batch, at most.
    pub records_max: u64,
    /// How large values are.
    pub values: Values,
    /// Readers of each topic.
    pub readers: u64,
    /// Openings, closings and deletions in a life, at most.
    pub acts: u64,
    /// How often the front of a log goes in a life, at most.
    pub trims: u64,
    /// By how much the ceiling of offsets rises.
    pub ceiling_step: u64,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Which faults there are.
    pub faults: Faults,
    /// Settings of the store.
    pub config: Config,
    /// How slow the machine is between two calls of its disk, at most.
    pub latency_max: Duration,
}

/// Which levels topics are opened at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// All at `disk`.
    Disk,
    /// All at `page_cache`.
    PageCache,
    /// Each by chance, and again at each opening.
    Any,
}

/// How large values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Empty, or some bytes.
    Tiny,
    /// Mostly below a block.
    Small,
    /// Anything, up to what no round takes.
    Any,
}

/// Which faults there are; each number is the chance of one in so many lives, 0 never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Crashes leave the page cache.
    pub kill: u64,
    /// The power goes.
    pub power_cut: u64,
    /// The volume is taken away and attached again.
    pub remount: u64,
    /// Lives that end as they should.
    pub clean_stop: u64,
    /// A sync fails, and lies after it.
    pub failed_sync: u64,
    /// Writes fail now and then.
    pub failed_write: u64,
    /// Other operations fail now and then.
    pub failed_other: u64,
    /// Others use up the volume.
    pub no_space: u64,
    /// Clean pages are dropped from the page cache.
    pub eviction: u64,
    /// The wall clock jumps.
    pub clock: u64,
    /// Bits on the disk change, while all is synced.
    pub rot: u64,
    /// Which files errors of the disk may be about, by parts of their paths.
    pub parts: &'static [&'static str],
}

impl Options {
    /// What `seed` chooses.
    pub fn new(seed: u64) -> Self {
        let random = Generator::derive(seed, "options");
        let retention = Generator::derive(seed, "retention");
        let pick = |values: &[u64]| values[random.below(values.len() as u64) as usize];
        let levels = [Levels::Disk, Levels::Any, Levels::Any, Levels::PageCache];
        let values = [Values::Tiny, Values::Small, Values::Small, Values::Any];
        Self {
            seed,
            lives: 2 + random.below(5),
            topics: pick(&[1, 2, 3, 6]) as usize,
            levels: levels[random.below(4) as usize],
            producers: pick(&[1, 1, 2, 3]),
            batches: pick(&[4, 12, 30]),
            depth: pick(&[1, 2, 6]),
            records_max: pick(&[1, 3, 20]),
            values: values[random.below(4) as usize],
            readers: pick(&[0, 1, 1, 2]),
            acts: pick(&[0, 2, 6]),
            trims: [0, 0, 3, 12][retention.below(4) as usize],
            ceiling_step: pick(&[64, 1000, 1 << 32]),
            volume_bytes: pick(&[LARGE_VOLUME, LARGE_VOLUME, LARGE_VOLUME, 2 << 20]),
            faults: Faults::new(&random),
            config: config(&random),
            latency_max: Duration::from_micros(pick(&[0, 0, 0, 100, 2_000])),
        }
    }

    /// After so long what was written at `page_cache` is synced: an interval, and the time that a sync takes.
    pub fn loss_window(&self) -> Duration {
        self.config.page_cache_sync + 100 * self.latency_max + Duration::from_millis(1)
    }
}

impl Faults {
    fn new(random: &Generator) -> Self {
        let chance = |of: &[u64]| of[random.below(of.len() as u64) as usize];
        Self {
            kill: 1 + random.below(4),
            power_cut: random.below(4),
            remount: random.below(3),
            clean_stop: random.below(2),
            failed_sync: chance(&[0, 0, 2, 3]),
            failed_write: chance(&[0, 0, 0, 3]),
            failed_other: chance(&[0, 0, 0, 3]),
            no_space: chance(&[0, 0, 0, 3]),
            eviction: chance(&[0, 0, 3]),
            clock: chance(&[0, 2]),
            rot: chance(&[0, 0, 0, 0, 2]),
            parts: LOG_PARTS,
        }
    }
}

/// Everything small, so that journals wrap, segments roll and checkpoints come often.
fn config(random: &Generator) -> Config {
    let pick = |values: &[u64]| values[random.below(values.len() as u64) as usize];
    let milliseconds = |values: &[u64]| Duration::from_millis(pick(values));
    Config {
        journal_bytes: pick(&[256 << 10, 256 << 10, 512 << 10, 1 << 20]),
        round_bytes: pick(&[2 << 10, 16 << 10, 64 << 10]),
        queue_bytes: pick(&[4 << 10, 32 << 10, 1 << 20]),
        tail_bytes: pick(&[4 << 10, 16 << 10, 64 << 10, 1 << 20]),
        segment_bytes: pick(&[2 << 10, 8 << 10, 64 << 10]),
        segment_age: milliseconds(&[500, 3_600_000]),
        segment_worth_bytes: pick(&[1 << 10, 1 << 20]),
        segment_age_max: milliseconds(&[2_000, 3_600_000]),
        page_cache_sync: milliseconds(&[5, 100, 1_000]),
        quiet_sync: milliseconds(&[2, 100]),
        checkpoint_bytes: pick(&[8 << 10, 48 << 10, 128 << 10]),
        space_check: milliseconds(&[20, 1_000]),
        open_files_max: pick(&[1, 4, 1_024]) as usize,
        ..Config::new(ROOT)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}
