//! One round: what has queued gets its offsets, is written, synced, and answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use danube_model::frame::FRAME_HEADER_BYTES;
use danube_model::{Batch, Durability, Epoch, Frame, Stamp, TimeMs, TopicId};

use crate::bodies::Record;
use crate::checkpoint::{EndProof, Gap};
use crate::commit::{
    AT_HOME, Answer, Appended, Committer, Item, LENT_BYTES_MAX, Live, OpenLog, PROMPT,
};
use crate::error::{Error, Result};
use crate::fill::Fill;
use crate::journal::round::{Entry, Head, Kind, RECORDS_MAX};
use crate::mutant;
use crate::producers::Verdict;

/// What a log may put into a round before the next one has its turn.
const TURN_BYTES: u64 = 256 * 1024;

/// A round being put together.
pub(super) struct Round {
    now: TimeMs,
    /// Bytes of frames, about.
    bytes_max: u64,
    /// Bytes that the journal has for it.
    room: u64,
    bytes: u64,
    entries: Vec<Entry>,
    records: Vec<(TopicId, Record)>,
    appends: Vec<Answered>,
    then: Then,
}

/// What follows when a round is durable.
#[derive(Default)]
struct Then {
    controls: Vec<(Control, Answer<()>)>,
    deleted: Vec<(TopicId, Answer<()>)>,
    accepted: Vec<(TopicId, Vec<Gap>)>,
}

struct Answered {
    topic: TopicId,
    appended: Appended,
    done: Answer<Appended>,
}

impl Answered {
    fn waits_for_sync(&self) -> bool {
        self.appended.level != Durability::PageCache
    }
}

/// What is done when a record that is no frame is durable.
enum Control {
    Opened(TopicId),
    Closed(TopicId),
    Finished(TopicId),
}

impl Committer {
    /// Builds and commits one round. An error is final.
    pub(super) async fn round(&mut self) -> Result<()> {
        let mut round = self.build();
        if round.entries.is_empty() {
            self.blocked_at = (!self.ready.is_empty()).then(|| self.journal.room());
            // Duplicates of what is durable, and what needs no record.
            self.answer(round.appends);
            return self.after(round.then).await;
        }
        self.blocked_at = None;
        let kib =
            u32::try_from(round.bytes.div_ceil(1024)).expect("a round is bounded by the file");
        let kib = kib.min(u32::try_from(self.fill_room.available_permits()).unwrap_or(u32::MAX));
        let room = Arc::clone(&self.fill_room).try_acquire_many_owned(kib);
        let payloads: Vec<&[u8]> = round
            .records
            .iter()
            .filter_map(|(_, record)| match record {
                Record::Frame(frame) => Some(&frame.bytes()[..]),
                _ => None,
            })
            .collect();
        let entries = std::mem::take(&mut round.entries);
        let has_controls = !round.then.controls.is_empty() || !round.then.deleted.is_empty();
        let bytes = Head::round_len(entries.len(), round.bytes);
        self.uncheckpointed += bytes;
        let begun = self.env.clock.monotonic();
        let syncs = has_controls || round.appends.iter().any(Answered::waits_for_sync);
        let is_short = !syncs && self.is_short(bytes, begun) && self.home.has_turn();
        if !is_short {
            self.home.reached().await;
        }
        self.counters.commit.begin(begun);
        self.journal.write(entries, &payloads, round.now.get())?;
        self.counters.commit.end();
        self.env.spawn.interleave().await;

        let now = self.env.clock.monotonic();
        self.count(now - begun, bytes);
        if is_short && now - begun > PROMPT {
            self.timers.at_home_before = now + AT_HOME;
        }
        let early = self.written(&mut round);
        self.answer(early);
        if round.appends.is_empty() && !has_controls {
            self.timers.sync.get_or_insert(now + self.config.page_cache_sync);
        } else {
            self.sync(now)?;
        }
        self.env.spawn.interleave().await;
        self.answer(std::mem::take(&mut round.appends));
        let Round { records, then, .. } = round;
        self.handover.add(records, room.ok());
        if let Some(rounds) = self.handover.take_if_much() {
            self.send_to_filler(rounds).await?;
        }
        self.after(then).await?;
        self.tail.evict();
        Ok(())
    }

