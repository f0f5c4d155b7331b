//! A disk that loses what was not synced, fails on demand, and lies after a failed sync.
//!
//! [`SimDisk`] is the machine's disk as a test holds it in its hands; [`SimDisk::mount`] gives the
//! [`Disk`] that a process sees. Reading order: `content` (one file: sectors and lengths), `change`
//! and `tree` (names), `luck` (what survives), `fault` (what fails), `volume` (all together), `mount` (the traits).
//!
//! # What a power cut does
//!
//! Each sector of 512 bytes, each length and each change of a name that was not synced is kept or lost, by chance
//! and by itself. Harsh, but fair:
//!
//! * A sector that was overwritten several times may come back with an older content. It is never torn inside.
//! * A file that grew has its old length, the new one, or one between that ends with a sector; lost sectors below
//!   the length read as zeroes.
//! * A file that was cut short may have its old length and content again, but for the rest of its last page,
//!   which may be zeroes.
//! * Changes of names survive in any combination in which a later one does not stand on a lost one. A rename is
//!   one change. What only a lost name led to is gone; contents belong to files, not to names.
//! * A directory that is renamed makes all changes of names before that durable.
//!
//! What it does not model: damage of sectors that were synced and not written since (see [`SimDisk::flip`] for
//! that), and holes: a file takes room for all of its length.

mod change;
mod content;
mod fault;
mod luck;
mod mount;
mod page;
mod ranges;
mod tree;
mod volume;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use fault::{Crash, Fault, Operation};
pub use luck::Survival;

use self::content::Content;
use self::mount::{Mount, lock};
use self::volume::{Crashed, OnCrash, Volume};
use super::trace::Trace;
use crate::Disk;

/// A simulated machine's disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    volume: Arc<Mutex<Volume>>,
}

/// Whether an error, or one that it comes from, says that the simulated machine is down.
#[must_use]
pub fn is_crashed(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<Crashed>() {
            return true;
        }
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

impl SimDisk {
    /// An empty disk of 1 TiB, with a trace of its own.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_trace(seed, Trace::default())
    }

    pub(super) fn with_trace(seed: u64, trace: Trace) -> Self {
        Self { volume: Arc::new(Mutex::new(Volume::new(seed, trace))) }
    }

    /// The disk as the process sees it that runs now. It fails for good when the machine crashes; after
    /// [`SimDisk::restart`] the next process takes another.
    #[must_use]
    pub fn mount(&self) -> Arc<dyn Disk> {
        let life = lock(&self.volume).life;
        Arc::new(Mount { volume: Arc::clone(&self.volume), life })
    }

    /// Plans a fault for the process that runs now. Crashes end all plans.
    pub fn plan(&self, fault: Fault) {
        lock(&self.volume).plan.add(fault);
    }

    /// Takes back all planned faults, and a planned crash.
    pub fn clear_plan(&self) {
        lock(&self.volume).plan.clear();
    }

    /// Lets the machine crash at the `n`-th change from here on (0: the next one). That one is done or not; its caller
    /// gets the error that [`is_crashed`] knows.
    pub fn crash_at(&self, n: u64, crash: Crash) {
        lock(&self.volume).plan.crash_at(n, crash);
    }

    /// Changes so far: operations that can change what the disk holds ([`Operation::is_change`]), failed ones too.
    #[must_use]
    pub fn changes(&self) -> u64 {
        lock(&self.volume).changes
    }

    /// Operations so far that failed because a fault was planned, crashes not among them.
    #[must_use]
    pub fn failures(&self) -> u64 {
        lock(&self.volume).failures
    }

    /// The syncs among [`SimDisk::failures`].
    #[must_use]
    pub fn failed_syncs(&self) -> u64 {
        lock(&self.volume).failed_syncs
    }

    /// Whether the file system has shut itself down ([`Fault::shuts_down`]).
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        lock(&self.volume).is_shut_down
    }

    /// The machine crashes now, unless it is down already.
    pub fn crash(&self, crash: Crash) {
        let mut volume = lock(&self.volume);
        if !volume.is_down {
            volume.crash(crash);
        }
    }

    /// Whether the machine is down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        lock(&self.volume).is_down
    }

    /// Starts the next process, on a machine that crashed or else by killing the one that runs.
    pub fn restart(&self) -> Arc<dyn Disk> {
        self.crash(Crash::Kill);
        let mut volume = lock(&self.volume);
        volume.is_down = false;
        volume.life += 1;
        drop(volume);
        self.mount()
    }

    /// Sets the volume's size in bytes; what it holds may exceed it.
    pub fn set_size(&self, bytes: u64) {
        lock(&self.volume).size = bytes;
    }

    /// Another disk with the same content, cached and durable, whose chances are drawn from `seed`: for trying many
    /// crashes at one point. Nobody has its files open. It has a trace of its own.
    #[must_use]
    pub fn fork(&self, seed: u64) -> Self {
        let fork = lock(&self.volume).fork(seed);
        Self { volume: Arc::new(Mutex::new(fork)) }
    }

    /// All files that processes see, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let files = lock(&self.volume).tree.files();
        files.into_iter().map(|(path, _)| path).collect()
    }

    /// A file's content as processes see it, read without leaving pages in the cache.
    ///
    /// # Errors
    ///
    /// If there is no such file.
    pub fn content(&self, path: &Path) -> io::Result<Vec<u8>> {
        let volume = lock(&self.volume);
        let content = volume.tree.content(volume.tree.find(path)?)?;
        let mut bytes = vec![0; content.len() as usize];
        content.peek(&mut bytes, 0);
        Ok(bytes)
    }

    /// Damages a file on the disk: inverts the bits of `mask` in the byte at `position`.
    ///
    /// # Errors
    ///
    /// If there is no such file.
    pub fn flip(&self, path: &Path, position: u64, mask: u8) -> io::Result<()> {
        self.edit(path, |content| {
            let mut byte = [0];
            content.peek(&mut byte, position);
            content.damage(position, &[byte[0] ^ mask]);
        })
    }

    /// Damages a file on the disk: overwrites what lies at `position`, up to the file's end.
    ///
    /// # Errors
    ///
    /// If there is no such file.
    pub fn overwrite(&self, path: &Path, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.edit(path, |content| content.damage(position, bytes))
    }

    /// Damages a file on the disk: sets its length. All of the file is durable then.
    ///
    /// # Errors
    ///
    /// If there is no such file.
    pub fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.edit(path, |content| {
            content.set_len(len);
            content.sync();
        })
    }

    /// Drops the clean pages of all files from the page cache, as memory pressure does: what a failed sync left
    /// behind then shows what the disk holds.
    pub fn evict(&self) {
        lock(&self.volume).evict();
    }

    /// What happened on this disk, or in its world.
    #[must_use]
    pub fn trace(&self) -> Trace {
        lock(&self.volume).trace.clone()
    }

    pub(super) fn boot_id(&self) -> [u8; 16] {
        lock(&self.volume).boot_id()
    }

    pub(super) fn on_crash(&self, told: OnCrash) {
        lock(&self.volume).on_crash = Some(told);
    }

    fn edit(&self, path: &Path, edit: impl FnOnce(&mut Content)) -> io::Result<()> {
        let mut volume = lock(&self.volume);
        let node = volume.tree.find(path)?;
        volume.tree.with_content(node, edit)
    }
}
