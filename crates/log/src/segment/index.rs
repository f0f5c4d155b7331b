//! Where in a segment to begin when an offset or a time is looked for.
//!
//! The index is sparse: it has the first frame that begins in each 64 KiB of the file. So it follows from
//! where the frames lie alone.

use danube_model::{Offset, TimeMs};

/// Bytes of the file for which the index has at most one entry.
pub(crate) const INDEX_EVERY_BYTES: u64 = 64 * 1024;

/// A frame in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Its first offset.
    pub(crate) offset: Offset,
    /// Its receive time.
    pub(crate) receive_time: TimeMs,
    /// Where it begins in the file.
    pub(crate) position: u64,
}

impl IndexEntry {
    /// The 64 KiB of the file in which the frame begins.
    fn block(&self) -> u64 {
        self.position / INDEX_EVERY_BYTES
    }
}

/// Entries of one segment. Offsets and positions rise, receive times do not fall.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    entries: Vec<IndexEntry>,
}

impl Index {
    /// Takes the next frame into account.
    pub(crate) fn add(&mut self, entry: IndexEntry) {
        if self.entries.last().is_none_or(|last| last.block() < entry.block()) {
            self.entries.push(entry);
        }
    }

    /// The entries.
    pub(crate) fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Where to begin to walk for the frame that holds `offset`: it begins there or later. `None` if that lies
    /// before the segment.
    pub(crate) fn position_for_offset(&self, offset: Offset) -> Option<u64> {
        let behind = self.entries.partition_point(|entry| entry.offset <= offset);
        self.entries[..behind].last().map(|entry| entry.position)
    }

    /// Where to begin to walk for the first frame that was received at `time` or later: it begins there or later.
    /// `None`: at the first frame.
    pub(crate) fn position_for_time(&self, time: TimeMs) -> Option<u64> {
        let behind = self.entries.partition_point(|entry| entry.receive_time < time);
        self.entries[..behind].last().map(|entry| entry.position)
    }
}
