//! What one reader sees, in its order.

use std::collections::BTreeMap;

use danube_log::{Read, Start};
use danube_model::frame::FrameKind;
use danube_model::{
    BatchProducer, Epoch, Frame, GapReason, Offset, ProducerId, Sequence, TimeMs, TopicId,
};

use super::ledger::{Phase, Place, What};
use super::{Oracle, Rule};
use crate::batches;

/// How far one reader has come. It is told of everything that the reader yields.
#[derive(Debug)]
pub struct Reading {
    topic: TopicId,
    /// Where the next thing begins; the first one may begin before.
    offset: Offset,
    is_begun: bool,
    /// The first frame was received then or later.
    since: Option<TimeMs>,
    epoch: Epoch,
    received: TimeMs,
    /// Of each producer the epoch, and the sequence that follows if nothing is missing.
    producers: BTreeMap<ProducerId, (u16, Sequence)>,
    /// Something was missing since the last frame of some producer.
    has_skipped: bool,
    /// What must be served, as of the last question.
    floor: Offset,
    /// What lies before it was gone when the reader was opened.
    start: Offset,
}

impl Oracle {
    /// A reader was opened, and begins at `offset`; the log reached `durable` before it was.
    pub fn reading(
        &mut self,
        topic: TopicId,
        start: Start,
        offset: Offset,
        durable: Offset,
    ) -> Reading {
        let mut since = None;
        let ledger = self.ledger(topic);
        let wrong = match start {
            Start::Earliest if offset < ledger.start => {
                Some(format!("{} was the earliest before", ledger.start))
            }
            Start::Earliest if offset > ledger.trimmable => {
                Some(format!("the earliest is {} at most", ledger.trimmable))
            }
            Start::Earliest => {
                ledger.start = offset;
                None
            }
            Start::Latest => (offset < durable).then(|| format!("the latest is not {durable}")),
            Start::Offset(asked) => (offset != asked).then(|| format!("{asked} was asked for")),
            Start::Time(time) => {
                since = (offset < durable).then_some(time);
                ledger.received_since(time, offset).map(|(base, received)| {
                    format!("{base} was received at {received}, asked was for {time}")
                })
            }
        };
        // Damage may have taken what a search by time goes by.
        let is_doubtful = self.is_rotten && matches!(start, Start::Time(_));
        if let Some(wrong) = wrong.filter(|_| self.is_served(topic) && !is_doubtful) {
            self.broken(Rule::Offsets, format!("a reader of {topic} begins at {offset}: {wrong}"));
        }
        let start = self.ledger(topic).start;
        Reading {
            start,
            topic,
            offset,
            is_begun: false,
            since,
            epoch: Epoch::ZERO,
            received: TimeMs::ZERO,
            producers: BTreeMap::new(),
            has_skipped: false,
            floor: Offset::ZERO,
        }
    }

    /// The reader is about to be asked for more.
    pub fn asking(&mut self, reading: &mut Reading) {
        reading.floor = self.must_end(reading.topic);
    }

    /// The reader yielded something.
    pub fn read(&mut self, reading: &mut Reading, read: &Read) {
        if !self.is_served(reading.topic) {
            return;
        }
        match read {
            Read::Frame(frame) => self.frame(reading, frame),
            Read::CaughtUp(end) => self.caught_up(reading, *end),
            Read::Trimmed { from, to } => self.trimmed(reading, *from, *to),
            Read::Damage(damage) => {
                let (from, to) = (damage.from, damage.to);
                if !self.is_rotten {
                    let what = format!("{}: damage without a fault: {damage:?}", reading.topic);
                    self.broken(Rule::Bytes, what);
                }
                if from != reading.offset || to <= from {
                    let what = format!(
                        "{}: damage at {from}..{to}, {} comes next",
                        reading.topic, reading.offset
                    );
                    self.broken(Rule::Offsets, what);
                }
                self.ledger(reading.topic).damaged(from, to);
                reading.has_skipped = true;
                reading.is_begun = true;
                reading.offset = to;
            }
        }
    }

    fn trimmed(&mut self, reading: &mut Reading, from: Offset, to: Offset) {
        let (topic, offset) = (reading.topic, reading.offset);
        let ledger = self.ledger(topic);
        let trimmable = ledger.trimmable;
        ledger.start = ledger.start.max(to);
        if to > trimmable {
            let what = format!("{topic}: {from}..{to} was removed, {trimmable} is to stay");
            self.broken(Rule::Durable, what);
        }
        if from != offset || to <= from {
            let what = format!("{topic}: {from}..{to} was removed, {offset} comes next");
            self.broken(Rule::Offsets, what);
        }
        reading.has_skipped = true;
        reading.is_begun = true;
        reading.offset = to;
    }

    fn may_have_gap(&self, topic: TopicId) -> bool {
        self.is_rotten || self.ledgers.get(&topic).is_some_and(|ledger| ledger.may_have_gap)
    }

    fn is_served(&self, topic: TopicId) -> bool {
        self.ledgers.get(&topic).is_some_and(|ledger| ledger.phase == Phase::There)
    }

