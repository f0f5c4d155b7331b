//! Reads the journal back, round by round, and tells an end from damage.
//!
//! A round is known to have been synced when a valid round that was written later names it, or when a later file
//! was begun (the one before is synced first). A place where round `r` should be and is not is therefore *lost* if
//! anything later vouches for `r`, and the *end* if nothing does: then nobody was ever told about `r`.

use std::path::PathBuf;

use bytes::Bytes;
use danube_env::Disk;
use danube_env::disk::Open;
use danube_model::DiskId;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::journal::round::{BLOCK, COPY_MAGIC, FileHeader, Head, NextFile, Unreadable, VERSION};
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
                found.problems.push(Error::corrupt(
                    dir.join(&entry.name),
                    0,
                    "not a journal file's name",
                ));
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
}

struct Loaded {
    path: PathBuf,
    header: FileHeader,
    bytes: Bytes,
    /// Where `round` of the file's own count is expected.
    position: usize,
    round: u64,
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
        let files = used[skip..].to_vec();
        Self { disk, layout, files, at: 0, loaded: None, round, ended: false, is_missing }
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
                    "the last file of the journal is missing",
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
                let why = "the rounds before this file are gone".to_owned();
                return Ok(Step::Lost { first, next, path, position, why });
            }
            match loaded.read(loaded.position)? {
                Ok(round) => {
                    loaded.position += round.head.len() as usize;
                    loaded.round += 1;
                    if round.head.round >= wanted {
                        self.round = round.head.round + 1;
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
        Ok(behind.synced_round >= round || limit.is_some() || loaded.goes_on().is_some())
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
        let loaded = self.loaded.as_mut().expect("a file is loaded");
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
        let synced = limit.map_or(behind.synced_round, |limit| behind.synced_round.max(limit - 1));
        if synced < lost || mutant::is("cut_at_hole") {
            let anything = why != ABSENT || behind.first.is_some();
            let cut = anything.then(|| format!("round {lost} was being written: {why}"));
            return Ok(Some(self.end(Some(path), cut, position)));
        }
        // Somebody may have been told of rounds up to `synced`. Behind them, only an unbroken row counts.
        let next = match (behind.first, limit) {
            (Some((round, at)), _) if round <= synced + 1 => {
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

const ABSENT: &str = "there is no round";

/// What lies behind an unreadable round in the same file.
struct Behind {
    /// The first valid round and where it begins.
    first: Option<(u64, usize)>,
    /// The highest round that any of them names as synced.
    synced_round: u64,
}

impl Loaded {
    /// Reads this file's next round at `position`.
    fn read(&self, position: usize) -> Result<std::result::Result<Round, &'static str>> {
        let Some(bytes) = self.bytes.get(position..) else { return Ok(Err(ABSENT)) };
        let why = match Head::decode(bytes) {
            Ok(head) if !self.is_ours(&head) => ABSENT,
            Ok(head) if head.round != self.round => "another round is in its place",
            Ok(head) => match self.payloads(&head, position) {
                Some(payloads) => return Ok(Ok(self.round(head, payloads, position, false))),
                None => "the round is longer than the file",
            },
            Err(Unreadable::Version(found)) => {
                return Err(newer(self.path.clone(), "round", found));
            }
            Err(Unreadable::Absent) => ABSENT,
            Err(Unreadable::Damaged(why)) => why,
        };
        Ok(self.read_copy(position).ok_or(why))
    }

    /// The round at `position` by the copy of its head.
    fn read_copy(&self, position: usize) -> Option<Round> {
        let mut from = position;
        while let Some(at) = find_bytes(&self.bytes[from..], COPY_MAGIC) {
            from += at;
            if let Ok(head) = Head::decode_copy(&self.bytes[from..]) {
                if !self.is_ours(&head) || head.round < self.round {
                    from += COPY_MAGIC.len();
                    continue;
                }
                let copy_at = head.len() - Head::encoded_len(head.entries.len());
                if head.round != self.round || position as u64 + copy_at != from as u64 {
                    return None;
                }
                let payloads = self.payloads(&head, position)?;
                return Some(self.round(head, payloads, position, true));
            }
            from += COPY_MAGIC.len();
        }
        None
    }

    /// Why rounds must have followed the last one in this file, if they must.
    fn goes_on(&self) -> Option<&'static str> {
        if (self.bytes.len() as u64) < self.header.file_bytes {
            return Some("the file is cut");
        }
        let next = NextFile::decode(self.bytes.get(self.position..)?)?;
        let is_ours =
            next.disk_id == self.header.disk_id && next.generation == self.header.generation;
        is_ours.then_some("the next file of the journal is missing")
    }

    fn is_ours(&self, head: &Head) -> bool {
        head.disk_id == self.header.disk_id && head.generation == self.header.generation
    }

    fn payloads(&self, head: &Head, position: usize) -> Option<Vec<Bytes>> {
        let mut at = position + Head::encoded_len(head.entries.len()) as usize;
        if at as u64 + head.payload_bytes() > self.bytes.len() as u64 {
            return None;
        }
        let payloads = head.entries.iter().map(|entry| {
            let start = at;
            at += entry.payload as usize;
            self.bytes.slice(start..at)
        });
        Some(payloads.collect())
    }

    fn round(&self, head: Head, payloads: Vec<Bytes>, position: usize, healed: bool) -> Round {
        Round { head, payloads, healed, path: self.path.clone(), position: position as u64 }
    }

    /// Looks at every block from `position` on for rounds of this generation, from the expected one on.
    fn behind(&self, mut position: usize, limit: Option<u64>) -> Result<Behind> {
        let mut behind = Behind { first: None, synced_round: 0 };
        while position < self.bytes.len() {
            let mut step = BLOCK as usize;
            match Head::decode(&self.bytes[position..]) {
                Ok(head) if self.is_ours(&head) && head.round >= self.round => {
                    if limit.is_none_or(|limit| head.round < limit) {
                        behind.first.get_or_insert((head.round, position));
                        behind.synced_round = behind.synced_round.max(head.synced_round);
                        step = head.len() as usize;
                    }
                }
                Err(Unreadable::Version(found)) => {
                    return Err(newer(self.path.clone(), "round", found));
                }
                Ok(_) | Err(_) => {}
            }
            position += step;
        }
        Ok(behind)
    }
}

fn find_bytes(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
