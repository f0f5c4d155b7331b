//! Space that is given up when a volume is full, so that what a component cannot do without still finds room.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Disk;
use crate::disk::Open;

/// What is written by one part.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// A file of zeroes. It needs no sync: what counts is that its blocks are taken.
pub struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
    held: bool,
}

impl Reserve {
    /// The reserve of `bytes` bytes at `path`, with whatever is there.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, bytes: u64) -> Self {
        let found = disk.open(&path, Open::Read).and_then(|file| file.len());
        let held = found.is_ok_and(|len| len == bytes);
        Self { disk, path, bytes, held }
    }

    /// Whether the space is set aside.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Gives the space back to the volume; false if it was not held.
    pub fn release(&mut self) -> bool {
        let released = self.held && self.disk.remove_file(&self.path).is_ok();
        if released {
            tracing::warn!(path = %self.path.display(), "the volume is full, the reserve is used");
        }
        self.held = false;
        released
    }

    /// Sets the space aside if it is not held; returns whether it is now.
    pub fn refill(&mut self) -> bool {
        if !self.held {
            self.held = self.write().is_ok();
            if !self.held {
                // What was written of it would only take room that others need; if it can't be removed it stays.
                let _ = self.disk.remove_file(&self.path);
            }
        }
        self.held
    }

    /// Does something, and where it fails because the volume is full, does it again with this space given up. Every step of
    /// it must be one that can be repeated.
    ///
    /// # Errors
    ///
    /// Those of `work`.
    pub fn retry<T, E>(
        &mut self,
        mut work: impl FnMut() -> Result<T, E>,
        is_full: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        match work() {
            Err(error) if is_full(&error) && self.release() => work(),
            result => result,
        }
    }

    fn write(&self) -> io::Result<()> {
        let file = self.disk.open(&self.path, Open::Replace)?;
        let mut left = self.bytes;
        let mut parts = Vec::new();
        while left > 0 {
            let part = left.min(ZEROES.len() as u64);
            parts.push(&ZEROES[..part as usize]);
            left -= part;
        }
        file.write_at(&parts, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::RealDisk;

    #[test]
    fn space_is_held_given_up_and_held_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reserve");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let new = || Reserve::new(disk.clone(), path.clone(), 100_000);
        let mut reserve = new();
        assert!(!reserve.is_held() && !reserve.release());
        assert!(reserve.refill() && new().is_held());
        assert_eq!(disk.open(&path, Open::Read).unwrap().len().unwrap(), 100_000);

        let mut tries = 0;
        let mut work = || {
            tries += 1;
            if tries == 2 { Ok(tries) } else { Err("full") }
        };
        assert_eq!(reserve.retry(&mut work, |_| false), Err("full"));
        assert_eq!(reserve.retry(&mut work, |_| true), Ok(2));
        assert_eq!(reserve.retry(&mut work, |_| true), Err("full"), "it is still held");
        assert!(!new().is_held());
        assert!(reserve.refill());
    }
}
