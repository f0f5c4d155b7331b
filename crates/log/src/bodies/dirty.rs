//! What was written and not synced.
//!
//! Few files are synced one by one, each through the descriptor that it was written through; many by one sync of the
//! volume. Which of them depends on what was written alone, not on which files the pool still has open. Why a file is not
//! opened anew for its sync stands in `docs/decisions/0004-syncs-and-closed-files.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use danube_env::{Disk, File};
use danube_model::{Offset, TopicId};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::mutant;

/// Up to so many files are synced one by one; more by one sync of the volume.
const SYNC_FILES_MAX: usize = 16;

/// Files and names that wait for a sync.
#[derive(Default)]
pub(crate) struct Dirty {
    /// Held open. Empty once there are `too_many`.
    files: BTreeMap<(TopicId, Offset), Arc<dyn File>>,
    too_many: bool,
    dirs: BTreeSet<TopicId>,
    /// There are names of logs to be synced.
    has_new_logs: bool,
}

impl Dirty {
    /// A file was written to, through this descriptor and maybe others that are closed.
    pub(super) fn written(&mut self, topic: TopicId, first: Offset, file: &Arc<dyn File>) {
        if !self.too_many {
            self.files.entry((topic, first)).or_insert_with(|| Arc::clone(file));
        }
        if self.files.len() > SYNC_FILES_MAX {
            self.too_many = true;
            self.files.clear();
        }
    }

    /// Names in the directory of a log are new.
    pub(super) fn named_in(&mut self, topic: TopicId) {
        self.dirs.insert(topic);
    }

    /// Names of logs are new.
    pub(super) fn named_log(&mut self) {
        self.has_new_logs = true;
    }

    /// A log goes, with its files.
    pub(super) fn forget(&mut self, topic: TopicId) {
        self.files.retain(|(of, _), _| *of != topic);
        self.dirs.remove(&topic);
    }

    /// Nothing is forgotten, all is synced.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.too_many
    }

    /// For the mutant that loses what a recovery wrote.
    pub(crate) fn lose(&mut self) {
        self.files.clear();
        self.too_many = false;
    }

    /// Makes all of it durable. An error is final (promise P7).
    pub(super) fn sync(&mut self, disk: &dyn Disk, layout: &Layout) -> Result<()> {
        if self.too_many || self.dirs.len() > SYNC_FILES_MAX {
            let root = layout.root();
            disk.sync_volume(root).map_err(Error::io("sync", root))?;
        } else {
            for ((topic, first), file) in &self.files {
                let path = layout.segment(*topic, *first);
                file.sync_data().map_err(Error::io("sync", &path))?;
            }
            for topic in self.dirs.iter().filter(|_| !mutant::is("no_directory_sync")) {
                let dir = layout.topic_dir(*topic);
                disk.sync_dir(&dir).map_err(Error::io("sync", &dir))?;
            }
            if self.has_new_logs {
                let topics = layout.topics_dir();
                disk.sync_dir(&topics).map_err(Error::io("sync", &topics))?;
            }
        }
        *self = Self::default();
        Ok(())
    }
}
