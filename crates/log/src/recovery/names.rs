//! Names that a recovery finds and that no earlier one has vouched for.
//!
//! They may have been made before a sync that failed, and be in the page cache alone. What a checkpoint knows of was
//! synced before it was written, and so was a journal's file before it was begun. Everything else gets its name anew:
//!
//! * the identity of the hot tier, and its empty directories, while there is no checkpoint (`identity`, [`make_dirs`]);
//! * the directories of logs that are in no checkpoint ([`renew_logs`]);
//! * files of the journal that were never begun ([`renew_unused`]);
//! * segments that begin behind the checkpoint, when they are written again (`bodies`);
//! * the absence of what is to be removed (`files`).

use danube_env::Disk;
use danube_env::disk::names::{AGAIN, create_dir_durably, renew_name, restore_name};

use crate::bodies::Bodies;
use crate::error::{Error, Result};
use crate::layout::{self, Layout};

/// Makes the directories of a hot tier.
pub(super) fn make_dirs(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    for dir in [layout.journal_dir(), layout.topics_dir()] {
        create_dir_durably(disk, &dir).map_err(Error::dir)?;
    }
    let topics = layout.topics_dir();
    for entry in disk.list(&topics).map_err(Error::io("list", &topics))? {
        if let Some(topic) = entry.name.strip_suffix(AGAIN).and_then(layout::parse_topic) {
            let dir = layout.topic_dir(topic);
            restore_name(disk, &dir).map_err(Error::io("bring back", &dir))?;
        }
    }
    Ok(())
}

/// Makes the names of logs anew that `bodies`, the checkpoint's, do not have. They are synced with the bodies.
pub(super) fn renew_logs(disk: &dyn Disk, layout: &Layout, bodies: &mut Bodies) -> Result<()> {
    let topics = layout.topics_dir();
    for entry in disk.list(&topics).map_err(Error::io("list", &topics))? {
        let topic = layout::parse_topic(&entry.name).filter(|_| entry.is_dir);
        let Some(topic) = topic.filter(|topic| bodies.get(*topic).is_none()) else { continue };
        let dir = layout.topic_dir(topic);
        renew_name(disk, &dir).map_err(Error::io("name", &dir))?;
        let file = layout.topic_file(topic);
        restore_name(disk, &file).map_err(Error::io("bring back", &file))?;
        if disk.exists(&file).map_err(Error::io("look for", &file))? {
            renew_name(disk, &file).map_err(Error::io("name", &file))?;
        }
        bodies.named(topic);
    }
    Ok(())
}

/// Makes the names of the journal's files `indexes` anew, which were never begun. Nothing is in them: it does not matter if
/// one is left half-way.
pub(super) fn renew_unused(disk: &dyn Disk, layout: &Layout, indexes: &[u32]) -> Result<()> {
    for index in indexes {
        let path = layout.journal_file(*index);
        let unfinished = layout::temporary(&path);
        disk.rename(&path, &unfinished).map_err(Error::io("name", &path))?;
        disk.rename(&unfinished, &path).map_err(Error::io("name", &path))?;
    }
    let dir = layout.journal_dir();
    disk.sync_dir(&dir).map_err(Error::io("sync", &dir))
}
