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
    /// Above the floor, not touching it.
    settled: RangeSet,
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
        Cursor { floor, settled: RangeSet::default(), floor_moved: false, changed: BTreeSet::new() }
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
        let range = range.start.max(self.floor)..range.end;
        if range.is_empty() {
            return;
        }
        if range.start > self.floor {
            let last = Chunk::index_of(Offset::new(range.end.get() - 1));
            self.changed.extend(Chunk::index_of(range.start)..=last);
            self.settled.insert(range);
            return;
        }
        self.floor = range.end;
        if let Some(above) = self.settled.find(self.floor) {
            self.floor = above.end;
        }
        self.settled.remove_below(self.floor);
        // The chunks below say nothing any more.
        self.changed = self.changed.split_off(&Chunk::index_of(self.floor));
        self.floor_moved = true;
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
        for range in self.settled.iter() {
            let last = Chunk::index_of(Offset::new(range.end.get() - 1));
            self.changed.extend(Chunk::index_of(range.start)..=last);
        }
    }
}
