//! Ids of consumers that are no more, as far as they are remembered.
//!
//! Clients keep asking for the health of ids that they gave up, and each time that they are told that one is closed they subscribe
//! again; so an id that was replaced, or was told once, is an error. And a consumer that was replaced must not take its place back.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use crate::caps;

/// The ids. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Consumers {
    replaced: Arc<Mutex<Recent>>,
    told: Arc<Mutex<Recent>>,
}

/// The newest ids of some kind.
#[derive(Default)]
struct Recent {
    order: VecDeque<u64>,
    ids: HashSet<u64>,
}

impl Consumers {
    /// A newer consumer has its place.
    pub(crate) fn replaced(&self, id: u64) {
        lock(&self.replaced).insert(id);
    }

    pub(crate) fn is_replaced(&self, id: u64) -> bool {
        lock(&self.replaced).ids.contains(&id)
    }

    /// Whether an id that is not known is to be told so for the first time.
    pub(crate) fn tell(&self, id: u64) -> bool {
        !self.is_replaced(id) && lock(&self.told).insert(id)
    }
}

impl Recent {
    /// Whether it is new.
    fn insert(&mut self, id: u64) -> bool {
        let is_new = self.ids.insert(id);
        if is_new {
            self.order.push_back(id);
        }
        if self.order.len() > caps::GONE_CONSUMERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        is_new
    }
}

fn lock(recent: &Mutex<Recent>) -> std::sync::MutexGuard<'_, Recent> {
    recent.lock().expect("nothing panics while it holds the ids")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_told_once_and_never_if_it_was_replaced() {
        let consumers = Consumers::default();
        consumers.replaced(1);
        assert!(consumers.is_replaced(1));
        assert_eq!([1, 2, 2].map(|id| consumers.tell(id)), [false, true, false]);
        for id in 10..10 + caps::GONE_CONSUMERS_MAX as u64 {
            consumers.tell(id);
        }
        assert!(consumers.tell(2), "the oldest are forgotten");
        assert_eq!(lock(&consumers.told).ids.len(), caps::GONE_CONSUMERS_MAX);
    }
}
