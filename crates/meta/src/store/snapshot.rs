//! The bytes of a snapshot file.
//!
//! | at | bytes | field | |
//! |---|---|---|---|
//! | 0 | 8 | magic | `DANUSNP1` |
//! | 8 | 2 | version | of the body, 1 |
//! | 10 | 2 | zero | |
//! | 12 | 4 | checksum | over bytes 0 to 12 and 16 to the end |
//! | 16 | 8 | last index | of the entries in it; the file's name says the same |
//! | 24 | 8 + 8 | term and node | of that entry |
//! | 40 | 8 | body bytes | |
//! | 48 | 16 | zero | |
//! | 64 | | body | CBOR |

use bytes::Bytes;

use crate::store::entry::EntryId;
use crate::store::fields::{self, Fields, Flaw};

const MAGIC: &[u8; 8] = b"DANUSNP1";
/// Version of the bodies that are written, and the newest that is read.
pub(crate) const VERSION: u16 = 1;
/// Bytes before the body.
pub(crate) const HEADER_BYTES: usize = 64;

/// A snapshot, as it is in its file and on its way to another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The last entry in it.
    pub(crate) last: EntryId,
    /// The whole file.
    pub(crate) bytes: Bytes,
}

impl Snapshot {
    /// A snapshot of what `write_body` writes.
    pub(crate) fn build(last: EntryId, write_body: impl FnOnce(&mut Vec<u8>)) -> Snapshot {
        let mut out = fields::begin(MAGIC, VERSION, 4096);
        for number in [last.index, last.term, last.node, 0] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.resize(HEADER_BYTES, 0);
        write_body(&mut out);
        let body_bytes = (out.len() - HEADER_BYTES) as u64;
        out[40..48].copy_from_slice(&body_bytes.to_be_bytes());
        fields::seal(&mut out);
        Snapshot { last, bytes: Bytes::from(out) }
    }

    /// Takes a file's bytes for a snapshot.
    pub(crate) fn decode(bytes: Bytes) -> Result<Snapshot, Flaw> {
        if bytes.len() < HEADER_BYTES {
            return Err(Flaw::Damaged("the file is too short"));
        }
        let fields = Fields(&bytes);
        fields.header(MAGIC, "snapshot", VERSION)?;
        fields.zero(48, 16)?;
        if fields.u64(40) != (bytes.len() - HEADER_BYTES) as u64 {
            return Err(Flaw::Damaged("the file's length is wrong"));
        }
        let last = EntryId { index: fields.u64(16), term: fields.u64(24), node: fields.u64(32) };
        Ok(Snapshot { last, bytes })
    }

    /// What is in it, CBOR.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Snapshot {
        let last = EntryId { index: 7, term: 2, node: 1 };
        Snapshot::build(last, |out| out.extend_from_slice(b"body"))
    }

    #[test]
    fn bytes_are_as_described() {
        let snapshot = example();
        let mut expected = Vec::new();
        expected.extend_from_slice(b"DANUSNP1\x00\x01\x00\x00");
        expected.extend_from_slice(&[0x6a, 0x47, 0x86, 0x22]);
        for number in [7u64, 2, 1, 4, 0, 0] {
            expected.extend_from_slice(&number.to_be_bytes());
        }
        expected.extend_from_slice(b"body");
        assert_eq!(snapshot.bytes, expected);
        assert_eq!(snapshot.body(), b"body");
        assert_eq!(Snapshot::decode(snapshot.bytes.clone()), Ok(snapshot));
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_noticed() {
        let bytes = example().bytes;
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Snapshot::decode(Bytes::from(flipped)).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Snapshot::decode(bytes.slice(..len)).is_err(), "length {len}");
        }
    }
}
