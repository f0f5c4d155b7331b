//! Histories made by hand: good ones, and for each rule some that break it.

use std::collections::BTreeMap;
use std::time::Duration;

use danube_log::{Appended, Damage, Effect, EndProof, Facts, Read, Start};
use danube_model::{
    Batch, BatchProducer, Durability, Epoch, Frame, GapReason, Offset, ProducerId, Sequence, Stamp,
    TimeMs, TopicId,
};

use super::{Attempt, Loss, Oracle, Reading, Rule};
use crate::batches::{self, BatchId};

const TOPIC: TopicId = TopicId::new([7; 16]);

fn epoch(number: u32) -> Epoch {
    Epoch::new(number).unwrap()
}

fn at(offset: u64) -> Offset {
    Offset::new(offset)
}

/// A history being told: one log, which is open, and one producer.
struct Told {
    oracle: Oracle,
    level: Durability,
    epoch: u32,
    sequence: u32,
    batches: u64,
}

impl Told {
    fn new(level: Durability) -> Self {
        let mut oracle = Oracle::default();
        oracle.creating(TOPIC);
        oracle.created(TOPIC);
        let mut told = Self { oracle, level, epoch: 0, sequence: 0, batches: 0 };
        told.open(0);
        told
    }

    /// Opens the log under the next epoch; it ends at `end`.
    fn open(&mut self, end: u64) {
        self.epoch += 1;
        self.oracle.opening(TOPIC, epoch(self.epoch), self.level);
        self.oracle.opened(TOPIC, epoch(self.epoch), self.level, at(end));
    }

    /// The producer's next batch.
    fn send(&mut self, records: usize) -> Batch {
        self.batches += 1;
        let base_sequence = Sequence::new(self.sequence).unwrap();
        let id = ProducerId::new(1).unwrap();
        let producer = BatchProducer { id, epoch: 0, base_sequence };
        let batch = batches::build(BatchId(self.batches), &vec![10; records], Some(producer));
        self.sequence += records as u32;
        self.oracle.send(TOPIC, &batch);
        batch
    }

    fn attempt(&mut self, batch: &Batch) -> Attempt {
        self.oracle.attempt(batches::id(batch))
    }

    fn answer(&mut self, attempt: Attempt, batch: &Batch, base: u64, duplicate: bool) {
        let (level, epoch) = (self.level, epoch(self.epoch));
        let next = at(base + u64::from(batch.record_count()));
        let appended = Appended { base: at(base), next, epoch, level, duplicate };
        self.oracle.acked(attempt, &appended);
    }

    /// A batch that is acknowledged at `base`.
    fn acked(&mut self, records: usize, base: u64) -> Batch {
        let batch = self.send(records);
        let attempt = self.attempt(&batch);
        self.answer(attempt, &batch, base, false);
        batch
    }

    fn stamp(&self, base: u64, received: u64) -> Stamp {
        Stamp {
            base: at(base),
            epoch: epoch(self.epoch),
            receive_time: TimeMs::new(received),
            durable_end: at(base),
            synced_end: at(base),
        }
    }

    fn frame(&self, batch: &Batch, base: u64) -> Read {
        Read::Frame(Frame::batch(TOPIC, self.stamp(base, 1000), batch))
    }

    fn gap(&self, base: u64, next: u64, reason: GapReason) -> Read {
        Read::Frame(Frame::gap(TOPIC, self.stamp(base, 1000), at(next), reason))
    }

    fn reading(&mut self, from: u64) -> Reading {
        let mut reading = self.oracle.reading(TOPIC, Start::Offset(at(from)), at(from), at(from));
        self.oracle.asking(&mut reading);
        reading
    }

    /// A reader from 0 on sees all this.
    fn reads(&mut self, reads: &[Read]) {
        let mut reading = self.reading(0);
        for read in reads {
            self.oracle.read(&mut reading, read);
        }
    }

    fn starts(&mut self, end: u64, end_proof: EndProof) {
        let facts = Facts { epoch: epoch(self.epoch), level: self.level, end_proof, end: at(end) };
        self.oracle.started(&BTreeMap::from([(TOPIC, facts)]));
    }