    fn caught_up(&mut self, reading: &Reading, end: Offset) {
        let Reading { topic, offset, floor, .. } = *reading;
        if end < floor {
            let what = format!("log {topic} ends at {end} for a reader, {floor} was known before");
            self.broken(Rule::Durable, what);
        }
        if end != offset {
            let what = format!("a reader of {topic} is at the end {end}, {offset} comes next");
            self.broken(Rule::Offsets, what);
        }
    }

    fn frame(&mut self, reading: &mut Reading, frame: &Frame) {
        self.counts.read += 1;
        let (base, next, topic) = (frame.base(), frame.next(), reading.topic);
        let follows = if reading.is_begun {
            base == reading.offset
        } else {
            base <= reading.offset && reading.offset < next
        };
        if !follows {
            let what = format!("log {topic}: {base}..{next} read, {} comes next", reading.offset);
            self.broken(Rule::Offsets, what);
        }
        if next <= reading.start && !self.is_rotten {
            let what =
                format!("log {topic}: {base}..{next} is back, it begins at {}", reading.start);
            self.broken(Rule::Offsets, what);
        }
        self.order_of_frames(reading, frame);
        reading.is_begun = true;
        reading.offset = next;
        reading.epoch = frame.epoch();
        reading.received = frame.receive_time();
        let what = match frame.kind() {
            FrameKind::Gap { reason, .. } => {
                self.counts.gaps += 1;
                reading.has_skipped = true;
                if reason == GapReason::UnprovenEnd && !self.may_have_gap(topic) {
                    let what = format!("log {topic}: a gap at {base}..{next}, nothing was lost");
                    self.broken(Rule::Alive, what);
                }
                Some(What::Gap(reason))
            }
            FrameKind::Batch => self.batch(reading, frame),
        };
        let hold = self.ledger(topic).hold_of_seen(next);
        if let Some(what) = what {
            let (epoch, received) = (Some(frame.epoch()), Some(frame.receive_time()));
            let since = Some(self.now);
            self.put(topic, base, Place { next, what, hold, epoch, received, since });
        }
    }

    /// Epochs and times, against the frames before and what the frame says itself.
    fn order_of_frames(&mut self, reading: &Reading, frame: &Frame) {
        let (base, topic, epoch) = (frame.base(), reading.topic, frame.epoch());
        let ledger = self.ledger(topic);
        let (least, newest) =
            (ledger.epoch_at_least(base).max(reading.epoch), ledger.newest_epoch());
        if epoch < least || newest < epoch {
            let what = format!("log {topic}: {base} has epoch {epoch}, not {least} to {newest}");
            self.broken(Rule::Epochs, what);
        }
        let received = frame.receive_time();
        let since = reading.since.filter(|_| !reading.is_begun && !self.is_rotten);
        let least = reading.received.max(since.unwrap_or(TimeMs::ZERO));
        if received < least {
            let what = format!("log {topic}: {base} was received at {received}, before {least}");
            self.broken(Rule::Times, what);
        }
        if frame.durable_end().max(frame.synced_end()) > base {
            let what = format!("log {topic}: {base} was durable before it was written");
            self.broken(Rule::Bytes, what);
        }
    }

    /// What a batch is, if it was sent to this log.
    fn batch(&mut self, reading: &mut Reading, frame: &Frame) -> Option<What> {
        let (base, topic) = (frame.base(), reading.topic);
        let batch = frame.to_batch().expect("the caller looked");
        let id = batches::id(&batch);
        let Some(sent) = self.batches.get(&id).filter(|sent| sent.topic == topic) else {
            self.broken(Rule::Bytes, format!("log {topic}: {base} holds {id}, nobody sent it"));
            return None;
        };
        let is_same = batches::is_same(&sent.batch, &batch);
        let (place, never) = (sent.place, !sent.may_appear && sent.in_flight == 0);
        if !is_same {
            self.broken(Rule::Bytes, format!("log {topic}: {base} is not what {id} was"));
        }
        if never {
            self.broken(
                Rule::Definite,
                format!("log {topic}: {base} holds {id}, which was refused"),
            );
        }
        if let Some(place) = place.filter(|place| *place != base)
            && self.ledger(topic).holds(id, place)
        {
            let what = format!("log {topic}: {id} is at {place} and at {base}");
            self.broken(Rule::Once, what);
        }
        if let Some(producer) = frame.producer() {
            self.order_of_producer(reading, &producer, frame);
        }
        Some(What::Batch(id))
    }

    fn order_of_producer(&mut self, reading: &mut Reading, batch: &BatchProducer, frame: &Frame) {
        let follows = batch.base_sequence.plus(frame.record_count());
        let before = reading.producers.insert(batch.id, (batch.epoch, follows));
        let Some((epoch, sequence)) = before else { return };
        let is_right = match batch.epoch.cmp(&epoch) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal if reading.has_skipped => batch.base_sequence >= sequence,
            std::cmp::Ordering::Equal => batch.base_sequence == sequence,
            std::cmp::Ordering::Greater => {
                reading.has_skipped || batch.base_sequence == Sequence::ZERO
            }
        };
        if !is_right {
            let what = format!(
                "log {}: {} has sequence {} of epoch {}, {sequence} of epoch {epoch} comes next",
                reading.topic,
                frame.base(),
                batch.base_sequence,
                batch.epoch
            );
            self.broken(Rule::Order, what);
        }
    }
}
