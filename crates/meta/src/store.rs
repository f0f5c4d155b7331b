//! What this member keeps on its disk: the Raft log, its vote, and a snapshot of the state. `docs/format.md`, section 8,
//! says what the bytes are and what a start concludes from them.
//!
//! Nothing here knows what a command is, or that openraft exists. All of it blocks; it is called from one thread
//! ([`thread`]), the only owner of the directory.
//!
//! Invariants:
//! * Nothing counts as stored before its sync, and that of its name, returned without error.
//! * After an error nothing more is written: the next start finds out what the disk has.
//! * [`recover::read`] changes nothing. All that can refuse a start is found out before the first write.
//!
//! Reading order: [`layout`] for the names, [`entry`], [`log_file`], [`vote`] and [`snapshot`] for the bytes, [`log`] for
//! the row of log files, [`recover`] for the start.

pub(crate) mod entry;
mod fields;
mod layout;
mod log;
mod log_file;
pub(crate) mod recover;
pub(crate) mod snapshot;
pub(crate) mod thread;
pub(crate) mod vote;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use danube_env::disk::Open;
use danube_env::{Disk, Env, Reserve};

use crate::store::entry::{Entry, EntryId};
use crate::store::log::Log;
use crate::store::snapshot::Snapshot;
use crate::store::vote::Vote;
use crate::{Error, Result};

/// The directory, open for writing.
pub(crate) struct Store {
    env: Env,
    dir: PathBuf,
    log: Log,
    reserve: Reserve,
    /// Index of the newest snapshot's last entry.
    snapshot: Option<u64>,
}

impl Store {
    /// Appends entries behind the last one. Durable when it returns.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<()> {
        self.with_reserve(|store| store.log.append(entries))
    }

    /// Removes all entries from index `from` on. Durable when it returns.
    pub(crate) fn truncate(&mut self, from: u64) -> Result<()> {
        self.log.truncate(from)
    }

    /// Forgets entries up to and including `upto`, which a stored snapshot must cover.
    pub(crate) fn purge(&mut self, upto: EntryId) -> Result<()> {
        self.with_reserve(|store| store.log.purge(upto))
    }

    /// Replaces the vote. Durable when it returns.
    pub(crate) fn save_vote(&mut self, vote: &Vote) -> Result<()> {
        let bytes = vote.encode();
        self.with_reserve(|store| {
            replace_file(&*store.env.disk, &store.dir, &store.dir.join(layout::VOTE), &bytes)
        })
    }

    /// Stores a snapshot, then removes the one before. Durable when it returns true; false means that the volume is full,
    /// and the one before still counts.
    pub(crate) fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<bool> {
        let path = layout::snapshot_path(&self.dir, snapshot.last.index);
        match replace_file(&*self.env.disk, &self.dir, &path, &snapshot.bytes) {
            Err(error) if is_volume_full(&error) => {
                tracing::warn!(%error, "no room for a snapshot, the log grows on");
                // Its room is of more use to others; if it can't be removed it is replaced by the next one.
                let _ = self.env.disk.remove_file(&layout::temporary_path(&path));
                return Ok(false);
            }
            result => result?,
        }
        let previous = self.snapshot.replace(snapshot.last.index);
        if let Some(previous) = previous.filter(|previous| *previous != snapshot.last.index) {
            self.remove(&layout::snapshot_path(&self.dir, previous))?;
        }
        Ok(true)
    }

    /// The newest snapshot, as it was stored.
    pub(crate) fn read_snapshot(&self) -> Result<Option<Snapshot>> {
        let Some(last) = self.snapshot else { return Ok(None) };
        let path = layout::snapshot_path(&self.dir, last);
        recover::read_snapshot(&*self.env.disk, &path, last).map(Some)
    }

    /// Whether the space kept for a full volume was used.
    pub(crate) fn is_reserve_used(&self) -> bool {
        !self.reserve.is_held()
    }

    /// Sets the space for a full volume aside anew where it was used; false if there is no room for it.
    pub(crate) fn refill_reserve(&mut self) -> bool {
        self.reserve.refill()
    }

    /// Does something, and where it fails because the volume is full, does it again with the space kept for that. Every
    /// step of it must be one that can be repeated.
    fn with_reserve(&mut self, work: impl Fn(&mut Store) -> Result<()>) -> Result<()> {
        match work(self) {
            Err(error) if is_volume_full(&error) && self.reserve.release() => work(self),
            result => result,
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.env.disk.remove_file(path).map_err(Error::io("remove", path))?;
        self.env.disk.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))
    }
}

/// Whether something failed for want of room before anything was synced. A failed sync never counts.
fn is_volume_full(error: &Error) -> bool {
    let Error::Io { operation, source, .. } = error else { return false };
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    *operation != "sync" && kinds.contains(&source.kind())
}

/// Gives `path`, in `dir`, these contents: written under another name, synced, renamed, and the directory synced.
fn replace_file(disk: &dyn Disk, dir: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = layout::temporary_path(path);
    let file = disk.open(&temporary, Open::Replace).map_err(Error::io("create", &temporary))?;
    file.write_at(&[bytes], 0).map_err(Error::io("write", &temporary))?;
    file.sync_data().map_err(Error::io("sync", &temporary))?;
    disk.rename(&temporary, path).map_err(Error::io("rename", &temporary))?;
    disk.sync_dir(dir).map_err(Error::io("sync", dir))
}
