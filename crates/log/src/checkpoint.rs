//! What is known to be in segments *and synced*: recovery begins from it.
//!
//! Header:
//!
//! | at | bytes | field | |
//! |---|---|---|---|
//! | 0 | 8 | magic | `DANUCKP1` |
//! | 8 | 2 | version | 1 |
//! | 10 | 2 | zero | |
//! | 12 | 4 | checksum | over everything else |
//! | 16 | 16 | disk id | |
//! | 32 | 8 | round | all rounds up to it are in segments |
//! | 40 | 1 | clean | 1: written by a clean stop |
//! | 41 | 7 | zero | |
//! | 48 | 8 | written | wall clock |
//! | 56 | 16 | boot id | of the machine when it was written |
//! | 72 | 8 | generation | of the journal's file in which the next round comes, or an earlier one; 0: not begun yet |
//! | 80 | 4 | logs | |
//! | 84 | 4 | session | number of the broker's session that opened the hot tier last; 0: not known |
//!
//! Then for each log, topic ids rising:
//!
//! | bytes | field | |
//! |---|---|---|
//! | 16 | topic id | |
//! | 1 | open | 1 while open under `epoch`, 0 closed |
//! | 1 | level | |
//! | 1 | end | 0 unproven: the next opening goes on at the ceiling, with a gap; 1 proven; 2 damaged: no writes until an operator accepts the gap |
//! | 1 | place | 1 if the place of the damage at the end follows the gaps; only with end 2 |
//! | 4 | epoch | of the last opening |
//! | 8 | start | first offset still held |
//! | 8 | end | |
//! | 8 | last receive time | |
//! | 4 | segments | how many files |
//! | 8 | last segment | its first offset |
//! | 8 | last segment's position | bytes of it that are synced and count; 0: it takes no more, or there is none |
//! | 4 | producers | then as `producers` encodes them |
//! | 4 | gaps | then for each: first offset (8), next offset (8), reason (2; 0: damage that nobody accepted), zero (6) |
//! | | place | with place 1: position (8), then file and what was found, each length (4) and UTF-8 |
//!
//! `checkpoint.a` and `checkpoint.b` hold the same bytes, `a` is written first. So whatever happens, one of them is
//! whole; the valid one with the higher round counts.

use std::path::{Path, PathBuf};

use danube_env::Disk;
use danube_model::{DiskId, Durability, GapReason, Offset, TimeMs, TopicId};

use crate::codec::{Cursor, DecodeError, Decoded, Put, header, seal_header};
use crate::layout::{Copy, Layout, read_whole, write_atomically};
use crate::producers::Producers;
use crate::state::LogState;
use crate::{Error, Result};

pub(crate) const MAGIC: &[u8; 8] = b"DANUCKP1";
const VERSION: u16 = 1;
/// Bytes of a gap.
const GAP_BYTES: usize = 24;
/// Bytes of a log without producers.
const LOG_BYTES: usize = 72;
/// Bytes of each of the two texts in the place of a damaged end.
const PLACE_TEXT_BYTES_MAX: usize = 4096;
/// Bytes before the logs.
const HEADER_BYTES: usize = 80;
/// More than any checkpoint takes, so that a file which is none is not read into memory.
const CHECKPOINT_BYTES_MAX: u64 = 4 << 30;

/// The state of a data directory up to a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The directory's identity.
    pub(crate) disk_id: DiskId,
    /// All rounds up to it, itself included, are in segments.
    pub(crate) round: u64,
    /// Written by a clean stop.
    pub(crate) clean: bool,
    /// When it was written, by the wall clock.
    pub(crate) written: TimeMs,
    /// The boot of the machine in which it was written.
    pub(crate) boot_id: [u8; 16],
    /// Of the journal's file in which the next round comes, or of an earlier one; 0: not begun yet.
    pub(crate) generation: u64,
    /// Number of the broker's session that opened the directory last; 0: not known.
    pub(crate) session: u32,
    /// Every log of the directory, by rising topic id.
    pub(crate) logs: Vec<CheckpointLog>,
}

/// The opening of a hot tier that writes its checkpoints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer {
    /// The boot of the machine.
    pub(crate) boot_id: [u8; 16],
    /// Number of the broker's session.
    pub(crate) session: u32,
}

/// The state of one log up to the checkpoint's round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckpointLog {
    /// Whose log.
    pub(crate) topic_id: TopicId,
    /// What its records had made of it.
    pub(crate) state: LogState,
    /// How many segment files there are.
    pub(crate) segments: u32,
    /// First offset of the last segment.
    pub(crate) last_segment: Offset,
    /// Bytes of the last segment that are synced and count; 0 if it takes no more, or there is none.
    pub(crate) position: u64,
}

/// Offsets `[from, to)` that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// First offset.
    pub from: Offset,
    /// First offset behind it.
    pub to: Offset,
    /// Why; None: damage that no operator has accepted.
    pub reason: Option<GapReason>,
}

