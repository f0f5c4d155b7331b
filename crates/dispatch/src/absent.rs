//! Key-shared consumers that are not there, and whose keys are kept for a while in case they come back.

use std::collections::VecDeque;
use std::time::Duration;

use crate::filter::Filter;

/// How many are remembered; beyond that the one whose time ends first is forgotten.
const ABSENT_MAX: usize = 1_000;

/// Those that are absent, in the order in which their times end, which is that of adding: who is added later gets no less time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Absent(VecDeque<Missed>);

#[derive(Clone, Debug)]
struct Missed {
    name: Box<str>,
    /// Empty: it wants every key.
    filters: Vec<Filter>,
    until: Duration,
}

impl Absent {
    /// Keeps the keys of a consumer until a time, which is not before that of any other. What was known of its name is
    /// replaced.
    pub(crate) fn add(&mut self, name: Box<str>, filters: Vec<Filter>, until: Duration) {
        self.remove(&name);
        self.0.push_back(Missed { name, filters, until });
        if self.0.len() > ABSENT_MAX {
            self.0.pop_front();
        }
    }

    /// It is there.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|missed| *missed.name != *name);
    }

    /// All have so much more time, but none beyond `limit`.
    pub(crate) fn prolong(&mut self, pause: Duration, limit: Duration) {
        for missed in &mut self.0 {
            missed.until = missed.until.saturating_add(pause).min(limit);
        }
    }

    /// Forgets those whose time has ended; whether there were any.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        let ended = self.0.iter().take_while(|missed| missed.until <= now).count();
        self.0.drain(..ended);
        ended > 0
    }

    /// Their names, and when their times end.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.0.iter().map(|missed| (&*missed.name, missed.until))
    }

    /// When the first one's time ends.
    pub(crate) fn first_time(&self) -> Option<Duration> {
        self.0.front().map(|missed| missed.until)
    }

    pub(crate) fn takes_key(&self, key: &[u8]) -> bool {
        self.0.iter().any(|missed| Filter::any_matches(&missed.filters, key))
    }
}