    /// A round of so many bytes is written.
    fn count(&self, took: Duration, bytes: u64) {
        let counters = &self.counters;
        counters.rounds.add(1);
        counters.round_bytes.add(bytes);
        counters.writes.add(took);
        counters.journal_bytes.store(self.journal.bytes(), Ordering::Relaxed);
        counters.tail_bytes.store(self.tail.bytes(), Ordering::Relaxed);
    }

    /// Whether writing a round of so many bytes will not take long.
    fn is_short(&self, bytes: u64, now: Duration) -> bool {
        bytes <= LENT_BYTES_MAX
            && self.journal.is_in_current(bytes)
            && self.timers.at_home_before <= now
    }

    async fn after(&mut self, then: Then) -> Result<()> {
        let Then { controls, deleted, accepted } = then;
        for (control, done) in controls {
            self.confirm(control, done).await?;
        }
        if !deleted.is_empty() {
            for (topic, _) in &deleted {
                self.forget(*topic);
            }
            self.tell_filler(Fill::Delete(deleted)).await?;
        }
        for (topic, gaps) in accepted {
            self.tell_filler(Fill::Accepted { topic, gaps }).await?;
        }
        Ok(())
    }

    /// Logs take turns until the round is full or nothing is left: who has much alone pays for one sync, not for one each turn.
    fn build(&mut self) -> Round {
        let mut round = Round {
            now: TimeMs::new(self.env.clock.wall_ms()),
            bytes_max: self.config.round_bytes,
            room: self.journal.room(),
            bytes: 0,
            entries: Vec::new(),
            records: Vec::new(),
            appends: Vec::new(),
            then: Then::default(),
        };
        while let Some(topic) = self.ready.pop_front() {
            let full = self.take_turn(topic, &mut round);
            if !self.logs[&topic].queue.is_empty() {
                if full {
                    self.ready.push_front(topic);
                    break;
                }
                self.ready.push_back(topic);
            }
        }
        round
    }

    /// Puts items of one log into the round; whether the round is full.
    fn take_turn(&mut self, topic: TopicId, round: &mut Round) -> bool {
        let end_of_turn = round.bytes + TURN_BYTES;
        loop {
            let live = self.logs.get_mut(&topic).expect("a ready log is known");
            let Some(item) = live.queue.front() else { return false };
            let bytes = match item {
                Item::Append { batch, .. } => (FRAME_HEADER_BYTES + batch.bytes().len()) as u64,
                _ => 0,
            };
            if !round.takes(bytes) {
                if round.entries.is_empty()
                    && Head::round_len(3, bytes) > self.journal.round_bytes_max()
                {
                    let item = live.queue.pop_front().expect("it was there");
                    item.refuse(Error::TooLarge { bytes, limit: self.journal.round_bytes_max() });
                    continue;
                }
                return true;
            }
            if round.bytes >= end_of_turn {
                return false;
            }
            let item = live.queue.pop_front().expect("it was there");
            self.place(topic, item, round);
        }
    }

    fn place(&mut self, topic: TopicId, item: Item, round: &mut Round) {
        let live = self.logs.get_mut(&topic).expect("a ready log is known");
        if live.deleted {
            return item.refuse(Error::NoLog { topic });
        }
        match item {
            Item::Append { epoch, batch, room, done } => {
                match place_append(live, topic, epoch, &batch) {
                    Ok(Place::Duplicate(appended)) => {
                        self.counters.duplicates.add(1);
                        round.appends.push(Answered { topic, appended, done })
                    }
                    Ok(Place::New) => {
                        let base = live.state.end;
                        let stamp = stamp(live, epoch, round.now);
                        let frame = Frame::batch(topic, stamp, &batch);
                        let next = frame.next();
                        let level = live.state.level;
                        let messages = u64::from(batch.record_count());
                        let bytes = batch.bytes().len() as u64;
                        live.shared.count(messages, bytes);
                        self.counters.count_batch(messages, bytes);
                        self.place_frame(topic, frame, round);
                        let appended = Appended { base, next, epoch, level, duplicate: false };
                        round.appends.push(Answered { topic, appended, done });
                    }
                    Err(error) => drop(done.send(Err(error))),
                }
                drop(room);
            }
            Item::Open { open, done } => match self.place_open(&open, round) {
                Ok(()) => round.then.controls.push((Control::Opened(topic), done)),
                Err(error) => drop(done.send(Err(error))),
            },
            Item::Close { epoch, done } => {
                if live.is_open(epoch) {
                    live.state.close();
                    round.control(topic, live, Kind::Close);
                    round.records.push((topic, Record::Close));
                    round.then.controls.push((Control::Closed(topic), done));
                } else {
                    drop(done.send(Err(Error::NotOpen { topic, epoch })));
                }
            }
            Item::Delete { done } => {
                live.state.close();
                live.deleted = true;
                round.control(topic, live, Kind::Delete);
                round.then.deleted.push((topic, done));
            }
            Item::Seal => seal(topic, live, round),
            Item::Finish { done } => {
                seal(topic, live, round);
                round.then.controls.push((Control::Finished(topic), done));
            }
            Item::Accepted { gaps, done } => {
                live.state.accept(&gaps);
                live.shared.view().gaps = live.state.gaps.clone();
                round.then.accepted.push((topic, gaps));
                drop(done.send(Ok(())));
            }
        }
    }

