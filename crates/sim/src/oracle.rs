//! What the promises of `docs/guarantees.md` allow, told of everything that happens.
//!
//! The oracle hears what was asked, what was answered, what was read, and what went wrong; it knows nothing of how a log
//! is built. What it is told must have been seen by somebody who outlives the broker: an answer that nobody took before
//! a crash was never given.
//!
//! ```text
//!  send ─▶ attempt ─┬▶ acked      the batch has its place, and keeps it as its level says
//!                   ├▶ refused    definite: it never appears; unknown: it may
//!                   └▶ crashed    unknown
//!  read                           what was seen stays, as the level says
//! ```
//!
//! Reading order: `rules` (the promises), this module, `ledger` (what one log must hold), `reading` (what one reader sees).

mod ledger;
mod reading;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use danube_log::{Appended, Effect, EndProof, Facts};
use danube_model::{Batch, Durability, Epoch, Offset, TopicId};

use self::ledger::{Hold, Ledger, Phase, Place, What};
pub use self::reading::Reading;
pub use self::rules::{Rule, Violation};
use crate::batches::{self, BatchId};

/// What a crash takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process: the page cache stays.
    Process,
    /// What was not synced.
    PageCache,
}

/// How much happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches acknowledged, each time they were.
    pub acked: u64,
    /// Of these, those that had been stored before.
    pub duplicates: u64,
    /// Attempts definitely refused.
    pub refused: u64,
    /// Attempts of which nobody knows.
    pub unknown: u64,
    /// Frames read.
    pub read: u64,
    /// Gaps among them.
    pub gaps: u64,
    /// Openings of logs.
    pub opened: u64,
    /// Crashes.
    pub crashes: u64,
}

/// One try to append a batch.
#[derive(Debug)]
#[must_use = "its outcome is to be told"]
pub struct Attempt {
    batch: BatchId,
    topic: TopicId,
    life: u64,
    /// What the log had acknowledged before.
    floor: Offset,
    /// The newest epoch under which the log was known to be open before.
    epoch_floor: Epoch,
    /// Somebody knew before where the batch is.
    is_placed: bool,
    /// The store had said before that it stopped.
    is_after_stop: bool,
}

/// A batch that was sent.
#[derive(Debug)]
struct Sent {
    topic: TopicId,
    batch: Batch,
    attempts: u32,
    in_flight: u32,
    /// An attempt was not definitely refused.
    may_appear: bool,
    /// Where it is, as far as anybody knows.
    place: Option<Offset>,
}

/// The oracle of one world.
#[derive(Debug, Default)]
pub struct Oracle {
    ledgers: BTreeMap<TopicId, Ledger>,
    batches: BTreeMap<BatchId, Sent>,
    life: u64,
    /// The store was opened in this life.
    is_started: bool,
    has_stopped: bool,
    is_evicted: bool,
    is_rotten: bool,
    /// In this life operations of the disk failed: nobody knows what was synced when.
    is_disturbed: bool,
    /// Simulated time.
    now: Duration,
    /// After so long what was written is synced.
    loss_window: Duration,
    violations: Vec<Violation>,
    counts: Counts,
}

impl Oracle {
    /// The oracle of a world in which what was written is synced after `loss_window`.
    pub fn new(loss_window: Duration) -> Self {
        Self { loss_window, ..Self::default() }
    }

    /// What time it is.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// How much happened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What was broken, in the order in which it was found.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Enters what somebody else found to be broken.
    pub fn broken(&mut self, rule: Rule, what: impl Into<String>) {
        self.violations.push(Violation { rule, what: what.into() });
    }

    /// A log is about to be created.
    pub fn creating(&mut self, topic: TopicId) {
        self.ledgers.entry(topic).or_default();
    }

    /// A log was created, durably.
    pub fn created(&mut self, topic: TopicId) {
        self.ledger(topic).phase = Phase::There;
    }

