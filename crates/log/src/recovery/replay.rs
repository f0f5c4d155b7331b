//! Which records of the journal count, and what is done where some are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use danube_env::Disk;
use danube_model::{Frame, Offset, TopicId};

use super::{Report, fill_at_need, heal};
use crate::bodies::{Bodies, Body, Record};
use crate::checkpoint::EndDamage;
use crate::error::{Error, Result};
use crate::journal::round::{Entry, Kind};
use crate::journal::scan::{Place, Round, Scan};
use crate::layout::Layout;
use crate::mutant;
use crate::state::LogState;

/// The replay of a journal into logs.
pub(super) struct Replay<'a> {
    disk: &'a dyn Disk,
    layout: &'a Layout,
    bodies: &'a mut Bodies,
    pub(super) report: &'a mut Report,
    /// Every log as of the round that is being read.
    states: BTreeMap<TopicId, LogState>,
    /// The last frame of each log that was there and could not be read.
    unread: BTreeMap<TopicId, (Offset, Error)>,
    /// The last rounds whose records are not known.
    lost: Option<Error>,
    /// What rounds brought whose records are not known is in segments.
    held: bool,
    /// Logs with a record behind the last of these rounds.
    seen_since_lost: BTreeSet<TopicId>,
    deleted: BTreeSet<TopicId>,
}