/// What is known of where a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndProof {
    /// Acknowledged messages may lie behind the end: the log goes on at its ceiling.
    Unproven,
    /// Nothing that was acknowledged lies behind the end.
    Proven,
    /// Damage may have taken what lay behind the end: no writes until an operator accepts the gap.
    Damaged,
}

/// Where the damage is that may have taken the end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndDamage {
    /// The file.
    pub(crate) path: PathBuf,
    /// Where in it.
    pub(crate) position: u64,
    /// What was found there.
    pub(crate) what: String,
}

/// What was found of a checkpoint.
#[derive(Debug)]
pub(crate) struct Read {
    /// The newest valid copy.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// What is wrong with the copies: each that is damaged, or missing while the other is there.
    pub(crate) problems: Vec<Error>,
}

impl Checkpoint {
    /// Receive time of the newest frame of all logs; zero if there is none.
    pub(crate) fn newest(&self) -> TimeMs {
        self.logs.iter().map(|log| log.state.last_receive_time).max().unwrap_or(TimeMs::ZERO)
    }

    /// The bytes of both copies.
    ///
    /// # Panics
    ///
    /// If the logs are not sorted by topic id.
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.logs.is_sorted_by(|a, b| a.topic_id < b.topic_id), "logs rise by topic id");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.logs.len() * LOG_BYTES);
        bytes.bytes(MAGIC).u16(VERSION).zero(2).u32(0).bytes(self.disk_id.as_bytes());
        bytes.u64(self.round).u8(self.clean.into()).zero(7).u64(self.written.get());
        bytes.bytes(&self.boot_id).u64(self.generation);
        bytes.u32(self.logs.len() as u32).u32(self.session);
        for log in &self.logs {
            log.encode(&mut bytes);
        }
        seal_header(&mut bytes);
        bytes
    }

    /// Reads a copy.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut cursor = header(bytes, MAGIC, "checkpoint", VERSION)?;
        let disk_id = DiskId::new(cursor.array()?);
        let round = cursor.u64()?;
        let clean = cursor.flag("a clean mark that is neither 0 nor 1")?;
        cursor.zero(7)?;
        let written = cursor.time()?;
        let boot_id = cursor.array()?;
        let generation = cursor.u64()?;
        let at = cursor.position();
        let count = cursor.u32()? as usize;
        let session = cursor.u32()?;
        if count > cursor.remaining() / LOG_BYTES {
            return Err(DecodeError::corrupt(at, "more logs than there is room for"));
        }
        let mut logs: Vec<CheckpointLog> = Vec::with_capacity(count);
        for _ in 0..count {
            let at = cursor.clone();
            let log = CheckpointLog::decode(&mut cursor)?;
            if logs.last().is_some_and(|last| last.topic_id >= log.topic_id) {
                return Err(at.corrupt("logs that do not rise by topic id"));
            }
            logs.push(log);
        }
        cursor.finish()?;
        Ok(Self { disk_id, round, clean, written, boot_id, generation, session, logs })
    }
}

impl EndProof {
    fn code(self) -> u8 {
        match self {
            Self::Unproven => 0,
            Self::Proven => 1,
            Self::Damaged => 2,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Unproven, Self::Proven, Self::Damaged].into_iter().find(|proof| proof.code() == code)
    }
}

impl EndDamage {
    /// Of a log whose checkpoint does not say where its end was damaged.
    pub(crate) fn unknown(dir: &Path) -> Self {
        let what = "the end is damaged; an earlier start reported where".to_owned();
        Self { path: dir.to_owned(), position: 0, what }
    }

    /// As it is reported.
    pub(crate) fn error(&self) -> Error {
        Error::corrupt(&self.path, self.position, self.what.clone())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.u64(self.position);
        for text in [&*self.path.to_string_lossy(), &*self.what] {
            let text = &text[..text.floor_char_boundary(PLACE_TEXT_BYTES_MAX)];
            out.u32(text.len() as u32).bytes(text.as_bytes());
        }
    }

    fn decode(cursor: &mut Cursor<'_>) -> Decoded<Self> {
        let position = cursor.u64()?;
        let mut text = || {
            let at = cursor.clone();
            let len = cursor.count(1)?;
            let text = std::str::from_utf8(cursor.take(len)?);
            text.map(str::to_owned).map_err(|_| at.corrupt("a place that is not UTF-8"))
        };
        let path = text()?.into();
        Ok(Self { path, position, what: text()? })
    }
}

impl Gap {
    fn decode(cursor: &mut Cursor<'_>) -> Decoded<Self> {
        let (from, to) = (cursor.offset()?, cursor.offset()?);
        let at = cursor.clone();
        let reason = match cursor.u16()? {
            0 => None,
            code => Some(
                GapReason::from_code(code)
                    .ok_or_else(|| at.corrupt("a reason that there is not"))?,
            ),
        };
        cursor.zero(6)?;
        if from >= to {
            return Err(at.corrupt("a gap that ends before it begins"));
        }
        Ok(Self { from, to, reason })
    }
}

