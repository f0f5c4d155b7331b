//! How the settled offsets above a cursor's floor are stored: in chunks, each with its ranges.
//!
//! Chunk `i` is about the offsets `[i · 8192, (i + 1) · 8192)`. It is encoded in whichever of two ways is shorter:
//!
//! ```text
//!  0  varint varint …   lengths of runs: not settled, settled, not settled, …; what follows the last is not settled
//!  1  1024 bytes        a bit for each offset, the first one in the lowest bit of the first byte
//! ```
//!
//! # Invariants
//! * A [`Chunk`] has at least one settled offset.
//! * The same offsets have one encoding: the runs, unless they take more bytes than the bits.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Offset, Result};

/// Offsets that one chunk is about.
pub const CHUNK_OFFSETS: u64 = 8192;

const RUNS: u8 = 0;
const BITS: u8 = 1;
const BITS_BYTES: usize = CHUNK_OFFSETS as usize / 8;

/// The settled offsets of one chunk, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk(Box<[u8]>);

impl Chunk {
    /// Which chunk an offset belongs to.
    pub fn index_of(offset: Offset) -> u64 {
        offset.get() / CHUNK_OFFSETS
    }

    /// The first offset of a chunk, and the one behind its last. The index is at most that of [`Offset::MAX`].
    pub fn range_of(index: u64) -> Range<Offset> {
        let first = Offset::new(index * CHUNK_OFFSETS);
        first..Offset::new(first.get() + CHUNK_OFFSETS)
    }

    /// Encodes ranges of one chunk, rising, without touching each other; `None` if there are none.
    ///
    /// # Panics
    /// If a range is empty, not in this chunk, or touches the one before.
    pub fn encode(index: u64, ranges: impl IntoIterator<Item = Range<Offset>>) -> Option<Chunk> {
        let chunk = Chunk::range_of(index);
        let mut runs = vec![RUNS];
        let mut bits = [0; BITS_BYTES];
        let mut at = chunk.start;
        for Range { start, end } in ranges {
            let rises = start < end && end <= chunk.end;
            assert!(rises && (start > at || (start == at && at == chunk.start)));
            put_varint(&mut runs, at.distance(start));
            put_varint(&mut runs, start.distance(end));
            for bit in chunk.start.distance(start)..chunk.start.distance(end) {
                bits[bit as usize / 8] |= 1 << (bit % 8);
            }
            at = end;
        }
        match runs.len() {
            1 => None,
            length if length <= 1 + BITS_BYTES => Some(Chunk(runs.into())),
            _ => Some(Chunk([&[BITS][..], &bits].concat().into())),
        }
    }

    /// The settled offsets, as ranges that rise and don't touch.
    pub fn ranges(&self, index: u64) -> Vec<Range<Offset>> {
        let first = Chunk::range_of(index).start.get();
        let ranges = decode(&self.0).expect("checked when it was made");
        let place = |at| Offset::new(first + at);
        ranges.into_iter().map(|range| place(range.start)..place(range.end)).collect()
    }

    /// Checks an encoding that comes from elsewhere.
    fn check(bytes: &[u8]) -> Result<Chunk> {
        let malformed = Error::Malformed { what: "settled offsets of a chunk", at: 0 };
        let ranges = decode(bytes).ok_or(malformed)?;
        let ranges = ranges.iter().map(|range| Offset::new(range.start)..Offset::new(range.end));
        let chunk = Chunk::encode(0, ranges);
        chunk.filter(|chunk| *chunk.0 == *bytes).ok_or(Error::Malformed {
            what: "settled offsets of a chunk, in another form than the one that they have",
            at: 0,
        })
    }
}

