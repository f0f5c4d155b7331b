//! What of a topic is settled for a subscription.
//!
//! ```text
//!  settled         floor     settled        settled
//!  ────────────────┤ · · · · ├────────┤ · · ├───┤ · · ·
//!                    the first offset that is not
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use danube_model::{Chunk, Offset};

use crate::ranges::RangeSet;

/// A floor, and settled ranges above it.
#[derive(Clone, Debug)]
pub struct Cursor {
    floor: Offset,
    /// Above the floor, not touching it; with what is missing.
    settled: RangeSet,
    /// What is not in the log, and never was settled. It is not saved but where it shares a chunk with what was: the log says it
    /// again, and a gap may be as long as a step of the ceiling.
    missing: RangeSet,
    /// What was not taken as a change yet.
    floor_moved: bool,
    changed: BTreeSet<u64>,
}

/// What is to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorChanges {
    /// The first offset that is not settled.
    pub floor: Offset,
    /// Chunks that changed, by index. What they say below the floor does not matter.
    pub chunks: Vec<(u64, Chunk)>,
}

impl Cursor {
    /// Everything below `floor` is settled.
    pub fn new(floor: Offset) -> Cursor {
        Cursor {
            floor,
            settled: RangeSet::default(),
            missing: RangeSet::default(),
            floor_moved: false,
            changed: BTreeSet::new(),
        }
    }

    /// A cursor as it was saved.
    pub fn restore<'a>(
        floor: Offset,
        chunks: impl IntoIterator<Item = (u64, &'a Chunk)>,
    ) -> Cursor {
        let mut cursor = Cursor::new(floor);
        for (index, chunk) in chunks {
            chunk.ranges(index).into_iter().for_each(|range| cursor.settle(range));
        }
        (cursor.floor_moved, cursor.changed) = (false, BTreeSet::new());
        cursor
    }

    /// The first offset that is not settled.
    pub fn floor(&self) -> Offset {
        self.floor
    }

    /// Settled ranges above the floor, rising.
    pub fn settled(&self) -> impl Iterator<Item = Range<Offset>> + '_ {
        self.settled.iter()
    }

    /// How many settled ranges there are above the floor.
    pub fn settled_ranges(&self) -> usize {
        self.settled.len()
    }

    /// What of `range` is not settled, rising.
    pub(crate) fn unsettled(&self, range: Range<Offset>) -> Vec<Range<Offset>> {
        self.settled.missing(range.start.max(self.floor)..range.end)
    }

    /// Settles a range; what is settled stays so.
    pub(crate) fn settle(&mut self, range: Range<Offset>) {
        if let Some(above) = self.enter(range) {
            self.mark(&above);
        }
    }

    /// A range is not in the log: nobody will settle it.
    pub(crate) fn pass_over(&mut self, range: Range<Offset>) {
        if let Some(above) = self.enter(range) {
            self.missing.insert(above);
        }
    }

    /// The chunks of a range are to be saved.
    fn mark(&mut self, range: &Range<Offset>) {
        let last = Chunk::index_of(Offset::new(range.end.get() - 1));
        self.changed.extend(Chunk::index_of(range.start)..=last);
    }

    /// Enters what of a range is not below the floor. Returns it if it lies above; otherwise it moves the floor.
    fn enter(&mut self, range: Range<Offset>) -> Option<Range<Offset>> {
        let range = range.start.max(self.floor)..range.end;
        if range.is_empty() {
            return None;
        }
        if range.start > self.floor {
            self.settled.insert(range.clone());
            return Some(range);
        }
        self.floor = range.end;
        if let Some(above) = self.settled.find(self.floor) {
            self.floor = above.end;
        }
        self.settled.remove_below(self.floor);
        self.missing.remove_below(self.floor);
        // The chunks below say nothing any more.
        self.changed = self.changed.split_off(&Chunk::index_of(self.floor));
        self.floor_moved = true;
        None
    }

    /// Whether there is something to save.
    pub fn is_changed(&self) -> bool {
        self.floor_moved || !self.changed.is_empty()
    }

    /// What changed since the last call, or all of it after [`Cursor::forget_saves`].
    pub fn take_changes(&mut self) -> Option<CursorChanges> {
        if !self.is_changed() {
            return None;
        }
        self.floor_moved = false;
        let encode = |index| {
            let chunk = Chunk::encode(index, self.settled.within(Chunk::range_of(index)))?;
            Some((index, chunk))
        };
        let chunks = std::mem::take(&mut self.changed).into_iter().filter_map(encode).collect();
        Some(CursorChanges { floor: self.floor, chunks })
    }

    /// A save may have failed: everything counts as changed.
    pub fn forget_saves(&mut self) {
        self.floor_moved = true;
        let acknowledged = |range: Range<Offset>| self.missing.missing(range);
        let all: Vec<_> = self.settled.iter().flat_map(acknowledged).collect();
        all.iter().for_each(|range| self.mark(range));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_gap_above_the_floor_is_not_saved() {
        let at = Offset::new;
        let mut cursor = Cursor::new(at(0));
        cursor.settle(at(2)..at(3));
        cursor.pass_over(at(5)..at(1 << 32));
        cursor.settle(at(1 << 32)..at((1 << 32) + 1));
        for _ in 0..2 {
            let changes = cursor.take_changes().unwrap();
            let chunks: Vec<u64> = changes.chunks.iter().map(|(index, _)| *index).collect();
            assert_eq!((changes.floor, chunks), (at(0), vec![0, Chunk::index_of(at(1 << 32))]));
            cursor.forget_saves();
        }
        // What is below is settled, and so it does not matter that it was not saved.
        cursor.settle(at(0)..at(2));
        cursor.settle(at(3)..at(5));
        let changes = cursor.take_changes().unwrap();
        assert_eq!((changes.floor, changes.chunks), (at((1 << 32) + 1), vec![]));
    }
}
