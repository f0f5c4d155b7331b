//! Names that are made anew, because the sync that was to make them durable may have failed in an earlier process: the
//! page cache then shows a name that the disk may never get, and a sync that finds nothing to do succeeds.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::Disk;

/// What ends the name by way of which another is made anew.
pub const AGAIN: &str = ".again";

/// Why a directory can't be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}")]
pub struct DirError {
    /// What was tried: `sync` if that a sync failed.
    pub action: &'static str,
    /// On which directory.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// The name by way of which the one at `path` is made anew.
#[must_use]
pub fn again(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(AGAIN);
    name.into()
}

/// Makes the name of a file or directory anew; durable after the next sync of its directory. Who was stopped half-way left it
/// under [`again`], from where [`restore_name`] brings it back.
///
/// # Errors
///
/// Those of [`Disk::rename`].
pub fn renew_name(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let again = again(path);
    disk.rename(path, &again)?;
    disk.rename(&again, path)
}

/// Brings a name back that was being made anew, unless it is there. Whether it was brought back.
///
/// # Errors
///
/// Those of [`Disk::exists`] and [`Disk::rename`].
pub fn restore_name(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    if disk.exists(path)? {
        return Ok(false);
    }
    match disk.rename(&again(path), path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        renamed => renamed.map(|()| true),
    }
}

/// Creates a directory and those above it, and makes their names durable. If `dir` is empty it gets its name anew: whatever is
/// put into it comes after the sync of its name. Those above may be in use by others, and keep theirs: one that this call
/// made and could not sync is left under [`again`].
///
/// # Errors
///
/// [`DirError`] with the directory on which it failed. One above that this process may not read or change is left to
/// whoever made it.
pub fn create_dir_durably(disk: &dyn Disk, dir: &Path) -> Result<(), DirError> {
    let levels: Vec<_> = dir.ancestors().filter(|level| level.file_name().is_some()).collect();
    for level in levels.into_iter().rev() {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| DirError { action, path, source }
        };
        restore_name(disk, level).map_err(failed("create", level))?;
        let is_made = match disk.list(level) {
            Ok(names) if names.is_empty() && level == dir => {
                renew_empty(disk, level).map(|()| false)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                disk.create_dir_all(level).map(|()| true)
            }
            // A sync has succeeded before something was put into it; or it is none of ours.
            _ => Ok(false),
        }
        .map_err(failed("create", level))?;
        let parent = level.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new("."));
        match disk.sync_dir(parent) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            Err(error) => {
                if is_made {
                    // Best effort: on a disk that fails this may fail as well.
                    _ = disk.rename(level, &again(level));
                }
                return Err(failed("sync", parent)(error));
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

fn renew_empty(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let again = again(dir);
    match disk.rename(dir, &again) {
        Err(error) if is_of_others(error.kind()) => Ok(()),
        renamed => renamed.and_then(|()| disk.rename(&again, dir)),
    }
}

/// What can't be moved is a mount point, or in a directory of somebody else: this process has not made it.
fn is_of_others(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::CrossesDevices
    )
}
