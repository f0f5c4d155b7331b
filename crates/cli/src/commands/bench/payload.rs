//! What is in the messages, and the stamp in them that says when each was due.
//!
//! ```text
//! | magic: 8 bytes | run: 8 bytes | due, ns of this machine's monotonic clock: 8 bytes | noise or words |
//! ```

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use danube_env::Random;

use crate::arguments::PayloadKind;

/// Bytes of a stamp; shorter messages have none.
pub(super) const STAMP_BYTES: usize = 24;
/// No accident begins so.
const MAGIC: [u8; 8] = *b"danube\xb3\xc9";
/// Payloads are cut from so many bytes, or one payload more, from one place after the other.
const SOURCE_BYTES: usize = 1 << 20;
/// Payloads are made in pieces of memory of about this size.
const PIECE_BYTES: usize = 128 << 10;

const WORDS: [&str; 16] = [
    "river", "stream", "bank", "water", "a", "the", "of", "boat", "harbour", "and", "current",
    "flows", "deep", "past", "over", "slowly",
];

/// Makes payloads of one size.
#[derive(Clone, Debug)]
pub(super) struct Payloads {
    source: Bytes,
    /// Where the next one is cut.
    at: usize,
    size: usize,
    piece: BytesMut,
}

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Which measurement sent it.
    pub(super) run: u64,
    /// When it was due, on the monotonic clock.
    pub(super) due: Duration,
}

impl Payloads {
    /// Payloads of `size` bytes.
    pub(super) fn new(kind: PayloadKind, size: usize, random: &dyn Random) -> Payloads {
        let bytes = SOURCE_BYTES + size;
        let mut source = Vec::with_capacity(bytes + 16);
        while source.len() < bytes {
            let drawn = random.next_u64();
            match kind {
                PayloadKind::Random => source.extend_from_slice(&drawn.to_ne_bytes()),
                PayloadKind::Text => {
                    source.extend_from_slice(WORDS[(drawn % 16) as usize].as_bytes());
                    source.push(b' ');
                }
            }
        }
        Payloads { source: source.into(), at: 0, size, piece: BytesMut::new() }
    }

    /// Bytes of each.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The next one, without a stamp.
    pub(super) fn next(&mut self) -> Bytes {
        let from = self.advance();
        self.source.slice(from..from + self.size)
    }

    /// The next one, with a stamp if it is long enough.
    pub(super) fn stamped(&mut self, stamp: Stamp) -> Bytes {
        if self.size < STAMP_BYTES {
            return self.next();
        }
        if self.piece.capacity() < self.size {
            self.piece = BytesMut::with_capacity(PIECE_BYTES.max(self.size));
        }
        let from = self.advance();
        self.piece.extend_from_slice(&MAGIC);
        self.piece.extend_from_slice(&stamp.run.to_le_bytes());
        let nanoseconds = u64::try_from(stamp.due.as_nanos()).unwrap_or(u64::MAX);
        self.piece.extend_from_slice(&nanoseconds.to_le_bytes());
        self.piece.extend_from_slice(&self.source[from..from + self.size - STAMP_BYTES]);
        self.piece.split().freeze()
    }

    /// Where the next one is cut. The step is odd and no multiple of usual sizes, so that few of them are alike.
    fn advance(&mut self) -> usize {
        let from = self.at;
        self.at = (self.at + 4_099) % SOURCE_BYTES;
        from
    }
}

impl Stamp {
    /// The stamp of a payload, if it has one.
    pub(super) fn of(payload: &[u8]) -> Option<Stamp> {
        let (run, rest) = payload.strip_prefix(&MAGIC)?.split_first_chunk()?;
        let (due, _) = rest.split_first_chunk()?;
        let due = Duration::from_nanos(u64::from_le_bytes(*due));
        Some(Stamp { run: u64::from_le_bytes(*run), due })
    }
}

#[cfg(test)]
mod tests {
    use danube_env::real::RealRandom;

    use super::*;

    #[test]
    fn a_stamp_comes_back() {
        let mut payloads = Payloads::new(PayloadKind::Random, 100, &RealRandom);
        let stamp = |number| Stamp { run: 7, due: Duration::from_nanos(number) };
        let made: Vec<Bytes> = (0..5_000).map(|number| payloads.stamped(stamp(number))).collect();
        for (number, payload) in (0..).zip(&made) {
            assert_eq!((payload.len(), Stamp::of(payload)), (100, Some(stamp(number))));
        }
        assert_eq!(Stamp::of(&made[0][..STAMP_BYTES - 1]), None);
        assert_eq!(Stamp::of(&payloads.next()), None);
        assert_eq!(Stamp::of(b""), None);
    }

    #[test]
    fn payloads_have_the_size_that_was_asked_for() {
        for size in [0, 1, STAMP_BYTES - 1, STAMP_BYTES, 1024, 300_000] {
            for kind in [PayloadKind::Random, PayloadKind::Text] {
                let mut payloads = Payloads::new(kind, size, &RealRandom);
                let stamp = Stamp { run: 1, due: Duration::ZERO };
                for _ in 0..100 {
                    assert_eq!(
                        (payloads.next().len(), payloads.stamped(stamp).len()),
                        (size, size)
                    );
                }
            }
        }
        let mut words = Payloads::new(PayloadKind::Text, 1000, &RealRandom);
        assert!(words.next().iter().all(|byte| byte.is_ascii_lowercase() || *byte == b' '));
    }
}
