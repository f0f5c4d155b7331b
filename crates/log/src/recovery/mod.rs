//! From what a stop left on the disk to logs that can be opened (`docs/format.md` section 7).
//!
//! Invariants:
//!
//! * Nothing of the journal is written, and no file is cut or removed, before the new checkpoint is durable: a crash at any
//!   step begins the same recovery again.
//! * Everything above the old checkpoint is written to segments again and synced, whatever a segment shows in its
//!   place: after a failed sync even a clean page proves nothing.
//! * What was known to be synced is never taken for the end of a log.
//! * A refusal changes nothing: all that can refuse is found out before the first write, but for the note that somebody looks
//!   at the page cache, which is taken back.
//!
//! Reading order: this module, `check` (what refuses a start), `replay` (which record counts), `heal` (what the journal
//! lost), `missing` (what else is gone), `ends` (what is known of where a log ends), `names` (which names are not trusted),
//! `residency` (whether the page cache is still the one that was written to).

mod check;
mod ends;
mod heal;
mod missing;
mod names;
mod replay;
mod residency;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use danube_env::{Disk, Env, Reserve};
use danube_model::{DiskId, Offset, TimeMs, TopicId};

pub use self::check::holds_logs;
pub use self::ends::RolledBack;
use self::replay::{Finished, Replay};
use self::residency::Residency;
use crate::bodies::{Bodies, Body};
use crate::checkpoint::{self, Checkpoint, CheckpointLog, EndDamage};
use crate::config::Sizes;
use crate::error::{Error, Result};
use crate::identity::{self, TopicIdentity};
use crate::journal::round::FileHeader;
use crate::journal::scan::{self, After, Proof, Scan, Step};
use crate::journal::writer::{self, Start};
use crate::layout::{self, Layout};
use crate::mutant;
use crate::pool::Pool;
use crate::reader::Damage;
use crate::state::LogState;
use crate::store::Expected;

/// What a recovery found and did, for the operator.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rounds read from the journal.
    pub rounds: u64,
    /// Frames written again.
    pub frames: u64,
    /// Heads or frames that were damaged in one place and found in another.
    pub healed: Vec<Error>,
    /// What was cut: it was never acknowledged at a level that survives.
    pub cut: Vec<Error>,
    /// Ranges that are lost: they read as damage until an operator accepts them as gaps.
    pub damaged: Vec<Error>,
    /// Those of them that are gone with their files.
    pub missing: Vec<(TopicId, Damage)>,
    /// Odd things that were left alone.
    pub problems: Vec<Error>,
    /// Logs that are those of an older copy of the hot tier: each goes on at its ceiling.
    pub rolled_back: Vec<RolledBack>,
    /// Receive time of the newest frame of all logs; zero if there is none.
    pub newest: TimeMs,
    /// Whether the metadata are an older copy than this hot tier.
    pub metadata_are_older: bool,
    /// Whether the page cache is proven to be the one that was last written to, or nothing that counts was left to it.
    pub page_cache_proven: bool,
}

/// A hot tier whose recovery nothing refuses, and what was read of it to find that out.
pub(crate) struct Checked {
    boot_id: [u8; 16],
    reserve: Reserve,
    checkpoint: Option<Checkpoint>,
    disk_id: Option<DiskId>,
    segments: BTreeMap<TopicId, Vec<Offset>>,
    residency: Residency,
    journal: scan::Found,
    problems: Vec<Error>,
}

/// A hot tier that is ready to go on.
pub(crate) struct Recovered {
    pub(crate) disk_id: DiskId,
    pub(crate) writer: checkpoint::Writer,
    pub(crate) bodies: Bodies,
    pub(crate) journal: Start,
    pub(crate) report: Report,
}

/// Reads the hot tier in `layout`, and finds out whether anything refuses its recovery. Blocks.
pub(crate) fn check(env: &Env, layout: &Layout, sizes: &Sizes) -> Result<Checked> {
    let disk = &*env.disk;
    let boot_id = disk.boot_id().map_err(Error::io("find the boot id for", layout.root()))?;
    let mut reserve =
        Reserve::new(Arc::clone(&env.disk), layout.reserve(), sizes.reserve_file_bytes);
    let check::Found { checkpoint, disk_id, segments, mut problems } = check::look(disk, layout)?;
    let same_boot = checkpoint.as_ref().is_some_and(|found| found.boot_id == boot_id);
    let residency = Residency::look(disk, layout, boot_id, same_boot, &mut reserve)?;
    let proof: Proof<'_> = &|from, end| residency.proves(from, end);
    let journal = match check::journal(disk, layout, disk_id, checkpoint.as_ref(), proof) {
        Ok(journal) => journal,
        Err(error) => {
            residency.take_back(disk, layout)?;
            return Err(error);
        }
    };
    problems.extend(journal.problems.iter().cloned());
    Ok(Checked { boot_id, reserve, checkpoint, disk_id, segments, residency, journal, problems })
}

