//! How long to wait before trying again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const MAX: Duration = Duration::from_secs(2);

/// Delays that double from 20 ms to 2 s, each shortened by a random part of up to a half, so that clients which lost the
/// same broker do not come back together.
#[derive(Debug)]
pub(crate) struct Backoff {
    tries: u32,
    /// State of a SplitMix64 generator.
    random: u64,
}

impl Backoff {
    /// Delays that follow from the seed alone.
    pub(crate) fn new(seed: u64) -> Backoff {
        Backoff { tries: 0, random: seed }
    }

    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.tries.min(16)).min(MAX);
        self.tries += 1;
        full / 2 + (full / 2).mul_f64(self.fraction())
    }

    /// A random number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// It worked: the next delay is the first again.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit_and_differ_between_seeds() {
        let mut backoff = Backoff::new(7);
        for full in [20, 40, 80, 160, 320, 640, 1280, 2000, 2000] {
            let delay = backoff.next();
            assert!(delay >= Duration::from_millis(full / 2), "{delay:?} of {full} ms");
            assert!(delay <= Duration::from_millis(full), "{delay:?} of {full} ms");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
        assert_ne!(Backoff::new(1).next(), Backoff::new(4).next());
    }
}
