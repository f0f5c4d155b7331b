//! Space that is given up when the volume is full, so that what a broker cannot do without still finds room: its vote,
//! a leader's first entry, a topic's new epoch or ceiling.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use danube_env::Disk;
use danube_env::disk::Open;

use crate::{Error, caps};

/// Bytes written at once.
const CHUNK: usize = 64 << 10;

/// The file `reserve`, [`caps::RESERVE_BYTES`] of zeroes. It needs no sync: what counts is that its blocks are taken.
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    held: bool,
}

impl Reserve {
    /// The reserve at `path`, with whatever is there.
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Reserve {
        let held = disk
            .open(&path, Open::Read)
            .and_then(|file| file.len())
            .is_ok_and(|len| len == caps::RESERVE_BYTES);
        Reserve { disk, path, held }
    }

    /// Whether the space is set aside.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Gives the space back to the volume; false if it was not held.
    pub(crate) fn release(&mut self) -> bool {
        let released = self.held && self.disk.remove_file(&self.path).is_ok();
        if released {
            tracing::warn!(path = %self.path.display(), "volume is full, metadata use their reserve");
        }
        self.held = false;
        released
    }

    /// Sets the space aside if it is not held; returns whether it is now.
    pub(crate) fn refill(&mut self) -> bool {
        if !self.held {
            self.held = self.write().is_ok();
            if !self.held {
                // What was written of it would only take room that others need; if it can't be removed it stays.
                let _ = self.disk.remove_file(&self.path);
            }
        }
        self.held
    }

    fn write(&self) -> io::Result<()> {
        let file = self.disk.open(&self.path, Open::Replace)?;
        let zeroes = vec![0; CHUNK];
        for position in (0..caps::RESERVE_BYTES).step_by(CHUNK) {
            file.write_at(&[&zeroes], position)?;
        }
        Ok(())
    }
}

const _: () = assert!(caps::RESERVE_BYTES.is_multiple_of(CHUNK as u64));

/// Whether something failed for want of room before anything was synced. A failed sync never counts.
pub(crate) fn is_volume_full(error: &Error) -> bool {
    let Error::Io { operation, source, .. } = error else { return false };
    let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    *operation != "sync" && kinds.contains(&source.kind())
}
