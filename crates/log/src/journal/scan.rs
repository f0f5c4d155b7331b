//! Reads the journal back, round by round, and tells an end from damage.
//!
//! A round is known to have been synced when a valid round that was written later names it, or when a later file
//! was begun (the one before is synced first). A place where round `r` should be and is not is therefore *lost* if
//! anything later vouches for `r`, and the *end* if nothing does: then nobody was ever told about `r` at a level that
//! survives. Where the page cache is proven to be the one that was written to, every later round vouches for `r`: it was
//! begun when that of `r` was written.

mod loaded;

use std::collections::VecDeque;
use std::path::PathBuf;

use bytes::Bytes;
use danube_env::Disk;
use danube_env::disk::Open;
use danube_model::DiskId;

use self::loaded::{ABSENT, Behind, Loaded};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::journal::round::{BLOCK, FileHeader, Head, Unreadable, VERSION};
use crate::layout::{self, Layout};
use crate::mutant;

/// A round with its payloads.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) head: Head,
    /// One for each entry; empty where the entry has none.
    pub(crate) payloads: Vec<Bytes>,
    /// The head was unreadable and its copy was used.
    pub(crate) healed: bool,
    pub(crate) path: PathBuf,
    pub(crate) position: u64,
}

/// What comes next in the journal.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The next round.
    Round(Box<Round>),
    /// Rounds `first..next` were synced and can't be read.
    Lost { first: u64, next: u64, path: PathBuf, position: u64, why: String },
    /// Rounds `first..next` are in no file, and a checkpoint held them that is newer than the one before the scan: what they
    /// brought is in segments.
    Held { first: u64, next: u64, path: PathBuf },
    /// The journal ends before `round`. `cut` says what lies there, if it is anything.
    End { round: u64, path: Option<PathBuf>, position: u64, cut: Option<String> },
}

/// One file of the journal, not read yet.
#[derive(Clone, Debug)]
pub(crate) struct FoundFile {
    pub(crate) index: u32,
    pub(crate) len: u64,
    /// None: the file was never used.
    pub(crate) header: Option<FileHeader>,
}

/// The files of a journal.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In the order of their generations; never used ones first.
    pub(crate) files: Vec<FoundFile>,
    /// What is odd and was left alone.
    pub(crate) problems: Vec<Error>,
}

/// Lists the journal's files and reads their headers.
///
/// A file of a newer version or of another disk is an error; a damaged header is taken from the rounds behind it.
pub(crate) fn find(disk: &dyn Disk, layout: &Layout, disk_id: DiskId) -> Result<Found> {
    let mut found = Found::default();
    let dir = layout.journal_dir();
    for entry in layout::list(disk, &dir)? {
        let Some(index) = layout::parse_journal(&entry.name) else {
            if !layout::is_temporary(&entry.name) {
                let path = dir.join(&entry.name);
                found.problems.push(Error::Strange { path, what: "not a file of the journal" });
            }
            continue;
        };
        let path = layout.journal_file(index);
        let file = disk.open(&path, Open::Read).map_err(Error::io("open", &path))?;
        let len = file.len().map_err(Error::io("read", &path))?;
        let mut start = vec![0; 2 * BLOCK as usize];
        let read = file.read_at(&mut start, 0).map_err(Error::io("read", &path))?;
        start.truncate(read);
        let header = match FileHeader::decode(&start) {
            Ok(header) if header.disk_id != disk_id => {
                let what = format!("journal of disk {}, this is disk {disk_id}", header.disk_id);
                return Err(Error::corrupt(&path, 16, what));
            }
            Ok(header) => Some(header),
            Err(Unreadable::Version(found)) => return Err(newer(path, "journal file", found)),
            Err(_) if start.iter().all(|byte| *byte == 0) => None,
            Err(_) => {
                found.problems.push(Error::corrupt(&path, 0, "header of the journal file"));
                header_from_round(&start, disk_id, len)
            }
        };
        found.files.push(FoundFile { index, len, header });
    }
    found.files.sort_by_key(|file| (file.header.map(|header| header.generation), file.index));
    Ok(found)
}

/// What the header must have said, by the first round behind it.
fn header_from_round(start: &[u8], disk_id: DiskId, file_bytes: u64) -> Option<FileHeader> {
    let head = Head::decode(start.get(BLOCK as usize..)?).ok()?;
    (head.disk_id == disk_id).then_some(FileHeader {
        disk_id,
        generation: head.generation,
        first_round: head.round,
        file_bytes,
        held_round: 0,
    })
}

fn newer(path: PathBuf, what: &'static str, found: u16) -> Error {
    Error::UnknownVersion { path, what, found: u32::from(found), known: u32::from(VERSION) }
}

/// Up to where the journal need not be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    /// This round and all before it.
    round: u64,
    /// A generation that was begun since: that no file has it is a loss.
    generation: Option<u64>,
    /// None was begun since: only a file that begins behind it can hold more.
    is_consumed: bool,
}

