//! The plain model: one entry for each record, and a check of each rule at each step.

use std::collections::{BTreeMap, BTreeSet};

use danube_model::{Backoff, Chunk, PoisonPolicy};

use super::super::*;

/// Records that are offered together.
const BATCH: u64 = 5;
/// How long keys are kept for a consumer that is not there.
const ABSENCE: Duration = Duration::from_millis(7_000);

/// What may happen.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Publish(Vec<u8>),
    Join {
        consumer: u8,
        credit: u64,
        filter: u8,
    },
    Leave(u8),
    /// A consumer that is not there registers.
    Expect {
        consumer: u8,
        filter: u8,
    },
    Grant {
        consumer: u8,
        records: u64,
    },
    Room {
        consumer: u8,
        room: bool,
    },
    /// Offsets from the floor on; what `of` got last, see [`World::of`].
    Acknowledge {
        first: u64,
        count: u64,
        of: u8,
    },
    Refuse {
        offset: u64,
        of: u8,
        delay: u64,
    },
    Reject {
        offset: u64,
        of: u8,
    },
    Wait(u64),
    Missing {
        first: u64,
        count: u64,
    },
    Seek(u64),
    Save,
    Policy(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Flight { consumer: ConsumerId, deadline: Duration, number: usize },
    Waiting { due: Duration },
    Poison,
    Settled,
}

#[derive(Clone, Debug)]
struct Record {
    key: String,
    state: State,
    /// Who got it last.
    last: Option<ConsumerId>,
    deliveries: u32,
    failures: u32,
}

impl Record {
    fn is_of(&self, of: Option<ConsumerId>) -> bool {
        of.is_none() || self.last == of
    }
}

struct Present {
    id: ConsumerId,
    slot: u8,
    credit: u64,
    has_room: bool,
    filter: Filter,
    /// Delivery and offset that it dealt with last, and when.
    came_on: Option<(usize, u64, Duration)>,
}

pub(super) struct World {
    engine: Engine,
    kind: SubscriptionType,
    policy: FailurePolicy,
    max_unacked: u64,
    /// All that were published, by offset.
    records: Vec<Record>,
    /// Those that were not in the log, since the cursor was set.
    missing: BTreeSet<u64>,
    /// In the order in which they came.
    consumers: Vec<Present>,
    /// Those that are not there: their filters, and until when these count.
    absent: BTreeMap<u8, (Filter, Duration)>,
    /// When the last of those that were there left.
    alone_since: Option<Duration>,
    now: Duration,
    next_id: u64,
    expected: Vec<Action>,
    saved: (Offset, BTreeMap<u64, Chunk>),
    pub(super) actions: Vec<Action>,
}

fn policy(number: u8) -> FailurePolicy {
    let poison = match number {
        0 => PoisonPolicy::Block,
        1 => PoisonPolicy::Drop,
        _ => PoisonPolicy::DeadLetter("/default/dead".parse().unwrap()),
    };
    FailurePolicy {
        max_redelivery_count: 1 + u32::from(number),
        ack_timeout_ms: 5_000,
        base_redelivery_delay_ms: 1_000,
        max_redelivery_delay_ms: 4_000,
        backoff: Backoff::Exponential,
        poison,
    }
}

fn filter(number: u8) -> Filter {
    Filter::new(["*", "a*", "b?", "*"][usize::from(number)])
}

impl World {
    pub(super) fn new(kind: SubscriptionType, max_unacked: u64) -> World {
        let policy = policy(0);
        let settings = Settings {
            kind,
            promise: Promise::AtLeastOnce,
            max_unacked_messages: max_unacked,
            policy: policy.clone(),
            absence: ABSENCE,
            pace: None,
        };
        World {
            engine: Engine::new(settings, Cursor::new(Offset::ZERO)),
            kind,
            policy,
            max_unacked,
            records: Vec::new(),
            missing: BTreeSet::new(),
            consumers: Vec::new(),
            absent: BTreeMap::new(),
            alone_since: None,
            now: Duration::from_secs(1),
            next_id: 1,
            expected: Vec::new(),
            saved: (Offset::ZERO, BTreeMap::new()),
            actions: Vec::new(),
        }
    }

