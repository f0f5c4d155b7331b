//! Opening segments for writing.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use danube_env::disk::Open;
use danube_env::disk::names::{renew_name, restore_name};
use danube_env::{Disk, File};
use danube_model::{DiskId, Offset, TopicId};

use crate::error::{Error, Result};

/// Opens a segment that is gone on with.
pub(super) fn open_active(disk: &dyn Disk, path: &Path, position: u64) -> Result<Arc<dyn File>> {
    let file = match disk.open(path, Open::Write) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::Missing {
                path: path.to_owned(),
                what: "a segment that was not finished",
            });
        }
        file => file.map_err(Error::io("open", path))?,
    };
    let len = file.len().map_err(Error::io("read", path))?;
    if len < position {
        let what = format!("the segment ends here, {position} bytes of it were synced");
        return Err(Error::corrupt(path, len, what));
    }
    Ok(file)
}

/// Opens a segment that begins, without emptying what may be there under its name. That is from before a restart, and nobody
/// knows whether its name was ever synced: it gets it anew. Whether its directory was made, too.
pub(super) fn open_new(disk: &dyn Disk, path: &Path) -> Result<(Arc<dyn File>, bool)> {
    let is_restored = restore_name(disk, path).map_err(Error::io("bring back", path))?;
    match disk.open(path, Open::Write) {
        Err(error) if error.kind() == ErrorKind::NotFound => create(disk, path),
        Ok(file) => {
            if !is_restored {
                renew_name(disk, path).map_err(Error::io("name", path))?;
            }
            Ok((file, false))
        }
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

fn create(disk: &dyn Disk, path: &Path) -> Result<(Arc<dyn File>, bool)> {
    let created = disk.open(path, Open::Create);
    let dir = path.parent().expect("a segment is in a directory");
    let is_dir_gone = matches!(&created, Err(error) if error.kind() == ErrorKind::NotFound);
    if !is_dir_gone {
        return Ok((created.map_err(Error::io("create", path))?, false));
    }
    tracing::error!(path = %dir.display(), "the directory of a topic is missing, it is made anew");
    disk.create_dir_all(dir).map_err(Error::io("create", dir))?;
    Ok((disk.open(path, Open::Create).map_err(Error::io("create", path))?, true))
}

/// The number that ties a segment's trailer to its header: one that producers can't know, and the same each time
/// the segment is written. FNV-1a over the disk id, the topic id and the first offset.
pub(super) fn seal_number(disk_id: DiskId, topic: TopicId, first: Offset) -> u64 {
    let offset = first.get().to_be_bytes();
    let bytes = disk_id.as_bytes().iter().chain(topic.as_bytes()).chain(&offset);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
