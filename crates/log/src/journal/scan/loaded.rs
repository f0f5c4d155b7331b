//! One file of the journal in memory: the round at a place, and what lies behind one that can't be read.

use std::path::PathBuf;

use bytes::Bytes;

use super::{Round, newer};
use crate::error::Result;
use crate::journal::round::{BLOCK, COPY_MAGIC, FileHeader, Head, NextFile, Unreadable};

/// What stands where no round does.
pub(super) const ABSENT: &str = "there is no round";

/// A file of the journal in memory.
pub(super) struct Loaded {
    pub(super) path: PathBuf,
    pub(super) header: FileHeader,
    pub(super) bytes: Bytes,
    /// Where `round` of the file's own count is expected.
    pub(super) position: usize,
    pub(super) round: u64,
}

/// What lies behind an unreadable round in the same file.
pub(super) struct Behind {
    /// The first valid round and where it begins.
    pub(super) first: Option<(u64, usize)>,
    /// The last one and where it ends.
    pub(super) last: Option<(u64, u64)>,
    /// The highest round that any of them names as synced.
    pub(super) synced_round: u64,
}

impl Loaded {
    /// Reads this file's next round at `position`.
    pub(super) fn read(&self, position: usize) -> Result<std::result::Result<Round, &'static str>> {
        let Some(bytes) = self.bytes.get(position..) else { return Ok(Err(ABSENT)) };
        let why = match Head::decode(bytes) {
            Ok(head) if !self.is_ours(&head) => ABSENT,
            Ok(head) if head.round != self.round => "another round is in its place",
            Ok(head) => match self.payloads(&head, position) {
                Some(payloads) => return Ok(Ok(self.round(head, payloads, position, false))),
                None => "the round is longer than the file",
            },
            Err(Unreadable::Version(found)) => {
                return Err(newer(self.path.clone(), "round", found));
            }
            Err(Unreadable::Absent) => ABSENT,
            Err(Unreadable::Damaged(why)) => why,
        };
        Ok(self.read_copy(position).ok_or(why))
    }

    /// The round at `position` by the copy of its head.
    fn read_copy(&self, position: usize) -> Option<Round> {
        let mut from = position;
        while let Some(at) = find_bytes(&self.bytes[from..], COPY_MAGIC) {
            from += at;
            if let Ok(head) = Head::decode_copy(&self.bytes[from..]) {
                if !self.is_ours(&head) || head.round < self.round {
                    from += COPY_MAGIC.len();
                    continue;
                }
                let copy_at = head.len() - Head::encoded_len(head.entries.len());
                if head.round != self.round || position as u64 + copy_at != from as u64 {
                    return None;
                }
                let payloads = self.payloads(&head, position)?;
                return Some(self.round(head, payloads, position, true));
            }
            from += COPY_MAGIC.len();
        }
        None
    }

    /// Why rounds must have followed the last one in this file, if they must.
    pub(super) fn goes_on(&self) -> Option<&'static str> {
        if (self.bytes.len() as u64) < self.header.file_bytes {
            return Some("the file is cut");
        }
        let next = NextFile::decode(self.bytes.get(self.position..)?)?;
        let is_ours =
            next.disk_id == self.header.disk_id && next.generation == self.header.generation;
        is_ours.then_some("the next file of the journal is missing")
    }

    fn is_ours(&self, head: &Head) -> bool {
        head.disk_id == self.header.disk_id && head.generation == self.header.generation
    }

    fn payloads(&self, head: &Head, position: usize) -> Option<Vec<Bytes>> {
        let mut at = position + Head::encoded_len(head.entries.len()) as usize;
        if at as u64 + head.payload_bytes() > self.bytes.len() as u64 {
            return None;
        }
        let payloads = head.entries.iter().map(|entry| {
            let start = at;
            at += entry.payload as usize;
            self.bytes.slice(start..at)
        });
        Some(payloads.collect())
    }

    fn round(&self, head: Head, payloads: Vec<Bytes>, position: usize, healed: bool) -> Round {
        Round { head, payloads, healed, path: self.path.clone(), position: position as u64 }
    }

    /// Looks at every block from `position` on for rounds of this generation, from the expected one on.
    pub(super) fn behind(&self, mut position: usize, limit: Option<u64>) -> Result<Behind> {
        let mut behind = Behind { first: None, last: None, synced_round: 0 };
        while position < self.bytes.len() {
            let mut step = BLOCK as usize;
            match Head::decode(&self.bytes[position..]) {
                Ok(head) if self.is_ours(&head) && head.round >= self.round => {
                    if limit.is_none_or(|limit| head.round < limit) {
                        behind.first.get_or_insert((head.round, position));
                        behind.synced_round = behind.synced_round.max(head.synced_round);
                        step = head.len() as usize;
                        behind.last = Some((head.round, position as u64 + head.len()));
                    }
                }
                Err(Unreadable::Version(found)) => {
                    return Err(newer(self.path.clone(), "round", found));
                }
                Ok(_) | Err(_) => {}
            }
            position += step;
        }
        Ok(behind)
    }
}

fn find_bytes(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
