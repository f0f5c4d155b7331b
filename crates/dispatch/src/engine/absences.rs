//! Consumers that are not there and may come: their keys are kept for a while.

use std::time::Duration;

use super::{Engine, Promise};
use crate::filter::Filter;

impl Engine {
    /// A consumer that is not there may come: its keys are kept for it as if it had just gone. What was known of one of its
    /// name that has gone is replaced; one that is there stays what it is.
    pub fn expect(&mut self, name: &str, filters: Vec<Filter>, now: Duration) {
        self.expect_for(self.settings.absence, name, filters, now);
    }

    /// As [`Engine::expect`], where only `left` is left of its time. To be called in the order of these, and before consumers
    /// come.
    pub fn expect_for(&mut self, left: Duration, name: &str, filters: Vec<Filter>, now: Duration) {
        if self.consumers.is_empty() {
            self.alone_since.get_or_insert(now);
        }
        if self.consumers.iter().all(|(_, consumer)| *consumer.name != *name) {
            self.keep_keys(left, name.into(), filters, now);
            self.assign();
        }
    }

    /// How long keys are kept for a consumer that is not there.
    pub fn absence(&self) -> Duration {
        self.settings.absence
    }

    /// Names of those that are absent, and how much of its time each has left. To be asked while no consumer is there.
    pub fn absences(&self) -> impl Iterator<Item = (&str, Duration)> {
        let since = self.alone_since.unwrap_or_default();
        let left = move |until: Duration| until.saturating_sub(since).min(self.settings.absence);
        self.consumers.absent.iter().map(move |(name, until)| (name, left(until)))
    }

    pub(super) fn keep_keys(
        &mut self,
        left: Duration,
        name: Box<str>,
        filters: Vec<Filter>,
        now: Duration,
    ) {
        let is_kept = self.queue.is_by_key() && self.settings.promise == Promise::AtLeastOnce;
        if is_kept && !left.is_zero() {
            self.consumers.absent.add(name, filters, now.saturating_add(left));
        }
    }
}
