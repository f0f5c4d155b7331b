//! The engine of one subscription: events in, actions out. `docs/delivery.md` states the rules.
//!
//! ```text
//!  offer ──▶ fresh or keys ──▶ poll: Deliver ──▶ flights ──▶ acknowledge ──▶ cursor
//!                 ▲                                 │
//!                 └── waiting, until it is due ◀────┤ refuse, time-out, leave
//!                                                   └──▶ poison ──▶ poll: DeadLetter, Dropped, Blocked
//! ```
//!
//! Records are handled as ranges of offsets; only key-shared looks at each. Children: `queue` (what is to be handed out,
//! by range or by key), `failure` (what becomes of records that fail), `absences` (consumers that may come back).

mod absences;
mod failure;
mod queue;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use danube_model::{ConsumerId, FailurePolicy, Offset, SubscriptionType};

use self::failure::Poison;
use self::queue::{Queue, Room};
use crate::consumers::{Consumer, Consumers};
use crate::cursor::{Cursor, CursorChanges};
use crate::filter::Filter;
use crate::keys;
use crate::pace::Pace;
use crate::ranges::uncovered;
use crate::spans::Spans;

/// What is set for a subscription.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who gets what.
    pub kind: SubscriptionType,
    /// What a delivery promises.
    pub promise: Promise,
    /// Records that may be delivered and not settled; at least 1.
    pub max_unacked_messages: u64,
    /// What becomes of records that fail.
    pub policy: FailurePolicy,
    /// Key-shared: how long keys are kept for a consumer that is not there, while others are.
    pub absence: Duration,
    /// How many records are handed out a second, redeliveries included; `None`: as many as are wanted.
    pub pace: Option<Pace>,
}

/// What a delivery promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A record is settled when it is acknowledged.
    AtLeastOnce,
    /// A record is settled when it is handed out.
    AtMostOnce,
}

/// A consumer that comes.
#[derive(Clone, Debug)]
pub struct Joining<'a> {
    /// Its id; none that is there already.
    pub id: ConsumerId,
    /// Its name: keys go by it, so that they come back to it.
    pub name: &'a str,
    /// Records that it may be sent; `u64::MAX`: without limit.
    pub credit: u64,
    /// Which keys it wants; empty: every one. Key-shared only.
    pub filters: Vec<Filter>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send records to a consumer.
    Deliver(Delivery),
    /// Append a record to the dead-letter topic, then acknowledge it here.
    DeadLetter {
        /// Which.
        offset: Offset,
        /// How often it was delivered.
        deliveries: u32,
        /// What its consumer said, or what went wrong.
        reason: String,
    },
    /// Poison was settled by dropping it.
    Dropped {
        /// Which.
        offset: Offset,
        /// How often it was delivered.
        deliveries: u32,
    },
    /// Poison holds up the subscription, or its key.
    Blocked {
        /// Which.
        offset: Offset,
        /// How often it was delivered.
        deliveries: u32,
        /// What its consumer said, or what went wrong.
        reason: String,
    },
}

/// Records for one consumer. None of them is settled, and none is at another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Who gets them.
    pub consumer: ConsumerId,
    /// Which.
    pub range: Range<Offset>,
    /// How often they were delivered, this time included.
    pub deliveries: u32,
}

/// How often a record was delivered, to whom last, and how often that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    pub(crate) deliveries: u32,
    pub(crate) failures: u32,
    /// `None`: it was not delivered yet.
    pub(crate) consumer: Option<ConsumerId>,
}

impl Tries {
    /// Whether it was delivered to this consumer last; `None`: whoever that was.
    pub(crate) fn is_of(&self, consumer: Option<ConsumerId>) -> bool {
        consumer.is_none() || self.consumer == consumer
    }
}

/// Records at a consumer.
#[derive(Clone, Copy, Debug)]
struct Flight {
    tries: Tries,
    /// Of the delivery: later ones have greater ones.
    number: u64,
}