    fn place_open(&mut self, open: &OpenLog, round: &mut Round) -> Result<()> {
        let OpenLog { topic, epoch, level, ceiling, resume } = *open;
        let live = self.logs.get_mut(&topic).expect("a ready log is known");
        let state = &mut live.state;
        if epoch <= state.epoch {
            return Err(Error::Fenced { topic, epoch, current: state.epoch });
        }
        if state.end_proof != EndProof::Proven && resume.is_none() {
            return Err(Error::UnprovenEnd { topic, end: state.end });
        }
        state.open(epoch, level);
        live.ceiling = ceiling;
        round.control(topic, live, Kind::Open);
        round.records.push((topic, Record::Open { epoch, level }));
        if let Some((next, reason)) = resume.filter(|(next, _)| *next > live.state.end) {
            let stamp = stamp(live, epoch, round.now);
            let frame = Frame::gap(topic, stamp, next, reason);
            self.place_frame(topic, frame, round);
            let live = &self.logs[&topic];
            live.shared.view().gaps = live.state.gaps.clone();
        }
        Ok(())
    }

    fn place_frame(&mut self, topic: TopicId, frame: Frame, round: &mut Round) {
        let live = self.logs.get_mut(&topic).expect("the caller found it");
        let bytes = frame.bytes().len() as u64;
        if live.outgrows_segment(bytes, &self.config) {
            seal(topic, live, round);
        }
        live.grew(bytes, frame.receive_time().get());
        live.state.append(&frame);
        self.unsynced.insert(topic);
        self.tail.push(&live.shared, frame.clone());
        round.bytes += bytes;
        round.entries.push(Entry {
            topic,
            epoch: frame.epoch(),
            kind: Kind::Frame,
            level: live.state.level,
            payload: u32::try_from(bytes).expect("a frame is bounded by the file"),
            offset: frame.base(),
        });
        round.records.push((topic, Record::Frame(frame)));
    }

    /// The round is with the operating system: what `page_cache` asks for. Returns the appends that this confirms.
    fn written(&mut self, round: &mut Round) -> Vec<Answered> {
        let at_once =
            |answered: &mut Answered| !answered.waits_for_sync() || mutant::is("ack_before_sync");
        let early: Vec<_> = round.appends.extract_if(.., at_once).collect();
        for answered in &early {
            let live = self.logs.get_mut(&answered.topic).expect("it is in the round");
            live.durable_end = live.durable_end.max(answered.appended.next);
        }
        early
    }

    /// Syncs the journal and moves what follows from it.
    pub(super) fn sync(&mut self, now: Duration) -> Result<()> {
        self.counters.commit.begin(now);
        self.journal.sync()?;
        self.counters.commit.end();
        self.counters.syncs.add(self.env.clock.monotonic() - now);
        self.timers.sync = None;
        self.timers.quiet = Some(now + self.config.quiet_sync);
        for topic in std::mem::take(&mut self.unsynced) {
            let Some(live) = self.logs.get_mut(&topic) else { continue };
            live.synced_end = live.state.end;
            if live.state.level == Durability::Disk || !live.state.open {
                live.durable_end = live.state.end;
                live.shared.durable(live.durable_end);
            }
        }
        Ok(())
    }

