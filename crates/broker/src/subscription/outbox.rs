//! What lies between a subscription's task and one consumer.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use danube_model::ConsumerId;
use tokio::sync::Notify;

use super::consumer::Delivered;
use crate::error::{Error, Result};

/// Bytes that may lie there before nothing more is handed out to the consumer: at most, and however many consumers there are.
const BYTES_MAX: usize = 1 << 20;
const BYTES_MIN: usize = 16 << 10;
/// Bytes that may lie in all outboxes of a node, about: the more consumers, the less for each.
const ALL_BYTES_MAX: usize = 128 << 20;
/// Bytes that are taken at once, about.
const TAKEN_BYTES: usize = 256 << 10;

/// The consumers that are attached on a node, among whom memory is divided.
#[derive(Default)]
pub(super) struct Crowd(AtomicUsize);

/// Filled by the task, emptied by the consumer.
pub(super) struct Outbox {
    id: ConsumerId,
    crowd: Arc<Crowd>,
    state: Mutex<State>,
    filled: Notify,
    touched: Arc<Touched>,
}

#[derive(Default)]
struct State {
    deliveries: VecDeque<Delivered>,
    bytes: usize,
    is_full: bool,
    granted: u64,
    has_gone: bool,
    ended: Option<Error>,
}

/// Which consumers did something that the task has to look at.
#[derive(Default)]
pub(super) struct Touched {
    consumers: Mutex<BTreeSet<ConsumerId>>,
    notify: Notify,
}

/// What a consumer did since the task last looked.
pub(super) struct Seen {
    /// Credit that it gave.
    pub(super) granted: u64,
    /// Whether there is room for more.
    pub(super) has_room: bool,
    /// Whether it is no longer there.
    pub(super) has_gone: bool,
}

impl Touched {
    fn touch(&self, consumer: ConsumerId) {
        self.lock().insert(consumer);
        self.notify.notify_one();
    }

    /// Waits until somebody did something. Cancel safe.
    pub(super) async fn some(&self) {
        self.notify.notified().await;
    }

    pub(super) fn take(&self) -> BTreeSet<ConsumerId> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ConsumerId>> {
        self.consumers.lock().expect("nothing panics while it holds the touched consumers")
    }
}

impl Crowd {
    /// Bytes for each.
    pub(super) fn share(&self) -> usize {
        let consumers = self.0.load(Ordering::Relaxed).max(1);
        (ALL_BYTES_MAX / consumers).clamp(BYTES_MIN, BYTES_MAX)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.crowd.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Outbox {
    pub(super) fn new(id: ConsumerId, touched: Arc<Touched>, crowd: Arc<Crowd>) -> Outbox {
        crowd.0.fetch_add(1, Ordering::Relaxed);
        Outbox { id, crowd, state: Mutex::default(), filled: Notify::new(), touched }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds an outbox")
    }

    /// Puts something in; whether there is room for more.
    pub(super) fn put(&self, delivered: Delivered) -> bool {
        let mut state = self.lock();
        state.bytes += delivered.bytes();
        state.is_full = state.bytes >= self.crowd.share();
        let has_room = !state.is_full;
        state.deliveries.push_back(delivered);
        drop(state);
        self.filled.notify_one();
        has_room
    }

    /// Takes back what was not taken; how many records that were.
    pub(super) fn withdraw(&self) -> u64 {
        let mut state = self.lock();
        state.bytes = 0;
        std::mem::take(&mut state.deliveries).iter().map(Delivered::records).sum()
    }

    /// Nothing more comes; what was not taken is withdrawn. The first reason stays.
    pub(super) fn end(&self, reason: Error) {
        let mut state = self.lock();
        state.deliveries.clear();
        state.ended.get_or_insert(reason);
        drop(state);
        self.filled.notify_one();
    }

    /// What the consumer did since the last call.
    pub(super) fn look(&self) -> Seen {
        let mut state = self.lock();
        state.is_full &= state.bytes >= self.crowd.share() / 2;
        Seen {
            granted: std::mem::take(&mut state.granted),
            has_room: !state.is_full,
            has_gone: state.has_gone,
        }
    }

    /// The consumer's side: what lies there. Cancel safe.
    pub(super) async fn take(&self) -> Result<Vec<Delivered>> {
        loop {
            if let Some(taken) = self.try_take() {
                return taken;
            }
            self.filled.notified().await;
        }
    }

    fn try_take(&self) -> Option<Result<Vec<Delivered>>> {
        let mut state = self.lock();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while bytes < TAKEN_BYTES
            && let Some(delivered) = state.deliveries.pop_front()
        {
            bytes += delivered.bytes();
            taken.push(delivered);
        }
        state.bytes -= bytes;
        if taken.is_empty() {
            return state.ended.clone().map(Err);
        }
        let has_room_again = state.is_full && state.bytes < self.crowd.share() / 2;
        drop(state);
        if has_room_again {
            self.touched.touch(self.id);
        }
        Some(Ok(taken))
    }

    pub(super) fn grant(&self, records: u64) {
        let mut state = self.lock();
        state.granted = state.granted.saturating_add(records);
        drop(state);
        self.touched.touch(self.id);
    }

    /// The consumer has gone.
    pub(super) fn leave(&self) {
        self.lock().has_gone = true;
        self.touched.touch(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_share_what_may_lie_in_their_outboxes() {
        let crowd = Arc::new(Crowd::default());
        let id = ConsumerId::new(1).unwrap();
        let attach = |_| Outbox::new(id, Arc::default(), Arc::clone(&crowd));
        let some: Vec<_> = (0..100).map(attach).collect();
        assert_eq!(crowd.share(), BYTES_MAX);
        let many: Vec<_> = (0..4_000).map(attach).collect();
        assert!(crowd.share() * (some.len() + many.len()) <= ALL_BYTES_MAX);
        drop((some, many));
        assert_eq!(crowd.share(), BYTES_MAX);
    }
}
