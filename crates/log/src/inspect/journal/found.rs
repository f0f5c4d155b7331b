//! What is found in a journal.

use std::path::PathBuf;

use danube_model::{DiskId, Durability, Epoch, Offset, TimeMs, TopicId};
use serde::Serialize;

/// What is found in a journal: first the checkpoint and the files, then round by round, then every log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum Found {
    /// The checkpoint, if there is a whole one.
    Checkpoint(FoundCheckpoint),
    /// A file.
    File(FoundFile),
    /// A round; its records follow.
    Round(FoundRound),
    /// A record of the last round that was found.
    Record(FoundRecord),
    /// Rounds that were synced and can't be read.
    Lost(LostRounds),
    /// The journal ends here.
    End(FoundEnd),
    /// A log as a recovery would leave it.
    Log(FoundLog),
    /// Something that a recovery would report.
    Finding(Finding),
}

/// Up to where everything is in segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundCheckpoint {
    /// Whose hot tier.
    pub disk_id: DiskId,
    /// A recovery begins behind this round.
    pub round: u64,
    /// Written by a clean stop.
    pub clean: bool,
    /// When it was written, by the wall clock.
    pub written: TimeMs,
    /// Logs in it.
    pub logs: u64,
}

/// A file of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundFile {
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Which use of a file this is, counted over all files; `None` if it was never used.
    pub generation: Option<u64>,
    /// Number of the first round in this use.
    pub first_round: Option<u64>,
}

/// What one sync made durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundRound {
    /// Its number, dense over all files.
    pub round: u64,
    /// The file that it is in.
    pub path: PathBuf,
    /// Where it begins in the file.
    pub position: u64,
    /// Bytes that it takes in the file.
    pub bytes: u64,
    /// The highest round that was known to be synced when this one was written.
    pub synced_round: u64,
    /// When it was written, by the wall clock.
    pub written: TimeMs,
    /// How many records it has.
    pub records: u64,
    /// The checkpoint holds it: a recovery does not look at it.
    pub in_checkpoint: bool,
    /// Its directory is damaged and was read from the copy.
    pub healed: bool,
}

/// What happened to one log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundRecord {
    /// The round that it is in.
    pub round: u64,
    /// `frame`, `open`, `close`, `delete`, `synced` or `seal`.
    pub kind: &'static str,
    /// Whose log.
    pub topic_id: TopicId,
    /// The epoch that the log was open under.
    pub epoch: Epoch,
    /// The log's level.
    pub level: Durability,
    /// Of a frame, its first offset; else the end of the log, or of what was synced.
    pub offset: Offset,
    /// The offset behind a frame's last.
    pub next: Option<Offset>,
    /// Bytes of the frame.
    pub bytes: u32,
    /// What is wrong with the frame.
    pub problem: Option<String>,
}

/// Rounds that were synced and can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostRounds {
    /// The first.
    pub first: u64,
    /// The first behind them.
    pub next: u64,
    /// Where the first should be.
    pub path: PathBuf,
    /// Where in the file.
    pub position: u64,
    /// What is wrong there.
    pub why: String,
}

/// Where the journal ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundEnd {
    /// The first round that is not there.
    pub round: u64,
    /// The file in which it would be; `None` without a file.
    pub path: Option<PathBuf>,
    /// Where in the file.
    pub position: u64,
    /// What lies there of rounds that nobody was told of.
    pub cut: Option<String>,
}

/// A log as a recovery would leave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundLog {
    /// Whose log.
    pub topic_id: TopicId,
    /// Its last epoch.
    pub epoch: Epoch,
    /// Its level.
    pub level: Durability,
    /// Whether it was open when the broker stopped.
    pub open: bool,
    /// First offset still held.
    pub start: Offset,
    /// Its end in the checkpoint; `None` if it is not in it.
    pub checkpoint_end: Option<Offset>,
    /// Its end after a recovery. At `page_cache` it counts only if the page cache is still the same.
    pub end: Offset,
    /// Damage may have taken what lay behind the end.
    pub end_damaged: bool,
}

/// Something that a recovery would report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// What, and where.
    pub what: String,
}

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Damaged in one place and whole in another.
    Healed,
    /// Cut: it was never acknowledged at a level that survives. Where rounds lie behind it and a start proves that the page
    /// cache is still the one that they were written to, it is damage instead.
    Cut,
    /// Lost: it reads as damage until an operator accepts the gap.
    Damaged,
    /// Odd, and left alone.
    Problem,
    /// A recovery refuses to start.
    Refused,
}

/// The sum of what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Rounds that could be read.
    pub rounds: u64,
    /// Records in them.
    pub records: u64,
    /// Frames that a recovery would write to segments again.
    pub frames_taken: u64,
    /// Places that are damaged and whole elsewhere.
    pub healed: u64,
    /// Places that would be cut.
    pub cut: u64,
    /// Ranges that are lost.
    pub damaged: u64,
    /// Odd things, and reasons not to start.
    pub problems: u64,
    /// Everything was handed on; false if the visitor broke off.
    pub complete: bool,
}