/// Recovers the hot tier in `layout`, making it if the directory is new. Blocks.
pub(crate) fn recover(
    env: &Env,
    layout: &Layout,
    sizes: &Sizes,
    pool: &Arc<Pool>,
    checked: Checked,
    expected: &Expected,
) -> Result<Recovered> {
    let disk = &*env.disk;
    let Checked { checkpoint, segments, residency, journal, .. } = checked;
    let mut report = Report { problems: checked.problems, ..Report::default() };
    names::make_dirs(disk, layout)?;
    let disk_id = match checked.disk_id.filter(|_| checkpoint.is_some()) {
        Some(disk_id) => disk_id,
        None => identity::make(env, layout)?,
    };
    let mut bodies =
        Bodies::new(env.disk.clone(), layout.clone(), disk_id, checked.reserve, Arc::clone(pool));
    let logs = checkpoint.as_ref().map_or(&[][..], |checkpoint| &checkpoint.logs);
    for log in logs {
        bodies.insert(log.topic_id, Body::from_checkpoint(log));
    }
    names::renew_logs(disk, layout, &mut bodies)?;
    make_missing_dirs(disk, layout, logs, &segments)?;
    add_new_logs(disk, layout, &mut bodies, &mut report)?;

    let proof: Proof<'_> = &|from, end| residency.proves(from, end);
    let after = checkpoint.as_ref().map(After::checkpoint).unwrap_or_default();
    let is_consumed = after.is_consumed();
    let mut scan = Scan::new(disk, layout, &journal, after).believing(proof);
    let Replayed { last, end, finished } =
        replay_journal(disk, layout, &mut scan, &mut bodies, &mut report, &mut |_| {})?;
    let Finished { damaged, deleted, .. } = finished;
    // A recovery that ended behind its first checkpoint has settled it all: nothing is taken before the second one.
    let is_settled = is_consumed && report.rounds == 0;
    report.page_cache_proven = is_settled || residency.proves(scan.unsynced(), end.as_ref());
    for error in &report.cut {
        tracing::warn!(%error, "the end of the journal is cut");
    }
    fill_at_need(&mut bodies)?;
    let session = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.session);
    ends::judge(layout, &mut bodies, damaged, expected, session, &mut report);
    let kept = logs.iter().filter(|log| !deleted.contains(&log.topic_id));
    report.missing = missing::find_all(disk, layout, kept, &segments)?;
    report.damaged.extend(report.missing.iter().map(|(_, damage)| Error::from(damage)));
    if mutant::is("recovered_tail_not_synced") {
        bodies.dirty.lose();
    }
    bodies.sync()?;
    let writer = checkpoint::Writer { boot_id: checked.boot_id, session: expected.session() };
    let written = TimeMs::new(env.clock.wall_ms());
    let mut checkpoint = bodies.checkpoint(last, false, written, writer, 0);
    report.newest = checkpoint.newest();
    write_checkpoint(disk, layout, &checkpoint, &mut bodies.reserve)?;
    if !deleted.is_empty() {
        bodies.delete(&deleted.into_iter().collect::<Vec<_>>())?;
    }
    residency.forget(disk, layout)?;
    let journal = journal_start(disk, layout, disk_id, &journal, sizes.file_bytes, last + 1)?;
    // From here on the loss of the file that was begun is known as one.
    checkpoint.generation = journal.generation;
    write_checkpoint(disk, layout, &checkpoint, &mut bodies.reserve)?;
    Ok(Recovered { disk_id, writer, bodies, journal, report })
}

/// Writes all that waits to segments, if need be into the room of the reserve.
pub(crate) fn fill_at_need(bodies: &mut Bodies) -> Result<()> {
    match bodies.fill() {
        Err(error) if error.is_full() && bodies.reserve.release() => bodies.fill(),
        result => result,
    }
}

fn write_checkpoint(
    disk: &dyn Disk,
    layout: &Layout,
    checkpoint: &Checkpoint,
    reserve: &mut Reserve,
) -> Result<()> {
    reserve.retry(|| checkpoint::write(disk, layout, checkpoint), Error::is_full)
}

/// A log whose directory is gone goes on in a new one.
fn make_missing_dirs(
    disk: &dyn Disk,
    layout: &Layout,
    logs: &[CheckpointLog],
    segments: &BTreeMap<TopicId, Vec<Offset>>,
) -> Result<()> {
    let missing = logs.iter().filter(|log| !segments.contains_key(&log.topic_id));
    let dirs: Vec<_> = missing.map(|log| layout.topic_dir(log.topic_id)).collect();
    for dir in &dirs {
        disk.create_dir_all(dir).map_err(Error::io("create", dir))?;
    }
    if dirs.is_empty() {
        return Ok(());
    }
    let topics = layout.topics_dir();
    disk.sync_dir(&topics).map_err(Error::io("sync", &topics))
}

/// What a recovery would make of a directory.
pub(crate) struct Rehearsal {
    /// What it would report, but for the page cache.
    pub(crate) report: Report,
    /// Every log as it would be.
    pub(crate) states: BTreeMap<TopicId, LogState>,
    /// Logs whose end may be lost to damage, and where that is.
    pub(crate) damaged: BTreeMap<TopicId, EndDamage>,
}