    fn is_by_key(&self) -> bool {
        self.kind == SubscriptionType::KeyShared
    }

    pub(super) fn event(&mut self, event: Event) {
        match event {
            Event::Publish(keys) => self.records.extend(keys.into_iter().map(|key| Record {
                key: format!("{}{key}", if key < 3 { "a" } else { "b" }),
                state: State::New,
                last: None,
                deliveries: 0,
                failures: 0,
            })),
            Event::Join { consumer, credit, filter } => self.join(consumer, credit, filter),
            Event::Leave(consumer) => self.leave(consumer),
            Event::Expect { consumer, filter } => self.expect(consumer, filter),
            Event::Grant { consumer, records } => {
                if let Some(present) = self.present(consumer) {
                    present.credit = present.credit.saturating_add(records);
                    let id = present.id;
                    self.engine.grant(id, records);
                }
            }
            Event::Room { consumer, room } => {
                if let Some(present) = self.present(consumer) {
                    present.has_room = room;
                    let id = present.id;
                    self.engine.set_room(id, room);
                }
            }
            Event::Acknowledge { first, count, of } => {
                let first = self.engine.cursor().floor() + first.saturating_sub(3);
                let of = self.of(of);
                self.acknowledge(first..first + count, of);
            }
            Event::Refuse { offset, of, delay } => {
                let offset = self.engine.cursor().floor() + offset / 4;
                let of = self.of(of);
                self.engine.refuse(offset, of, delay, "refused", self.now);
                if let Some(failures) = self.land(offset, of) {
                    self.came_on(offset.get());
                    let due = self.now + self.policy.delay(failures + 1, delay);
                    self.fail(offset, due, "refused");
                }
            }
            Event::Reject { offset, of } => {
                let offset = self.engine.cursor().floor() + offset / 4;
                let of = self.of(of);
                self.engine.reject(offset, of, "rejected");
                if self.land(offset, of).is_some() {
                    self.poison(offset, "rejected");
                }
            }
            Event::Wait(ms) => {
                self.now += Duration::from_millis(ms);
                self.time_out();
                if !self.consumers.is_empty() {
                    self.absent.retain(|_, (_, until)| *until > self.now);
                    self.skip_unwanted();
                }
            }
            Event::Missing { first, count } => {
                let next = self.engine.next_offset().get();
                let first = first.min(next);
                let end = (first + count).min(self.records.len() as u64).max(first);
                self.engine.missing(Offset::new(first)..Offset::new(end));
                (first..end).for_each(|at| self.records[at as usize].state = State::Settled);
                self.missing.extend(first..end);
            }
            Event::Seek(to) => self.seek(to),
            Event::Save => self.save(),
            Event::Policy(number) => self.set_policy(number),
        }
        self.run();
        self.check();
    }

    fn present(&mut self, slot: u8) -> Option<&mut Present> {
        self.consumers.iter_mut().find(|present| present.slot == slot)
    }

    fn join(&mut self, slot: u8, credit: u64, filter: u8) {
        if self.present(slot).is_some() {
            return;
        }
        let id = ConsumerId::new(self.next_id).unwrap();
        self.next_id += 1;
        let filter = self::filter(filter);
        let name = format!("consumer {slot}");
        let filters = vec![filter.clone()];
        self.engine.join(Joining { id, name: &name, credit, filters }, self.now);
        if self.consumers.is_empty() {
            let pause = self.alone_since.map_or(Duration::MAX, |since| self.now - since);
            let limit = self.now + ABSENCE;
            let prolonged = |until: Duration| until.saturating_add(pause).min(limit);
            self.absent.values_mut().for_each(|(_, until)| *until = prolonged(*until));
        }
        self.absent.remove(&slot);
        self.consumers.push(Present { id, slot, credit, has_room: true, filter, came_on: None });
        self.skip_unwanted();
    }

    fn leave(&mut self, slot: u8) {
        let Some(at) = self.consumers.iter().position(|present| present.slot == slot) else {
            return;
        };
        let Present { id, filter, .. } = self.consumers.remove(at);
        self.engine.leave(id, self.now);
        if self.consumers.is_empty() {
            self.alone_since = Some(self.now);
        }
        if self.is_by_key() {
            self.absent.insert(slot, (filter, self.now + ABSENCE));
        }
        for record in &mut self.records {
            if matches!(record.state, State::Flight { consumer, .. } if consumer == id) {
                record.state = State::Waiting { due: Duration::ZERO };
            }
        }
        self.skip_unwanted();
    }

