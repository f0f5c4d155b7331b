//! The Raft log: a row of files without holes between them, of which the last takes entries.

use std::path::{Path, PathBuf};

use danube_env::Env;
use danube_env::disk::Open;

use crate::store::entry::{Entry, EntryId};
use crate::store::log_file::{Header, LogFile};
use crate::store::{layout, replace_file};
use crate::{Error, Result};

/// The log on disk. After an error nothing more may be asked of it.
pub(crate) struct Log {
    env: Env,
    dir: PathBuf,
    /// Oldest first, never empty.
    files: Vec<LogFile>,
    /// A file takes no further entry once it has this size.
    file_bytes: u64,
}

impl Log {
    /// The log in these files, oldest first.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn new(env: Env, dir: PathBuf, files: Vec<LogFile>, file_bytes: u64) -> Log {
        assert!(!files.is_empty(), "a log has at least one file");
        Log { env, dir, files, file_bytes }
    }

    /// Writes entries behind the last one, in one write with one sync. They are durable when this returns.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<()> {
        let Some(first) = entries.first() else { return Ok(()) };
        if self.active().is_empty() && first.id.index != self.active().next_index() {
            // Only behind a snapshot that another member sent may a log begin anywhere.
            let before = EntryId { index: first.id.index - 1, ..EntryId::default() };
            self.restart_behind(before)?;
        }
        if self.active().len() >= self.file_bytes {
            self.roll(self.active().last_entry())?;
        }
        self.active_mut().append(entries)
    }

    /// Removes all entries from index `from` on.
    pub(crate) fn truncate(&mut self, from: u64) -> Result<()> {
        let target = self.files.iter().rposition(|file| file.first_index() <= from).unwrap_or(0);
        if target + 1 == self.files.len() && self.files[target].next_index() <= from {
            return Ok(());
        }
        self.files[target].reopen_at(from)?;
        while self.files.len() > target + 1 {
            let newest = self.files.pop().expect("there is more than one");
            self.remove(&newest)?;
        }
        self.files[target].cut(from)
    }

    /// Forgets entries up to and including `upto`, as far as whole files hold nothing else.
    pub(crate) fn purge(&mut self, upto: EntryId) -> Result<()> {
        let active = self.active();
        if active.next_index() <= upto.index {
            return self.restart_behind(upto);
        }
        if active.next_index() == upto.index + 1 && !active.is_empty() {
            self.roll(Some(upto))?;
        }
        let covered =
            self.files.iter().take_while(|file| file.next_index() <= upto.index + 1).count();
        self.remove_oldest(covered.min(self.files.len() - 1))
    }

    fn active(&self) -> &LogFile {
        self.files.last().expect("a log has at least one file")
    }

    fn active_mut(&mut self) -> &mut LogFile {
        self.files.last_mut().expect("a log has at least one file")
    }

    /// Begins a further file behind the entry `before`. It exists before the one before it is marked as ended, so that a missing one is noticed.
    fn roll(&mut self, before: Option<EntryId>) -> Result<()> {
        let next = create(&self.env, &self.dir, before)?;
        self.active_mut().finish()?;
        self.files.push(next);
        Ok(())
    }

    /// Drops all files and begins behind `before`, which need not be in the log.
    fn restart_behind(&mut self, before: EntryId) -> Result<()> {
        self.roll(Some(before))?;
        self.remove_oldest(self.files.len() - 1)
    }

    /// Oldest first, each durably, so that a crash never leaves a hole.
    fn remove_oldest(&mut self, count: usize) -> Result<()> {
        for file in self.files.drain(..count).collect::<Vec<_>>() {
            self.remove(&file)?;
        }
        Ok(())
    }

    fn remove(&self, file: &LogFile) -> Result<()> {
        self.env.disk.remove_file(file.path()).map_err(Error::io("remove", file.path()))?;
        self.env.disk.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))
    }
}

/// Creates a log file for the entries behind `before`, durably.
pub(crate) fn create(env: &Env, dir: &Path, before: Option<EntryId>) -> Result<LogFile> {
    let header = Header {
        id: env.random.next_id(),
        first: before.map_or(0, |before| before.index + 1),
        before: before.map_or((0, 0), |before| (before.term, before.node)),
    };
    let path = layout::log_path(dir, header.first);
    replace_file(&*env.disk, dir, &path, &header.encode_empty_file())?;
    let file = env.disk.open(&path, Open::Write).map_err(Error::io("open", &path))?;
    Ok(LogFile::empty(path, file, header))
}
