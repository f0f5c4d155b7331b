//! How a store and its logs are, for whoever watches. Nothing here waits for the loops, and they don't wait for it.

use std::sync::Arc;

use danube_env::blocking;
use danube_env::disk::Space;
use danube_model::{Frame, Offset, TimeMs, TopicId};

use super::Store;
use crate::checkpoint::Gap;
use crate::error::Error;
use crate::metrics::{Condition, Counters, Metrics};

/// How far a log is, and what went into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// First offset still held.
    pub start: Offset,
    /// What its level has confirmed.
    pub durable_end: Offset,
    /// Messages that were given offsets since the broker started.
    pub messages: u64,
    /// Bytes of their batches.
    pub bytes: u64,
}

impl Store {
    /// The store in numbers, with what [`Store::space`] said.
    pub fn metrics(&self, space: Option<Space>) -> Metrics {
        let queued_kib = self.inner.queue_kib as usize - self.inner.queue.available_permits();
        Metrics {
            counters: Arc::clone(&self.inner.counters),
            logs: self.logs().len() as u64,
            queue_bytes: queued_kib as u64 * 1024,
            space,
        }
    }

    /// What is wrong with the store, or in its way.
    pub fn condition(&self) -> Condition {
        let mut condition = self.inner.counters.condition();
        let is_held = |topic: TopicId, to: Offset| {
            self.progress(topic).is_some_and(|progress| to > progress.start)
        };
        condition.damaged.retain(|(topic, damage)| is_held(*topic, damage.to));
        condition
    }

    /// Why nothing more is acknowledged, once the disk has failed.
    pub fn failure(&self) -> Option<Error> {
        self.inner.stopped.borrow().clone()
    }

    /// Room on the volume, if it can be found out. Asks the file system, which may hang with its disk.
    pub async fn space(&self) -> Option<Space> {
        let (disk, root) = (Arc::clone(&self.inner.env.disk), self.layout().root().to_owned());
        blocking(&*self.inner.env.spawn, move || disk.space(&root).ok()).await
    }

    /// How far a log is, open or not; None if this disk has none.
    pub fn progress(&self, topic: TopicId) -> Option<Progress> {
        let shared = Arc::clone(&self.logs().get(&topic)?.shared);
        let start = shared.view().start;
        let durable_end = shared.ends.borrow().durable;
        let (messages, bytes) = shared.counted();
        Some(Progress { start, durable_end, messages, bytes })
    }

    /// Offsets of a log that can't be read; the newest ones if there are many.
    pub fn gaps(&self, topic: TopicId) -> Vec<Gap> {
        let shared = self.logs().get(&topic).map(|log| Arc::clone(&log.shared));
        shared.map_or_else(Vec::new, |shared| shared.view().gaps.clone())
    }

    /// When the batch that holds an offset was received, if it is in memory.
    pub fn received(&self, topic: TopicId, offset: Offset) -> Option<TimeMs> {
        let shared = Arc::clone(&self.logs().get(&topic)?.shared);
        let view = shared.view();
        view.frame_at(offset).map(Frame::receive_time)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }
}
