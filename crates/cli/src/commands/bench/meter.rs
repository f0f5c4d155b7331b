//! What the workers of one side, producers or consumers, have in common: what they did, and when they end.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::figures::Latencies;
use crate::failure::{Failure, Result};

/// See the module's text.
pub(super) struct Meter {
    messages: AtomicU64,
    bytes: AtomicU64,
    /// So many messages are wanted.
    target: AtomicU64,
    /// Whether workers are to end.
    stop: watch::Sender<bool>,
    sum: Mutex<Sum>,
}

/// What was measured.
pub(super) struct Sum {
    pub(super) latencies: Latencies,
    /// When the last message was done, on the monotonic clock.
    pub(super) last: Duration,
    /// Messages that were due and not sent.
    pub(super) unsent: u64,
    /// The first one.
    pub(super) failure: Option<Failure>,
}

impl Sum {
    pub(super) fn new() -> Sum {
        Sum { latencies: Latencies::new(), last: Duration::ZERO, unsent: 0, failure: None }
    }
}

impl Meter {
    /// Of workers that are to end after so many messages.
    pub(super) fn new(target: u64) -> Meter {
        Meter {
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            target: AtomicU64::new(target),
            stop: watch::Sender::new(false),
            sum: Mutex::new(Sum::new()),
        }
    }

    /// So many more messages are done, of which so many count: what is beyond the target does not.
    pub(super) fn add(&self, messages: u64) -> u64 {
        let before = self.messages.fetch_add(messages, Ordering::SeqCst);
        let target = self.target.load(Ordering::SeqCst);
        if before + messages >= target {
            self.stop();
        }
        messages.min(target.saturating_sub(before))
    }

    /// Payloads of messages that count had so many bytes.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the workers when so many messages are done in all.
    pub(super) fn aim(&self, target: u64) {
        self.target.store(target, Ordering::SeqCst);
        self.add(0);
    }

    /// Messages that are done and count.
    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::SeqCst).min(self.target.load(Ordering::SeqCst))
    }

    /// Bytes of their payloads.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends the workers: producers when all they sent is acknowledged.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Tells a worker when to end.
    pub(super) fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// A worker has ended with this. All others do, after a failure.
    pub(super) fn end(&self, worker: &Sum, result: Result<()>) {
        let mut sum = self.lock();
        sum.latencies.add(&worker.latencies);
        sum.last = sum.last.max(worker.last);
        sum.unsent += worker.unsent;
        if let Err(failure) = result {
            sum.failure.get_or_insert(failure);
            self.stop();
        }
    }

    /// What the workers that have ended measured; leaves nothing.
    pub(super) fn take(&self) -> Sum {
        mem::replace(&mut *self.lock(), Sum::new())
    }

    fn lock(&self) -> MutexGuard<'_, Sum> {
        // Nothing panics while it is held.
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_end_when_the_last_message_is_done() {
        let meter = Meter::new(u64::MAX);
        assert_eq!(meter.add(10), 10);
        assert!(!*meter.stopped().borrow());
        meter.aim(12);
        assert!(!*meter.stopped().borrow());
        assert_eq!(meter.add(1), 1);
        assert!(!*meter.stopped().borrow());
        assert_eq!((meter.add(5), meter.add(5)), (1, 0), "those beyond the target do not count");
        assert!(*meter.stopped().borrow());
        assert_eq!(meter.messages(), 12);
        let meter = Meter::new(u64::MAX);
        meter.add(10);
        meter.aim(10);
        assert!(*meter.stopped().borrow(), "it was late");
    }

    #[test]
    fn the_first_failure_ends_the_others_and_is_kept() {
        let meter = Meter::new(u64::MAX);
        let mut worker = Sum { last: Duration::from_secs(2), unsent: 3, ..Sum::new() };
        worker.latencies.record(Duration::from_millis(1));
        meter.end(&worker, Err(Failure::new("first")));
        assert!(*meter.stopped().borrow());
        worker.last = Duration::from_secs(1);
        meter.end(&worker, Err(Failure::new("second")));
        let sum = meter.take();
        assert_eq!((sum.last, sum.unsent), (Duration::from_secs(2), 6));
        assert_eq!(sum.failure, Some(Failure::new("first")));
        assert!(sum.latencies.percentiles().is_some());
        assert_eq!(meter.take().latencies.percentiles(), None);
    }
}
