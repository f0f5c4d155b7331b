//! The start: first everything is read and checked, then what a crash left is put right.
//!
//! [`read`] changes nothing on the disk. Its caller decodes all payloads, and only if it knows them all goes on with
//! [`Contents::settle`]. So a directory that a later version wrote, or that is damaged, is the same after the refusal.
//!
//! [`Contents::settle`] trusts nothing that a failed sync may have left in the page cache: it writes again the vote, the
//! entries above the known synced end, an empty last log file, and the newest snapshot unless all that it makes
//! superfluous is gone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use danube_env::disk::Open;
use danube_env::disk::names::create_dir_durably;
use danube_env::{Disk, Env, Reserve};

use crate::store::entry::{Entry, EntryId};
use crate::store::layout::Name;
use crate::store::log::{self, Log};
use crate::store::log_file::{LogFile, Walk};
use crate::store::snapshot::Snapshot;
use crate::store::vote::Vote;
use crate::store::{Store, is_volume_full, layout, replace_file};
use crate::{Error, Result, caps};

/// What the directory holds.
pub(crate) struct Contents {
    dir: PathBuf,
    vote: Option<Vote>,
    snapshot: Option<Snapshot>,
    /// The log's files from the first that counts on, each with its path.
    files: Vec<(PathBuf, Walk)>,
    /// What nothing needs any more.
    superfluous: Vec<PathBuf>,
}

/// Reads and checks everything. A directory that does not exist is empty.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Contents> {
    let names = Names::list(disk, dir)?;
    let mut superfluous = names.temporary;
    let vote = match &names.vote {
        Some(path) => Some(read_vote(disk, path)?),
        None => None,
    };
    let snapshot = match names.snapshots.last() {
        Some(newest) => Some(read_snapshot(disk, &layout::snapshot_path(dir, *newest), *newest)?),
        None => None,
    };
    superfluous
        .extend(names.snapshots.iter().rev().skip(1).map(|last| layout::snapshot_path(dir, *last)));
    let mut files = Vec::new();
    for first in &names.logs {
        let path = layout::log_path(dir, *first);
        let walk = read_log_file(disk, &path, *first)?;
        files.push((path, walk));
    }
    let covered = snapshot.as_ref().map_or(0, |snapshot| snapshot.last.index + 1);
    let kept = check_row(dir, &files, covered)?;
    superfluous.extend(files.drain(..kept).map(|(path, _)| path));
    let contents = Contents { dir: dir.to_owned(), vote, snapshot, files, superfluous };
    contents.check_parts_belong_together()?;
    Ok(contents)
}

impl Contents {
    /// The vote, if this is not a new directory.
    pub(crate) fn vote(&self) -> Option<&Vote> {
        self.vote.as_ref()
    }

    /// The newest snapshot, and its path.
    pub(crate) fn snapshot(&self) -> Option<(&Snapshot, PathBuf)> {
        let snapshot = self.snapshot.as_ref()?;
        Some((snapshot, layout::snapshot_path(&self.dir, snapshot.last.index)))
    }

    /// The entry before the first that the log holds, or `None` if it holds all.
    pub(crate) fn entry_before_log(&self) -> Option<EntryId> {
        self.files.first().and_then(|(_, walk)| walk.header.entry_before())
    }