/// What the replay knows at its end.
pub(super) struct Finished {
    /// Logs whose end may be lost, and where that is.
    pub(super) damaged: BTreeMap<TopicId, EndDamage>,
    /// Logs that were deleted; their files may still be there.
    pub(super) deleted: BTreeSet<TopicId>,
    /// Every log as the journal leaves it.
    pub(super) states: BTreeMap<TopicId, LogState>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        layout: &'a Layout,
        bodies: &'a mut Bodies,
        report: &'a mut Report,
    ) -> Self {
        let states = bodies.iter().map(|(topic, body)| (topic, body.state.clone())).collect();
        Self {
            disk,
            layout,
            bodies,
            report,
            states,
            unread: BTreeMap::new(),
            lost: None,
            held: false,
            seen_since_lost: BTreeSet::new(),
            deleted: BTreeSet::new(),
        }
    }

    /// Takes the next round. Inner error: the journal ends before it, and that is where.
    pub(super) fn round(
        &mut self,
        round: &Round,
        scan: &Scan<'_>,
    ) -> Result<Result<(), Option<Place>>> {
        let place = (round.path.clone(), round.position);
        let frames: Vec<_> = round
            .head
            .entries
            .iter()
            .zip(&round.payloads)
            .map(|(entry, payload)| match entry.kind {
                Kind::Frame => Some(whole_frame(entry, payload)),
                _ => None,
            })
            .collect();
        let damage = frames.iter().flatten().find_map(|frame| frame.as_ref().err());
        if let Some(why) = damage
            && (mutant::is("cut_at_hole") || !scan.is_synced(round.head.round)?)
        {
            let what = format!("round {} was being written: {why}", round.head.round);
            self.report.cut.push(Error::corrupt(&place.0, place.1, what));
            return Ok(Err(Some(place)));
        }
        if round.healed {
            let what = format!("round {} was read by the copy of its directory", round.head.round);
            self.report.healed.push(Error::corrupt(&place.0, place.1, what));
        }
        self.report.rounds += 1;
        for (entry, frame) in round.head.entries.iter().zip(frames) {
            match frame {
                None => self.control(entry)?,
                Some(Ok(frame)) => self.frame(entry, frame)?,
                Some(Err(why)) => {
                    let error = Error::corrupt(&round.path, round.position, why);
                    self.unread.insert(entry.topic, (entry.offset, error));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Writes what was read to segments if it is more than `bytes`.
    pub(super) fn fill(&mut self, bytes: u64) -> Result<()> {
        if self.bodies.pending_bytes() > bytes { fill_at_need(self.bodies) } else { Ok(()) }
    }

    /// Rounds that were synced and can't be read.
    pub(super) fn lost(&mut self, first: u64, next: u64, error: Error) {
        tracing::error!(first, next, %error, "rounds of the journal are lost");
        self.report.damaged.push(error.clone());
        self.lost = Some(error);
        self.seen_since_lost.clear();
    }

    /// Rounds that a later checkpoint held than the one that is there.
    pub(super) fn held(&mut self, first: u64, next: u64, path: PathBuf) {
        let what = format!(
            "the checkpoint is older than the journal; what rounds {first} to {next} brought is taken from segments"
        );
        let error = Error::corrupt(path, 0, what);
        tracing::warn!(first, next, %error, "the newest checkpoint is gone");
        self.report.problems.push(error);
        self.held = true;
        self.seen_since_lost.clear();
    }

    fn state(&mut self, topic: TopicId) -> &mut LogState {
        let bodies = &mut *self.bodies;
        self.states.entry(topic).or_insert_with(|| {
            bodies.insert(topic, Body::new(topic));
            LogState::default()
        })
    }

    fn control(&mut self, entry: &Entry) -> Result<()> {
        let topic = entry.topic;
        self.seen_since_lost.insert(topic);
        if entry.kind == Kind::Delete {
            self.states.remove(&topic);
            self.unread.remove(&topic);
            self.bodies.forget(topic);
            self.deleted.insert(topic);
            return Ok(());
        }
        let state = self.state(topic);
        let counts = match entry.kind {
            Kind::Open => entry.epoch > state.epoch,
            Kind::Close | Kind::Seal => state.is_open(entry.epoch),
            Kind::Frame | Kind::Delete | Kind::Synced => false,
        };
        if !counts {
            return Ok(());
        }
        self.bridge(entry)?;
        let state = self.state(topic);
        let record = match entry.kind {
            Kind::Open => {
                state.open(entry.epoch, entry.level);
                Record::Open { epoch: entry.epoch, level: entry.level }
            }
            Kind::Close => {
                state.close();
                Record::Close
            }
            _ => Record::Seal,
        };
        self.bodies.push(topic, record);
        Ok(())
    }

    fn frame(&mut self, entry: &Entry, frame: Frame) -> Result<()> {
        let topic = entry.topic;
        self.seen_since_lost.insert(topic);
        let opening_lost = self.lost.is_some() || self.held;
        let state = self.state(topic);
        if opening_lost && entry.epoch > state.epoch {
            state.open(entry.epoch, entry.level);
            self.bodies.push(topic, Record::Open { epoch: entry.epoch, level: entry.level });
        }
        if mutant::is("replay_refused")
            || !(self.state(topic).is_open(entry.epoch) || mutant::is("older_epoch_replayed"))
        {
            return Ok(());
        }
        self.bridge(entry)?;
        let state = self.state(topic);
        if state.follows(&frame) || mutant::is("older_epoch_replayed") {
            self.take(topic, frame);
        }
        Ok(())
    }

    fn take(&mut self, topic: TopicId, frame: Frame) {
        self.state(topic).append(&frame);
        self.report.frames += 1;
        self.bodies.push(topic, Record::Frame(frame));
    }

    /// The log is known to have reached the entry's offset: what is missing up to there is in a segment, or damaged.
    fn bridge(&mut self, entry: &Entry) -> Result<()> {
        let (topic, to) = (entry.topic, entry.offset);
        let state = self.state(topic);
        let (epoch, from) = (state.epoch, state.end);
        if to <= from {
            return Ok(());
        }
        self.heal(topic, epoch, from, Some(to))?;
        let end = self.state(topic).end;
        if end < to {
            let why = self.why(topic);
            let error = damaged_range(topic, end, to, why).error();
            tracing::error!(%topic, from = %end, %to, %error, "messages are damaged");
            self.report.damaged.push(error);
            self.state(topic).skip(to);
            self.bodies.push(topic, Record::Break { next: to });
        }
        self.unread.remove(&topic);
        Ok(())
    }

    /// Whether the segments are whole behind what was taken from them.
    fn heal(
        &mut self,
        topic: TopicId,
        epoch: danube_model::Epoch,
        from: Offset,
        to: Option<Offset>,
    ) -> Result<bool> {
        let start = self.state(topic).start;
        let healed = heal::frames(self.disk, self.layout, topic, (start, epoch), from, to)?;
        for frame in healed.frames {
            let path = self.layout.topic_dir(topic);
            let what = format!("offset {} was taken from its segment", frame.base());
            self.report.healed.push(Error::corrupt(path, 0, what));
            self.state(topic).epoch = frame.epoch();
            self.take(topic, frame);
        }
        Ok(healed.is_whole)
    }

    /// Everything was read. What may be missing at the ends of logs is looked for in their segments.
    pub(super) fn finish(mut self) -> Result<Finished> {
        let mut suspects: BTreeSet<_> = self.unread.keys().copied().collect();
        if self.lost.is_some() || self.held {
            suspects
                .extend(self.states.keys().filter(|topic| !self.seen_since_lost.contains(topic)));
        }
        let mut damaged = BTreeMap::new();
        for topic in suspects {
            let state = self.state(topic);
            let (epoch, from) = (state.epoch, state.end);
            let is_whole = self.heal(topic, epoch, from, None)?;
            let end = self.state(topic).end;
            // The unreadable frame is the last of the log that is known: nothing that was acknowledged lies behind it.
            if self.lost.is_none() && self.unread.get(&topic).is_some_and(|(base, _)| end > *base) {
                continue;
            }
            if self.lost.is_none() && is_whole && !self.unread.contains_key(&topic) {
                continue;
            }
            let damage = damaged_range(topic, end, end, self.why(topic));
            let error = damage.error();
            tracing::error!(%topic, %end, %error, "the end of a log is damaged");
            self.report.damaged.push(error);
            damaged.insert(topic, damage);
        }
        Ok(Finished { damaged, deleted: self.deleted, states: self.states })
    }

    fn why(&self, topic: TopicId) -> Option<&Error> {
        self.unread.get(&topic).map(|(_, error)| error).or(self.lost.as_ref())
    }
}

/// The frame in a payload, and whether it is the one that the directory says.
fn whole_frame(entry: &Entry, payload: &bytes::Bytes) -> std::result::Result<Frame, String> {
    let frame = Frame::decode(entry.topic, payload).map_err(|error| error.to_string())?;
    if frame.bytes().len() != payload.len()
        || frame.base() != entry.offset
        || frame.epoch() != entry.epoch
    {
        return Err("another frame than the directory says".to_owned());
    }
    Ok(frame)
}

fn damaged_range(topic: TopicId, from: Offset, to: Offset, why: Option<&Error>) -> EndDamage {
    let range = if from == to {
        format!("may have lost messages behind offset {from}")
    } else {
        format!("lost offsets {from} to {to}")
    };
    let (path, position, what) = match why {
        Some(Error::Corrupt { path, position, what }) => (path.clone(), *position, &**what),
        _ => (PathBuf::from("journal"), 0, "damage"),
    };
    EndDamage { path, position, what: format!("{what}; log {topic} {range}") }
}
