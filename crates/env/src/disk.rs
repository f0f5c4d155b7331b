//! Files and directories with every sync spelled out.
//!
//! # What may be assumed
//!
//! * A write is visible to reads of this process at once, and durable only after a sync of that file
//!   ([`File::sync_data`]) or of its volume ([`Disk::sync_volume`]) returned without error.
//! * Until then a power cut keeps or loses each 512-byte sector of it by itself, in any combination. A sector is
//!   never half old and half new.
//! * A name that was created, renamed or removed is durable only after [`Disk::sync_dir`] of its directory, or
//!   [`Disk::sync_volume`], returned without error.
//! * `sync_data` makes the file's length durable too, but not its name.
//! * After a sync failed, nothing can be said of what it covered, and a later sync that succeeds says nothing
//!   about it either: pages may be marked clean that the disk does not have.
//!
//! All calls block. They are made from disk threads ([`crate::Spawn::disk_thread`]) or
//! [`crate::Spawn::blocking`], never from a worker thread. What a failed sync means for names that a later process
//! finds stands in [`names`].

pub mod names;

use std::io;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading; the file must exist.
    Read,
    /// For reading and writing; the file must exist.
    Write,
    /// For reading and writing; created empty, an error of kind `AlreadyExists` if the name is taken.
    Create,
    /// For reading and writing; created, or emptied if it exists.
    Replace,
}

/// What a directory lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// File name, without its directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Room on a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What this process may still write.
    pub available: u64,
    /// Size of the volume.
    pub total: u64,
}

/// Held while a directory is in use; letting go of it unlocks the directory.
pub trait Lock: Send + Sync {}

/// A volume and the directories on it.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Creates a directory and those above it. Not durable before the parents are synced.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The entries of a directory, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// Whether something has this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Gives a file another name in the same volume, replacing what had it. Atomic.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Those who have it open can go on reading it.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and all in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes everything on the volume of `path` durable: data, lengths and names.
    fn sync_volume(&self, path: &Path) -> io::Result<()>;
    /// Room on the volume of `path`.
    fn space(&self, path: &Path) -> io::Result<Space>;
    /// Takes the lock file at `path` for this process, creating it if it is missing; an error of kind `WouldBlock` if another has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
    /// Identity of this boot of the machine: what the page cache held under another one is gone.
    fn boot_id(&self) -> io::Result<[u8; 16]>;
}

/// An open file. Any number of threads may use it at once.
pub trait File: Send + Sync + 'static {
    /// Reads into `buf` at `position`, until it is full or the file ends. Returns the bytes read.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes all of `parts`, one after the other, at `position`. On an error some of it may have been written.
    fn write_at(&self, parts: &[&[u8]], position: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends the file (with zeroes). Durable after a sync.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes data and length durable (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    /// Whether all of `position..position + len` is in the page cache. False in doubt, and past the file's end.
    ///
    /// Nothing waits for the disk, but a probe that finds a page missing may make the kernel read it: only the first answer
    /// says something about the time before, and a "no" must be on record before anyone can ask again.
    fn is_resident(&self, position: u64, len: u64) -> bool;
    /// Lets the page cache forget what is clean of this file, and begin to write what is not; only a hint. Makes nothing
    /// durable, and waits for nothing.
    fn forget_cached(&self);
    /// Begins to send `position..position + len`, which was just written, to the disk, so that the next sync finds less to
    /// do; only a hint. Makes nothing durable, and waits for nothing; the page cache keeps it.
    fn write_back(&self, position: u64, len: u64);
}
