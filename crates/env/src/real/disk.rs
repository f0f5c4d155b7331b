//! The real file system.

#![expect(clippy::disallowed_methods, reason = "this is where the file system enters")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock, fstat, fsync, statvfs, syncfs};
use rustix::io::{Errno, retry_on_intr};

use super::file::RealFile;
use crate::disk::{Disk, Entry, File, Lock, Open, Space};

/// Files and directories of this machine.
#[derive(Debug, Default)]
pub struct RealDisk {
    /// For each volume (by device number) a directory of it, open since the volume was first locked or synced.
    /// `syncfs` reports the failed write-backs since its descriptor was opened, and after another process saw
    /// them too; a descriptor opened for the one call could miss those.
    volumes: Mutex<BTreeMap<u64, Arc<OwnedFd>>>,
}

/// A lock file, unlocked when it is closed, be it by the death of the process.
struct RealLock {
    _file: fs::File,
}

impl Lock for RealLock {}

impl RealDisk {
    /// The file system of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The descriptor that speaks for the volume of `dir`.
    fn volume(&self, dir: &Path) -> io::Result<Arc<OwnedFd>> {
        let opened = OwnedFd::from(fs::File::open(dir)?);
        let device = fstat(&opened)?.st_dev;
        // The map is whole at any time, so that a panic elsewhere does not matter.
        let mut volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(volumes.entry(device).or_insert_with(|| Arc::new(opened))))
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => &mut options,
            Open::Write => options.write(true),
            Open::Create => options.write(true).create_new(true),
            Open::Replace => options.write(true).create(true).truncate(true),
        };
        Ok(Arc::new(RealFile(options.open(path)?.into())))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // Names that are not UTF-8 are none of ours; they are listed so that they can be reported.
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(Entry { name, is_dir: entry.file_type()?.is_dir() });
        }
        entries.sort();
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = fs::File::open(dir)?;
        Ok(retry_on_intr(|| fsync(&dir))?)
    }

    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        let volume = self.volume(path)?;
        Ok(retry_on_intr(|| syncfs(&volume))?)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let volume = retry_on_intr(|| statvfs(path))?;
        Ok(Space {
            available: volume.f_bavail.saturating_mul(volume.f_frsize),
            total: volume.f_blocks.saturating_mul(volume.f_frsize),
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        // `flock` belongs to the open file, so that it also excludes a second taker in this process.
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
        // From here on no failed write-back of this volume escapes `sync_volume`.
        self.volume(path)?;
        Ok(Box::new(RealLock { _file: file }))
    }

    fn boot_id(&self) -> io::Result<[u8; 16]> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        parse_uuid(text.trim()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("boot id {text:?} is not a UUID"))
        })
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::parse_uuid;

    #[test]
    fn a_uuid_is_32_digits() {
        let id = parse_uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!(id[..3], [0x00, 0x11, 0x22]);
        assert_eq!(id[15], 0xff);
        for wrong in ["", "00112233", "+0112233-4455-6677-8899-aabbccddeeff"] {
            assert_eq!(parse_uuid(wrong), None, "{wrong}");
        }
    }
}