    /// All entries of the log, each with its file and its position there.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Path, u64, &Entry)> {
        self.files.iter().flat_map(|(path, walk)| {
            walk.entries.iter().map(move |(position, entry)| (path.as_path(), *position, entry))
        })
    }

    /// Makes the directory what it should be and opens it for writing, with `new_vote` as the vote.
    /// Log files take no further entry once they have `log_file_bytes`.
    pub(crate) fn settle(self, env: &Env, new_vote: &Vote, log_file_bytes: u64) -> Result<Store> {
        let Contents { dir, vote, snapshot, files, superfluous } = self;
        for path in superfluous.iter().filter(|path| is_temporary(path)) {
            env.disk.remove_file(path).map_err(Error::io("remove", path))?;
        }
        if vote.is_none() {
            create_dir_durably(&*env.disk, &dir).map_err(Error::dir)?;
        }
        let path = dir.join(layout::RESERVE);
        let mut reserve = Reserve::new(env.disk.clone(), path, caps::RESERVE_BYTES);
        let path = dir.join(layout::VOTE);
        let save_vote = || replace_file(&*env.disk, &dir, &path, &new_vote.encode());
        reserve.retry(save_vote, is_volume_full)?;
        let log =
            reserve.retry(|| settle_log(env, &dir, &files, log_file_bytes), is_volume_full)?;
        let newest = snapshot.as_ref().map(|snapshot| snapshot.last);
        let mut store =
            Store { env: env.clone(), dir, log, reserve, snapshot: newest.map(|last| last.index) };
        if let Some(snapshot) = snapshot {
            store.remove_what_is_covered(&snapshot, &files, superfluous)?;
        }
        store.reserve.refill();
        Ok(store)
    }

    fn check_parts_belong_together(&self) -> Result<()> {
        let missing = |path: PathBuf, why| Err(Error::Missing { file: path, why });
        let is_new = self.vote.is_none_or(|vote| vote.term == 0);
        if self.vote.is_none() && (self.snapshot.is_some() || !self.files.is_empty()) {
            return missing(
                self.dir.join(layout::VOTE),
                "log or snapshots are there, which are never without it",
            );
        }
        if self.files.is_empty() && (self.snapshot.is_some() || !is_new) {
            let next = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.last.index + 1);
            return missing(layout::log_path(&self.dir, next), "there is no log file at all");
        }
        match self.files.last() {
            Some((_, walk)) if walk.mark.is_some_and(|mark| mark.ended) => missing(
                layout::log_path(&self.dir, walk.next_index()),
                "the log file before it says that there is a next one",
            ),
            _ => Ok(()),
        }
    }
}

impl Store {
    /// Removes log files, snapshots and entries that the newest snapshot makes superfluous, if there are any. That it is
    /// durable is not taken for granted: it is written again first.
    fn remove_what_is_covered(
        &mut self,
        newest: &Snapshot,
        files: &[(PathBuf, Walk)],
        superfluous: Vec<PathBuf>,
    ) -> Result<()> {
        let begins = files.first().map_or(0, |(_, walk)| walk.header.first);
        let superfluous: Vec<_> =
            superfluous.into_iter().filter(|path| !is_temporary(path)).collect();
        if superfluous.is_empty() && begins > newest.last.index {
            return Ok(());
        }
        let path = layout::snapshot_path(&self.dir, newest.last.index);
        match replace_file(&*self.env.disk, &self.dir, &path, &newest.bytes) {
            // It can wait: what is covered only takes room.
            Err(error) if is_volume_full(&error) => return Ok(()),
            result => result?,
        }
        for path in &superfluous {
            self.remove(path)?;
        }
        self.purge(newest.last)
    }
}

/// Names in the directory.
#[derive(Default)]
struct Names {
    vote: Option<PathBuf>,
    /// First indexes, rising.
    logs: BTreeSet<u64>,
    /// Last indexes, rising.
    snapshots: BTreeSet<u64>,
    temporary: Vec<PathBuf>,
}

impl Names {
    fn list(disk: &dyn Disk, dir: &Path) -> Result<Names> {
        let mut names = Names::default();
        if !disk.exists(dir).map_err(Error::io("look for", dir))? {
            return Ok(names);
        }
        for entry in disk.list(dir).map_err(Error::io("list", dir))? {
            let path = dir.join(&entry.name);
            match Name::parse(&entry.name).filter(|_| !entry.is_dir) {
                Some(Name::Vote) => names.vote = Some(path),
                Some(Name::Log(first)) => drop(names.logs.insert(first)),
                Some(Name::Snapshot(last)) => drop(names.snapshots.insert(last)),
                Some(Name::Temporary) => names.temporary.push(path),
                Some(Name::Reserve) => {}
                None => {
                    tracing::warn!(path = %path.display(), "not a file of the metadata, left alone")
                }
            }
        }
        Ok(names)
    }
}