    fn expect(&mut self, slot: u8, filter: u8) {
        let filter = self::filter(filter);
        self.engine.expect(&format!("consumer {slot}"), vec![filter.clone()], self.now);
        if self.consumers.is_empty() {
            self.alone_since.get_or_insert(self.now);
        }
        if self.is_by_key() && self.present(slot).is_none() {
            self.absent.insert(slot, (filter, self.now + ABSENCE));
            self.skip_unwanted();
        }
    }

    fn is_wanted(&self, key: &str) -> bool {
        let absent = self.absent.values().map(|(filter, _)| filter);
        !self.is_by_key()
            || self.consumers.is_empty()
            || self.is_taken(key)
            || absent.into_iter().any(|filter| filter.matches(key.as_bytes()))
    }

    /// Whether somebody who is there wants a key.
    fn is_taken(&self, key: &str) -> bool {
        let mut filters = self.consumers.iter().map(|present| &present.filter);
        !self.is_by_key() || filters.any(|filter| filter.matches(key.as_bytes()))
    }

    /// What waits, of keys that nobody wants, is settled.
    fn skip_unwanted(&mut self) {
        let offered = self.engine.next_offset().get() as usize;
        for at in 0..offered {
            let waits = matches!(self.records[at].state, State::New | State::Waiting { .. });
            if waits && !self.is_wanted(&self.records[at].key) {
                self.records[at].state = State::Settled;
            }
        }
    }

    /// Whose deliveries are meant: from 4 on anybody's, below a consumer's, or one's that may have gone.
    fn of(&mut self, slot: u8) -> Option<ConsumerId> {
        let gone = || ConsumerId::new(1 + u64::from(slot)).unwrap();
        (slot < 4).then(|| self.present(slot).map_or_else(gone, |present| present.id))
    }

    fn acknowledge(&mut self, range: Range<Offset>, of: Option<ConsumerId>) {
        self.engine.acknowledge(range.clone(), of, self.now);
        let end = range.end.get().min(self.records.len() as u64);
        for at in range.start.get()..end {
            if !self.records[at as usize].is_of(of) {
                continue;
            }
            self.came_on(at);
            let record = &mut self.records[at as usize];
            if record.state != State::New {
                record.state = State::Settled;
            }
        }
    }

    /// A consumer deals with a record that it holds.
    fn came_on(&mut self, at: u64) {
        let state = self.records.get(at as usize).map(|record| record.state);
        let Some(State::Flight { consumer, number, .. }) = state else { return };
        let present = self.consumers.iter_mut().find(|present| present.id == consumer);
        present.expect("it is there").came_on = Some((number, at, self.now));
    }

    /// How often a record in flight had failed, if it is.
    fn land(&mut self, offset: Offset, of: Option<ConsumerId>) -> Option<u32> {
        let record = self.records.get(offset.get() as usize)?;
        let is_at = matches!(record.state, State::Flight { .. }) && record.is_of(of);
        is_at.then_some(record.failures)
    }

    fn fail(&mut self, offset: Offset, due: Duration, reason: &str) {
        self.records[offset.get() as usize].failures += 1;
        self.again(offset, due, reason);
    }

    fn again(&mut self, offset: Offset, due: Duration, reason: &str) {
        let record = &self.records[offset.get() as usize];
        if record.failures > self.policy.max_redelivery_count {
            return self.poison(offset, reason);
        }
        let is_wanted = self.is_wanted(&record.key);
        let state = if is_wanted { State::Waiting { due } } else { State::Settled };
        self.records[offset.get() as usize].state = state;
    }

    fn poison(&mut self, offset: Offset, reason: &str) {
        let record = &mut self.records[offset.get() as usize];
        let (deliveries, reason) = (record.deliveries, reason.to_owned());
        record.state = State::Poison;
        self.expected.push(match self.policy.poison {
            PoisonPolicy::Block => Action::Blocked { offset, deliveries, reason },
            PoisonPolicy::Drop => {
                record.state = State::Settled;
                Action::Dropped { offset, deliveries }
            }
            PoisonPolicy::DeadLetter(_) => Action::DeadLetter { offset, deliveries, reason },
        });
    }

