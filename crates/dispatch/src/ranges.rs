//! A set of offsets, kept as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use danube_model::Offset;

/// Ranges that neither overlap nor touch, by their starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet(BTreeMap<Offset, Offset>);

impl RangeSet {
    /// Adds a range, joining it with what it overlaps or touches.
    pub(crate) fn insert(&mut self, range: Range<Offset>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        if let Some((&before, &before_end)) = self.0.range(..start).next_back()
            && before_end >= start
        {
            start = before;
        }
        while let Some((&next, &next_end)) = self.0.range(start..=end).next() {
            end = end.max(next_end);
            self.0.remove(&next);
        }
        self.0.insert(start, end);
    }

    /// The range that `offset` is in.
    pub(crate) fn find(&self, offset: Offset) -> Option<Range<Offset>> {
        let (&start, &end) = self.0.range(..=offset).next_back()?;
        (offset < end).then_some(start..end)
    }

    /// Removes everything below `offset`.
    pub(crate) fn remove_below(&mut self, offset: Offset) {
        while let Some(first) = self.0.first_entry()
            && *first.key() < offset
        {
            let end = first.remove();
            if end > offset {
                self.0.insert(offset, end);
            }
        }
    }

    /// All ranges, rising.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<Offset>> + '_ {
        self.0.iter().map(|(&start, &end)| start..end)
    }

    /// What of `within` is in the set, rising.
    pub(crate) fn within(&self, within: Range<Offset>) -> impl Iterator<Item = Range<Offset>> + '_ {
        let from = self.find(within.start).map_or(within.start, |range| range.start);
        self.0
            .range(from..within.end.max(from))
            .map(move |(&start, &end)| start.max(within.start)..end.min(within.end))
    }

    /// What of `within` is not in the set, rising.
    pub(crate) fn missing(&self, within: Range<Offset>) -> Vec<Range<Offset>> {
        uncovered(within.clone(), self.within(within))
    }

    /// How many ranges.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What of `within` none of the ranges covers, rising; they are in it, rising, and don't overlap.
pub(crate) fn uncovered(
    within: Range<Offset>,
    covered: impl Iterator<Item = Range<Offset>>,
) -> Vec<Range<Offset>> {
    let mut uncovered = Vec::new();
    let mut at = within.start;
    for range in covered {
        if at < range.start {
            uncovered.push(at..range.start);
        }
        at = range.end;
    }
    if at < within.end {
        uncovered.push(at..within.end);
    }
    uncovered
}
