//! What is to be handed out: by range, or by key.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use danube_model::{ConsumerId, Offset, SubscriptionType};

use super::Tries;
use crate::consumers::Consumers;
use crate::keys::Keys;
use crate::spans::Spans;

/// Records of a key-shared subscription that are known ahead, as a multiple of those that may be unsettled.
const KEYED_AHEAD: u64 = 16;
/// How long the keys that are known ahead may be together.
const KEY_BYTES_AHEAD: usize = 1 << 20;

/// The records that are offered, not in flight and not settled; by key, those in flight too.
#[derive(Clone, Debug)]
pub(super) enum Queue {
    /// Exclusive, failover, shared.
    Ranges(Ranges),
    /// Key-shared.
    Keys(Keys),
}

/// How many records may be handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Of those that never were before.
    pub(super) fresh: u64,
    /// Of those that were. Only consumers that come back to what they held may find none.
    pub(super) again: u64,
    /// Of both together.
    pub(super) together: u64,
}

impl Room {
    fn of(self, tries: Tries) -> u64 {
        let room = if tries.deliveries == 0 { self.fresh } else { self.again };
        room.min(self.together)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Ranges {
    order: Order,
    /// Never handed out, rising.
    fresh: VecDeque<Range<Offset>>,
    fresh_offsets: u64,
    /// In turns: how many of those below `share_end` one consumer gets.
    share: u64,
    share_end: Offset,
    /// Handed out before, until when each waits; those that wait no longer, until 0.
    waiting: Spans<Tries>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// All to the consumer that came first.
    First,
    /// To all in turn.
    Turns,
}

impl Queue {
    pub(super) fn new(kind: SubscriptionType) -> Queue {
        let order = match kind {
            SubscriptionType::KeyShared => {
                return Queue::Keys(Keys::default());
            }
            SubscriptionType::Exclusive | SubscriptionType::Failover => Order::First,
            SubscriptionType::Shared => Order::Turns,
        };
        let (fresh, waiting) = (VecDeque::new(), Spans::default());
        let (share, share_end) = (0, Offset::ZERO);
        Queue::Ranges(Ranges { order, fresh, fresh_offsets: 0, share, share_end, waiting })
    }

    pub(super) fn is_by_key(&self) -> bool {
        matches!(self, Queue::Keys(_))
    }

    /// Adds what was never handed out, behind everything that was.
    pub(super) fn add_range(&mut self, range: Range<Offset>) {
        let Queue::Ranges(ranges) = self else {
            panic!("records of a key-shared subscription are offered with their keys");
        };
        ranges.fresh_offsets += range.start.distance(range.end);
        match ranges.fresh.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.fresh.push_back(range),
        }
    }

    /// Adds one record; false if no consumer wants its key.
    pub(super) fn add_record(&mut self, offset: Offset, key: &[u8], consumers: &Consumers) -> bool {
        let Queue::Keys(keys) = self else {
            panic!("only records of a key-shared subscription are offered with their keys");
        };
        keys.add(offset, key, consumers)
    }

    /// How many records could be handed out beyond those that are in here.
    pub(super) fn wants(&self, consumers: &Consumers, room: u64, max_unacked: u64) -> u64 {
        match self {
            Queue::Ranges(ranges) => {
                ranges.capacity(consumers).min(room).saturating_sub(ranges.fresh_offsets)
            }
            Queue::Keys(keys) => {
                let ahead = max_unacked.saturating_mul(KEYED_AHEAD).saturating_sub(keys.records());
                if keys.key_bytes() >= KEY_BYTES_AHEAD {
                    return 0;
                }
                let idle = consumers.iter().filter(|(id, _)| keys.peek_next(*id).is_none());
                let idle = idle.fold(0u64, |sum, (_, idle)| sum.saturating_add(idle.capacity()));
                idle.min(room).min(ahead)
            }
        }
    }

    /// Records that were handed out before and wait for another time, but for those whose consumer is not there.
    pub(super) fn waiting(&self) -> u64 {
        match self {
            Queue::Ranges(ranges) => ranges.waiting.offsets(),
            Queue::Keys(keys) => keys.tried_here(),
        }
    }

    /// The first record that was never handed out.
    pub(super) fn first_untried(&self) -> Option<Offset> {
        match self {
            Queue::Ranges(ranges) => ranges.fresh.front().map(|range| range.start),
            Queue::Keys(keys) => keys.first_untried(),
        }
    }

    /// The earliest time that a record waits for.
    pub(super) fn first_time(&self) -> Option<Duration> {
        match self {
            Queue::Ranges(ranges) => ranges.waiting.first_time_after(Duration::ZERO),
            Queue::Keys(keys) => keys.first_time(),
        }
    }

    /// Records whose time has come wait no longer.
    pub(super) fn advance(&mut self, now: Duration) {
        match self {
            Queue::Ranges(ranges) => ranges.waiting.advance(now),
            Queue::Keys(keys) => keys.advance(now),
        }
    }

    /// What is handed out next, and to whom.
    pub(super) fn next(
        &mut self,
        consumers: &mut Consumers,
        room: Room,
    ) -> Option<(ConsumerId, Range<Offset>, Tries)> {
        match self {
            Queue::Ranges(ranges) => ranges.next(consumers, room),
            Queue::Keys(keys) => {
                let can_go = |consumer| {
                    keys.peek_next(consumer).is_some_and(|(_, tries)| room.of(tries) > 0)
                };
                let consumer = consumers.next(can_go)?;
                let most = consumers.get(consumer)?.capacity();
                let (first, tries) = keys.take_next(consumer)?;
                let most = most.min(room.of(tries));
                let mut end = first + 1;
                while first.distance(end) < most && keys.peek_next(consumer) == Some((end, tries)) {
                    keys.take_next(consumer);
                    end += 1;
                }
                Some((consumer, first..end, tries))
            }
        }
    }

    /// Records that were handed out wait for another time. Those whose key nobody wants come back.
    pub(super) fn put_back(
        &mut self,
        range: Range<Offset>,
        due: Duration,
        tries: Tries,
    ) -> Vec<Offset> {
        let mut unwanted = Vec::new();
        match self {
            Queue::Ranges(ranges) => ranges.waiting.insert(range, due, tries),
            Queue::Keys(keys) => {
                let mut offset = range.start;
                while offset < range.end {
                    if !keys.put_back(offset, due, tries) {
                        unwanted.push(offset);
                    }
                    offset += 1;
                }
            }
        }
        unwanted
    }

    /// A record that was in flight is poison.
    pub(super) fn poisoned(&mut self, offset: Offset) {
        match self {
            Queue::Ranges(_) => {}
            Queue::Keys(keys) => keys.poisoned(offset),
        }
    }

    /// Takes out what of a range was handed out before, to `of` last, and waits; `None`: to whomever.
    pub(super) fn take_tried(
        &mut self,
        range: Range<Offset>,
        of: Option<ConsumerId>,
    ) -> Vec<Range<Offset>> {
        match self {
            Queue::Ranges(ranges) => {
                let taken = ranges.waiting.take(range, |tries| tries.is_of(of));
                taken.into_iter().map(|(range, _)| range).collect()
            }
            Queue::Keys(keys) => {
                keys.take_tried(range, of).into_iter().map(|offset| offset..offset + 1).collect()
            }
        }
    }

    /// Records in flight, or poison, are settled.
    pub(super) fn forget(&mut self, range: Range<Offset>) {
        match self {
            Queue::Ranges(_) => {}
            Queue::Keys(keys) => keys.settle(range),
        }
    }

    /// Takes out whatever of a range is in here and was never handed out.
    pub(super) fn remove(&mut self, range: Range<Offset>) {
        match self {
            Queue::Ranges(ranges) => ranges.remove_fresh(range),
            Queue::Keys(keys) => keys.settle(range),
        }
    }

    /// Consumers came or went. Records whose key nobody wants come back.
    pub(super) fn assign(&mut self, consumers: &Consumers) -> Vec<Offset> {
        match self {
            Queue::Ranges(_) => Vec::new(),
            Queue::Keys(keys) => keys.assign(consumers),
        }
    }
}

impl Ranges {
    fn capacity(&self, consumers: &Consumers) -> u64 {
        let of = |id| consumers.get(id).map_or(0, |consumer| consumer.capacity());
        match self.order {
            Order::First => consumers.first().map_or(0, of),
            Order::Turns => consumers
                .iter()
                .fold(0u64, |sum, (_, consumer)| sum.saturating_add(consumer.capacity())),
        }
    }

