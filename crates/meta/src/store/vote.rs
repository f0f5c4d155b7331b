//! The file `vote`: which member a directory belongs to, and what it voted.
//!
//! | at | bytes | field | |
//! |---|---|---|---|
//! | 0 | 8 | magic | `DANUVOT1` |
//! | 8 | 2 | version | 1 |
//! | 10 | 2 | zero | |
//! | 12 | 4 | checksum | over bytes 0 to 12 and 16 to 64 |
//! | 16 | 8 | member | node id of the member that this directory belongs to |
//! | 24 | 8 + 8 | term and node | voted for |
//! | 40 | 1 | committed | 1 once that node is known to lead the term |
//! | 41 | 23 | zero | |

use crate::store::fields::{self, Fields, Flaw};

const MAGIC: &[u8; 8] = b"DANUVOT1";
const VERSION: u16 = 1;
const BYTES: usize = 64;

/// What a member has promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    /// This member.
    pub(crate) member: u64,
    /// Term of the vote.
    pub(crate) term: u64,
    /// Who got it.
    pub(crate) node: u64,
    /// Whether that node is known to lead the term.
    pub(crate) committed: bool,
}

impl Vote {
    /// A member that has not voted.
    pub(crate) fn none(member: u64) -> Vote {
        Vote { member, term: 0, node: 0, committed: false }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = fields::begin(MAGIC, VERSION, BYTES);
        for number in [self.member, self.term, self.node] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.push(u8::from(self.committed));
        out.resize(BYTES, 0);
        fields::seal(&mut out);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Vote, Flaw> {
        if bytes.len() < BYTES {
            return Err(Flaw::Damaged("the file is too short"));
        }
        let fields = Fields(bytes);
        fields.header(MAGIC, "vote", VERSION)?;
        if bytes.len() > BYTES {
            return Err(Flaw::Damaged("the file is too long"));
        }
        fields.zero(41, 23)?;
        let committed = match bytes[40] {
            0 => false,
            1 => true,
            other => {
                return Err(Flaw::Unknown { what: "state of a vote", found: other.to_string() });
            }
        };
        Ok(Vote { member: fields.u64(16), term: fields.u64(24), node: fields.u64(32), committed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_described() {
        let vote = Vote { member: 3, term: 0x0102, node: 5, committed: true };
        let bytes = vote.encode();
        let mut expected = Vec::new();
        expected.extend_from_slice(b"DANUVOT1\x00\x01\x00\x00");
        expected.extend_from_slice(&[0x59, 0x04, 0x48, 0xa5]);
        expected.extend_from_slice(&3u64.to_be_bytes());
        expected.extend_from_slice(&0x0102u64.to_be_bytes());
        expected.extend_from_slice(&5u64.to_be_bytes());
        expected.extend_from_slice(&[1]);
        expected.extend_from_slice(&[0; 23]);
        assert_eq!(bytes, expected);
        assert_eq!(Vote::decode(&bytes), Ok(vote));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = Vote { member: 3, term: 9, node: 5, committed: false }.encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Vote::decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