/// Finds out what a recovery would make of the journal behind `checkpoint`, and writes nothing. `visit` sees each step of the
/// scan.
pub(crate) fn rehearse(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    checkpoint: &Checkpoint,
    found: &scan::Found,
    visit: &mut dyn FnMut(&Step),
) -> Result<Rehearsal> {
    let mut report = Report::default();
    let reserve = Reserve::new(Arc::clone(disk), layout.reserve(), 0);
    let mut bodies =
        Bodies::new(Arc::clone(disk), layout.clone(), checkpoint.disk_id, reserve, Pool::new(0));
    for log in &checkpoint.logs {
        bodies.insert(log.topic_id, Body::from_checkpoint(log));
    }
    add_new_logs(&**disk, layout, &mut bodies, &mut report)?;
    bodies.only_rehearse();
    let after = After::checkpoint(checkpoint);
    let mut scan = Scan::new(&**disk, layout, found, after);
    let replayed = replay_journal(&**disk, layout, &mut scan, &mut bodies, &mut report, visit)?;
    let Finished { states, damaged, .. } = replayed.finished;
    Ok(Rehearsal { report, states, damaged })
}

/// What the journal says.
struct Replayed {
    /// Its last round that counts.
    last: u64,
    /// Where it ends.
    end: Option<(PathBuf, u64)>,
    finished: Finished,
}

/// Reads the journal into `bodies`, which write as they go: the same bytes to the same places, should this be done again.
fn replay_journal(
    disk: &dyn Disk,
    layout: &Layout,
    scan: &mut Scan<'_>,
    bodies: &mut Bodies,
    report: &mut Report,
    visit: &mut dyn FnMut(&Step),
) -> Result<Replayed> {
    let mut replay = Replay::new(disk, layout, bodies, report);
    let (last, end) = loop {
        let step = scan.step()?;
        visit(&step);
        match step {
            Step::Round(read) => {
                if let Err(cut) = replay.round(&read, scan)? {
                    break (read.head.round - 1, cut);
                }
                replay.fill(FILL_BYTES)?;
            }
            Step::Lost { first, next, path, position, why } => {
                replay.lost(first, next, Error::corrupt(path, position, why));
            }
            Step::Held { first, next, path } => replay.held(first, next, path),
            Step::End { round, path, position, cut } => {
                if let (Some(path), Some(cut)) = (&path, cut) {
                    replay.report.cut.push(Error::corrupt(path, position, cut));
                }
                break (round - 1, path.map(|path| (path, position)));
            }
        }
    };
    Ok(Replayed { last, end, finished: replay.finish()? })
}

/// Bytes of frames that a recovery holds in memory, about.
const FILL_BYTES: u64 = 32 << 20;

/// Logs that have a directory and are in no checkpoint yet. One without its `topic` file was never finished: whoever
/// creates it goes on with it.
fn add_new_logs(
    disk: &dyn Disk,
    layout: &Layout,
    bodies: &mut Bodies,
    report: &mut Report,
) -> Result<()> {
    let dir = layout.topics_dir();
    for entry in layout::list(disk, &dir)? {
        match layout::parse_topic(&entry.name) {
            Some(topic) if entry.is_dir => {
                if bodies.get(topic).is_some() {
                    continue;
                }
                match TopicIdentity::read(disk, layout, topic) {
                    Ok(None) => continue,
                    Ok(Some(_)) => {}
                    // It is for people: what counts is that it is there.
                    Err(error @ Error::Corrupt { .. }) => report.problems.push(error),
                    Err(error) => return Err(error),
                }
                bodies.insert(topic, Body::new(topic));
            }
            _ => {
                let path = dir.join(&entry.name);
                report.problems.push(Error::Strange { path, what: "not the directory of a topic" });
            }
        }
    }
    Ok(())
}

/// Begins the next generation. All files of the right size are free; others are removed.
fn journal_start(
    disk: &dyn Disk,
    layout: &Layout,
    disk_id: DiskId,
    found: &scan::Found,
    file_bytes: u64,
    round: u64,
) -> Result<Start> {
    let generations =
        found.files.iter().filter_map(|file| file.header).map(|header| header.generation);
    let generation = generations.max().map_or(1, |last| last + 1);
    let (mut free, mut unused) = (Vec::new(), Vec::new());
    for file in &found.files {
        if file.len == file_bytes {
            free.push(file.index);
            unused.extend(file.header.is_none().then_some(file.index));
        } else {
            let path = layout.journal_file(file.index);
            disk.remove_file(&path).map_err(Error::io("remove", &path))?;
        }
    }
    names::renew_unused(disk, layout, &unused)?;
    if free.is_empty() {
        writer::make_file(disk, layout, 1, file_bytes)?;
        free.push(1);
    }
    let current = free.remove(0);
    let held_round = round - 1;
    let header = FileHeader { disk_id, generation, first_round: round, file_bytes, held_round };
    writer::begin_file(disk, layout, current, &header)?;
    Ok(Start { generation, round, current, free })
}