    /// A log is about to be deleted: from here on anything may be gone.
    pub fn deleting(&mut self, topic: TopicId) {
        self.ledger(topic).phase = Phase::Deleting;
    }

    /// A log was deleted, durably.
    pub fn deleted(&mut self, topic: TopicId) {
        self.ledger(topic).phase = Phase::Deleted;
    }

    /// Whether a log was deleted, durably.
    pub fn is_deleted(&self, topic: TopicId) -> bool {
        self.ledgers.get(&topic).is_some_and(|ledger| ledger.phase == Phase::Deleted)
    }

    /// A log is about to be opened.
    pub fn opening(&mut self, topic: TopicId, epoch: Epoch, level: Durability) {
        self.ledger(topic).opening(epoch, level);
    }

    /// A log was opened, and ends at `end`.
    pub fn opened(&mut self, topic: TopicId, epoch: Epoch, level: Durability, end: Offset) {
        self.counts.opened += 1;
        let ledger = self.ledger(topic);
        let known = ledger.known_end();
        ledger.opened(epoch, level, end);
        if end < known {
            let what = format!(
                "log {topic} goes on at {end} under epoch {epoch}, {known} was given already"
            );
            self.broken(Rule::Offsets, what);
        }
    }

    /// A log is opened, at `level`, whenever somebody needs it.
    pub fn opened_unheard(&mut self, topic: TopicId, level: Durability) {
        self.ledger(topic).opened_unheard(level);
    }

    /// A log was closed: its end is proven.
    pub fn closed(&mut self, topic: TopicId) {
        self.ledger(topic).closed();
    }

    /// What lies before an offset may go from here on.
    pub fn trimming(&mut self, topic: TopicId, before: Offset) {
        let ledger = self.ledger(topic);
        ledger.trimmable = ledger.trimmable.max(before);
    }

    /// The end of all that a log ever acknowledged.
    pub fn acked_end(&self, topic: TopicId) -> Offset {
        self.ledgers.get(&topic).map_or(Offset::ZERO, |ledger| ledger.acked_end)
    }

    /// A log was closed after it had acknowledged all up to `end`. It may be open again, and have acknowledged more.
    pub fn closed_meanwhile(&mut self, topic: TopicId, end: Offset) {
        self.ledger(topic).closed_meanwhile(end);
    }

    /// A batch is about to be sent for the first time.
    pub fn send(&mut self, topic: TopicId, batch: &Batch) {
        let sent = Sent {
            topic,
            batch: batch.clone(),
            attempts: 0,
            in_flight: 0,
            may_appear: false,
            place: None,
        };
        let before = self.batches.insert(batches::id(batch), sent);
        assert!(before.is_none(), "a batch has one name");
    }

    /// A batch is given to the log.
    pub fn attempt(&mut self, batch: BatchId) -> Attempt {
        let sent = self.batches.get_mut(&batch).expect("it was sent");
        sent.attempts += 1;
        sent.in_flight += 1;
        let (topic, place) = (sent.topic, sent.place);
        let (life, is_after_stop) = (self.life, self.has_stopped);
        let ledger = self.ledger(topic);
        let is_placed = place.is_some_and(|place| ledger.holds(batch, place));
        let floor = ledger.acked_end;
        let epoch_floor = ledger
            .acked_epoch
            .map_or(ledger.opened_epoch(), |acked| acked.max(ledger.opened_epoch()));
        Attempt { batch, topic, life, floor, epoch_floor, is_placed, is_after_stop }
    }

