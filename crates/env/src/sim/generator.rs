//! The only source of chance in the simulated world.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Random;

/// Step of the sequence: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers that follows from its seed: SplitMix64 (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators", 2014). Clones draw from the same sequence.
#[derive(Clone, Debug)]
pub struct Generator {
    state: Arc<AtomicU64>,
}

impl Generator {
    /// The sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Mixed first, so that neighbouring seeds are not the same sequence one step apart.
        Self { state: Arc::new(AtomicU64::new(mix(seed ^ STEP))) }
    }

    /// A sequence of its own for `purpose`: what one part draws does not move the others.
    #[must_use]
    pub fn derive(seed: u64, purpose: &str) -> Self {
        let label = purpose.bytes().fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
        Self::new(label)
    }

    /// 64 random bits.
    #[must_use]
    pub fn next(&self) -> u64 {
        mix(self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }

    /// A number in `0..end`; 0 if `end` is 0.
    #[must_use]
    pub fn below(&self, end: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(end);
        (product >> 64) as u64
    }

    /// True once in `n` times on average; never if `n` is 0.
    #[must_use]
    pub fn one_in(&self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }
}

impl Random for Generator {
    fn next_u64(&self) -> u64 {
        self.next()
    }
}

pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::Generator;

    #[test]
    fn a_seed_gives_one_sequence() {
        let draw = |seed| {
            let generator = Generator::new(seed);
            [generator.next(), generator.next(), generator.next()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7)[1..], draw(8)[..2]);
        assert_ne!(Generator::derive(7, "a").next(), Generator::derive(7, "b").next());
    }

    #[test]
    fn chances_are_about_right() {
        let generator = Generator::new(1);
        let hits = (0..10_000).filter(|_| generator.one_in(4)).count();
        assert!((2300..2700).contains(&hits), "{hits}");
        assert!(!generator.one_in(0));
        assert!((0..1000).all(|_| generator.below(3) < 3));
        assert_eq!(generator.below(0), 0);
    }
}
