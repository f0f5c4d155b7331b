//! The journal of a hot tier, and what a recovery would make of it.

mod found;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use danube_env::disk::Open;
use danube_env::{Disk, File};
use danube_model::{Frame, TimeMs};

pub use self::found::{
    Finding, FindingKind, Found, FoundCheckpoint, FoundEnd, FoundFile, FoundLog, FoundRecord,
    FoundRound, LostRounds, Summary,
};
use crate::checkpoint::{self, Checkpoint, EndProof};
use crate::identity::DiskIdentity;
use crate::journal::round::{Entry, Kind};
use crate::journal::scan::{self, After, Round, Scan, Step};
use crate::layout::{self, Layout};
use crate::recovery::{self, Rehearsal, Report};
use crate::state::LogState;
use crate::{Error, Result};

/// Reads the journal of the hot tier in `dir` (its own directory, that of the journal in it, or a data directory with one)
/// and finds out what a recovery would make of it. Blocks; takes as much memory as a recovery.
///
/// What was not in the page cache before is not left there, so that a later start does not take it for proof that
/// nothing was lost.
///
/// # Errors
///
/// [`Error::Missing`] if there is no hot tier; [`Error::Io`]; [`Error::UnknownVersion`]; [`Error::Corrupt`] if a file is of another hot
/// tier: then a recovery refuses, too.
pub fn journal(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    visit: &mut dyn FnMut(Found) -> ControlFlow<()>,
) -> Result<Summary> {
    let layout = layout_of(&**disk, dir)?;
    let cold = files_not_cached(&**disk, &layout)?;
    let summary = Summary { complete: true, ..Summary::default() };
    let mut inspection = Inspection { visit, summary, checkpoint_round: None };
    let outcome = inspection.run(disk, &layout);
    for file in cold {
        file.forget_cached();
    }
    outcome.map(|()| inspection.summary)
}

struct Inspection<'a> {
    visit: &'a mut dyn FnMut(Found) -> ControlFlow<()>,
    summary: Summary,
    checkpoint_round: Option<u64>,
}

