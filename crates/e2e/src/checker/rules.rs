//! The rules.

use std::collections::{BTreeMap, BTreeSet};

use super::drain::Drain;
use super::history::Event;
use super::message::MessageId;
use super::verdict::{Rule, Verdict};

#[cfg(test)]
mod tests;

/// Whether acknowledged messages may be gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// The level survives every fault of the run.
    #[default]
    Forbidden,
    /// It does not survive all of them; what is gone must lie in an explicit gap.
    InGaps,
}

/// Whether a message may be stored twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// Producers are idempotent.
    #[default]
    Forbidden,
    /// They are not: what was sent again, or is unknown, may be there more than once.
    OfRetries,
}

/// What a run is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// Whether acknowledged messages may be gone.
    pub loss: Loss,
    /// Whether a message may be stored twice.
    pub duplicates: Duplicates,
    /// Retention was at work: a topic may begin later than at 0.
    pub trimmed: bool,
    /// With fewer acknowledged messages the run proves nothing.
    pub ok_min: usize,
    /// With fewer faults the run proves nothing.
    pub faults_min: usize,
}

/// All that is known of one message's sends.
struct Sent<'a> {
    topic: &'a str,
    key: Option<&'a str>,
    invoked: usize,
    /// Place of the first invocation.
    first: usize,
    failed: usize,
    /// Offsets that acknowledgements named, with their places.
    acks: Vec<(u64, usize)>,
    /// Greatest offset acknowledged in its topic before the first invocation.
    floor: Option<u64>,
}

impl Sent<'_> {
    /// Every attempt was definitely refused.
    fn is_refused(&self) -> bool {
        self.failed >= self.invoked
    }

    /// Whether it may be stored twice where producers are not idempotent.
    fn may_repeat(&self) -> bool {
        self.invoked > 1 || self.acks.is_empty()
    }
}

/// Where a value was seen.
struct Seen<'a> {
    topic: &'a str,
    offset: u64,
    message: &'a MessageId,
    event: Option<usize>,
}

struct Check<'a> {
    expectation: Expectation,
    events: &'a [Event],
    drains: &'a BTreeMap<String, Drain>,
    sent: BTreeMap<&'a MessageId, Sent<'a>>,
    verdict: Verdict,
}

/// Holds a history and the drains of all its topics against the rules.
#[must_use]
pub fn check(
    events: &[Event],
    drains: &BTreeMap<String, Drain>,
    expectation: Expectation,
) -> Verdict {
    let sent = BTreeMap::new();
    let mut check = Check { expectation, events, drains, sent, verdict: Verdict::default() };
    check.collect();
    check.no_lost_ack();
    check.no_phantom();
    check.one_value_per_offset();
    check.dense();
    check.ack_order();
    check.per_key_order();
    check.visible_after_durable();
    check.not_vacuous();
    check.verdict.explain(events);
    check.verdict
}

impl<'a> Check<'a> {
    /// Puts the events of each message together.
    fn collect(&mut self) {
        let mut highest: BTreeMap<&str, u64> = BTreeMap::new();
        for (place, event) in self.events.iter().enumerate() {
            match event {
                Event::Invoked { message, topic, key } => {
                    let floor = highest.get(topic.as_str()).copied();
                    let (topic, key) = (topic.as_str(), key.as_deref());
                    let new = Sent {
                        topic,
                        key,
                        invoked: 0,
                        first: place,
                        failed: 0,
                        acks: vec![],
                        floor,
                    };
                    self.sent.entry(message).or_insert(new).invoked += 1;
                }
                Event::Ok { message, offset } => {
                    if let Some(sent) = self.answered(message, place) {
                        sent.acks.push((*offset, place));
                        let highest = highest.entry(sent.topic).or_default();
                        *highest = (*highest).max(*offset);
                    }
                }
                Event::Failed { message, .. } => {
                    if let Some(sent) = self.answered(message, place) {
                        sent.failed += 1;
                    }
                }
                Event::Unknown { message, .. } => drop(self.answered(message, place)),
                Event::Received { .. } => self.verdict.counts.received += 1,
                Event::Fault { .. } => self.verdict.counts.faults += 1,
            }
        }
    }