    fn time_out(&mut self) {
        let timeout = Duration::from_millis(self.policy.ack_timeout_ms);
        let mut late = Vec::new();
        for (at, record) in self.records.iter_mut().enumerate() {
            let State::Flight { consumer, deadline, number } = &mut record.state else { continue };
            if *deadline > self.now {
                continue;
            }
            let present = self.consumers.iter().find(|present| present.id == *consumer);
            match present.and_then(|present| present.came_on) {
                Some((before, offset, when))
                    if (before, offset) < (*number, at as u64) && when + timeout > self.now =>
                {
                    *deadline = when + timeout;
                }
                _ => late.push((*deadline, Offset::new(at as u64))),
            }
        }
        late.sort();
        for (_, offset) in late {
            self.fail(offset, Duration::ZERO, "not acknowledged in time");
        }
    }

    fn seek(&mut self, to: u64) {
        self.missing.clear();
        // The engine forgets what was to be done too.
        let to = to.min(self.records.len() as u64);
        self.engine.seek(Offset::new(to));
        for (at, record) in self.records.iter_mut().enumerate() {
            let state = if (at as u64) < to { State::Settled } else { State::New };
            *record =
                Record { state, last: None, deliveries: 0, failures: 0, key: record.key.clone() };
        }
        self.saved = (Offset::new(to), BTreeMap::new());
    }

    fn set_policy(&mut self, number: u8) {
        let blocked: Vec<_> = self.engine.blocked().collect();
        let reason = |offset: Offset| {
            let of = |action: &&Action| {
                matches!(action,
                Action::Blocked { offset: blocked, .. } if *blocked == offset)
            };
            match self.actions.iter().rev().find(of) {
                Some(Action::Blocked { reason, .. }) => reason.clone(),
                other => panic!("{other:?}"),
            }
        };
        let blocked: Vec<_> = blocked.into_iter().map(|offset| (offset, reason(offset))).collect();
        self.policy = policy(number);
        self.engine.set_policy(self.policy.clone());
        for (offset, reason) in blocked {
            self.again(offset, Duration::ZERO, &reason);
        }
    }

    fn save(&mut self) {
        if let Some(changes) = self.engine.take_changes() {
            self.saved.0 = changes.floor;
            self.saved.1.extend(changes.chunks);
            self.saved.1 = self.saved.1.split_off(&Chunk::index_of(changes.floor));
        }
        let chunks = self.saved.1.iter().map(|(index, chunk)| (*index, chunk));
        let restored = Cursor::restore(self.saved.0, chunks);
        assert_eq!(restored.floor(), self.engine.cursor().floor());
        // What is missing is met again; everything else that is settled was saved.
        let unsettled = |cursor: &Cursor| cursor.unsettled(Offset::ZERO..self.engine.next_offset());
        let of = |ranges: Vec<Range<Offset>>| {
            ranges.into_iter().flat_map(|range| range.start.get()..range.end.get())
        };
        let restored = of(unsettled(&restored)).filter(|at| !self.missing.contains(at));
        assert!(restored.eq(of(unsettled(self.engine.cursor()))));
    }

    /// Reads what the engine wants, and does what it says.
    fn run(&mut self) {
        loop {
            self.offer();
            let Some(action) = self.engine.poll(self.now) else {
                if self.engine.wants() > 0
                    && (self.engine.next_offset().get() as usize) < self.records.len()
                {
                    continue;
                }
                break;
            };
            self.actions.push(action.clone());
            if let Action::Deliver(delivery) = action {
                self.deliver(delivery);
                continue;
            }
            assert_eq!(self.expected.first(), Some(&action));
            self.expected.remove(0);
            if let Action::DeadLetter { offset, .. } = action
                && !offset.get().is_multiple_of(3)
            {
                self.acknowledge(offset..offset + 1, None);
            }
        }
    }