/// Ranges within the chunk; `None` if the bytes are not an encoding.
fn decode(bytes: &[u8]) -> Option<Vec<Range<u64>>> {
    let (kind, mut rest) = bytes.split_first()?;
    let mut ranges: Vec<Range<u64>> = Vec::new();
    match *kind {
        RUNS => {
            let mut at = 0;
            while !rest.is_empty() {
                let start = at + take_varint(&mut rest)?;
                let end = start + take_varint(&mut rest)?;
                let is_first = ranges.is_empty();
                if start == end || end > CHUNK_OFFSETS || (start == at && !is_first) {
                    return None;
                }
                ranges.push(start..end);
                at = end;
            }
        }
        BITS if rest.len() == BITS_BYTES => {
            let is_set = |bit: &u64| rest[*bit as usize / 8] & (1 << (bit % 8)) != 0;
            for bit in (0..CHUNK_OFFSETS).filter(is_set) {
                match ranges.last_mut() {
                    Some(last) if last.end == bit => last.end = bit + 1,
                    _ => ranges.push(bit..bit + 1),
                }
            }
        }
        _ => return None,
    }
    Some(ranges)
}

/// Numbers here have at most 14 bits: two bytes of seven.
fn put_varint(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x80 => out.push(number as u8),
        _ => out.extend([number as u8 | 0x80, (number >> 7) as u8]),
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let low = bytes.split_off_first()?;
    if *low < 0x80 {
        return Some(u64::from(*low));
    }
    let high = bytes.split_off_first()?;
    Some(u64::from(*low & 0x7f) | u64::from(*high) << 7)
}

impl Serialize for Chunk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Chunk, D::Error> {
        struct Bytes;
        impl serde::de::Visitor<'_> for Bytes {
            type Value = Chunk;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the settled offsets of a chunk")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Chunk, E> {
                Chunk::check(bytes).map_err(E::custom)
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(index: u64, ranges: &[(u64, u64)]) -> Option<Chunk> {
        let place = |at| Offset::new(Chunk::range_of(index).start.get() + at);
        Chunk::encode(index, ranges.iter().map(|(start, end)| place(*start)..place(*end)))
    }

    #[test]
    fn chunks_have_these_bytes() {
        let bytes = |ranges: &[(u64, u64)]| chunk(3, ranges).unwrap().0;
        assert_eq!(*bytes(&[(0, 1)]), [0, 0, 1]);
        assert_eq!(*bytes(&[(5, 300), (8191, 8192)]), [0, 5, 0xa7, 2, 0xd3, 0x3d, 1]);
        assert_eq!(*bytes(&[(0, 8192)]), [0, 0, 0x80, 0x40]);
        let every_other: Vec<_> = (0..4096).map(|i| (2 * i, 2 * i + 1)).collect();
        assert_eq!(*bytes(&every_other), *[&[1][..], &[0x55; 1024]].concat());
        assert_eq!(chunk(3, &[]), None);
    }

    #[test]
    fn other_bytes_are_refused() {
        let bits = [&[1][..], &[0xff; 1024]].concat();
        for bad in
            [&[][..], &[0], &[2, 0, 1], &[0, 0], &[0, 0, 0], &[0, 0, 0x81, 0x40], &[1], &bits]
        {
            assert!(Chunk::check(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(
            index in 0..=Chunk::index_of(Offset::MAX),
            lengths in prop::collection::vec((1u64..9, 1u64..9), 0..900),
            first in 0u64..2,
        ) {
            let mut at = 0;
            let mut ranges = Vec::new();
            for (gap, length) in lengths {
                let start = at + if at == 0 { first } else { gap };
                at = start + length;
                if at <= CHUNK_OFFSETS {
                    ranges.push((start, at));
                }
            }
            let Some(chunk) = chunk(index, &ranges) else { return Ok(()) };
            prop_assert!(chunk.0.len() <= 1 + BITS_BYTES);
            prop_assert_eq!(Chunk::check(&chunk.0).unwrap(), chunk.clone());
            let first = Chunk::range_of(index).start.get();
            let back = chunk.ranges(index);
            let back = back.iter().map(|range| (range.start.get() - first, range.end.get() - first));
            let back: Vec<_> = back.collect();
            prop_assert_eq!(back, ranges);
        }
    }
}
