//! What goes. Pure: facts of all logs in, the offset before which each is let go of out.
//!
//! Only files that take no more go, from the front of their log, while one of these holds:
//!
//! * the newest record in it is as old as the topic's limit of time;
//! * without it the log still has as many bytes as the topic's limit of size: so that much stays;
//! * all logs together have more bytes than the broker's limit: then the oldest file of all that are at a front goes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use danube_model::{Offset, TimeMs, TopicId};

/// What a topic keeps. `None`: without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) time_ms: Option<u64>,
    pub(super) bytes: Option<u64>,
}

/// A file that takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    pub(super) first: Offset,
    /// Where the log goes on.
    pub(super) next: Offset,
    pub(super) bytes: u64,
    /// Nothing in it was received later.
    pub(super) newest: TimeMs,
}

/// One log.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) limits: Limits,
    /// From the front on.
    pub(super) sealed: Vec<Sealed>,
    /// Bytes that are in none of these files.
    pub(super) unsealed_bytes: u64,
}

/// What goes of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Going {
    /// The first offset that stays.
    pub(super) before: Offset,
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Facts {
    pub(super) fn bytes(&self) -> u64 {
        self.unsealed_bytes + self.sealed.iter().map(|file| file.bytes).sum::<u64>()
    }

    /// Whether what is in no file that takes no more is as much as the topic keeps: then only sealing it lets old bytes go
    /// before there is twice as much.
    pub(super) fn wants_seal(&self) -> bool {
        self.limits.bytes.is_some_and(|limit| self.unsealed_bytes >= limit)
    }

    /// How many files go for the topic's own limits.
    fn beyond_limits(&self, now: TimeMs) -> usize {
        let mut left = self.bytes();
        let goes = |file: &&Sealed| {
            let age = now.get().saturating_sub(file.newest.get());
            let is_old = self.limits.time_ms.is_some_and(|limit| age >= limit);
            left -= file.bytes;
            is_old || self.limits.bytes.is_some_and(|limit| left >= limit)
        };
        self.sealed.iter().take_while(goes).count()
    }

    fn going(&self, files: usize) -> Option<Going> {
        let gone = &self.sealed[..files];
        let bytes = gone.iter().map(|file| file.bytes).sum();
        Some(Going { before: gone.last()?.next, files, bytes })
    }
}