impl CheckpointLog {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { topic_id, state, segments, last_segment, position } = self;
        out.bytes(topic_id.as_bytes());
        out.u8(state.open.into()).u8(state.level.code()).u8(state.end_proof.code());
        out.u8(state.end_damage.is_some().into());
        out.u32(state.epoch.get()).u64(state.start.get()).u64(state.end.get());
        out.u64(state.last_receive_time.get()).u32(*segments);
        out.u64(last_segment.get()).u64(*position);
        out.u32(state.producers.len() as u32);
        state.producers.encode(out);
        out.u32(state.gaps.len() as u32);
        for gap in &state.gaps {
            out.u64(gap.from.get()).u64(gap.to.get());
            out.u16(gap.reason.map_or(0, GapReason::code)).zero(6);
        }
        if let Some(damage) = &state.end_damage {
            damage.encode(out);
        }
    }

    fn decode(cursor: &mut Cursor<'_>) -> Decoded<Self> {
        let topic_id = cursor.topic()?;
        let open = cursor.flag("an open mark that is neither 0 nor 1")?;
        let at = cursor.clone();
        let level = Durability::from_code(cursor.u8()?)
            .ok_or_else(|| at.corrupt("a level that there is not"))?;
        let at = cursor.clone();
        let end_proof = EndProof::from_code(cursor.u8()?)
            .ok_or_else(|| at.corrupt("a mark of the end that there is not"))?;
        let has_place = match end_proof {
            EndProof::Damaged => cursor.flag("a mark of the place that is neither 0 nor 1")?,
            EndProof::Unproven | EndProof::Proven => {
                cursor.zero(1)?;
                false
            }
        };
        let (epoch, start, end) = (cursor.epoch()?, cursor.offset()?, cursor.offset()?);
        if start > end {
            return Err(cursor.corrupt("a log that ends before it starts"));
        }
        let last_receive_time = cursor.time()?;
        let segments = cursor.u32()?;
        let (last_segment, position) = (cursor.offset()?, cursor.u64()?);
        let count = cursor.count(Producers::ENCODED_BYTES_MIN)?;
        let producers = Producers::decode(cursor, count)?;
        let count = cursor.count(GAP_BYTES)?;
        let gaps = (0..count).map(|_| Gap::decode(cursor)).collect::<Decoded<_>>()?;
        let end_damage = has_place.then(|| EndDamage::decode(cursor)).transpose()?;
        let state = LogState {
            open,
            level,
            end_proof,
            end_damage,
            epoch,
            start,
            end,
            last_receive_time,
            producers,
            gaps,
        };
        Ok(Self { topic_id, state, segments, last_segment, position })
    }
}

/// Writes both copies; when it returns, both are durable.
///
/// # Errors
///
/// [`Error::Io`]. At least one copy is whole then: the one before, or this one.
pub(crate) fn write(disk: &dyn Disk, layout: &Layout, checkpoint: &Checkpoint) -> Result<()> {
    let bytes = checkpoint.encode();
    write_atomically(disk, &layout.checkpoint(Copy::A), &bytes)?;
    write_atomically(disk, &layout.checkpoint(Copy::B), &bytes)
}

/// Reads the newest valid copy.
///
/// A copy that is damaged, or missing beside the other, is reported and no more: recovery begins earlier. Without any
/// copy and without problems the directory has never had one.
///
/// # Errors
///
/// [`Error::Io`]; [`Error::UnknownVersion`] if either copy is whole and of a version that this build does not know, so that
/// it never goes on from an older state than another build left.
pub(crate) fn read(disk: &dyn Disk, layout: &Layout) -> Result<Read> {
    let mut checkpoint: Option<Checkpoint> = None;
    let mut problems = Vec::new();
    let mut missing = Vec::new();
    for copy in [Copy::A, Copy::B] {
        let path = layout.checkpoint(copy);
        let decoded = match read_whole(disk, &path, CHECKPOINT_BYTES_MAX) {
            Ok(None) => {
                missing.push(path);
                continue;
            }
            Ok(Some(bytes)) => Checkpoint::decode(&bytes).map_err(|error| error.at(&path, 0)),
            Err(error) => Err(error),
        };
        match decoded {
            Ok(found) if checkpoint.as_ref().is_none_or(|best| best.round < found.round) => {
                checkpoint = Some(found);
            }
            Ok(_) => {}
            Err(error @ Error::Corrupt { .. }) => problems.push(error),
            Err(error) => return Err(error),
        }
    }
    if missing.len() == 1 {
        let path = missing.swap_remove(0);
        problems.push(Error::Missing { path, what: "a copy of the checkpoint" });
    }
    Ok(Read { checkpoint, problems })
}

#[cfg(test)]
mod tests;