    fn next(
        &mut self,
        consumers: &mut Consumers,
        room: Room,
    ) -> Option<(ConsumerId, Range<Offset>, Tries)> {
        if let Some(length) = self.waiting.due_len() {
            let length = Some(length.min(room.together)).filter(|length| *length > 0)?;
            let share = length.div_ceil(consumers.able().max(1));
            let (consumer, most) = self.choose(consumers, length, share)?;
            let (range, tries) = self.waiting.take_due(Duration::ZERO, most)?;
            return Some((consumer, range, tries));
        }
        let room = room.of(Tries::default());
        let fresh = self.fresh.front().filter(|_| room > 0)?;
        let length = fresh.start.distance(fresh.end).min(room);
        if fresh.start >= self.share_end {
            self.share = length.div_ceil(consumers.able().max(1));
            self.share_end = fresh.start + length;
        }
        let (consumer, most) = self.choose(consumers, length, self.share)?;
        Some((consumer, self.take_fresh(most)?, Tries::default()))
    }

    /// Who gets what comes next, and how many: of `length` records that follow each other, or of its share in turns.
    fn choose(
        &self,
        consumers: &mut Consumers,
        length: u64,
        share: u64,
    ) -> Option<(ConsumerId, u64)> {
        let (consumer, most) = match self.order {
            Order::First => (consumers.first()?, length),
            Order::Turns => (consumers.next(|_| true)?, share.min(length)),
        };
        Some((consumer, consumers.get(consumer)?.capacity().min(most)))
    }

    fn take_fresh(&mut self, most: u64) -> Option<Range<Offset>> {
        let fresh = self.fresh.front_mut()?;
        let end = fresh.end.min(Offset::new(fresh.start.get().saturating_add(most)));
        let taken = fresh.start..end;
        fresh.start = end;
        if fresh.is_empty() {
            self.fresh.pop_front();
        }
        self.fresh_offsets -= taken.start.distance(taken.end);
        Some(taken)
    }

    fn remove_fresh(&mut self, range: Range<Offset>) {
        let cut = |fresh: Range<Offset>| {
            let before = fresh.start..fresh.end.min(range.start);
            let behind = fresh.start.max(range.end)..fresh.end;
            [before, behind].into_iter().filter(|part| !part.is_empty())
        };
        self.fresh = std::mem::take(&mut self.fresh).into_iter().flat_map(cut).collect();
        self.fresh_offsets = self.fresh.iter().map(|part| part.start.distance(part.end)).sum();
    }
}
