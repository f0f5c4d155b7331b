//! The kernel's random numbers.

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::Random;

/// `getrandom(2)`, the kernel's cryptographic generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealRandom;

impl Random for RealRandom {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        let filled = retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()));
        // The manual page promises that up to 256 bytes come whole, and no error but for a kernel older than 3.17.
        assert_eq!(filled, Ok(bytes.len()), "getrandom did not give 8 bytes");
        u64::from_ne_bytes(bytes)
    }
}
