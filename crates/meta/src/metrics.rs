//! What is counted of the metadata, and what it is called.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use danube_model::metric::{Counter, Distribution, Kind, Metric, Row, Times};

/// Kept where commands are proposed.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    committed: Times,
    failed: Counter,
    waiting: Mutex<Waiting>,
}

/// Since when each of the commands waits that are on their way.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    since: BTreeMap<u64, Duration>,
}

/// A command on its way.
pub(crate) struct OnItsWay {
    counters: Arc<Counters>,
    number: u64,
}

impl Counters {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command is proposed, and waits until the answer is dropped.
    pub(crate) fn propose(self: &Arc<Self>, now: Duration) -> OnItsWay {
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.since.insert(number, now);
        OnItsWay { counters: Arc::clone(self), number }
    }

    /// It was answered after this time.
    pub(crate) fn answered(&self, took: Duration, is_error: bool) {
        match is_error {
            false => self.committed.add(took),
            true => self.failed.add(1),
        }
    }

    /// Since when the oldest command waits.
    pub(crate) fn waiting_since(&self) -> Option<Duration> {
        self.waiting().since.values().next().copied()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let waiting = self.waiting().since.len() as u64;
        Metrics { committed: self.committed.get(), failed: self.failed.get(), waiting }
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.counters.waiting().since.remove(&self.number);
    }
}

/// The metadata in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    committed: Distribution,
    failed: u64,
    waiting: u64,
}

impl Row for Metrics {
    const OF: &'static str = "metadata";
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new(
            "danube_metadata_commit_seconds",
            Kind::Seconds,
            "How long a command took until it was on disk and applied; its count is that of the commands.",
            |meta| meta.committed.clone().into(),
        ),
        Metric::new(
            "danube_metadata_refused_total",
            Kind::Counter,
            "Commands that contradicted the state, or failed.",
            |meta| meta.failed.into(),
        ),
        Metric::new(
            "danube_metadata_waiting_commands",
            Kind::Gauge,
            "Commands on their way.",
            |meta| meta.waiting.into(),
        ),
    ];
}