/// One subscription's deliveries.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    cursor: Cursor,
    /// Everything below it was offered.
    next: Offset,
    queue: Queue,
    /// Until when each is to be settled, unless its consumer comes on.
    flights: Spans<Flight>,
    /// How many deliveries there were.
    delivered: u64,
    poison: Poison,
    consumers: Consumers,
    /// When the last consumer left, or the first one was expected; none is there now.
    alone_since: Option<Duration>,
    /// What the pace lets go, as of the last call of [`Engine::poll`].
    available: u64,
    actions: VecDeque<Action>,
}

impl Engine {
    /// An engine that begins at a cursor.
    pub fn new(settings: Settings, cursor: Cursor) -> Engine {
        Engine {
            next: cursor.floor(),
            queue: Queue::new(settings.kind),
            cursor,
            flights: Spans::default(),
            delivered: 0,
            poison: Poison::default(),
            consumers: Consumers::default(),
            alone_since: None,
            available: u64::MAX,
            actions: VecDeque::new(),
            settings,
        }
    }

    /// What is settled.
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// What of the cursor is to be saved; see [`Cursor::take_changes`].
    pub fn take_changes(&mut self) -> Option<CursorChanges> {
        self.cursor.take_changes()
    }

    /// A save may have failed: everything of the cursor counts as changed.
    pub fn forget_saves(&mut self) {
        self.cursor.forget_saves();
    }

    /// The offset that is to be offered next.
    pub fn next_offset(&self) -> Offset {
        self.next
    }

    /// Records at consumers.
    pub fn in_flight(&self) -> u64 {
        self.flights.offsets()
    }

