//! What a producer knows about the batches that it has not settled yet, for one topic: no I/O, no clock.
//!
//! The shell tells it what happens ([`Machine::push`], [`Machine::opened`], [`Machine::acked`], …) and asks it what to do
//! ([`Machine::next_send`], [`Machine::next_event`], [`Machine::wake_at`]).
//!
//! # What the broker promises
//!
//! A topic takes a batch only if its producer epoch is the newest and its sequence continues the last batch taken, 0 in
//! a new epoch. A batch that it has taken already is acknowledged again. So if a number was never taken in an epoch, no
//! higher one ever was either. While an alias is open its batches are answered one for each, in order.
//!
//! # Phases of a batch
//!
//! ```text
//!            next_send               acked
//!  Waiting ─────────────▶ InFlight ─────────▶ stored
//!     ▲                      │
//!     ├──── refused, retry ──┤
//!     ├──── ended ───────────┤
//!     └──── cut off ─────────┘   may_be_stored from here on
//! ```
//!
//! A batch gets its number (producer epoch, base sequence) when it is first sent, and keeps it: sending it again under
//! the same number is always safe, whatever became of the earlier attempts. It `may_be_stored` once an attempt ended
//! without an answer, or with one that says *unknown*; nothing takes that back, because a copy of the attempt may still
//! lie in a buffer somewhere and arrive at any time.
//!
//! # After a refusal
//!
//! The broker refuses what is in flight behind the refused batch, too. So sending stops, the answers are awaited
//! (`draining`), and then all goes on from the first batch. Only the first batch's refusal decides anything; those
//! behind it are refused for its sake. What is done with the first:
//!
//! | refusal | an attempt may be stored | no attempt can be |
//! |---|---|---|
//! | retryable | again, same number | again, same number |
//! | for good | fails, *unknown* | fails, *definite*; those behind are renumbered |
//! | does not continue the sequence | fails, *unknown* | it and those behind are renumbered |
//!
//! **Renumbering** begins a new producer epoch at sequence 0, which shuts out every late copy of an older number. It is
//! done only from a batch that was never stored on: by the broker's promise those behind it were not stored either, so
//! none is stored twice. Behind a batch that failed as *unknown* the old numbers are kept, and each batch there finds
//! out for itself in the same way: either its number still continues, or it is told that it does not. Since a new epoch
//! continues nothing, its first batch is sent only when all of the epoch before are settled.
//!
//! # Time-out
//!
//! A batch that runs out of time and can't have been stored is taken out: *definite*, and those behind are renumbered.
//! One that may be stored is only given up by those who wait for it (*unknown*); it goes on holding its place, and is
//! sent again, as long as one behind it is still waited for. When nobody waits any longer, all are dropped and the next
//! batch begins a new epoch.

use std::collections::VecDeque;
use std::time::Duration;

use danube_model::{Sequence, TopicId};
use danube_proto::failure::Outcome;

use crate::backoff::Backoff;

/// How many batches of a topic may be in flight.
pub(crate) const IN_FLIGHT_MAX: usize = danube_model::caps::BATCHES_IN_FLIGHT_MAX;

/// Names a batch among all of a producer; rises in the order in which they are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BatchId(pub(crate) u64);

/// What a batch is numbered with on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// How often the numbering began anew. Never falls.
    pub(crate) epoch: u32,
    /// Of the batch's first record.
    pub(crate) base: Sequence,
}

/// A batch to send, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Send {
    pub(crate) id: BatchId,
    pub(crate) number: Number,
}

/// What the machine needs to know of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) outcome: Outcome,
    pub(crate) is_retryable: bool,
    /// The refusal was about the batch's number only.
    pub(crate) breaks_sequence: bool,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is stored; the answer that said so came with it.
    Stored,
    /// It failed for good, for the reason in the answer that came last.
    Refused(Outcome),
    /// It may be stored, but the broker no longer tells.
    Untraceable,
    /// Its time ran out.
    TimedOut(Outcome),
}

/// What the shell has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Those who wait for the batch learn its fate. Comes at most once for each.
    Settled(BatchId, Fate),
    /// The batch will not be sent again: its bytes can go. Comes once for each, last.
    Released(BatchId),
}

/// The broker answered what was not asked: its stream can't be trusted any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnexpectedAnswer;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Machine {
    /// By id.
    entries: VecDeque<Entry>,
    /// The attempts that have no answer yet, in the order in which they were sent.
    unanswered: VecDeque<(BatchId, Sequence)>,
    epoch: u32,
    next_sequence: Sequence,
    is_open: bool,
    topic_id: Option<TopicId>,
    is_draining: bool,
    hold_until: Duration,
    backoff: Backoff,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct Entry {
    id: BatchId,
    records: u32,
    deadline: Duration,
    /// `None` before the first attempt, and after renumbering.
    number: Option<Number>,
    is_in_flight: bool,
    may_be_stored: bool,
    /// False once those who wait were told that nobody knows.
    is_awaited: bool,
}