    /// The message that an answer is for; an answer to nothing is a phantom.
    fn answered(&mut self, message: &MessageId, place: usize) -> Option<&mut Sent<'a>> {
        if !self.sent.contains_key(message) {
            let what = format!("{message} was answered and never sent");
            self.verdict.add(Rule::NoPhantom, Some(place), what);
        }
        self.sent.get_mut(message)
    }

    /// I1: what was acknowledged is in the drain at its offset.
    fn no_lost_ack(&mut self) {
        for (message, sent) in &self.sent {
            for &(offset, place) in &sent.acks {
                if let Some(found) = self.missing(sent.topic, offset, message) {
                    let what =
                        format!("{message} was acknowledged at {} {offset}: {found}", sent.topic);
                    self.verdict.add(Rule::NoLostAck, Some(place), what);
                }
            }
        }
    }

    /// Says what is in the drain instead of a message that should be there; none if all is well.
    fn missing(&self, topic: &str, offset: u64, message: &MessageId) -> Option<String> {
        let Some(drain) = self.drains.get(topic) else {
            return Some("the topic was not drained".to_owned());
        };
        let is_trimmed = self.expectation.trimmed && offset < drain.start;
        let is_excused = self.expectation.loss == Loss::InGaps && drain.is_gap(offset);
        match drain.at(offset) {
            Some(found) if found == message => None,
            Some(found) => Some(format!("{found} is there")),
            None if is_trimmed || is_excused => None,
            None if drain.is_gap(offset) => Some("a gap is there".to_owned()),
            None => Some("nothing is there".to_owned()),
        }
    }

    /// I2: what is read was sent there, is whole, and was not definitely refused.
    fn no_phantom(&mut self) {
        let mut problems = Vec::new();
        for (topic, drain) in self.drains {
            for record in &drain.records {
                let place = format!("{topic} {}", record.offset);
                problems.push((None, self.phantom(topic, &place, &record.message)));
            }
        }
        for (at, event) in self.events.iter().enumerate() {
            if let Event::Received { reader, topic, offset, message } = event {
                let place = format!("{topic} {offset}, read by {reader}");
                problems.push((Some(at), self.phantom(topic, &place, message)));
            }
        }
        for (event, problem) in problems {
            if let Some(what) = problem {
                self.verdict.add(Rule::NoPhantom, event, what);
            }
        }
    }

    fn phantom(
        &self,
        topic: &str,
        place: &str,
        read: &Result<MessageId, String>,
    ) -> Option<String> {
        let message = match read {
            Ok(message) => message,
            Err(why) => return Some(format!("{place}: {why}")),
        };
        match self.sent.get(message) {
            None => Some(format!("{place}: {message} was never sent")),
            Some(sent) if sent.topic != topic => {
                Some(format!("{place}: {message} was sent to {}", sent.topic))
            }
            Some(sent) if sent.is_refused() => {
                Some(format!("{place}: {message} was definitely refused"))
            }
            Some(_) => None,
        }
    }

    /// I3: an offset has one message and a message one offset, whoever says so.
    fn one_value_per_offset(&mut self) {
        let mut at: BTreeMap<(&str, u64), &MessageId> = BTreeMap::new();
        let mut offsets: BTreeMap<&MessageId, BTreeSet<u64>> = BTreeMap::new();
        for Seen { topic, offset, message, event } in self.seen() {
            let first = at.entry((topic, offset)).or_insert(message);
            if *first != message {
                let what = format!("{topic} {offset} is {first} and {message}");
                self.verdict.add(Rule::OneValuePerOffset, event, what);
            }
            offsets.entry(message).or_default().insert(offset);
        }
        for (message, offsets) in offsets.into_iter().filter(|(_, offsets)| offsets.len() > 1) {
            let is_allowed = self.expectation.duplicates == Duplicates::OfRetries
                && self.sent.get(message).is_some_and(Sent::may_repeat);
            if !is_allowed {
                let event = self.sent.get(message).map(|sent| sent.first);
                let what = format!("{message} has several offsets: {offsets:?}");
                self.verdict.add(Rule::OneValuePerOffset, event, what);
            }
        }
    }

    /// Every value that anyone was told of.
    fn seen(&self) -> Vec<Seen<'a>> {
        let mut seen = Vec::new();
        for (message, sent) in &self.sent {
            let topic = sent.topic;
            for &(offset, place) in &sent.acks {
                seen.push(Seen { topic, offset, message, event: Some(place) });
            }
        }
        for (place, event) in self.events.iter().enumerate() {
            if let Event::Received { topic, offset, message: Ok(message), .. } = event {
                seen.push(Seen { topic, offset: *offset, message, event: Some(place) });
            }
        }
        for (topic, drain) in self.drains {
            for record in &drain.records {
                if let Ok(message) = &record.message {
                    seen.push(Seen { topic, offset: record.offset, message, event: None });
                }
            }
        }
        seen
    }

    /// I4: the drain has every offset from its start on, or a gap that says so.
    fn dense(&mut self) {
        for (topic, drain) in self.drains {
            if drain.start != 0 && !self.expectation.trimmed {
                let what = format!("{topic} starts at {}, and nothing was trimmed", drain.start);
                self.verdict.add(Rule::Dense, None, what);
            }
            let records = drain.records.iter().map(|record| record.offset..record.offset + 1);
            let mut covered: Vec<_> = records.chain(drain.gaps.iter().cloned()).collect();
            if !drain.records.is_sorted_by(|before, after| before.offset < after.offset) {
                self.verdict.add(Rule::Dense, None, format!("{topic} was not read in order"));
            }
            covered.sort_by_key(|range| range.start);
            let mut next = drain.start;
            for range in covered {
                if range.start != next {
                    let how = if range.start < next { "twice" } else { "not at all" };
                    let between = range.start.min(next)..range.start.max(next);
                    let what = format!("{topic} has offsets {between:?} {how}");
                    self.verdict.add(Rule::Dense, None, what);
                }
                next = next.max(range.end);
            }
            self.verdict.counts.drained += drain.records.len();
        }
    }

    /// I5: who sends after another's acknowledgement gets a larger offset, and a producer's offsets grow.
    fn ack_order(&mut self) {
        let mut last: BTreeMap<(&str, &str), (u64, &MessageId)> = BTreeMap::new();
        // By id: the order of each producer's sends.
        for (message, sent) in &self.sent {
            let Some(&(offset, place)) = sent.acks.first() else { continue };
            if sent.floor.is_some_and(|floor| offset <= floor) {
                let floor = sent.floor.unwrap_or_default();
                let what =
                    format!("{message} got {offset}, and was sent after {floor} was acknowledged");
                self.verdict.add(Rule::AckOrder, Some(place), what);
            }
            if sent.invoked > 1 {
                continue;
            }
            let before = last.insert((&message.producer, sent.topic), (offset, message));
            if let Some((_, earlier)) = before.filter(|(before, _)| *before >= offset) {
                let what = format!("{message} got {offset}, not behind {earlier}");
                self.verdict.add(Rule::AckOrder, Some(place), what);
            }
        }
    }

    /// I6: a producer's messages of one key are in the drain in the order of sending.
    fn per_key_order(&mut self) {
        for (topic, drain) in self.drains {
            let mut last: BTreeMap<(&str, Option<&str>), u64> = BTreeMap::new();
            let mut known = BTreeSet::new();
            for record in &drain.records {
                let Ok(message) = &record.message else { continue };
                // A second copy is a matter of I3.
                let Some(sent) = self.sent.get(message).filter(|_| known.insert(message)) else {
                    continue;
                };
                let before = last.insert((&message.producer, sent.key), message.sequence);
                if let Some(before) = before.filter(|before| *before > message.sequence) {
                    let what = format!(
                        "{topic} {}: {message} behind {}-{before}",
                        record.offset, message.producer
                    );
                    self.verdict.add(Rule::PerKeyOrder, Some(sent.first), what);
                }
            }
        }
    }

    /// I12: what anybody has seen stays.
    fn visible_after_durable(&mut self) {
        for (place, event) in self.events.iter().enumerate() {
            if let Event::Received { reader, topic, offset, message: Ok(message) } = event
                && let Some(found) = self.missing(topic, *offset, message)
            {
                let what = format!("{reader} got {message} at {topic} {offset}: {found}");
                self.verdict.add(Rule::VisibleAfterDurable, Some(place), what);
            }
        }
    }

    fn not_vacuous(&mut self) {
        for sent in self.sent.values() {
            let counts = &mut self.verdict.counts;
            let of_this = if !sent.acks.is_empty() {
                &mut counts.ok
            } else if sent.is_refused() {
                &mut counts.failed
            } else {
                &mut counts.unknown
            };
            *of_this += 1;
        }
        let (ok, faults) = (self.verdict.counts.ok, self.verdict.counts.faults);
        let Expectation { ok_min, faults_min, .. } = self.expectation;
        if ok < ok_min || faults < faults_min {
            let what = format!(
                "{ok} acknowledged messages and {faults} faults prove nothing; {ok_min} and {faults_min} were asked for"
            );
            self.verdict.add(Rule::NotVacuous, None, what);
        }
    }
}
