//! A disk that panics, in whoever asks it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use danube_env::disk::{Entry, Lock, Open, Space};
use danube_env::{Disk, File};

/// Panics when a file whose name ends with `part` is opened, after `opens` times.
pub(crate) struct Panicking {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) part: &'static str,
    pub(crate) opens: AtomicU32,
}

impl Disk for Panicking {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        if path.to_string_lossy().ends_with(self.part) {
            let left = self.opens.fetch_sub(1, Ordering::Relaxed);
            assert!(left > 0, "{} is opened once too often", path.display());
        }
        self.disk.open(path, how)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_volume(path)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.disk.space(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }

    fn boot_id(&self) -> io::Result<[u8; 16]> {
        self.disk.boot_id()
    }
}
