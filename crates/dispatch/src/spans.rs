//! Ranges of offsets with a time and a value each: what is in flight until when, what waits until when.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::time::Duration;

use danube_model::Offset;

/// Ranges that don't overlap. Neighbours of equal value stay apart.
#[derive(Clone, Debug)]
pub(crate) struct Spans<T> {
    by_start: BTreeMap<Offset, Span<T>>,
    by_time: BTreeSet<(Duration, Offset)>,
    offsets: u64,
}

/// One range. Its start is its key.
#[derive(Clone, Copy, Debug)]
struct Span<T> {
    end: Offset,
    at: Duration,
    value: T,
}

impl<T> Default for Spans<T> {
    fn default() -> Spans<T> {
        Spans { by_start: BTreeMap::new(), by_time: BTreeSet::new(), offsets: 0 }
    }
}

impl<T: Copy> Spans<T> {
    /// Adds a range of which nothing is in here. `Duration::MAX` is never.
    pub(crate) fn insert(&mut self, range: Range<Offset>, at: Duration, value: T) {
        debug_assert!(!range.is_empty());
        self.offsets += range.start.distance(range.end);
        self.by_time.insert((at, range.start));
        self.by_start.insert(range.start, Span { end: range.end, at, value });
    }

    /// What of a range that is not empty is in here, rising.
    pub(crate) fn within(&self, range: Range<Offset>) -> impl Iterator<Item = Range<Offset>> + '_ {
        let touched = self.touched(range.clone());
        touched.map(move |(&start, span)| start.max(range.start)..span.end.min(range.end))
    }

    /// Those that have something of a range that is not empty, rising.
    fn touched(&self, range: Range<Offset>) -> impl Iterator<Item = (&Offset, &Span<T>)> {
        let before = self.by_start.range(..range.start).next_back();
        let before = before.filter(|(_, span)| span.end > range.start);
        before.into_iter().chain(self.by_start.range(range))
    }

    /// Takes out whatever of `range` is in here and `wanted` picks, rising; ranges that it cuts keep the rest.
    pub(crate) fn take(
        &mut self,
        range: Range<Offset>,
        wanted: impl Fn(&T) -> bool,
    ) -> Vec<(Range<Offset>, T)> {
        if range.is_empty() {
            return Vec::new();
        }
        let picked = self.touched(range.clone()).filter(|(_, span)| wanted(&span.value));
        let starts: Vec<_> = picked.map(|(&start, _)| start).collect();
        let take = |start: Offset| {
            let span = self.remove(start);
            let taken = start.max(range.start)..span.end.min(range.end);
            for rest in [start..taken.start, taken.end..span.end] {
                if !rest.is_empty() {
                    self.insert(rest, span.at, span.value);
                }
            }
            (taken, span.value)
        };
        starts.into_iter().map(take).collect()
    }

    /// Takes out at most `limit` offsets of the earliest range if its time is not after `now`.
    pub(crate) fn take_due(&mut self, now: Duration, limit: u64) -> Option<(Range<Offset>, T)> {
        let &(at, start) = self.by_time.first().filter(|(at, _)| *at <= now)?;
        let span = self.remove(start);
        let end = span.end.min(Offset::new(start.get().saturating_add(limit)));
        if end < span.end {
            self.insert(end..span.end, at, span.value);
        }
        Some((start..end, span.value))
    }

    /// Takes out all that `wanted` picks, rising.
    pub(crate) fn take_where(&mut self, wanted: impl Fn(&T) -> bool) -> Vec<(Range<Offset>, T)> {
        let picked = self.by_start.iter().filter(|(_, span)| wanted(&span.value));
        let starts: Vec<_> = picked.map(|(&start, _)| start).collect();
        let take = |start| {
            let span = self.remove(start);
            (start..span.end, span.value)
        };
        starts.into_iter().map(take).collect()
    }

    fn remove(&mut self, start: Offset) -> Span<T> {
        let span = self.by_start.remove(&start).expect("the callers found it there");
        self.by_time.remove(&(span.at, start));
        self.offsets -= start.distance(span.end);
        span
    }

    /// Sets every time that is not after `now` to 0.
    pub(crate) fn advance(&mut self, now: Duration) {
        while let Some(at) = self.first_time_after(Duration::ZERO).filter(|at| *at <= now)
            && let Some(&(at, start)) = self.by_time.range((at, Offset::ZERO)..).next()
        {
            self.by_time.remove(&(at, start));
            self.by_time.insert((Duration::ZERO, start));
            self.by_start.get_mut(&start).expect("it is in both").at = Duration::ZERO;
        }
    }

    /// The length of the first range whose time is 0.
    pub(crate) fn due_len(&self) -> Option<u64> {
        let (_, start) = self.by_time.first().filter(|(at, _)| at.is_zero())?;
        Some(start.distance(self.by_start[start].end))
    }

    /// The earliest time behind this one.
    pub(crate) fn first_time_after(&self, time: Duration) -> Option<Duration> {
        let behind = (Bound::Excluded((time, Offset::new(u64::MAX))), Bound::Unbounded);
        self.by_time.range(behind).next().map(|(at, _)| *at)
    }

    /// How many offsets.
    pub(crate) fn offsets(&self) -> u64 {
        self.offsets
    }
}