impl Machine {
    pub(crate) fn new(backoff: Backoff) -> Machine {
        Machine {
            entries: VecDeque::new(),
            unanswered: VecDeque::new(),
            epoch: 0,
            next_sequence: Sequence::ZERO,
            is_open: false,
            topic_id: None,
            is_draining: false,
            hold_until: Duration::ZERO,
            backoff,
            events: VecDeque::new(),
        }
    }

    /// The number that the next batch to be pushed will have, if nothing goes wrong until it is sent.
    pub(crate) fn next_number(&self) -> Number {
        let before = self.entries.iter().rev().take_while(|entry| entry.number.is_none());
        let base = before.fold(self.next_sequence, |base, entry| base.plus(entry.records));
        Number { epoch: self.epoch, base }
    }

    /// Takes a batch. It fails if it is not stored before `deadline`, which never falls from batch to batch.
    pub(crate) fn push(&mut self, id: BatchId, records: u32, deadline: Duration) {
        assert!(records > 0, "a batch has records");
        assert!(self.entries.back().is_none_or(|last| last.id < id), "batches come in order");
        self.entries.push_back(Entry {
            id,
            records,
            deadline,
            number: None,
            is_in_flight: false,
            may_be_stored: false,
            is_awaited: true,
        });
    }

    /// The topic can be sent to. Another `topic_id` than before is another topic under the same name: what may be stored
    /// in the old one can't be traced any more.
    pub(crate) fn opened(&mut self, topic_id: TopicId) {
        assert!(!self.is_open, "opened while open");
        self.is_open = true;
        if self.topic_id.is_some_and(|known| known != topic_id) {
            while let Some(at) = self.entries.iter().position(|entry| entry.may_be_stored) {
                self.remove(at, Fate::Untraceable);
            }
            self.renumber_from(0);
        }
        self.topic_id = Some(topic_id);
    }

