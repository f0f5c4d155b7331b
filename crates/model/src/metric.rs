//! Metrics: what counts are kept in, and how they are declared.
//!
//! Counts are plain atomics next to the state that they tell of, added to once a batch or round. Each crate declares in its
//! `metrics.rs`, in one table a kind of [`Row`], the name, the unit and the meaning of each metric, and how its value is
//! taken from a row; who wants to see them makes the rows. What is exposed and the reference both follow from the tables.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that anybody may add to and read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// What it stands at.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Time that adds up.
#[derive(Debug, Default)]
pub struct TimeCounter(Counter);

impl TimeCounter {
    /// Adds to it, in microseconds.
    pub fn add(&self, time: Duration) {
        self.0.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// What it stands at.
    pub fn get(&self) -> Duration {
        Duration::from_micros(self.0.get())
    }
}

/// Upper bounds of the buckets of [`Times`], in microseconds; one more bucket takes what is longer.
pub const TIME_BOUNDS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000, 30_000_000,
];

const BUCKETS: usize = TIME_BOUNDS_US.len() + 1;

/// How long something took, each time that it was done.
#[derive(Debug, Default)]
pub struct Times {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// [`Times`] as they were at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How often it took so long, by bucket.
    pub counts: [u64; BUCKETS],
    /// All of it together, in microseconds.
    pub sum_us: u64,
}

impl Times {
    /// It was done once more.
    pub fn add(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = TIME_BOUNDS_US.partition_point(|bound| *bound < took_us);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(took_us, Ordering::Relaxed);
    }

    /// How they stand.
    pub fn get(&self) -> Distribution {
        let counts = std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        Distribution { counts, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// What a metric says of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Any number.
    Real(f64),
    /// How long something takes.
    Times(Distribution),
    /// Sizes of so many things, and all of them together.
    Summary {
        /// How many.
        count: u64,
        /// Their sizes, added.
        sum: u64,
    },
    /// It is not known, or there is nothing that it could say.
    None,
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// In seconds.
impl From<Duration> for Value {
    fn from(duration: Duration) -> Self {
        Self::Real(duration.as_secs_f64())
    }
}

impl From<Distribution> for Value {
    fn from(distribution: Distribution) -> Self {
        Self::Times(distribution)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// What kind of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows, from 0 at the start of the broker or of what it tells of.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Times in buckets, in seconds.
    Seconds,
    /// Times in buckets, in milliseconds.
    Milliseconds,
    /// A count and a sum.
    Summary,
}

/// One metric: what it is called and means, and how it is taken from a row.
pub struct Metric<R: ?Sized> {
    /// Its name, which ends in the unit, and in `_total` if it is a counter.
    pub name: &'static str,
    /// What kind.
    pub kind: Kind,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// What it says of a row.
    pub value: fn(&R) -> Value,
}

impl<R: ?Sized> Metric<R> {
    /// A metric.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        meaning: &'static str,
        value: fn(&R) -> Value,
    ) -> Self {
        Self { name, kind, meaning, value }
    }
}

/// What metrics tell of: the broker, or one of its topics.
pub trait Row: 'static {
    /// What there may be one of each, in a word or two for the reference.
    const OF: &'static str;
    /// Labels that say which; none where there is only one.
    const LABELS: &'static [&'static str] = &[];
    /// What is told.
    const METRICS: &'static [Metric<Self>];

    /// Values of the labels, in their order.
    fn labels(&self) -> Vec<&str> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_by_their_upper_bounds() {
        let times = Times::default();
        for micros in [0, 100, 101, 30_000_000, 30_000_001] {
            times.add(Duration::from_micros(micros));
        }
        let Distribution { counts, sum_us } = times.get();
        assert_eq!((counts[0], counts[1], counts[13], counts[14]), (2, 1, 1, 1));
        assert_eq!(sum_us, 60_000_202);
    }
}