/// What goes at `now`, of each log of which something does.
pub(super) fn plan(
    logs: &BTreeMap<TopicId, Facts>,
    total_bytes: Option<u64>,
    now: TimeMs,
) -> BTreeMap<TopicId, Going> {
    let mut files: BTreeMap<TopicId, usize> =
        logs.iter().map(|(topic, facts)| (*topic, facts.beyond_limits(now))).collect();
    if let Some(limit) = total_bytes {
        let front = |topic: TopicId, files: usize| {
            let file = logs[&topic].sealed.get(files)?;
            Some(Reverse((file.newest, topic, file.bytes)))
        };
        let mut fronts: BinaryHeap<_> =
            files.iter().filter_map(|(topic, files)| front(*topic, *files)).collect();
        let rest = |(topic, files): (&TopicId, &usize)| {
            let facts = &logs[topic];
            facts.bytes() - facts.going(*files).map_or(0, |going| going.bytes)
        };
        let mut left: u64 = files.iter().map(rest).sum();
        while left > limit
            && let Some(Reverse((_, topic, bytes))) = fronts.pop()
        {
            left -= bytes;
            let gone = files.entry(topic).or_default();
            *gone += 1;
            fronts.extend(front(topic, *gone));
        }
    }
    files
        .into_iter()
        .filter_map(|(topic, files)| Some((topic, logs[&topic].going(files)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topic(n: u8) -> TopicId {
        TopicId::new([n; 16])
    }

    /// A log of files with so many bytes and such newest times; each has ten offsets.
    fn facts(limits: Limits, files: &[(u64, u64)], unsealed_bytes: u64) -> Facts {
        let sealed = |(n, (bytes, newest)): (usize, &(u64, u64))| Sealed {
            first: Offset::new(n as u64 * 10),
            next: Offset::new(n as u64 * 10 + 10),
            bytes: *bytes,
            newest: TimeMs::new(*newest),
        };
        Facts { limits, sealed: files.iter().enumerate().map(sealed).collect(), unsealed_bytes }
    }

    #[track_caller]
    fn check(limits: Limits, files: &[(u64, u64)], now: u64, before: Option<u64>) {
        let logs = BTreeMap::from([(topic(1), facts(limits, files, 5))]);
        let going = plan(&logs, None, TimeMs::new(now));
        assert_eq!(going.get(&topic(1)).map(|going| going.before.get()), before);
    }

    #[test]
    fn time_and_size() {
        let files = [(10, 100), (10, 200), (10, 300)];
        let time = Limits { time_ms: Some(50), bytes: None };
        check(time, &files, 149, None);
        check(time, &files, 150, Some(10));
        check(time, &files, 349, Some(20));
        check(time, &files, 9999, Some(30));
        check(time, &files, 0, None);
        let size = |bytes| Limits { time_ms: None, bytes: Some(bytes) };
        check(size(26), &files, 9999, None);
        check(size(25), &files, 0, Some(10));
        check(size(15), &files, 0, Some(20));
        check(size(6), &files, 0, Some(20));
        check(size(5), &files, 0, Some(30));
        check(Limits { time_ms: Some(50), bytes: Some(15) }, &files, 150, Some(20));
        check(Limits::default(), &files, u64::MAX, None);
        // Behind one that is too young nothing goes for its age.
        check(time, &[(10, 300), (10, 100)], 200, None);
    }

    #[test]
    fn the_oldest_of_all_go_first_for_the_limit_of_the_broker() {
        let none = Limits::default();
        let logs = BTreeMap::from([
            (topic(1), facts(none, &[(10, 100), (10, 400)], 1)),
            (topic(2), facts(none, &[(10, 200), (10, 300)], 1)),
            (topic(3), facts(Limits { time_ms: Some(0), bytes: None }, &[(10, 50)], 1)),
        ]);
        let files = |total| {
            let going = plan(&logs, Some(total), TimeMs::new(1000));
            [1, 2, 3].map(|n| going.get(&topic(n)).map_or(0, |going| going.files))
        };
        assert_eq!(files(43), [0, 0, 1], "what goes anyway counts first");
        assert_eq!(files(42), [1, 0, 1]);
        assert_eq!(files(33), [1, 0, 1]);
        assert_eq!(files(32), [1, 1, 1]);
        assert_eq!(files(13), [1, 2, 1]);
        assert_eq!(files(0), [2, 2, 1], "what is being filled stays");
    }

    fn limits() -> impl Strategy<Value = Limits> {
        (prop::option::of(0u64..100), prop::option::of(0u64..200))
            .prop_map(|(time_ms, bytes)| Limits { time_ms, bytes })
    }

    /// Receive times of a log do not fall.
    fn log() -> impl Strategy<Value = Facts> {
        let files = prop::collection::vec((0u64..50, 0u64..40), 0..8);
        (limits(), files, 0u64..50).prop_map(|(limits, mut files, unsealed_bytes)| {
            let mut time = 0;
            for (_, newest) in &mut files {
                time += *newest;
                *newest = time;
            }
            facts(limits, &files, unsealed_bytes)
        })
    }

    proptest! {
        #[test]
        fn what_goes_may_go_and_what_stays_must_stay(
            logs in prop::collection::vec(log(), 0..4),
            total in prop::option::of(0u64..400),
            now in 0u64..300,
        ) {
            let logs: BTreeMap<_, _> = (0u8..).map(topic).zip(logs).collect();
            let going = plan(&logs, total, TimeMs::new(now));
            let files = |topic: &TopicId| going.get(topic).map_or(0, |going: &Going| going.files);
            let left = |topic: &TopicId, facts: &Facts| {
                facts.unsealed_bytes
                    + facts.sealed[files(topic)..].iter().map(|file| file.bytes).sum::<u64>()
            };
            let all_left: u64 = logs.iter().map(|(topic, facts)| left(topic, facts)).sum();
            let is_old = |facts: &Facts, file: &Sealed| {
                let age = now.saturating_sub(file.newest.get());
                facts.limits.time_ms.is_some_and(|limit| age >= limit)
            };
            let mut oldest_that_stays = TimeMs::MAX;
            for (topic, facts) in &logs {
                if let Some(file) = facts.sealed.get(files(topic)) {
                    oldest_that_stays = oldest_that_stays.min(file.newest);
                    prop_assert!(!is_old(facts, file));
                    let rest = left(topic, facts) - file.bytes;
                    prop_assert!(facts.limits.bytes.is_none_or(|limit| rest < limit));
                    prop_assert!(total.is_none_or(|limit| all_left <= limit));
                }
            }
            // Of what went for the limit of the broker alone, the last.
            let mut last_for_all = None;
            for (topic, going) in &going {
                let facts = &logs[topic];
                let last = facts.sealed[going.files - 1];
                prop_assert_eq!(going.before, last.next);
                let left = left(topic, facts);
                if !is_old(facts, &last) && facts.limits.bytes.is_none_or(|limit| left < limit) {
                    prop_assert!(last.newest <= oldest_that_stays);
                    last_for_all = last_for_all.max(Some((last.newest, *topic, last.bytes)));
                }
            }
            if let Some((_, _, bytes)) = last_for_all {
                prop_assert!(total.is_some_and(|limit| all_left + bytes > limit));
            }
        }
    }
}
