//! Non-reliable topics: batches go from memory to the subscriptions that have a consumer, and are kept nowhere.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use danube_model::metric::Counter;
use danube_model::{Batch, Epoch, Frame, Offset, Stamp, TimeMs, TopicId};
use tokio::sync::Notify;

/// Bytes that wait for one subscription; what does not fit is dropped for it.
const BUFFER_BYTES: usize = 1 << 20;

/// One topic's.
#[derive(Default)]
pub(crate) struct FanOut(Mutex<State>);

#[derive(Default)]
struct State {
    /// Counts from 0 at every start of the broker.
    next: Offset,
    buffers: Vec<Arc<Buffer>>,
    messages: u64,
    bytes: u64,
    dropped: Arc<Counter>,
}

/// What was counted of a topic since the broker started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Messages that came.
    pub(crate) messages: u64,
    /// Bytes of their batches.
    pub(crate) bytes: u64,
    /// Messages that a subscription had no room for.
    pub(crate) dropped: u64,
}

/// What waits for one subscription.
#[derive(Default)]
pub(crate) struct Buffer {
    waiting: Mutex<Waiting>,
    filled: Notify,
    /// Of all buffers of the topic.
    dropped: Arc<Counter>,
}

#[derive(Default)]
struct Waiting {
    is_open: bool,
    batches: VecDeque<(Batch, TimeMs)>,
    bytes: usize,
    dropped: u64,
}

impl FanOut {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it holds the buffers")
    }

    /// Hands a batch to every subscription that has a consumer, and room.
    pub(crate) fn publish(&self, topic: TopicId, batch: &Batch, receive_time: TimeMs) {
        let mut state = self.lock();
        let base = state.next;
        let stamp =
            Stamp { base, epoch: Epoch::ZERO, receive_time, durable_end: base, synced_end: base };
        let frame = Frame::batch(topic, stamp, batch);
        state.next = frame.next();
        state.messages += u64::from(batch.record_count());
        state.bytes += batch.bytes().len() as u64;
        let batch = frame.to_batch().expect("it was made of a batch");
        state.buffers.iter().for_each(|buffer| buffer.put(&batch, receive_time));
    }

    /// A buffer for one more subscription, and the offset that comes next.
    pub(crate) fn subscribe(&self) -> (Arc<Buffer>, Offset) {
        let mut state = self.lock();
        let dropped = Arc::clone(&state.dropped);
        let buffer = Arc::new(Buffer { dropped, ..Buffer::default() });
        state.buffers.push(Arc::clone(&buffer));
        (buffer, state.next)
    }

    /// What was counted.
    pub(crate) fn counted(&self) -> Counted {
        let state = self.lock();
        let State { messages, bytes, ref dropped, .. } = *state;
        Counted { messages, bytes, dropped: dropped.get() }
    }

    /// A subscription has no use for its buffer any more.
    pub(crate) fn unsubscribe(&self, buffer: &Arc<Buffer>) {
        self.lock().buffers.retain(|other| !Arc::ptr_eq(other, buffer));
    }
}

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics while it holds a buffer")
    }

    fn put(&self, batch: &Batch, receive_time: TimeMs) {
        let mut waiting = self.lock();
        let bytes = batch.bytes().len();
        // One batch fits always: else there would be batches that never arrive.
        let fits = waiting.batches.is_empty() || waiting.bytes + bytes <= BUFFER_BYTES;
        if !waiting.is_open || !fits {
            return self.drop_records(&mut waiting, batch.record_count().into());
        }
        waiting.bytes += bytes;
        waiting.batches.push_back((batch.clone(), receive_time));
        drop(waiting);
        self.filled.notify_one();
    }

    /// Whether somebody is there. What waits when the last one goes is dropped.
    pub(crate) fn set_open(&self, is_open: bool) {
        let mut waiting = self.lock();
        waiting.is_open = is_open;
        if !is_open {
            let dropped = std::mem::take(&mut waiting.batches);
            let records = dropped.iter().map(|(batch, _)| u64::from(batch.record_count())).sum();
            self.drop_records(&mut waiting, records);
            waiting.bytes = 0;
        }
    }

    fn drop_records(&self, waiting: &mut Waiting, records: u64) {
        waiting.dropped += records;
        self.dropped.add(records);
    }

    /// The next batch, once there is one. Cancel safe.
    pub(crate) async fn take(&self) -> (Batch, TimeMs) {
        loop {
            {
                let mut waiting = self.lock();
                if let Some((batch, receive_time)) = waiting.batches.pop_front() {
                    waiting.bytes -= batch.bytes().len();
                    return (batch, receive_time);
                }
            }
            self.filled.notified().await;
        }
    }

    /// Records that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}
