//! What becomes of records whose delivery failed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use danube_model::{ConsumerId, FailurePolicy, Offset, PoisonPolicy};

use super::{Action, Engine, Flight, Tries};

/// Records that failed too often and are not settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Poison {
    records: BTreeMap<Offset, Poisoned>,
    blocking: u64,
}

/// One of them.
#[derive(Clone, Debug)]
struct Poisoned {
    tries: Tries,
    reason: String,
    /// Or on its way into the dead-letter topic.
    is_blocking: bool,
}

impl Poison {
    pub(super) fn offsets(&self) -> u64 {
        self.records.len() as u64
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocking > 0
    }

    pub(super) fn blocked(&self) -> impl Iterator<Item = Offset> + '_ {
        let blocking = self.records.iter().filter(|(_, poisoned)| poisoned.is_blocking);
        blocking.map(|(offset, _)| *offset)
    }

    /// Takes out what of a range is in here and was delivered last to `of`; `None`: whoever that was.
    pub(super) fn take(
        &mut self,
        range: Range<Offset>,
        of: Option<ConsumerId>,
    ) -> Vec<Range<Offset>> {
        if self.records.is_empty() || range.is_empty() {
            return Vec::new();
        }
        let its = self.records.range(range).filter(|(_, poisoned)| poisoned.tries.is_of(of));
        let offsets: Vec<_> = its.map(|(offset, _)| *offset).collect();
        for offset in &offsets {
            self.remove(*offset);
        }
        offsets.into_iter().map(|offset| offset..offset + 1).collect()
    }

    fn remove(&mut self, offset: Offset) -> Option<Poisoned> {
        let poisoned = self.records.remove(&offset)?;
        self.blocking -= u64::from(poisoned.is_blocking);
        Some(poisoned)
    }

    fn insert(&mut self, offset: Offset, poisoned: Poisoned) {
        self.blocking += u64::from(poisoned.is_blocking);
        self.records.insert(offset, poisoned);
    }
}

impl Engine {
    /// A consumer refused a record that it holds; it wants it again after a while. Records that are not in flight are
    /// passed over, and those that are not at `of`; `None`: whoever has them.
    pub fn refuse(
        &mut self,
        offset: Offset,
        of: Option<ConsumerId>,
        delay_ms: u64,
        reason: &str,
        now: Duration,
    ) {
        if let Some((range, flight)) = self.take_flight(offset, of) {
            self.landed(&flight, &range);
            self.came_on(&flight, offset, now);
            let mut tries = flight.tries;
            tries.failures += 1;
            let due = now.saturating_add(self.settings.policy.delay(tries.failures, delay_ms));
            self.failed(range, tries, due, reason);
        }
    }

    /// A record can't be sent to the consumer that it was handed out to, nor to any other: it is poison. What is not at `of`
    /// is passed over; `None`: whoever has it.
    pub fn reject(&mut self, offset: Offset, of: Option<ConsumerId>, reason: &str) {
        if let Some((range, flight)) = self.take_flight(offset, of) {
            self.landed(&flight, &range);
            self.poisoned(range, flight.tries, reason);
        }
    }

    /// Records that were handed out can't be read at present: they are handed out again later, and that is no failure.
    pub fn postpone(&mut self, range: Range<Offset>, due: Duration) {
        for (range, flight) in self.flights.take(range, |_| true) {
            self.landed(&flight, &range);
            self.put_back(range, due, flight.tries);
        }
    }

    fn take_flight(
        &mut self,
        offset: Offset,
        of: Option<ConsumerId>,
    ) -> Option<(Range<Offset>, Flight)> {
        self.flights.take(offset..offset + 1, |flight| flight.tries.is_of(of)).pop()
    }

    /// Other rules for records that fail. Poison that blocked is treated by them; deliveries on their way keep their
    /// time-out.
    pub fn set_policy(&mut self, policy: FailurePolicy) {
        self.settings.policy = policy;
        for offset in self.poison.blocked().collect::<Vec<_>>() {
            let Some(poisoned) = self.poison.remove(offset) else { continue };
            self.failed(offset..offset + 1, poisoned.tries, Duration::ZERO, &poisoned.reason);
        }
    }

    /// Other limit of records that are delivered and not settled; at least 1.
    pub fn set_max_unacked_messages(&mut self, messages: u64) {
        self.settings.max_unacked_messages = messages;
    }

    /// Records that may be delivered and not settled.
    pub fn max_unacked_messages(&self) -> u64 {
        self.settings.max_unacked_messages
    }

    /// What was not settled in time has failed, and is handed out again at once.
    pub(super) fn time_out(&mut self, now: Duration) {
        while let Some((range, flight)) = self.flights.take_due(now, u64::MAX) {
            if let Some(deadline) = self.prolonged(&flight, range.start).filter(|at| *at > now) {
                self.flights.insert(range, deadline, flight);
                continue;
            }
            self.landed(&flight, &range);
            let mut tries = flight.tries;
            tries.failures += 1;
            self.failed(range, tries, Duration::ZERO, "not acknowledged in time");
        }
    }

    /// Until when what is handed out, or waited for from now on, is to be settled.
    pub(super) fn deadline(&self, now: Duration) -> Duration {
        let timeout = self.settings.policy.ack_timeout();
        timeout.map_or(Duration::MAX, |timeout| now.saturating_add(timeout))
    }

    /// The deadline of a flight whose consumer dealt last with something that it got before: it is not late, only busy.
    fn prolonged(&self, flight: &Flight, first: Offset) -> Option<Duration> {
        let (number, offset, at) = self.consumers.get(flight.tries.consumer?)?.came_on?;
        ((number, offset) < (flight.number, first)).then(|| self.deadline(at))
    }

    fn failed(&mut self, range: Range<Offset>, tries: Tries, due: Duration, reason: &str) {
        if self.settings.policy.is_exhausted(tries.failures) {
            self.poisoned(range, tries, reason);
        } else {
            self.put_back(range, due, tries);
        }
    }

    pub(super) fn put_back(&mut self, range: Range<Offset>, due: Duration, tries: Tries) {
        for unwanted in self.queue.put_back(range, due, tries) {
            self.cursor.settle(unwanted..unwanted + 1);
        }
    }

    fn poisoned(&mut self, range: Range<Offset>, tries: Tries, reason: &str) {
        let deliveries = tries.deliveries;
        let mut offset = range.start;
        while offset < range.end {
            let poisoned = |is_blocking| Poisoned { tries, reason: reason.to_owned(), is_blocking };
            match &self.settings.policy.poison {
                PoisonPolicy::Drop => {
                    self.settled(offset..offset + 1);
                    self.actions.push_back(Action::Dropped { offset, deliveries });
                }
                PoisonPolicy::Block => {
                    self.queue.poisoned(offset);
                    self.poison.insert(offset, poisoned(true));
                    let reason = reason.to_owned();
                    self.actions.push_back(Action::Blocked { offset, deliveries, reason });
                }
                PoisonPolicy::DeadLetter(_) => {
                    self.queue.poisoned(offset);
                    self.poison.insert(offset, poisoned(false));
                    let reason = reason.to_owned();
                    self.actions.push_back(Action::DeadLetter { offset, deliveries, reason });
                }
            }
            offset += 1;
        }
    }
}