impl Inspection<'_> {
    fn run(&mut self, disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
        let read = checkpoint::read(&**disk, layout)?;
        self.findings(FindingKind::Problem, &read.problems);
        let identity = DiskIdentity::read(&**disk, layout)?.map(|identity| identity.disk_id);
        let named = read.checkpoint.as_ref().map(|found| found.disk_id);
        let disk_id = match (identity, named) {
            (Some(disk_id), _) => disk_id,
            (None, Some(disk_id)) => {
                let what = format!("{} is missing", layout.disk().display());
                self.finding(FindingKind::Refused, what);
                disk_id
            }
            (None, None) => {
                let what = "the identity of a hot tier";
                return Err(Error::Missing { path: layout.disk(), what });
            }
        };
        let found = scan::find(&**disk, layout, disk_id)?;
        self.files(layout, &found);
        match read.checkpoint {
            Some(checkpoint) => {
                self.checkpoint(&checkpoint);
                self.older_rounds(&**disk, layout, &found, checkpoint.round)?;
                self.rehearse(disk, layout, &checkpoint, &found)
            }
            None => {
                if found.files.iter().any(|file| file.header.is_some()) {
                    let what = "both copies of the checkpoint are gone while the journal is there";
                    self.finding(FindingKind::Refused, what.to_owned());
                }
                self.older_rounds(&**disk, layout, &found, u64::MAX)
            }
        }
    }

    fn files(&mut self, layout: &Layout, found: &scan::Found) {
        self.findings(FindingKind::Problem, &found.problems);
        for file in &found.files {
            self.found(Found::File(FoundFile {
                path: layout.journal_file(file.index),
                bytes: file.len,
                generation: file.header.map(|header| header.generation),
                first_round: file.header.map(|header| header.first_round),
            }));
        }
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.checkpoint_round = Some(checkpoint.round);
        self.found(Found::Checkpoint(FoundCheckpoint {
            disk_id: checkpoint.disk_id,
            round: checkpoint.round,
            clean: checkpoint.clean,
            written: checkpoint.written,
            logs: checkpoint.logs.len() as u64,
        }));
    }

    /// Shows rounds up to `last`, which no recovery looks at. That some are gone is as it should be: files are used again.
    fn older_rounds(
        &mut self,
        disk: &dyn Disk,
        layout: &Layout,
        found: &scan::Found,
        last: u64,
    ) -> Result<()> {
        let headers = found.files.iter().filter_map(|file| file.header);
        let Some(first) = headers.map(|header| header.first_round).min() else { return Ok(()) };
        let mut scan = Scan::new(disk, layout, found, After::before(first));
        loop {
            match scan.step()? {
                Step::Round(round) if round.head.round <= last => self.round(&round),
                Step::Lost { next, .. } | Step::Held { next, .. } if next <= last => {}
                Step::Round(_) | Step::Lost { .. } | Step::Held { .. } | Step::End { .. } => {
                    return Ok(());
                }
            }
        }
    }

    fn rehearse(
        &mut self,
        disk: &Arc<dyn Disk>,
        layout: &Layout,
        checkpoint: &Checkpoint,
        found: &scan::Found,
    ) -> Result<()> {
        let rehearsed =
            recovery::rehearse(disk, layout, checkpoint, found, &mut |step| self.step(step))?;
        let Rehearsal { report, states, damaged } = rehearsed;
        let Report { healed, cut, damaged: lost, problems, frames, .. } = report;
        self.summary.frames_taken = frames;
        self.findings(FindingKind::Healed, &healed);
        self.findings(FindingKind::Cut, &cut);
        self.findings(FindingKind::Damaged, &lost);
        self.findings(FindingKind::Problem, &problems);
        for (topic_id, state) in &states {
            let log = checkpoint.logs.binary_search_by_key(topic_id, |log| log.topic_id).ok();
            let checkpoint_end = log.map(|index| checkpoint.logs[index].state.end);
            let end_damaged =
                damaged.contains_key(topic_id) || state.end_proof == EndProof::Damaged;
            let LogState { epoch, level, open, start, end, .. } = *state;
            let topic_id = *topic_id;
            self.found(Found::Log(FoundLog {
                topic_id,
                epoch,
                level,
                open,
                start,
                checkpoint_end,
                end,
                end_damaged,
            }));
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Round(round) => self.round(round),
            Step::Lost { first, next, path, position, why } => {
                self.found(Found::Lost(LostRounds {
                    first: *first,
                    next: *next,
                    path: path.clone(),
                    position: *position,
                    why: why.clone(),
                }));
            }
            // That the checkpoint is an older one is a finding of its own.
            Step::Held { .. } => {}
            Step::End { round, path, position, cut } => self.found(Found::End(FoundEnd {
                round: *round,
                path: path.clone(),
                position: *position,
                cut: cut.clone(),
            })),
        }
    }

    fn round(&mut self, round: &Round) {
        let head = &round.head;
        self.summary.rounds += 1;
        self.summary.records += head.entries.len() as u64;
        self.found(Found::Round(FoundRound {
            round: head.round,
            path: round.path.clone(),
            position: round.position,
            bytes: head.len(),
            synced_round: head.synced_round,
            written: TimeMs::new(head.written_ms),
            records: head.entries.len() as u64,
            in_checkpoint: self.checkpoint_round.is_some_and(|last| head.round <= last),
            healed: round.healed,
        }));
        for (entry, payload) in head.entries.iter().zip(&round.payloads) {
            let frame = (entry.kind == Kind::Frame).then(|| Frame::decode(entry.topic, payload));
            let (next, problem) = match frame {
                None => (None, None),
                Some(Ok(frame)) => (Some(frame.next()), contradiction(entry, &frame)),
                Some(Err(error)) => (None, Some(error.to_string())),
            };
            self.found(Found::Record(FoundRecord {
                round: head.round,
                kind: kind_name(entry.kind),
                topic_id: entry.topic,
                epoch: entry.epoch,
                level: entry.level,
                offset: entry.offset,
                next,
                bytes: entry.payload,
                problem,
            }));
        }
    }

    fn findings(&mut self, kind: FindingKind, errors: &[Error]) {
        for error in errors {
            self.finding(kind, error.to_string());
        }
    }

    fn finding(&mut self, kind: FindingKind, what: String) {
        let count = match kind {
            FindingKind::Healed => &mut self.summary.healed,
            FindingKind::Cut => &mut self.summary.cut,
            FindingKind::Damaged => &mut self.summary.damaged,
            FindingKind::Problem | FindingKind::Refused => &mut self.summary.problems,
        };
        *count += 1;
        self.found(Found::Finding(Finding { kind, what }));
    }

    fn found(&mut self, found: Found) {
        if self.summary.complete && (self.visit)(found).is_break() {
            self.summary.complete = false;
        }
    }
}

/// What a frame says otherwise than the directory of its round.
fn contradiction(entry: &Entry, frame: &Frame) -> Option<String> {
    let (base, epoch) = (frame.base(), frame.epoch());
    let bytes = frame.bytes().len();
    (base != entry.offset || epoch != entry.epoch || bytes != entry.payload as usize)
        .then(|| format!("a frame of {bytes} bytes from offset {base} under epoch {epoch}"))
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Frame => "frame",
        Kind::Open => "open",
        Kind::Close => "close",
        Kind::Delete => "delete",
        Kind::Synced => "synced",
        Kind::Seal => "seal",
    }
}

/// The hot tier that `dir` is, holds, or is the journal of.
fn layout_of(disk: &dyn Disk, dir: &Path) -> Result<Layout> {
    let above = dir.parent().filter(|_| dir.ends_with("journal")).map(Path::to_owned);
    for root in [Some(dir.to_owned()), Some(dir.join("wal")), above].into_iter().flatten() {
        let layout = Layout::new(root);
        let journal = layout.journal_dir();
        if disk.exists(&journal).map_err(Error::io("look for", &journal))? {
            return Ok(layout);
        }
    }
    Err(Error::Missing { path: dir.join("journal"), what: "the journal of a hot tier" })
}

/// The journal's files that are not wholly in the page cache. Asked before anything is read.
fn files_not_cached(disk: &dyn Disk, layout: &Layout) -> Result<Vec<Arc<dyn File>>> {
    let dir = layout.journal_dir();
    let mut cold = Vec::new();
    for entry in disk.list(&dir).map_err(Error::io("list", &dir))? {
        let Some(index) = layout::parse_journal(&entry.name) else { continue };
        let path = layout.journal_file(index);
        let file = disk.open(&path, Open::Read).map_err(Error::io("open", &path))?;
        let len = file.len().map_err(Error::io("read", &path))?;
        if !file.is_resident(0, len) {
            cold.push(file);
        }
    }
    Ok(cold)
}