    /// The stream broke: what is in flight will not be answered, and may be stored.
    pub(crate) fn cut_off(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.is_in_flight) {
            // Without a number it was renumbered while in flight: its old number is dead.
            entry.may_be_stored |= entry.number.is_some();
        }
        self.ended();
    }

    /// The broker ended what was open, in its turn: what is in flight was not taken.
    pub(crate) fn ended(&mut self) {
        self.is_open = false;
        self.is_draining = false;
        self.unanswered.clear();
        self.entries.iter_mut().for_each(|entry| entry.is_in_flight = false);
        self.drop_unawaited();
    }

    /// Whether a batch would be sent now.
    pub(crate) fn can_send(&self, now: Duration) -> bool {
        self.is_open
            && !self.is_draining
            && now >= self.hold_until
            && self.unanswered.len() < IN_FLIGHT_MAX
    }

    /// The next batch to send now, if any. It counts as sent.
    pub(crate) fn next_send(&mut self, now: Duration) -> Option<Send> {
        if !self.can_send(now) {
            return None;
        }
        // Those in flight come first, unless one was refused; then none is in flight any more.
        let at = self.entries.partition_point(|entry| entry.is_in_flight);
        let before = at.checked_sub(1).and_then(|before| self.entries[before].number);
        let entry = self.entries.get_mut(at)?;
        let epoch = entry.number.map_or(self.epoch, |number| number.epoch);
        if before.is_some_and(|before| before.epoch != epoch) {
            return None;
        }
        let number = *entry.number.get_or_insert_with(|| {
            let base = self.next_sequence;
            self.next_sequence = base.plus(entry.records);
            Number { epoch, base }
        });
        entry.is_in_flight = true;
        self.unanswered.push_back((entry.id, number.base));
        Some(Send { id: entry.id, number })
    }

    /// The oldest attempt was answered: stored.
    pub(crate) fn acked(&mut self, base: Sequence) -> Result<BatchId, UnexpectedAnswer> {
        let id = self.answered(base)?;
        self.backoff.reset();
        let at = self.position(id);
        self.remove(at, Fate::Stored);
        self.drained();
        Ok(id)
    }

    /// The oldest attempt was answered: not stored, or unknown.
    pub(crate) fn refused(
        &mut self,
        base: Sequence,
        refusal: Refusal,
        now: Duration,
    ) -> Result<BatchId, UnexpectedAnswer> {
        let id = self.answered(base)?;
        let at = self.position(id);
        let entry = &mut self.entries[at];
        entry.is_in_flight = false;
        let was_renumbered = entry.number.is_none();
        entry.may_be_stored |= refusal.outcome == Outcome::Unknown && !was_renumbered;
        let may_be_stored = entry.may_be_stored;
        if at == 0 && !was_renumbered {
            match (refusal.breaks_sequence, refusal.is_retryable, may_be_stored) {
                (true, _, true) => self.remove(0, Fate::Untraceable),
                (true, _, false) => {
                    self.renumber_from(0);
                    self.hold_until = now + self.backoff.next();
                }
                (false, true, _) => self.hold_until = now + self.backoff.next(),
                (false, false, true) => self.remove(0, Fate::Refused(Outcome::Unknown)),
                (false, false, false) => {
                    self.remove(0, Fate::Refused(Outcome::Definite));
                    self.renumber_from(0);
                }
            }
        }
        self.is_draining = true;
        self.drained();
        Ok(id)
    }

    /// The topic can't be opened, for good: all that is held fails.
    pub(crate) fn fail_all(&mut self) {
        assert!(!self.is_open, "failed while open");
        while let Some(entry) = self.entries.front() {
            let outcome = if entry.may_be_stored { Outcome::Unknown } else { Outcome::Definite };
            self.remove(0, Fate::Refused(outcome));
        }
        self.renumber_from(0);
    }

    /// Gives up what has run out of time.
    pub(crate) fn expire(&mut self, now: Duration) {
        let mut at = 0;
        while let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.deadline <= now) {
            if entry.may_be_stored || entry.is_in_flight {
                if std::mem::take(&mut entry.is_awaited) {
                    let fate = Fate::TimedOut(Outcome::Unknown);
                    self.events.push_back(Event::Settled(entry.id, fate));
                }
                at += 1;
            } else {
                let had_number = entry.number.is_some();
                self.remove(at, Fate::TimedOut(Outcome::Definite));
                if had_number {
                    self.renumber_from(at);
                }
            }
        }
        self.drop_unawaited();
    }

    /// When, after `now`, something is to be done without anything happening: a batch runs out of time, or may be sent.
    pub(crate) fn wake_at(&self, now: Duration) -> Option<Duration> {
        let deadline = self.entries.iter().find(|entry| entry.is_awaited).map(|e| e.deadline);
        let waits = self.is_open && !self.is_draining && self.has_waiting();
        let sending = waits.then_some(self.hold_until);
        deadline.into_iter().chain(sending).filter(|time| *time > now).min()
    }

    /// What happened to batches since the last call, in order.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Whether batches wait to be sent.
    pub(crate) fn has_waiting(&self) -> bool {
        self.entries.back().is_some_and(|last| !last.is_in_flight)
    }

    fn answered(&mut self, base: Sequence) -> Result<BatchId, UnexpectedAnswer> {
        let (id, _) =
            self.unanswered.pop_front_if(|(_, sent)| *sent == base).ok_or(UnexpectedAnswer)?;
        Ok(id)
    }

    /// After an answer: once there are no more to come, sending may go on.
    fn drained(&mut self) {
        self.is_draining &= !self.unanswered.is_empty();
        self.drop_unawaited();
    }

    fn position(&self, id: BatchId) -> usize {
        self.entries
            .binary_search_by_key(&id, |entry| entry.id)
            .expect("an attempt without an answer keeps its entry")
    }

    fn remove(&mut self, at: usize, fate: Fate) {
        let entry = self.entries.remove(at).expect("the position was just found");
        if entry.is_awaited {
            self.events.push_back(Event::Settled(entry.id, fate));
        }
        self.events.push_back(Event::Released(entry.id));
    }

    /// Begins a new epoch for the entries from `at` on, none of which is stored or ever will be under its number.
    fn renumber_from(&mut self, at: usize) {
        self.epoch += 1;
        self.next_sequence = Sequence::ZERO;
        for entry in self.entries.iter_mut().skip(at) {
            entry.number = None;
            entry.may_be_stored = false;
        }
    }

    /// Lets go of what nobody waits for, once nothing behind it depends on it.
    fn drop_unawaited(&mut self) {
        let is_idle = self.unanswered.is_empty() && self.entries.iter().all(|e| !e.is_awaited);
        if is_idle && !self.entries.is_empty() {
            let released = self.entries.drain(..).map(|entry| Event::Released(entry.id));
            self.events.extend(released);
            self.renumber_from(0);
        }
    }
}

#[cfg(test)]
mod tests;