    fn offer(&mut self) {
        let next = self.engine.next_offset().get();
        let end = (next + BATCH).min(self.records.len() as u64);
        if self.engine.wants() == 0 || next == end {
            return;
        }
        // A batch may begin below what was asked for.
        let range = Offset::new(next.saturating_sub(2))..Offset::new(end);
        if self.is_by_key() {
            let first = range.start.get();
            let records = &self.records[first as usize..end as usize];
            let keys = records
                .iter()
                .zip(first..)
                .map(|(record, at)| (Offset::new(at), record.key.as_bytes()));
            self.engine.offer_records(range, keys);
        } else {
            self.engine.offer(range);
        }
        for at in next..end {
            if !self.is_wanted(&self.records[at as usize].key) {
                self.records[at as usize].state = State::Settled;
            }
        }
    }

    /// Records in flight, waiting for another delivery to somebody who is there, or poison.
    fn open(&self) -> u64 {
        let is_open = |record: &&Record| match record.state {
            State::New | State::Settled => false,
            State::Waiting { .. } => self.is_taken(&record.key),
            State::Flight { .. } | State::Poison => true,
        };
        self.records.iter().filter(is_open).count() as u64
    }

    /// Those of them that do not wait.
    fn held(&self) -> u64 {
        let is_held =
            |record: &&Record| matches!(record.state, State::Flight { .. } | State::Poison);
        self.records.iter().filter(is_held).count() as u64
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { consumer, range, deliveries } = delivery;
        assert!(!range.is_empty());
        let number = self.actions.len();
        for at in range.start.get()..range.end.get() {
            self.check_delivery(consumer, at as usize);
            let deadline = self.now + Duration::from_millis(self.policy.ack_timeout_ms);
            let record = &mut self.records[at as usize];
            record.state = State::Flight { consumer, deadline, number };
            record.last = Some(consumer);
            record.deliveries += 1;
            assert_eq!(record.deliveries, deliveries);
            let present = self.consumers.iter_mut().find(|present| present.id == consumer);
            let present = present.expect("it is there");
            assert!(present.has_room && present.credit > 0, "{consumer} can't take it");
            if present.credit < u64::MAX {
                present.credit -= 1;
            }
        }
    }

    fn check_delivery(&self, consumer: ConsumerId, at: usize) {
        let record = &self.records[at];
        let is_due = |state| matches!(state, State::Waiting { due } if due <= self.now);
        let is_new = record.state == State::New;
        assert!(is_new || is_due(record.state), "{at} is {:?}", record.state);
        let open = if is_new { self.open() } else { self.held() };
        assert!(open < self.max_unacked, "more than the window");
        let (before, after) = (&self.records[..at], &self.records[at + 1..]);
        if self.is_by_key() {
            let same_key = |other: &&Record| other.key == record.key;
            for other in before.iter().filter(same_key) {
                let is_fine = match other.state {
                    State::Settled => true,
                    State::Flight { consumer: holder, .. } => holder == consumer,
                    State::New | State::Waiting { .. } | State::Poison => false,
                };
                assert!(is_fine, "{at} overtakes one that is {:?}", other.state);
            }
            for other in after.iter().filter(same_key) {
                let at_another = matches!(other.state, State::Flight { consumer: holder, .. } if holder != consumer);
                assert!(!at_another, "{at} goes to another consumer than later ones of its key");
            }
            let present = self.consumers.iter().find(|present| present.id == consumer).unwrap();
            assert!(present.filter.matches(record.key.as_bytes()));
        } else {
            assert!(
                self.records.iter().all(|record| record.state != State::Poison || !self.blocks())
            );
            assert!(before.iter().all(|other| if is_new {
                other.state != State::New
            } else {
                !is_due(other.state)
            }));
            assert!(!is_new || !self.records.iter().any(|other| is_due(other.state)));
            if self.kind != SubscriptionType::Shared {
                assert_eq!(self.consumers[0].id, consumer, "it was another's turn");
            }
        }
    }

    fn blocks(&self) -> bool {
        self.engine.blocked().next().is_some()
    }