impl After {
    /// Everything from `round` on.
    pub(crate) fn before(round: u64) -> Self {
        Self { round: round.saturating_sub(1), generation: None, is_consumed: false }
    }

    pub(crate) fn checkpoint(checkpoint: &Checkpoint) -> Self {
        // After a clean stop, or a recovery, nothing is in the journal that is not in the checkpoint.
        let begun = !checkpoint.clean && checkpoint.generation > 0;
        let generation = begun.then_some(checkpoint.generation);
        Self { round: checkpoint.round, generation, is_consumed: !begun }
    }

    /// Whether no journal was begun that goes on behind it, so that no round can be there.
    pub(crate) fn is_consumed(self) -> bool {
        self.is_consumed
    }
}

/// A place in the journal.
pub(crate) type Place = (PathBuf, u64);

/// Whether the page cache is proven to be the one that was written to, from where the first round begins that nothing
/// vouches for to where the last one does.
pub(crate) type Proof<'a> = &'a dyn Fn(Option<&Place>, Option<&Place>) -> bool;

/// Walks the rounds from a given one on.
pub(crate) struct Scan<'a> {
    disk: &'a dyn Disk,
    layout: &'a Layout,
    /// Files with a header that may hold rounds we want, in order.
    files: Vec<FoundFile>,
    /// Which of `files` is loaded.
    at: usize,
    loaded: Option<Loaded>,
    /// The round wanted next.
    round: u64,
    ended: bool,
    /// The file is gone that is known to have been begun for the round wanted next.
    is_missing: bool,
    /// All rounds up to it were in a checkpoint once.
    held_round: u64,
    /// An earlier start has judged what was there.
    is_consumed: bool,
    /// None: it is not.
    page_cache: Option<Proof<'a>>,
    /// The highest round that a round names as synced.
    synced_round: u64,
    /// Where the rounds behind it begin.
    unsynced: VecDeque<(u64, Place)>,
}

impl<'a> Scan<'a> {
    /// Starts behind a checkpoint.
    pub(crate) fn new(disk: &'a dyn Disk, layout: &'a Layout, found: &Found, after: After) -> Self {
        let round = after.round + 1;
        let used: Vec<_> =
            found.files.iter().filter(|file| file.header.is_some()).cloned().collect();
        let first_round = |file: &FoundFile| file.header.map_or(0, |header| header.first_round);
        let skip = if after.is_consumed {
            used.iter().rposition(|file| first_round(file) == round).unwrap_or(used.len())
        } else {
            used.iter().rposition(|file| first_round(file) <= round).unwrap_or(0)
        };
        let is_begun = |wanted: u64| {
            let is_it =
                |header: FileHeader| header.generation == wanted || header.first_round > round;
            used.iter().filter_map(|file| file.header).any(is_it)
        };
        let is_missing = after.generation.is_some_and(|wanted| !is_begun(wanted));
        let held = used.iter().filter_map(|file| file.header).map(|header| header.held_round);
        let held_round = held.max().unwrap_or(0);
        let files = used[skip..].to_vec();
        Self {
            disk,
            layout,
            files,
            at: 0,
            loaded: None,
            round,
            ended: false,
            is_missing,
            held_round,
            is_consumed: after.is_consumed,
            page_cache: None,
            synced_round: 0,
            unsynced: VecDeque::new(),
        }
    }

    /// The page cache may be that of the broker that wrote the journal. What an earlier start has cut stays cut: it read it
    /// into a page cache that need not have been that one.
    pub(crate) fn believing(self, page_cache: Proof<'a>) -> Self {
        Self { page_cache: (!self.is_consumed).then_some(page_cache), ..self }
    }

    /// Where the first round begins that nothing vouches for.
    pub(crate) fn unsynced(&self) -> Option<&Place> {
        self.unsynced.front().map(|(_, place)| place)
    }

    /// The next step; after [`Step::End`] it is asked no more.
    pub(crate) fn step(&mut self) -> Result<Step> {
        assert!(!self.ended, "the scan has ended");
        loop {
            if std::mem::take(&mut self.is_missing) {
                let path = self.layout.journal_dir();
                return Ok(self.lost_to_the_end(
                    path,
                    0,
                    "the last file of the journal is missing, or its header is damaged",
                ));
            }
            if !self.load()? {
                return Ok(self.end(None, None, 0));
            }
            let limit = self.limit();
            let wanted = self.round;
            let loaded = self.loaded.as_mut().expect("a file was just loaded");
            if limit.is_some_and(|limit| loaded.round >= limit) {
                self.next_file();
                continue;
            }
            if loaded.round == loaded.header.first_round && loaded.round > wanted {
                let (first, next) = (wanted, loaded.round);
                let (path, position) = (loaded.path.clone(), 0);
                self.round = next;
                if self.held_round + 1 >= next {
                    return Ok(Step::Held { first, next, path });
                }
                let why = "the rounds before this file are gone".to_owned();
                return Ok(Step::Lost { first, next, path, position, why });
            }
            match loaded.read(loaded.position)? {
                Ok(round) => {
                    loaded.position += round.head.len() as usize;
                    loaded.round += 1;
                    if round.head.round >= wanted {
                        self.round = round.head.round + 1;
                        self.passed(&round);
                        return Ok(Step::Round(Box::new(round)));
                    }
                }
                Err(why) => {
                    if let Some(step) = self.judge(limit, why)? {
                        return Ok(step);
                    }
                }
            }
        }
    }