    /// It was acknowledged.
    pub fn acked(&mut self, attempt: Attempt, appended: &Appended) {
        let Some(sent) = self.land(&attempt, true) else { return };
        let (batch, topic) = (attempt.batch, attempt.topic);
        let (count, place, attempts) = (sent.batch.record_count(), sent.place, sent.attempts);
        let Appended { base, next, epoch, level, duplicate } = *appended;
        self.counts.acked += 1;
        self.counts.duplicates += u64::from(duplicate);
        let mut wrong = |rule, what: String| {
            self.violations.push(Violation { rule, what: format!("{batch} at {base}: {what}") });
        };
        if base + u64::from(count) != next {
            wrong(Rule::Offsets, format!("{count} records end at {next}"));
        }
        if attempt.is_after_stop {
            wrong(Rule::Stopped, "acknowledged after the store had stopped".to_owned());
        }
        if epoch < attempt.epoch_floor {
            let what =
                format!("acknowledged under epoch {epoch}, after {} opened", attempt.epoch_floor);
            wrong(Rule::Epochs, what);
        }
        let ledger = self.ledgers.get_mut(&topic).expect("it was sent to it");
        if ledger.level_of(epoch).is_some_and(|opened| opened != level) {
            wrong(Rule::Durable, format!("acknowledged at {level}, its log has another level"));
        }
        match place {
            Some(place) if duplicate && place != base => {
                wrong(Rule::Once, format!("it is at {place}"));
            }
            Some(place)
                if !duplicate
                    && ledger.holds(batch, place)
                    && (attempt.is_placed || place != base) =>
            {
                wrong(Rule::Once, format!("stored again, it is at {place}"));
            }
            None if duplicate && attempts == 1 => {
                wrong(Rule::Once, "taken for one that was stored before".to_owned());
            }
            _ => {}
        }
        if !duplicate && base < attempt.floor {
            wrong(
                Rule::Order,
                format!("sent after {} was acknowledged, stored before it", attempt.floor),
            );
        }
        ledger.acked_end = ledger.acked_end.max(next);
        ledger.acked_epoch = ledger.acked_epoch.max(Some(epoch));
        let epoch = (!duplicate).then_some(epoch);
        let (what, hold, since) = (What::Batch(batch), Hold::of(level), Some(self.now));
        self.put(topic, base, Place { next, what, hold, epoch, received: None, since });
    }

    /// It was refused.
    pub fn refused(&mut self, attempt: &Attempt, effect: Effect) {
        if self.land(attempt, effect == Effect::Unknown).is_some() {
            match effect {
                Effect::Definite => self.counts.refused += 1,
                Effect::Unknown => self.counts.unknown += 1,
            }
        }
    }

    /// Whether all that was ever tried with a batch was definitely refused.
    pub fn never_appears(&self, batch: BatchId) -> bool {
        self.batches.get(&batch).is_none_or(|sent| !sent.may_appear && sent.in_flight == 0)
    }

    /// Whether a log may have forgotten a producer: what it had was lost, as its level allows.
    pub fn may_forget_producers(&self, topic: TopicId) -> bool {
        self.is_rotten || self.ledgers.get(&topic).is_some_and(|ledger| ledger.has_lost)
    }

    /// The end of what somebody was told of a log: no less is served.
    pub fn must_end(&self, topic: TopicId) -> Offset {
        self.ledgers.get(&topic).map_or(Offset::ZERO, Ledger::must_end)
    }

    /// The store said that it has stopped.
    pub fn stopped(&mut self) {
        self.has_stopped = true;
    }

    /// Clean pages were dropped from the page cache: it proves nothing any more.
    pub fn evicted(&mut self) {
        self.is_evicted = true;
    }

    /// Bits on the disk were changed: what is reported as damaged may be lost.
    pub fn rotten(&mut self) {
        self.is_rotten = true;
    }

    /// The store was closed: everything is synced.
    pub fn closed_cleanly(&mut self) {
        self.ledgers.values_mut().for_each(Ledger::closed);
    }

    /// An operation of the disk failed.
    pub fn disturbed(&mut self) {
        self.is_disturbed = true;
    }