    /// What must hold when there is nothing left to do.
    fn check(&self) {
        assert_eq!(self.expected, [], "something was to be done");
        let floor = self.records.iter().position(|record| record.state != State::Settled);
        let floor = floor.unwrap_or(self.records.len());
        assert_eq!(self.engine.cursor().floor().get(), floor as u64);
        for range in self.engine.cursor().settled() {
            for at in range.start.get()..range.end.get() {
                assert_eq!(self.records[at as usize].state, State::Settled, "{at}");
            }
        }
        let settled = |record: &&Record| record.state == State::Settled;
        let above = self.records[floor..].iter().filter(settled).count() as u64;
        let ranges = self.engine.cursor().settled();
        assert_eq!(ranges.map(|range| range.start.distance(range.end)).sum::<u64>(), above);
        let times = self.records.iter().filter_map(|record| match record.state {
            State::Flight { deadline, .. } => Some(deadline),
            State::Waiting { due } => Some(due).filter(|due| *due > self.now),
            State::New | State::Poison | State::Settled => None,
        });
        let absence = self.absent.values().map(|(_, until)| *until);
        let absence = absence.filter(|_| !self.consumers.is_empty());
        assert_eq!(self.engine.next_timer(), times.chain(absence).min());
        let in_flight = |record: &&Record| matches!(record.state, State::Flight { .. });
        assert_eq!(self.engine.in_flight(), self.records.iter().filter(in_flight).count() as u64);
        self.check_nothing_waits_in_vain();
    }

    /// All records; or only those that were offered, when so many of them are not settled that nothing more is read.
    fn within_reach(&self) -> impl Iterator<Item = &Record> {
        let offered = self.engine.next_offset().get() as usize;
        let is_open = |record: &&Record| record.state != State::Settled;
        let known = self.records[..offered].iter().filter(is_open).count() as u64;
        let most = 16 * self.max_unacked;
        // It reads a batch as long as there is room for one record.
        assert!(known < most + BATCH, "{known} are known ahead, of {most}");
        let is_full = known >= most;
        self.records.iter().take(if is_full { offered } else { self.records.len() })
    }

    fn check_nothing_waits_in_vain(&self) {
        let can_take = |present: &&Present| present.has_room && present.credit > 0;
        let has_room = self.open() < self.max_unacked;
        let has_room_again = self.held() < self.max_unacked;
        let may_go = |record: &&Record| match record.state {
            State::New => has_room,
            State::Waiting { due } => has_room_again && due <= self.now,
            State::Flight { .. } | State::Poison | State::Settled => false,
        };
        if self.is_by_key() {
            let mut firsts = BTreeMap::new();
            for record in self.within_reach().filter(|record| record.state != State::Settled) {
                firsts.entry(&record.key).or_insert(record);
            }
            for record in firsts.values().filter(|record| may_go(record)) {
                let is_later_in_flight = |other: &&Record| {
                    other.key == record.key && matches!(other.state, State::Flight { .. })
                };
                if self.records.iter().any(|other| is_later_in_flight(&other)) {
                    continue;
                }
                let mut wanting = self
                    .consumers
                    .iter()
                    .filter(|present| present.filter.matches(record.key.as_bytes()));
                let all_can = wanting.clone().all(|present| can_take(&present));
                assert!(wanting.next().is_none() || !all_can, "{record:?} waits in vain");
            }
        } else if !self.blocks() {
            let is_shared = self.kind == SubscriptionType::Shared;
            let count = if is_shared { self.consumers.len() } else { 1 };
            let who = &self.consumers[..self.consumers.len().min(count)];
            if who.iter().any(|present| can_take(&present)) {
                let waits = self.records.iter().find(may_go);
                assert!(waits.is_none(), "{waits:?} waits in vain");
            }
        }
    }

    /// One good consumer settles everything that is not poison.
    pub(super) fn finish(&mut self) {
        for slot in 0..4 {
            self.leave(slot);
        }
        self.set_policy(1);
        self.join(9, u64::MAX, 0);
        for _ in 0..self.records.len() + 1 {
            self.event(Event::Wait(4_000));
            let end = Offset::new(self.records.len() as u64);
            self.event(Event::Save);
            self.acknowledge(Offset::ZERO..end, None);
            self.run();
            self.check();
        }
        assert_eq!(self.engine.cursor().floor().get(), self.records.len() as u64);
    }
}