    /// Whether anything behind the round that was just read vouches for it.
    pub(crate) fn is_synced(&self, round: u64) -> Result<bool> {
        let limit = self.limit();
        let Some(loaded) = &self.loaded else { return Ok(true) };
        let behind = loaded.behind(loaded.position, limit)?;
        let synced = behind.synced_round.max(self.written(loaded, &behind));
        Ok(synced >= round || limit.is_some() || loaded.goes_on().is_some())
    }

    fn passed(&mut self, Round { head, path, position, .. }: &Round) {
        self.synced_round = self.synced_round.max(head.synced_round);
        self.unsynced.push_back((head.round, (path.clone(), *position)));
        while self.unsynced.pop_front_if(|(number, _)| *number <= self.synced_round).is_some() {}
    }

    /// The highest round that one of those behind it proves to have been written whole; 0 if none does.
    fn written(&self, loaded: &Loaded, behind: &Behind) -> u64 {
        let (Some((last, position)), Some(proves)) = (behind.last, self.page_cache) else {
            return 0;
        };
        let hole = (loaded.path.clone(), loaded.position as u64);
        let unsynced = self.unsynced().unwrap_or(&hole);
        if proves(Some(unsynced), Some(&(loaded.path.clone(), position))) { last - 1 } else { 0 }
    }

    /// The first round that belongs to the file after the loaded one.
    fn limit(&self) -> Option<u64> {
        self.files.get(self.at + 1).and_then(|file| file.header).map(|header| header.first_round)
    }

    /// Rounds from the wanted one on are lost, and nobody knows how many.
    fn lost_to_the_end(&self, path: PathBuf, position: u64, why: &str) -> Step {
        Step::Lost { first: self.round, next: self.round, path, position, why: why.to_owned() }
    }

    fn next_file(&mut self) {
        self.at += 1;
        self.loaded = None;
    }

    fn end(&mut self, path: Option<PathBuf>, cut: Option<String>, position: u64) -> Step {
        self.ended = true;
        Step::End { round: self.round, path, position, cut }
    }

    fn load(&mut self) -> Result<bool> {
        if self.loaded.is_some() {
            return Ok(true);
        }
        let Some(found) = self.files.get(self.at) else { return Ok(false) };
        let path = self.layout.journal_file(found.index);
        let header = found.header.expect("only used files are kept");
        let file = self.disk.open(&path, Open::Read).map_err(Error::io("open", &path))?;
        let mut bytes = vec![0; usize::try_from(found.len).expect("a file fits into memory")];
        let read = file.read_at(&mut bytes, 0).map_err(Error::io("read", &path))?;
        bytes.truncate(read);
        let round = header.first_round;
        let position = BLOCK as usize;
        self.loaded = Some(Loaded { path, header, bytes: bytes.into(), position, round });
        Ok(true)
    }

    /// The round expected at the loaded position can't be read: lost, or the end? None: go on with the loop.
    fn judge(&mut self, limit: Option<u64>, why: &'static str) -> Result<Option<Step>> {
        let wanted = self.round;
        let loaded = self.loaded.as_ref().expect("a file is loaded");
        let lost = loaded.round;
        let position = loaded.position as u64;
        let path = loaded.path.clone();
        let behind = loaded.behind(loaded.position + BLOCK as usize, limit)?;
        if let Some(why) = loaded.goes_on().filter(|_| limit.is_none() && behind.first.is_none()) {
            self.files.truncate(self.at);
            self.loaded = None;
            self.round = self.round.max(lost);
            return Ok(Some(self.lost_to_the_end(path, position, why)));
        }
        let vouched = limit.map_or(0, |limit| limit - 1).max(self.written(loaded, &behind));
        let synced = behind.synced_round.max(vouched);
        if synced < lost || mutant::is("cut_at_hole") {
            let anything = why != ABSENT || behind.first.is_some();
            let cut = anything.then(|| format!("round {lost} was being written: {why}"));
            return Ok(Some(self.end(Some(path), cut, position)));
        }
        // Somebody may have been told of rounds up to `synced`. Behind them, only an unbroken row counts.
        let next = match (behind.first, limit) {
            (Some((round, at)), _) if round <= synced + 1 => {
                let loaded = self.loaded.as_mut().expect("a file is loaded");
                loaded.position = at;
                loaded.round = round;
                round
            }
            (None, Some(limit)) => {
                self.next_file();
                limit
            }
            _ => {
                self.files.truncate(self.at);
                self.loaded = None;
                synced + 1
            }
        };
        if next <= wanted {
            return Ok(None);
        }
        self.round = next;
        let first = lost.max(wanted);
        Ok(Some(Step::Lost { first, next, path, position, why: why.to_owned() }))
    }
}
