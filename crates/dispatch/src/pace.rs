//! How many records may go a second: a token bucket without a clock of its own.
//!
//! What comes in is kept up to a bound. More records than fit may go at once when the bucket is full; those that follow wait
//! until that is paid for. So the rate holds on average, whatever the sizes.

use std::num::NonZeroU64;
use std::time::Duration;

/// What comes in during so much time is kept, or one record if that is more.
const KEPT: Duration = Duration::from_millis(100);
/// Records are let go in portions of what comes in during so much time, or one by one: a wake-up for each would cost too much.
const PORTION: Duration = Duration::from_millis(10);
/// Shares of a record: so many that those which come in during a nanosecond are a whole number, the rate.
const RECORD: i128 = 1_000_000_000;

/// It.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    per_second: NonZeroU64,
    /// When `left` was right.
    at: Duration,
    /// In shares of a record; less than nothing is a debt.
    left: i128,
}

impl Pace {
    /// A full bucket of so many records a second; `None` for 0, which is no limit.
    pub fn new(per_second: u64, now: Duration) -> Option<Pace> {
        let mut pace = Pace { per_second: NonZeroU64::new(per_second)?, at: now, left: 0 };
        pace.left = pace.comes_in(KEPT);
        Some(pace)
    }

    /// How many records may go now; none while there are fewer than a portion.
    pub fn available(&mut self, now: Duration) -> u64 {
        self.refill(now);
        let records = if self.left < self.comes_in(PORTION) { 0 } else { self.left / RECORD };
        u64::try_from(records)
            .expect("no more is kept than comes in during a part of a second, or one")
    }

    /// When [`Pace::available`] will say more than none.
    pub fn available_at(&self) -> Duration {
        self.at.saturating_add(self.until(self.comes_in(PORTION)))
    }

    /// How long so many records have to wait. Zero: they may go, and then are to be [taken](Pace::take).
    pub fn wait(&mut self, records: u64, now: Duration) -> Duration {
        self.refill(now);
        self.until(shares(records).min(self.comes_in(KEPT)))
    }

    /// So many records go.
    pub fn take(&mut self, records: u64) {
        self.left -= shares(records);
    }

    fn refill(&mut self, now: Duration) {
        let passed = u64::try_from(now.saturating_sub(self.at).as_nanos()).unwrap_or(u64::MAX);
        let came_in = i128::from(passed).saturating_mul(self.rate());
        self.left = self.left.saturating_add(came_in).min(self.comes_in(KEPT));
        self.at = self.at.max(now);
    }

    /// How long it takes until so much is left.
    fn until(&self, wanted: i128) -> Duration {
        let missing = (wanted - self.left).max(0).unsigned_abs();
        let nanos = missing.div_ceil(self.rate().unsigned_abs());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// What comes in during so much time, or a record if that is more.
    fn comes_in(&self, time: Duration) -> i128 {
        (time.as_nanos() as i128 * self.rate()).max(RECORD)
    }

    fn rate(&self) -> i128 {
        self.per_second.get().into()
    }
}

fn shares(records: u64) -> i128 {
    i128::from(records) * RECORD
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [u64; 6] = [1, 3, 7, 999, 50_000, 3_000_000];

    /// Records that go in ten seconds, in batches of `size`, each as soon as it may.
    fn passed(rate: u64, size: u64) -> u64 {
        let mut pace = Pace::new(rate, Duration::ZERO).unwrap();
        let (mut now, mut passed) = (Duration::ZERO, 0);
        loop {
            now += pace.wait(size, now);
            if now >= Duration::from_secs(10) {
                return passed;
            }
            assert!(pace.wait(size, now).is_zero());
            pace.take(size);
            passed += size;
        }
    }

    #[test]
    fn batches_of_any_size_keep_to_the_rate() {
        for rate in RATES {
            for size in [1, 2, rate.div_ceil(10), rate, rate * 3] {
                let (expected, passed) = (rate * 10, passed(rate, size));
                let most = expected + expected / 100 + size;
                assert!((expected..=most).contains(&passed), "{size} at {rate}: {passed}");
            }
        }
    }

    #[test]
    fn what_is_available_keeps_to_the_rate_and_a_rest_gives_no_more_than_is_kept() {
        for rate in RATES {
            let (mut now, mut passed) = (Duration::from_secs(7), 0);
            let mut pace = Pace::new(rate, now).unwrap();
            let mut wake_ups = 0;
            let end = now + Duration::from_secs(10);
            while now < end {
                let available = pace.available(now);
                assert!(available > 0, "it was woken for nothing");
                pace.take(available);
                passed += available;
                now = pace.available_at();
                wake_ups += 1;
            }
            let expected = rate * 10;
            let range = expected - expected / 100..=expected + expected / 50 + 2;
            assert!(range.contains(&passed), "{rate}: {passed}");
            assert!(wake_ups <= 1_200, "{wake_ups}");
            let kept = pace.available(end + Duration::from_secs(3600));
            assert_eq!(kept, (rate / 10).max(1));
        }
    }

    #[test]
    fn what_is_too_few_for_a_portion_waits() {
        let mut pace = Pace::new(1_000, Duration::ZERO).unwrap();
        assert_eq!(pace.available(Duration::ZERO), 100);
        pace.take(95);
        assert_eq!(pace.available(Duration::ZERO), 0);
        let at = pace.available_at();
        assert_eq!((at, pace.available(at)), (Duration::from_millis(5), 10));
        assert!(Pace::new(0, Duration::ZERO).is_none());
    }
}