    #[track_caller]
    fn is_good(&self) {
        assert_eq!(self.oracle.violations(), []);
    }

    #[track_caller]
    fn breaks(&self, rule: Rule) {
        let found: Vec<_> = self.oracle.violations().iter().map(|found| found.rule).collect();
        assert!(found.contains(&rule), "{rule:?} is not in {:?}", self.oracle.violations());
    }
}

fn disk() -> Told {
    Told::new(Durability::Disk)
}

fn page_cache() -> Told {
    Told::new(Durability::PageCache)
}

#[test]
fn what_is_as_promised_is_good() {
    let mut told = disk();
    let (one, two) = (told.acked(3, 0), told.acked(2, 3));
    told.reads(&[told.frame(&one, 0), told.frame(&two, 3), Read::CaughtUp(at(5))]);
    told.oracle.crashed(Loss::PageCache);
    told.starts(5, EndProof::Proven);
    told.open(5);
    let three = told.acked(1, 5);
    let mut reading = told.reading(4);
    told.epoch = 1;
    let second = told.frame(&two, 3);
    told.epoch = 2;
    let third = told.frame(&three, 5);
    for read in [second, third, Read::CaughtUp(at(6))] {
        told.oracle.read(&mut reading, &read);
    }
    told.is_good();
    assert_eq!((told.oracle.counts().acked, told.oracle.counts().read), (3, 4));
}

#[test]
fn what_was_acknowledged_at_disk_is_there_after_a_power_cut() {
    for is_shown in [true, false] {
        let mut told = disk();
        told.acked(3, 0);
        told.oracle.crashed(Loss::PageCache);
        told.starts(if is_shown { 3 } else { 0 }, EndProof::Proven);
        if is_shown { told.is_good() } else { told.breaks(Rule::Durable) }
    }
}

#[test]
fn what_was_acknowledged_at_page_cache_is_there_after_a_kill() {
    let mut told = page_cache();
    told.acked(3, 0);
    told.oracle.crashed(Loss::Process);
    told.starts(0, EndProof::Proven);
    told.breaks(Rule::Durable);
}

#[test]
fn what_was_acknowledged_at_page_cache_may_be_lost_with_the_power_and_its_offsets_are_gone() {
    let mut told = page_cache();
    told.acked(3, 0);
    told.oracle.crashed(Loss::PageCache);
    told.starts(0, EndProof::Unproven);
    told.open(64);
    told.reads(&[told.gap(0, 64, GapReason::UnprovenEnd), Read::CaughtUp(at(64))]);
    told.is_good();
    assert!(told.oracle.may_forget_producers(TOPIC));
    // From here on it is a gap, and stays one.
    let other = told.send(3);
    let attempt = told.attempt(&other);
    told.answer(attempt, &other, 0, false);
    told.breaks(Rule::Durable);
}

#[test]
fn what_is_older_than_the_window_is_there_after_a_power_cut() {
    let second = Duration::from_secs(1);
    for (age, is_disturbed, holds) in [(2, false, true), (0, false, false), (2, true, false)] {
        let mut told = page_cache();
        told.oracle.loss_window = second;
        told.oracle.set_now(second);
        told.acked(3, 0);
        told.oracle.set_now(second + age * second);
        if is_disturbed {
            told.oracle.disturbed();
        }
        told.oracle.crashed(Loss::PageCache);
        told.starts(0, EndProof::Unproven);
        if holds { told.breaks(Rule::Durable) } else { told.is_good() }
    }
}

#[test]
fn what_a_kill_left_unsynced_grows_no_older() {
    let mut told = page_cache();
    told.oracle.loss_window = Duration::from_secs(1);
    told.acked(3, 0);
    told.oracle.crashed(Loss::Process);
    told.oracle.set_now(Duration::from_secs(9));
    told.oracle.crashed(Loss::PageCache);
    told.starts(0, EndProof::Unproven);
    told.is_good();
}

#[test]
fn a_gap_needs_a_loss() {
    for loss in [Loss::Process, Loss::PageCache] {
        let mut told = page_cache();
        told.starts(0, EndProof::Proven);
        told.oracle.crashed(loss);
        told.open(64);
        told.reads(&[told.gap(0, 64, GapReason::UnprovenEnd), Read::CaughtUp(at(64))]);
        match loss {
            Loss::Process => told.breaks(Rule::Alive),
            Loss::PageCache => told.is_good(),
        }
    }
}