    /// Poison that holds up the subscription, or its key, rising.
    pub fn blocked(&self) -> impl Iterator<Item = Offset> + '_ {
        self.poison.blocked()
    }

    /// What of a range is neither settled nor at a consumer, rising.
    pub fn not_in_flight(&self, range: Range<Offset>) -> Vec<Range<Offset>> {
        let unsettled = self.cursor.unsettled(range).into_iter();
        let waiting = |range: Range<Offset>| uncovered(range.clone(), self.flights.within(range));
        unsettled.flat_map(waiting).collect()
    }

    /// How many further records could be handed out at once; 0: nothing is to be read.
    pub fn wants(&self) -> u64 {
        if self.is_blocked() {
            return 0;
        }
        let room = self.room().fresh.min(self.available);
        self.queue.wants(&self.consumers, room, self.settings.max_unacked_messages)
    }

    /// Whether nothing is handed out for now, whatever there is, so that the pace is kept.
    pub fn is_paced(&self) -> bool {
        self.available == 0
    }

    /// The first offset that was offered and not delivered yet; `None` if there is none.
    pub fn first_undelivered(&self) -> Option<Offset> {
        self.queue.first_untried()
    }

    /// When [`Engine::poll`] is to be called even if nothing happens. Never before the time of the last call.
    pub fn next_timer(&self) -> Option<Duration> {
        let timeout = self.flights.first_time_after(Duration::ZERO);
        let timeout = timeout.filter(|at| *at < Duration::MAX);
        let absence = self.consumers.absent.first_time().filter(|_| !self.consumers.is_empty());
        let pace = self.settings.pace.filter(|_| self.is_paced()).map(|pace| pace.available_at());
        [timeout, self.queue.first_time(), absence, pace].into_iter().flatten().min()
    }

    /// Records that may be handed out beyond those that are not settled.
    fn room(&self) -> Room {
        let open = self.flights.offsets() + self.poison.offsets();
        let again = self.settings.max_unacked_messages.saturating_sub(open);
        let fresh = again.saturating_sub(self.queue.waiting());
        Room { fresh, again, together: self.available }
    }

    fn is_blocked(&self) -> bool {
        !self.queue.is_by_key() && self.poison.is_blocked()
    }

    /// The records of a batch are in the log. Of a key-shared subscription [`Engine::offer_records`] says more.
    ///
    /// # Panics
    /// If there are offsets before it that were not offered, nor told to be missing; or for a key-shared subscription.
    pub fn offer(&mut self, range: Range<Offset>) {
        let new = self.advance(range);
        for range in self.cursor.unsettled(new) {
            self.queue.add_range(range);
        }
    }

    /// The records of a batch are in the log, each with its key; offsets between them have none.
    ///
    /// # Panics
    /// If there are offsets before it that were not offered, nor told to be missing; or if the subscription is not
    /// key-shared.
    pub fn offer_records<'a>(
        &mut self,
        range: Range<Offset>,
        records: impl IntoIterator<Item = (Offset, &'a [u8])>,
    ) {
        let new = self.advance(range);
        let mut at = new.start;
        for (offset, key) in records {
            if !new.contains(&offset) {
                continue;
            }
            self.cursor.settle(at..offset);
            at = offset + 1;
            if self.cursor.unsettled(offset..at).is_empty() {
                continue;
            }
            if !self.queue.add_record(offset, key, &self.consumers) {
                self.cursor.settle(offset..at);
            }
        }
        self.cursor.settle(at..new.end);
    }

    /// Moves `next` behind a range; what of it is new.
    fn advance(&mut self, range: Range<Offset>) -> Range<Offset> {
        assert!(range.start <= self.next, "offered {range:?}, {} was to be next", self.next);
        let start = self.next.min(range.end);
        self.next = self.next.max(range.end);
        start..range.end
    }

    /// The offsets of a range are not in the log any more, or will never be: they are settled, in flight or not.
    pub fn missing(&mut self, range: Range<Offset>) {
        for (taken, flight) in self.flights.take(range.clone(), |_| true) {
            self.landed(&flight, &taken);
            self.settled(taken);
        }
        self.settle_tried(range.clone(), None);
        self.queue.remove(range.clone());
        if range.start <= self.next {
            self.next = self.next.max(range.end);
            self.cursor.pass_over(range);
        }
    }

    /// Records were acknowledged, or appended to the dead-letter topic. Offsets that were not delivered are passed over, and
    /// those that were not delivered to `of` last; `None`: whoever that was.
    pub fn acknowledge(&mut self, range: Range<Offset>, of: Option<ConsumerId>, now: Duration) {
        for (taken, flight) in self.flights.take(range.clone(), |flight| flight.tries.is_of(of)) {
            self.landed(&flight, &taken);
            self.came_on(&flight, taken.start, now);
            self.settled(taken);
        }
        self.settle_tried(range, of);
    }

    /// Settles what was delivered and is in flight no more.
    fn settle_tried(&mut self, range: Range<Offset>, of: Option<ConsumerId>) {
        for taken in self.queue.take_tried(range.clone(), of) {
            self.settled(taken);
        }
        for taken in self.poison.take(range, of) {
            self.settled(taken);
        }
    }

    fn settled(&mut self, range: Range<Offset>) {
        self.queue.forget(range.clone());
        self.cursor.settle(range);
    }

    /// The consumer holds the records of a flight no more.
    fn landed(&mut self, flight: &Flight, range: &Range<Offset>) {
        if let Some(consumer) = flight.tries.consumer.and_then(|id| self.consumers.get_mut(id)) {
            consumer.in_flight -= range.start.distance(range.end);
        }
    }

    /// The consumer of a flight dealt with it, from `first` on.
    fn came_on(&mut self, flight: &Flight, first: Offset, at: Duration) {
        if let Some(consumer) = flight.tries.consumer.and_then(|id| self.consumers.get_mut(id)) {
            consumer.came_on = Some((flight.number, first, at));
        }
    }

    /// A consumer came. Whether it may is the caller's to decide.
    pub fn join(&mut self, joining: Joining<'_>, now: Duration) {
        let Joining { id, name, credit, filters } = joining;
        let filters = if self.queue.is_by_key() { filters } else { Vec::new() };
        let seed = keys::hash(name.as_bytes());
        let (name, came_on) = (name.into(), None);
        let consumer =
            Consumer { credit, has_room: true, in_flight: 0, came_on, filters, name, seed };
        if self.consumers.is_empty() {
            // It is the first one that comes back: meanwhile nothing was skipped, and nobody's time has passed.
            let since = self.alone_since.take();
            let pause = since.map_or(Duration::MAX, |since| now.saturating_sub(since));
            let limit = now.saturating_add(self.settings.absence);
            self.consumers.absent.prolong(pause, limit);
        }
        self.consumers.join(id, consumer);
        self.assign();
    }

    /// A consumer has gone: what it held is handed out again at once, or kept for it.
    pub fn leave(&mut self, id: ConsumerId, now: Duration) {
        let Some(Consumer { name, filters, .. }) = self.consumers.leave(id) else { return };
        self.keep_keys(self.settings.absence, name, filters, now);
        if self.consumers.is_empty() {
            self.alone_since = Some(now);
        }
        for (range, flight) in self.flights.take_where(|flight| flight.tries.is_of(Some(id))) {
            self.put_back(range, Duration::ZERO, flight.tries);
        }
        self.assign();
    }

    /// Keys get the consumers that are there; those that nobody wants are settled.
    fn assign(&mut self) {
        for offset in self.queue.assign(&self.consumers) {
            self.cursor.settle(offset..offset + 1);
        }
    }

    /// A consumer may be sent so many records more.
    pub fn grant(&mut self, id: ConsumerId, records: u64) {
        if let Some(consumer) = self.consumers.get_mut(id) {
            consumer.credit = consumer.credit.saturating_add(records);
        }
    }

    /// Whether there is room for what a consumer is sent; there is when it joins.
    pub fn set_room(&mut self, id: ConsumerId, has_room: bool) {
        if let Some(consumer) = self.consumers.get_mut(id) {
            consumer.has_room = has_room;
        }
    }

    /// Records at one consumer.
    pub fn in_flight_at(&self, id: ConsumerId) -> u64 {
        self.consumers.get(id).map_or(0, |consumer| consumer.in_flight)
    }

    /// Begins anew at an offset. All that was known of records is forgotten; the consumers stay.
    pub fn seek(&mut self, offset: Offset) {
        self.cursor = Cursor::new(offset);
        self.next = offset;
        self.queue = Queue::new(self.settings.kind);
        self.flights = Spans::default();
        self.poison = Poison::default();
        self.actions.clear();
        self.consumers.iter_mut().for_each(|consumer| consumer.in_flight = 0);
    }

    /// What to do next, if there is something. To be called until there is nothing, after events and when
    /// [`Engine::next_timer`] says so.
    pub fn poll(&mut self, now: Duration) -> Option<Action> {
        self.time_out(now);
        self.queue.advance(now);
        if !self.consumers.is_empty() && self.consumers.absent.expire(now) {
            self.assign();
        }
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        if self.is_blocked() {
            return None;
        }
        let pace = self.settings.pace.as_mut();
        self.available = pace.map_or(u64::MAX, |pace| pace.available(now));
        let room = self.room();
        let (consumer, range, mut tries) = self.queue.next(&mut self.consumers, room)?;
        let count = range.start.distance(range.end);
        if let Some(pace) = &mut self.settings.pace {
            pace.take(count);
        }
        tries.deliveries += 1;
        tries.consumer = Some(consumer);
        let to = self.consumers.get_mut(consumer).expect("the queue chose one that is there");
        if to.credit < u64::MAX {
            to.credit -= count;
        }
        match self.settings.promise {
            Promise::AtLeastOnce => {
                to.in_flight += count;
                self.delivered += 1;
                let flight = Flight { tries, number: self.delivered };
                let deadline = self.deadline(now);
                self.flights.insert(range.clone(), deadline, flight);
            }
            Promise::AtMostOnce => self.settled(range.clone()),
        }
        Some(Action::Deliver(Delivery { consumer, range, deliveries: tries.deliveries }))
    }
}
