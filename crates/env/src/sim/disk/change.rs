//! Changes of names that were not synced.
//!
//! They wait in the order in which they were made. A sync of a directory makes those durable that touch it, with
//! the earlier ones that they build on; a power cut keeps or loses each by itself, but loses what builds on a lost
//! one. A rename is one change: it leaves the old state or the new one, also between two directories.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use super::luck::Luck;
use super::tree::{Body, NodeId, Tree};

/// A place in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) directory: NodeId,
    pub(super) name: String,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Link { name: Name, node: NodeId },
    Unlink { name: Name, node: NodeId },
    Move { from: Name, to: Name, node: NodeId },
}

impl Change {
    /// What it is about.
    pub(super) fn node(&self) -> NodeId {
        match self {
            Self::Link { node, .. } | Self::Unlink { node, .. } | Self::Move { node, .. } => *node,
        }
    }

    fn names(&self) -> impl Iterator<Item = &Name> {
        let (first, second) = match self {
            Self::Link { name, .. } | Self::Unlink { name, .. } => (name, None),
            Self::Move { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(first).chain(second)
    }
}

impl Tree {
    /// Makes the names of a directory durable.
    pub(super) fn sync_dir(&mut self, directory: NodeId) {
        for change in self.take_changes(directory) {
            self.apply(change);
        }
    }

    /// A sync of a directory that fails: some changes are durable, the others are taken for it and are not.
    pub(super) fn sync_dir_failing(&mut self, directory: NodeId, luck: &Luck<'_>) {
        let changes = self.take_changes(directory);
        self.apply_some(changes, luck, true);
    }

    /// Makes all names durable.
    pub(super) fn sync_all(&mut self) {
        for change in mem::take(&mut self.changes) {
            self.apply(change);
        }
    }

    /// As [`Tree::sync_dir_failing`], for all names.
    pub(super) fn sync_all_failing(&mut self, luck: &Luck<'_>) {
        let changes = mem::take(&mut self.changes);
        self.apply_some(changes, luck, true);
    }

    /// What a power cut does to names.
    pub(super) fn lose_changes(&mut self, luck: &Luck<'_>) {
        let changes = mem::take(&mut self.changes);
        self.apply_some(changes, luck, false);
    }

    /// Takes out the changes that touch a directory, and those before them that they build on.
    fn take_changes(&mut self, directory: NodeId) -> Vec<Change> {
        let mut wanted: BTreeSet<Name> = BTreeSet::new();
        let mut taken = Vec::new();
        let mut left = Vec::new();
        for change in mem::take(&mut self.changes).into_iter().rev() {
            let touches = |name: &Name| name.directory == directory || wanted.contains(name);
            if change.names().any(touches) {
                wanted.extend(change.names().cloned());
                taken.push(change);
            } else {
                left.push(change);
            }
        }
        left.reverse();
        taken.reverse();
        self.changes = left;
        taken
    }

    /// Applies each change or loses it; the first one for certain if `must_lose`.
    fn apply_some(&mut self, changes: Vec<Change>, luck: &Luck<'_>, must_lose: bool) {
        let mut lost: BTreeSet<Name> = BTreeSet::new();
        let mut must_lose = must_lose;
        for change in changes {
            let kept = !change.names().any(|name| lost.contains(name)) && luck.keeps();
            if kept && !must_lose {
                self.apply(change);
            } else {
                must_lose = false;
                lost.extend(change.names().cloned());
                self.done(&change);
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match &change {
            Change::Link { name, node } => self.link_durable(name, *node),
            Change::Unlink { name, node } => self.unlink_durable(name, *node),
            Change::Move { from, to, node } => {
                self.unlink_durable(from, *node);
                self.link_durable(to, *node);
            }
        }
        self.done(&change);
    }

    fn done(&mut self, change: &Change) {
        self.node_mut(change.node()).changes -= 1;
        self.release(change.node());
    }

    fn link_durable(&mut self, name: &Name, node: NodeId) {
        // A directory that is gone takes its names along.
        let Some(names) = self.durable_names(name.directory) else { return };
        let replaced = names.insert(name.name.clone(), node);
        self.node_mut(node).durable_names += 1;
        if let Some(replaced) = replaced {
            self.node_mut(replaced).durable_names -= 1;
            self.release(replaced);
        }
    }

    /// Leaves alone a name that leads elsewhere on the disk: after a failed sync it may.
    fn unlink_durable(&mut self, name: &Name, node: NodeId) {
        let Some(names) = self.durable_names(name.directory) else { return };
        if names.get(&name.name) == Some(&node) {
            names.remove(&name.name);
            self.node_mut(node).durable_names -= 1;
        }
    }

    fn durable_names(&mut self, directory: NodeId) -> Option<&mut BTreeMap<String, NodeId>> {
        match &mut self.nodes.get_mut(&directory)?.body {
            Body::Directory(directory) => Some(&mut directory.durable),
            Body::File(_) => None,
        }
    }
}