#[test]
fn offsets_that_were_lost_are_not_given_again() {
    let mut told = page_cache();
    told.acked(3, 0);
    told.oracle.crashed(Loss::PageCache);
    told.starts(0, EndProof::Proven);
    told.is_good();
    told.open(0);
    told.breaks(Rule::Offsets);
    let mut told = page_cache();
    told.acked(3, 0);
    told.oracle.crashed(Loss::PageCache);
    told.acked(3, 0);
    told.breaks(Rule::Offsets);
}

#[test]
fn an_end_is_proven_unless_the_page_cache_was_lost() {
    let mut told = page_cache();
    told.starts(0, EndProof::Proven);
    told.oracle.crashed(Loss::Process);
    told.starts(0, EndProof::Unproven);
    told.breaks(Rule::Alive);
    let mut told = page_cache();
    told.starts(0, EndProof::Proven);
    told.oracle.evicted();
    told.oracle.crashed(Loss::Process);
    told.starts(0, EndProof::Unproven);
    told.is_good();
    let mut told = disk();
    told.oracle.crashed(Loss::PageCache);
    told.starts(0, EndProof::Unproven);
    told.breaks(Rule::Alive);
}

#[test]
fn a_closed_log_loses_nothing() {
    let mut told = page_cache();
    told.acked(3, 0);
    told.oracle.closed(TOPIC);
    told.oracle.crashed(Loss::PageCache);
    told.starts(0, EndProof::Proven);
    told.breaks(Rule::Durable);
}

#[test]
fn a_closing_says_nothing_of_what_the_log_acknowledged_when_it_was_open_again() {
    let mut told = page_cache();
    told.acked(3, 0);
    let end = told.oracle.acked_end(TOPIC);
    told.acked(4, 3);
    told.oracle.closed_meanwhile(TOPIC, end);
    told.oracle.crashed(Loss::PageCache);
    told.starts(3, EndProof::Proven);
    told.is_good();
    told.starts(2, EndProof::Proven);
    told.breaks(Rule::Durable);
}

#[test]
fn what_a_log_has_when_it_is_opened_survives_the_power() {
    let mut told = page_cache();
    told.acked(3, 0);
    told.oracle.crashed(Loss::Process);
    told.starts(3, EndProof::Proven);
    told.open(3);
    told.oracle.crashed(Loss::PageCache);
    told.starts(2, EndProof::Unproven);
    told.breaks(Rule::Durable);
}

#[test]
fn what_was_read_stays_although_nobody_acknowledged_it() {
    let mut told = disk();
    let batch = told.send(2);
    let attempt = told.attempt(&batch);
    told.reads(&[told.frame(&batch, 0)]);
    told.oracle.crashed(Loss::PageCache);
    drop(attempt);
    told.starts(0, EndProof::Proven);
    told.breaks(Rule::Durable);
}

#[test]
fn a_log_that_is_there_is_known_and_one_that_was_deleted_is_not() {
    let mut told = disk();
    told.oracle.crashed(Loss::Process);
    told.oracle.started(&BTreeMap::new());
    told.breaks(Rule::Durable);
    let mut told = disk();
    told.oracle.deleting(TOPIC);
    told.oracle.deleted(TOPIC);
    told.oracle.crashed(Loss::Process);
    told.starts(0, EndProof::Proven);
    told.breaks(Rule::Deleted);
}

#[test]
fn another_batch_in_its_place_is_found() {
    let mut told = disk();
    told.acked(3, 0);
    let other = told.send(3);
    let attempt = told.attempt(&other);
    told.reads(&[told.frame(&other, 0)]);
    drop(attempt);
    told.breaks(Rule::Durable);
}

#[test]
fn a_hole_is_found() {
    let mut told = disk();
    let (one, two) = (told.acked(3, 0), told.acked(2, 3));
    told.reads(&[told.frame(&two, 3)]);
    told.breaks(Rule::Offsets);
    let mut told = disk();
    told.acked(3, 0);
    told.reads(&[told.frame(&one, 0), Read::CaughtUp(at(5))]);
    told.breaks(Rule::Offsets);
    let mut told = disk();
    told.acked(3, 0);
    told.reads(&[Read::CaughtUp(at(0))]);
    told.breaks(Rule::Durable);
}