    /// Tells producers, and readers before them.
    fn answer(&mut self, appends: Vec<Answered>) {
        for answered in appends {
            if let Some(live) = self.logs.get(&answered.topic) {
                live.shared.durable(live.durable_end);
            }
            // Whoever sent it may be gone; it is stored all the same.
            let _ = answered.done.send(Ok(answered.appended));
        }
    }

    /// A log's deletion is durable.
    fn forget(&mut self, topic: TopicId) {
        if let Some(live) = self.logs.remove(&topic) {
            live.queue.into_iter().for_each(|item| item.refuse(Error::NoLog { topic }));
            self.ready.retain(|ready| *ready != topic);
        }
    }

    async fn confirm(&mut self, control: Control, done: Answer<()>) -> Result<()> {
        match control {
            Control::Opened(topic) => {
                if let Some(live) = self.logs.get_mut(&topic) {
                    live.durable_end = live.state.end;
                    live.shared.durable(live.durable_end);
                    live.shared.set_closed(!live.state.open);
                }
            }
            Control::Closed(topic) => {
                if let Some(live) = self.logs.get(&topic) {
                    live.shared.set_closed(!live.state.open);
                }
            }
            Control::Finished(topic) => {
                return self.tell_filler(Fill::Finish { topic, done }).await;
            }
        }
        let _ = done.send(Ok(()));
        Ok(())
    }
}

impl Round {
    /// Whether a frame of so many bytes, with a seal and an opening before it, fits.
    fn takes(&self, frame_bytes: u64) -> bool {
        let records = self.entries.len() + 3;
        records <= RECORDS_MAX
            && (self.bytes + frame_bytes <= self.bytes_max || self.bytes == 0)
            && Head::round_len(records, self.bytes + frame_bytes) <= self.room
    }

    fn control(&mut self, topic: TopicId, live: &Live, kind: Kind) {
        self.entries.push(Entry {
            topic,
            epoch: live.state.epoch,
            kind,
            level: live.state.level,
            payload: 0,
            offset: live.state.end,
        });
    }
}

enum Place {
    New,
    Duplicate(Appended),
}

/// Whether a batch may be appended to this log next.
fn place_append(live: &Live, topic: TopicId, epoch: Epoch, batch: &Batch) -> Result<Place> {
    let is_let_in = live.state.open && mutant::is("older_epoch_replayed");
    if !live.is_open(epoch) && !is_let_in {
        return Err(Error::NotOpen { topic, epoch });
    }
    let count = batch.record_count();
    if let Some(producer) = batch.producer() {
        let found = producer.base_sequence.get();
        match live.state.producers.check(&producer, count) {
            Verdict::New => {}
            Verdict::Duplicate { base } => {
                let (next, level) = (base + u64::from(count), live.state.level);
                return Ok(Place::Duplicate(Appended {
                    base,
                    next,
                    epoch,
                    level,
                    duplicate: true,
                }));
            }
            Verdict::DuplicateForgotten => return Err(Error::DuplicateForgotten { found }),
            Verdict::OutOfOrder { expected } => {
                return Err(Error::OutOfOrder { expected: expected.get(), found });
            }
            Verdict::FencedEpoch { current } => {
                return Err(Error::ProducerFenced { found: producer.epoch, current });
            }
            Verdict::Unknown => return Err(Error::UnknownProducer { found }),
        }
    }
    match live.state.end.checked_add(u64::from(batch.offset_span())) {
        Some(next) if next <= live.ceiling => Ok(Place::New),
        _ => Err(Error::Ceiling { topic, ceiling: live.ceiling }),
    }
}

fn seal(topic: TopicId, live: &mut Live, round: &mut Round) {
    // Without an epoch a replay would not seal it.
    if live.has_segment() && live.state.open {
        live.sealed();
        round.control(topic, live, Kind::Seal);
        round.records.push((topic, Record::Seal));
    }
}

fn stamp(live: &Live, epoch: Epoch, now: TimeMs) -> Stamp {
    Stamp {
        base: live.state.end,
        epoch,
        receive_time: now.max(live.state.last_receive_time),
        durable_end: live.durable_end,
        synced_end: live.synced_end,
    }
}
