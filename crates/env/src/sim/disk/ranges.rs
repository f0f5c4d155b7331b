//! A set of numbers kept as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint half-open ranges that do not touch: each start with its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() || self.contains(&range) {
            return;
        }
        let Range { mut start, mut end } = range;
        // From the right to the left: all that overlap or touch become one.
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            start = start.min(other);
            end = end.max(other_end);
            self.0.remove(&other);
        }
        self.0.insert(start, end);
    }

    pub(super) fn contains(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.end_of(range.start).is_some_and(|end| end >= range.end)
    }

    /// The last number of `range` that is missing.
    pub(super) fn last_missing(&self, range: Range<u64>) -> Option<u64> {
        let mut end = range.end;
        while let Some((&start, &other_end)) = self.0.range(..end).next_back() {
            if other_end < end {
                break;
            }
            end = start;
        }
        (end > range.start).then(|| end - 1)
    }

    /// Forgets all from `start` on.
    pub(super) fn cut(&mut self, start: u64) {
        self.0.split_off(&start);
        if let Some(mut last) = self.0.last_entry() {
            let end = (*last.get()).min(start);
            last.insert(end);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// End of the range that holds `number`.
    fn end_of(&self, number: u64) -> Option<u64> {
        let (_, &end) = self.0.range(..=number).next_back()?;
        (number < end).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Ranges;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0..5_u8, 0..40_u64, 0..12_u64), 0..40)) {
            let mut ranges = Ranges::default();
            let mut set = BTreeSet::new();
            for (kind, start, len) in steps {
                if kind == 0 {
                    ranges.cut(start);
                    set.split_off(&start);
                } else {
                    ranges.insert(start..start + len);
                    set.extend(start..start + len);
                }
                for from in 0..50 {
                    for to in from..52 {
                        let missing = (from..to).rev().find(|number| !set.contains(number));
                        prop_assert_eq!(ranges.last_missing(from..to), missing);
                        prop_assert_eq!(ranges.contains(&(from..to)), missing.is_none());
                    }
                }
                prop_assert!(ranges.0.values().zip(ranges.0.keys().skip(1)).all(|(end, next)| end < next));
            }
        }
    }
}