#[test]
fn a_count_that_is_not_that_of_the_batch_is_found() {
    let mut told = disk();
    let batch = told.send(3);
    let attempt = told.attempt(&batch);
    let (level, epoch) = (told.level, epoch(1));
    let appended = Appended { base: at(0), next: at(2), epoch, level, duplicate: false };
    told.oracle.acked(attempt, &appended);
    told.breaks(Rule::Offsets);
}

#[test]
fn a_batch_is_stored_once() {
    let mut told = disk();
    let batch = told.acked(3, 0);
    let again = told.attempt(&batch);
    told.answer(again, &batch, 0, true);
    told.is_good();
    let again = told.attempt(&batch);
    told.answer(again, &batch, 3, false);
    told.breaks(Rule::Once);

    let mut told = disk();
    let batch = told.acked(3, 0);
    told.reads(&[told.frame(&batch, 0), told.frame(&batch, 3)]);
    told.breaks(Rule::Once);

    let mut told = disk();
    let batch = told.send(3);
    let first = told.attempt(&batch);
    told.answer(first, &batch, 0, true);
    told.breaks(Rule::Once);
}

#[test]
fn a_batch_that_is_read_before_its_answer_is_stored_once() {
    let mut told = disk();
    let batch = told.send(3);
    let attempt = told.attempt(&batch);
    told.reads(&[told.frame(&batch, 0)]);
    told.answer(attempt, &batch, 0, false);
    told.is_good();
}

#[test]
fn what_was_definitely_refused_never_appears() {
    for (effect, is_good) in [(Effect::Definite, false), (Effect::Unknown, true)] {
        let mut told = disk();
        let batch = told.send(3);
        let attempt = told.attempt(&batch);
        told.oracle.refused(&attempt, effect);
        assert_eq!(told.oracle.never_appears(batches::id(&batch)), !is_good);
        told.reads(&[told.frame(&batch, 0)]);
        if is_good { told.is_good() } else { told.breaks(Rule::Definite) }
    }
}

#[test]
fn what_was_in_flight_at_a_crash_may_appear_or_not() {
    let mut told = disk();
    let batch = told.send(3);
    let attempt = told.attempt(&batch);
    told.oracle.crashed(Loss::PageCache);
    // Whatever was said then, nobody has heard it.
    told.oracle.refused(&attempt, Effect::Definite);
    told.starts(0, EndProof::Proven);
    told.reads(&[told.frame(&batch, 0)]);
    told.is_good();
    assert_eq!(told.oracle.counts().unknown, 1);
}

#[test]
fn what_nobody_sent_is_found() {
    let mut told = disk();
    let batch = batches::build(BatchId(99), &[1], None);
    told.reads(&[told.frame(&batch, 0)]);
    told.breaks(Rule::Bytes);
    let mut told = disk();
    let sent = told.send(1);
    let attempt = told.attempt(&sent);
    let other = batches::build(batches::id(&sent), &[11], sent.producer());
    told.reads(&[told.frame(&other, 0)]);
    drop(attempt);
    told.breaks(Rule::Bytes);
}

#[test]
fn order_is_kept() {
    // Sent after another was acknowledged.
    let mut told = disk();
    told.acked(3, 10);
    told.acked(2, 5);
    told.breaks(Rule::Order);
    // A producer's sequences.
    let mut told = disk();
    let (one, two) = (told.send(3), told.send(2));
    let attempts = (told.attempt(&one), told.attempt(&two));
    told.reads(&[told.frame(&two, 0), told.frame(&one, 2)]);
    drop(attempts);
    told.breaks(Rule::Order);
}