fn read_vote(disk: &dyn Disk, path: &Path) -> Result<Vote> {
    Vote::decode(&read_file(disk, path)?).map_err(|flaw| flaw.at(path, 0))
}

/// Reads a snapshot and checks it.
pub(crate) fn read_snapshot(disk: &dyn Disk, path: &Path, last: u64) -> Result<Snapshot> {
    let snapshot = Snapshot::decode(read_file(disk, path)?).map_err(|flaw| flaw.at(path, 0))?;
    check_name(path, last, snapshot.last.index)?;
    Ok(snapshot)
}

fn read_log_file(disk: &dyn Disk, path: &Path, first: u64) -> Result<Walk> {
    let walk = Walk::new(path, read_file(disk, path)?)?;
    check_name(path, first, walk.header.first)?;
    Ok(walk)
}

fn check_name(path: &Path, name: u64, content: u64) -> Result<()> {
    if name == content {
        return Ok(());
    }
    let what = format!("the file is that of index {content}, its name is another's");
    Err(Error::Damaged { file: path.to_owned(), at: 0, what })
}

/// Checks that the files follow on each other, where the snapshot does not cover all before index `covered` anyway.
/// Returns how many at the beginning are cut off from the rest, and covered.
fn check_row(dir: &Path, files: &[(PathBuf, Walk)], covered: u64) -> Result<usize> {
    let hole = |from: u64| Error::Missing {
        file: layout::log_path(dir, from),
        why: "entries from this index on are in no file",
    };
    let mut kept = 0;
    let mut next = covered;
    for (at, (path, walk)) in files.iter().enumerate() {
        let is_last = at + 1 == files.len();
        if let Some(damage) = walk.damage.clone().filter(|_| !is_last) {
            return Err(damage.at(path, walk.end));
        }
        let first = walk.header.first;
        if at == 0 || first != next {
            if first > covered {
                return Err(hole(if at == 0 { covered } else { next }));
            }
            if at > 0 && first < next {
                return Err(Error::Damaged {
                    file: path.clone(),
                    at: 0,
                    what: format!("it begins at index {first}, the file before it ends at {next}"),
                });
            }
            kept = at;
        }
        next = walk.next_index();
    }
    Ok(kept)
}

fn settle_log(env: &Env, dir: &Path, walks: &[(PathBuf, Walk)], file_bytes: u64) -> Result<Log> {
    let mut files = Vec::new();
    for (at, (path, walk)) in walks.iter().enumerate() {
        let is_last = at + 1 == walks.len();
        if is_last {
            report_cut(path, walk);
        }
        if is_last && walk.entries.is_empty() {
            files.push(log::create(env, dir, walk.header.entry_before())?);
            continue;
        }
        let file = env.disk.open(path, Open::Write).map_err(Error::io("open", path))?;
        let mut file = LogFile::new(path.clone(), file, walk);
        if is_last {
            file.settle(walk)?;
        } else if !walk.mark.is_some_and(|mark| mark.ended) {
            file.finish()?;
        }
        files.push(file);
    }
    if files.is_empty() {
        files.push(log::create(env, dir, None)?);
    }
    Ok(Log::new(env.clone(), dir.to_owned(), files, file_bytes))
}

fn report_cut(path: &Path, walk: &Walk) {
    let cut = walk.bytes.len() as u64 - walk.end;
    if cut > 0 {
        tracing::warn!(
            path = %path.display(), at = walk.end, bytes = cut,
            "cut off what was being written when the broker stopped"
        );
    }
}

fn is_temporary(path: &Path) -> bool {
    path.as_os_str().to_str().is_some_and(|path| path.ends_with(layout::TEMPORARY))
}

fn read_file(disk: &dyn Disk, path: &Path) -> Result<Bytes> {
    let file = disk.open(path, Open::Read).map_err(Error::io("open", path))?;
    let len = file.len().map_err(Error::io("read", path))?;
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
    bytes.truncate(read);
    Ok(Bytes::from(bytes))
}