    /// The process is over. What was in flight is unknown.
    pub fn crashed(&mut self, loss: Loss) {
        self.counts.crashes += 1;
        self.life += 1;
        self.has_stopped = false;
        for sent in self.batches.values_mut().filter(|sent| sent.in_flight > 0) {
            self.counts.unknown += u64::from(sent.in_flight);
            sent.in_flight = 0;
            sent.may_appear = true;
        }
        // A recovery that is cut short can't tell what its looking has brought into the page cache.
        self.is_evicted |= loss == Loss::PageCache;
        let is_cache_proven = !self.is_evicted && self.is_started;
        self.is_started = false;
        let is_disturbed = std::mem::take(&mut self.is_disturbed);
        let synced_at = self.now.checked_sub(self.loss_window).filter(|_| !is_disturbed);
        for ledger in self.ledgers.values_mut() {
            ledger.crashed(loss, is_cache_proven, synced_at);
        }
    }

    /// A store was opened, and this is what it knows.
    pub fn started(&mut self, logs: &BTreeMap<TopicId, Facts>) {
        let mut wrong = Vec::new();
        for (topic, ledger) in &self.ledgers {
            let Some(facts) = logs.get(topic) else {
                if ledger.phase == Phase::There {
                    wrong.push((Rule::Durable, format!("log {topic} is gone")));
                }
                continue;
            };
            match ledger.phase {
                // With a deletion that was lost to damage comes back what it deleted.
                Phase::Deleted if self.is_rotten => {}
                Phase::Deleted => {
                    wrong.push((Rule::Deleted, format!("log {topic} was deleted and is back")));
                }
                Phase::Deleting => {}
                Phase::Creating | Phase::There => {
                    wrong.extend(self.check_facts(*topic, ledger, facts));
                }
            }
        }
        for (rule, what) in wrong {
            self.broken(rule, what);
        }
        self.recovered();
    }

    /// A store was opened: all that is left is synced.
    pub fn recovered(&mut self) {
        self.is_started = true;
        // From here on the journal is written to blocks that all are in the page cache.
        self.is_evicted = false;
        self.ledgers.values_mut().for_each(|ledger| ledger.secure(Offset::MAX));
    }

    fn check_facts(
        &self,
        topic: TopicId,
        ledger: &Ledger,
        facts: &Facts,
    ) -> Option<(Rule, String)> {
        let Facts { epoch, end, end_proof, .. } = *facts;
        let (opened, newest) = (ledger.opened_epoch(), ledger.newest_epoch());
        if (epoch < opened && !self.is_rotten) || newest < epoch {
            let what = format!(
                "log {topic} has epoch {epoch}, it was opened under {opened}, tried up to {newest}"
            );
            return Some((Rule::Epochs, what));
        }
        if self.is_rotten {
            return None;
        }
        let must = ledger.must_end();
        if end < must {
            return Some((
                Rule::Durable,
                format!("log {topic} ends at {end}, somebody was told of {must}"),
            ));
        }
        let is_explained = match end_proof {
            EndProof::Proven => true,
            EndProof::Unproven => ledger.may_be_unproven,
            EndProof::Damaged => false,
        };
        (!is_explained).then(|| {
            (Rule::Alive, format!("the end of log {topic} is {end_proof:?}, nothing was lost"))
        })
    }

    /// An attempt has an outcome; None if it belongs to a life that is over.
    fn land(&mut self, attempt: &Attempt, may_appear: bool) -> Option<&mut Sent> {
        if attempt.life != self.life {
            return None;
        }
        let sent = self.batches.get_mut(&attempt.batch).expect("it was sent");
        sent.in_flight -= 1;
        sent.may_appear |= may_appear;
        Some(sent)
    }

    /// Somebody knows what lies at `base`.
    fn put(&mut self, topic: TopicId, base: Offset, place: Place) {
        let what = place.what;
        let is_rotten = self.is_rotten;
        match self.ledger(topic).put(base, place, is_rotten) {
            Ok(()) => {
                if let What::Batch(batch) = what {
                    self.batches.get_mut(&batch).expect("it was sent").place = Some(base);
                }
            }
            Err((rule, what)) => self.broken(rule, format!("log {topic}: {what}")),
        }
    }

    fn ledger(&mut self, topic: TopicId) -> &mut Ledger {
        self.ledgers.get_mut(&topic).expect("it was created")
    }
}