#[test]
fn an_older_epoch_writes_nothing() {
    // Acknowledged.
    let mut told = disk();
    told.open(0);
    let batch = told.send(1);
    let attempt = told.attempt(&batch);
    told.epoch = 1;
    told.answer(attempt, &batch, 0, false);
    told.breaks(Rule::Epochs);
    // Read.
    let mut told = disk();
    told.open(0);
    let batch = told.send(1);
    let attempt = told.attempt(&batch);
    told.epoch = 1;
    told.reads(&[told.frame(&batch, 0)]);
    drop(attempt);
    told.breaks(Rule::Epochs);
    // Forgotten.
    let mut told = disk();
    told.open(0);
    told.oracle.crashed(Loss::PageCache);
    told.epoch = 1;
    told.starts(0, EndProof::Proven);
    told.breaks(Rule::Epochs);
}

#[test]
fn after_a_stop_nothing_is_acknowledged() {
    let mut told = disk();
    let (one, two) = (told.send(1), told.send(1));
    let before = told.attempt(&one);
    told.oracle.stopped();
    told.answer(before, &one, 0, false);
    told.is_good();
    let after = told.attempt(&two);
    told.answer(after, &two, 1, false);
    told.breaks(Rule::Stopped);
}

#[test]
fn receive_times_do_not_fall() {
    let mut told = disk();
    let (one, two) = (told.acked(1, 0), told.acked(1, 1));
    let earlier = Frame::batch(TOPIC, told.stamp(1, 999), &two);
    told.reads(&[told.frame(&one, 0), Read::Frame(earlier)]);
    told.breaks(Rule::Times);
    // Nor change.
    let mut told = disk();
    let one = told.acked(1, 0);
    let later = Frame::batch(TOPIC, told.stamp(0, 1001), &one);
    told.reads(&[told.frame(&one, 0)]);
    told.reads(&[Read::Frame(later)]);
    told.breaks(Rule::Times);
}

#[test]
fn a_start_by_time_leaves_out_nothing_received_since() {
    for (time, is_good) in [(1001, true), (1000, false)] {
        let mut told = disk();
        let one = told.acked(1, 0);
        told.reads(&[told.frame(&one, 0)]);
        let start = Start::Time(TimeMs::new(time));
        drop(told.oracle.reading(TOPIC, start, at(1), at(1)));
        if is_good { told.is_good() } else { told.breaks(Rule::Offsets) }
    }
    // And begins with what was received since.
    let mut told = disk();
    let one = told.acked(1, 0);
    let start = Start::Time(TimeMs::new(1001));
    let mut reading = told.oracle.reading(TOPIC, start, at(0), at(1));
    let read = told.frame(&one, 0);
    told.oracle.read(&mut reading, &read);
    told.breaks(Rule::Times);
}

#[test]
fn damage_needs_a_fault() {
    for is_rotten in [false, true] {
        let mut told = disk();
        let (_, two) = (told.acked(3, 0), told.acked(1, 3));
        if is_rotten {
            told.oracle.rotten();
        }
        let path = "/wal/x".into();
        let damage = Damage { from: at(0), to: at(3), path, position: 0, why: String::new() };
        told.reads(&[Read::Damage(damage), told.frame(&two, 3), Read::CaughtUp(at(4))]);
        if is_rotten { told.is_good() } else { told.breaks(Rule::Bytes) }
    }
}

#[test]
fn what_damage_took_is_accepted_as_a_gap_and_nothing_else_is() {
    for reason in [GapReason::Corrupt, GapReason::UnprovenEnd] {
        let mut told = disk();
        told.acked(3, 0);
        told.oracle.rotten();
        told.oracle.crashed(Loss::Process);
        told.starts(0, EndProof::Damaged);
        told.open(64);
        told.reads(&[told.gap(0, 64, reason)]);
        if reason == GapReason::Corrupt { told.is_good() } else { told.breaks(Rule::Durable) }
    }
}

#[test]
fn only_what_may_go_is_removed_and_it_stays_so() {
    for trimmable in 0..5 {
        let mut told = disk();
        let one = told.acked(3, 0);
        told.acked(1, 3);
        told.oracle.trimming(TOPIC, at(trimmable));
        told.reads(&[Read::Trimmed { from: at(0), to: at(3) }]);
        if trimmable < 3 {
            told.breaks(Rule::Durable);
            continue;
        }
        told.is_good();
        told.reads(&[told.frame(&one, 0)]);
        told.breaks(Rule::Offsets);
    }
}
