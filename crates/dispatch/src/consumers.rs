//! The consumers that are there, and what each can take; and those that are briefly gone.

use std::collections::BTreeMap;
use std::time::Duration;

use danube_model::{ConsumerId, Offset};

use crate::absent::Absent;
use crate::filter::Filter;

/// All that are there, and whose turn it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumers {
    /// Those that are not there, and whose keys are kept.
    pub(crate) absent: Absent,
    by_id: BTreeMap<ConsumerId, Consumer>,
    /// In the order in which they came.
    order: Vec<ConsumerId>,
    /// Where in `order` the next turn begins.
    turn: usize,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    /// Records that it may still be sent.
    pub(crate) credit: u64,
    /// Whether there is room for what it is sent.
    pub(crate) has_room: bool,
    /// Records that it holds.
    pub(crate) in_flight: u64,
    /// What it dealt with last, by the number of the delivery and the offset, and when.
    pub(crate) came_on: Option<(u64, Offset, Duration)>,
    /// Which keys it wants; empty: every one.
    pub(crate) filters: Vec<Filter>,
    pub(crate) name: Box<str>,
    /// Its name, as a number.
    pub(crate) seed: u64,
}

impl Consumer {
    /// How many records it can take.
    pub(crate) fn capacity(&self) -> u64 {
        if self.has_room { self.credit } else { 0 }
    }

    pub(crate) fn takes_key(&self, key: &[u8]) -> bool {
        Filter::any_matches(&self.filters, key)
    }
}

impl Consumers {
    pub(crate) fn join(&mut self, id: ConsumerId, consumer: Consumer) {
        self.absent.remove(&consumer.name);
        if self.by_id.insert(id, consumer).is_none() {
            self.order.push(id);
        }
    }

    /// What it was, if it was there.
    pub(crate) fn leave(&mut self, id: ConsumerId) -> Option<Consumer> {
        let consumer = self.by_id.remove(&id)?;
        let at = self.order.iter().position(|other| *other == id);
        let at = at.expect("it is in both or in none");
        self.order.remove(at);
        if at < self.turn {
            self.turn -= 1;
        }
        Some(consumer)
    }

    pub(crate) fn get(&self, id: ConsumerId) -> Option<&Consumer> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConsumerId, &Consumer)> {
        self.order.iter().map(|id| (*id, &self.by_id[id]))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Consumer> {
        self.by_id.values_mut()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The one that came first, if it can take something.
    pub(crate) fn first(&self) -> Option<ConsumerId> {
        let first = *self.order.first()?;
        (self.by_id[&first].capacity() > 0).then_some(first)
    }

    /// The next in turn of those that can take something and that `wanted` picks, whose turn is then over.
    pub(crate) fn next(&mut self, wanted: impl Fn(ConsumerId) -> bool) -> Option<ConsumerId> {
        let count = self.order.len();
        let mut places = (0..count).map(|step| (self.turn + step) % count);
        let at = places.find(|at| {
            let id = self.order[*at];
            self.by_id[&id].capacity() > 0 && wanted(id)
        })?;
        self.turn = (at + 1) % count;
        Some(self.order[at])
    }

    /// How many can take something.
    pub(crate) fn able(&self) -> u64 {
        self.by_id.values().filter(|consumer| consumer.capacity() > 0).count() as u64
    }
}
