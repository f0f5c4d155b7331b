//! What is counted of one subscription, and what holds it up. It outlives the task, and ends with the subscription.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use danube_model::Offset;
use danube_model::metric::{Counter, TimeCounter};

use super::Delivered;

/// Added to by the task.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    messages: Counter,
    bytes: Counter,
    redelivered: Counter,
    pub(super) dropped: Counter,
    pub(super) dead_letters: Counter,
    pub(super) missing: Counter,
    pub(super) paused: TimeCounter,
    in_flight: AtomicU64,
    held_up: Mutex<HeldUp>,
}

/// [`Counters`] as they were at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) redelivered: u64,
    pub(crate) dropped: u64,
    pub(crate) dead_letters: u64,
    pub(crate) missing: u64,
    pub(crate) paused: Duration,
}

/// Why a subscription does not go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldUp {
    /// Why its topic can't be read.
    pub(crate) unreadable: Option<String>,
    /// Poison that blocks it, or a key of it.
    pub(crate) blocked: Option<Offset>,
}

impl Counters {
    /// Something is handed to a consumer.
    pub(super) fn delivered(&self, delivered: &Delivered) {
        let Delivered::Records { deliveries, .. } = delivered else { return };
        self.messages.add(delivered.records());
        self.bytes.add(delivered.bytes() as u64);
        if *deliveries > 1 {
            self.redelivered.add(delivered.records());
        }
    }

    pub(super) fn set_in_flight(&self, records: u64) {
        self.in_flight.store(records, Ordering::Relaxed);
    }

    pub(super) fn set_unreadable(&self, why: Option<String>) {
        self.lock().unreadable = why;
    }

    pub(super) fn set_blocked(&self, at: Option<Offset>) {
        self.lock().blocked = at;
    }

    /// There is no task: nothing is in flight, and nothing holds up whoever comes next.
    pub(super) fn rest(&self) {
        self.set_in_flight(0);
        *self.lock() = HeldUp::default();
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn held_up(&self) -> HeldUp {
        self.lock().clone()
    }

    pub(crate) fn counted(&self) -> Counted {
        Counted {
            messages: self.messages.get(),
            bytes: self.bytes.get(),
            redelivered: self.redelivered.get(),
            dropped: self.dropped.get(),
            dead_letters: self.dead_letters.get(),
            missing: self.missing.get(),
            paused: self.paused.get(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeldUp> {
        self.held_up.lock().expect("nothing panics while it holds this")
    }
}
