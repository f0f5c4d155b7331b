//! The disk as one process sees it: from its start to the crash that ends it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::super::trace::digest;
use super::content::Content;
use super::fault::Operation;
use super::tree::NodeId;
use super::volume::{Event, Volume, crashed};
use crate::disk::{Disk, Entry, File, Lock, Open, Space};

/// A process's view of a volume. When the machine has crashed, all its calls fail, for good.
#[derive(Clone)]
pub(super) struct Mount {
    pub(super) volume: Arc<Mutex<Volume>>,
    pub(super) life: u64,
}

/// An open file.
struct SimFile {
    mount: Mount,
    node: NodeId,
    path: Arc<Path>,
    how: Open,
}

/// A lock that ends with the process that holds it.
struct SimLock {
    mount: Mount,
    node: NodeId,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        if let Ok(mut volume) = self.mount.volume() {
            volume.locks.retain(|&node| node != self.node);
        }
    }
}

pub(super) fn lock(volume: &Mutex<Volume>) -> MutexGuard<'_, Volume> {
    // A panic inside is a bug of the simulator that the test has seen already.
    volume.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mount {
    /// The volume, as long as the process lives.
    fn volume(&self) -> io::Result<MutexGuard<'_, Volume>> {
        let volume = lock(&self.volume);
        if volume.is_down || volume.life != self.life { Err(crashed()) } else { Ok(volume) }
    }

    fn run<T>(
        &self,
        operation: Operation,
        path: &Path,
        act: impl FnOnce(&mut Volume) -> io::Result<T>,
    ) -> io::Result<T> {
        self.volume()?.run(Event { operation, path, detail: [0; 3] }, act, |_| {})
    }
}

impl Disk for Mount {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let operation = match how {
            Open::Read | Open::Write => Operation::Open,
            Open::Create | Open::Replace => Operation::Create,
        };
        let node = self.run(operation, path, |volume| volume.open(path, how))?;
        Ok(Arc::new(SimFile { mount: self.clone(), node, path: path.into(), how }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::Create, path, |volume| volume.tree.create_dir_all(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.run(Operation::List, dir, |volume| volume.tree.list(dir))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.run(Operation::List, path, |volume| match volume.tree.find(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let detail = [digest(to.as_os_str().as_encoded_bytes()), 0, 0];
        let event = Event { operation: Operation::Rename, path: from, detail };
        self.volume()?.run(event, |volume| volume.tree.rename(from, to), |_| {})
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::Remove, path, |volume| volume.tree.remove_file(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::Remove, path, |volume| volume.tree.remove_dir_all(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut volume = self.volume()?;
        let node = volume.tree.find(dir)?;
        volume.tree.directory(node)?;
        volume.run(
            Event { operation: Operation::SyncDir, path: dir, detail: [0; 3] },
            |volume| {
                volume.tree.sync_dir(node);
                Ok(())
            },
            |volume| volume.sync_dir_failing(node),
        )
    }

    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        let mut volume = self.volume()?;
        volume.tree.find(path)?;
        volume.run(
            Event { operation: Operation::SyncVolume, path, detail: [0; 3] },
            |volume| {
                volume.sync_volume();
                Ok(())
            },
            Volume::sync_volume_failing,
        )
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let volume = self.volume()?;
        volume.tree.find(path)?;
        Ok(volume.space())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let node = self.run(Operation::Create, path, |volume| {
            let (name, found) = volume.tree.find_name(path)?;
            let node = found.unwrap_or_else(|| volume.tree.create_file(name));
            volume.tree.content(node)?;
            if volume.locks.contains(&node) {
                return Err(Errno::WOULDBLOCK.into());
            }
            volume.locks.push(node);
            Ok(node)
        })?;
        Ok(Box::new(SimLock { mount: self.clone(), node }))
    }

    fn boot_id(&self) -> io::Result<[u8; 16]> {
        Ok(self.volume()?.boot_id())
    }
}

impl SimFile {
    fn event(&self, operation: Operation, detail: [u64; 3]) -> Event<'_> {
        Event { operation, path: &self.path, detail }
    }

    fn writable(&self) -> io::Result<MutexGuard<'_, Volume>> {
        let volume = self.mount.volume()?;
        if self.how == Open::Read { Err(Errno::BADF.into()) } else { Ok(volume) }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let event = self.event(Operation::Read, [position, buf.len() as u64, 0]);
        self.mount.volume()?.run(
            event,
            |volume| volume.tree.with_content(self.node, |content| content.read(buf, position)),
            |_| {},
        )
    }

    fn write_at(&self, parts: &[&[u8]], position: u64) -> io::Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let content = parts.iter().fold(0, |hash: u64, part| hash.rotate_left(7) ^ digest(part));
        let event = self.event(Operation::Write, [position, bytes as u64, content]);
        self.writable()?.run(
            event,
            |volume| volume.write(self.node, parts, position),
            |volume| volume.write_failing(self.node, parts, position),
        )
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.mount.volume()?.tree.content(self.node)?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let event = self.event(Operation::SetLen, [len, 0, 0]);
        self.writable()?.run(event, |volume| volume.set_len(self.node, len), |_| {})
    }

    fn sync_data(&self) -> io::Result<()> {
        let event = self.event(Operation::SyncData, [0; 3]);
        self.mount.volume()?.run(
            event,
            |volume| volume.sync_data(self.node),
            |volume| volume.sync_data_failing(self.node),
        )
    }

    fn is_resident(&self, position: u64, len: u64) -> bool {
        let Ok(mut volume) = self.mount.volume() else { return false };
        volume.tree.with_content(self.node, |content| content.probe(position, len)).unwrap_or(false)
    }

    fn forget_cached(&self) {
        if let Ok(mut volume) = self.mount.volume() {
            let forgotten = volume.tree.with_content(self.node, Content::forget);
            debug_assert!(forgotten.is_ok(), "the file is open");
        }
    }

    // A crash keeps or loses each sector that is not synced anyway.
    fn write_back(&self, _position: u64, _len: u64) {}
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if let Ok(mut volume) = self.mount.volume() {
            volume.tree.closed(self.node);
        }
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Mount(life {})", self.life)
    }
}
