//! Names and what they lead to: directories in the page cache and on the disk.
//!
//! Files and directories are *nodes*; a directory maps names to nodes, once as processes see it (`cached`) and
//! once as the disk holds it (`durable`). What was done to names and not synced waits in `changes`, see
//! [`super::change`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::change::{Change, Name};
use super::content::Content;
use super::luck::Luck;
use super::page::PAGE_BYTES;
use crate::disk::Entry;

/// Number of a file or directory.
pub(super) type NodeId = u64;

pub(super) const ROOT: NodeId = 0;

/// A directory's names.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) cached: BTreeMap<String, NodeId>,
    pub(super) durable: BTreeMap<String, NodeId>,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    File(Content),
    Directory(Directory),
}

/// A file or directory, kept while anything refers to it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) body: Body,
    /// Names that lead to it, as processes see them.
    pub(super) cached_names: u32,
    /// Names that lead to it on the disk.
    pub(super) durable_names: u32,
    /// Changes of names that are about it and were not synced.
    pub(super) changes: u32,
    /// Open files.
    pub(super) opens: u32,
}

/// All nodes of a volume.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) changes: Vec<Change>,
    next_node: NodeId,
    /// Bytes in pages of all files that have a name or are open.
    pub(super) used: u64,
}

impl Tree {
    pub(super) fn new() -> Self {
        let mut tree =
            Self { nodes: BTreeMap::new(), changes: Vec::new(), next_node: ROOT, used: 0 };
        let root = tree.add(Body::Directory(Directory::default()));
        tree.node_mut(root).durable_names = 1;
        tree.node_mut(root).cached_names = 1;
        tree
    }

    /// The node that a path leads to.
    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        let mut node = ROOT;
        for name in names(path) {
            node = *self.directory(node)?.cached.get(name?).ok_or(Errno::NOENT)?;
        }
        Ok(node)
    }

    /// The name that a path ends in, and what has it.
    pub(super) fn find_name(&self, path: &Path) -> io::Result<(Name, Option<NodeId>)> {
        let last = names(path).last().ok_or(Errno::ISDIR)??;
        let directory = self.find(path.parent().unwrap_or(Path::new("")))?;
        let node = self.directory(directory)?.cached.get(last).copied();
        Ok((Name { directory, name: last.to_owned() }, node))
    }

    pub(super) fn content(&self, node: NodeId) -> io::Result<&Content> {
        match &self.nodes.get(&node).ok_or(Errno::NOENT)?.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(Errno::ISDIR.into()),
        }
    }

    /// Gives a file's content to `change` and keeps the account of room.
    pub(super) fn with_content<T>(
        &mut self,
        node: NodeId,
        change: impl FnOnce(&mut Content) -> T,
    ) -> io::Result<T> {
        match &mut self.nodes.get_mut(&node).ok_or(Errno::NOENT)?.body {
            Body::File(content) => {
                let before = room(content);
                let result = change(content);
                self.used = self.used - before + room(content);
                Ok(result)
            }
            Body::Directory(_) => Err(Errno::ISDIR.into()),
        }
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let directory = self.directory(self.find(dir)?)?;
        let entry = |(name, node): (&String, &NodeId)| Entry {
            name: name.clone(),
            is_dir: self.directory(*node).is_ok(),
        };
        Ok(directory.cached.iter().map(entry).collect())
    }

    pub(super) fn create_file(&mut self, name: Name) -> NodeId {
        let node = self.add(Body::File(Content::default()));
        self.link(name, node);
        node
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut directory = ROOT;
        for name in names(path) {
            let name = name?;
            directory = match self.directory(directory)?.cached.get(name) {
                Some(&node) => node,
                None => {
                    let node = self.add(Body::Directory(Directory::default()));
                    self.link(Name { directory, name: name.to_owned() }, node);
                    node
                }
            };
        }
        self.directory(directory).map(|_| ())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let (name, node) = self.find_name(path)?;
        let node = node.ok_or(Errno::NOENT)?;
        self.content(node)?;
        self.unlink(name, node);
        Ok(())
    }

    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let (name, node) = self.find_name(path)?;
        let node = node.ok_or(Errno::NOENT)?;
        self.directory(node)?;
        self.unlink_all(name, node);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_name, node) = self.find_name(from)?;
        let node = node.ok_or(Errno::NOENT)?;
        let (to_name, replaced) = self.find_name(to)?;
        let is_dir = self.directory(node).is_ok();
        match replaced {
            Some(replaced) if replaced == node => return Ok(()),
            Some(replaced) if self.directory(replaced).is_ok() => {
                return Err(if is_dir { Errno::NOTEMPTY } else { Errno::ISDIR }.into());
            }
            Some(_) if is_dir => return Err(Errno::NOTDIR.into()),
            _ => {}
        }
        if is_dir {
            if to.starts_with(from) {
                return Err(Errno::INVAL.into());
            }
            // Moves of directories that survive each by itself could make a circle: they come after all before.
            self.sync_all();
        }
        self.cached_names(from_name.directory).remove(&from_name.name);
        self.cached_names(to_name.directory).insert(to_name.name.clone(), node);
        self.push(Change::Move { from: from_name, to: to_name, node });
        if let Some(replaced) = replaced {
            self.unnamed(replaced);
        }
        Ok(())
    }

    pub(super) fn opened(&mut self, node: NodeId) {
        self.node_mut(node).opens += 1;
    }

    pub(super) fn closed(&mut self, node: NodeId) {
        let closed = self.node_mut(node);
        closed.opens -= 1;
        self.give_back_room(node);
        self.release(node);
    }

    /// The process died: nothing is open.
    pub(super) fn close_all(&mut self) {
        let open: Vec<NodeId> =
            self.nodes.iter().filter(|(_, node)| node.opens > 0).map(|(&id, _)| id).collect();
        for node in open {
            self.node_mut(node).opens = 1;
            self.closed(node);
        }
    }

    /// A power cut: changes of names are kept or lost, then contents; what no name on the disk leads to is gone.
    pub(super) fn lose_power(&mut self, luck: &Luck<'_>) {
        self.lose_changes(luck);
        let mut names = BTreeMap::from([(ROOT, 1)]);
        let mut next = vec![ROOT];
        while let Some(node) = next.pop() {
            if let Body::Directory(directory) = &mut self.node_mut(node).body {
                directory.cached.clone_from(&directory.durable);
                for &child in directory.durable.values() {
                    let count = names.entry(child).or_insert(0);
                    *count += 1;
                    if *count == 1 {
                        next.push(child);
                    }
                }
            }
        }
        self.nodes.retain(|id, _| names.contains_key(id));
        self.used = 0;
        for (id, node) in &mut self.nodes {
            node.durable_names = names[id];
            node.cached_names = names[id];
            node.opens = 0;
            if let Body::File(content) = &mut node.body {
                content.lose_power(luck);
                self.used += room(content);
            }
        }
    }

    pub(super) fn directory(&self, node: NodeId) -> io::Result<&Directory> {
        match &self.nodes.get(&node).ok_or(Errno::NOENT)?.body {
            Body::Directory(directory) => Ok(directory),
            Body::File(_) => Err(Errno::NOTDIR.into()),
        }
    }

    /// The contents of all files, also of those without a name.
    pub(super) fn contents_mut(&mut self) -> impl Iterator<Item = &mut Content> {
        self.nodes.values_mut().filter_map(|node| match &mut node.body {
            Body::File(content) => Some(content),
            Body::Directory(_) => None,
        })
    }

    /// All files that processes see, with their paths, in order.
    pub(super) fn files(&self) -> Vec<(PathBuf, NodeId)> {
        let mut files = Vec::new();
        let mut next = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, node)) = next.pop() {
            match &self.nodes[&node].body {
                Body::File(_) => files.push((path, node)),
                Body::Directory(directory) => {
                    next.extend(directory.cached.iter().map(|(name, &id)| (path.join(name), id)));
                }
            }
        }
        files.sort();
        files
    }

    /// Forgets a node that nothing refers to any more.
    pub(super) fn release(&mut self, node: NodeId) {
        let Some(found) = self.nodes.get(&node) else { return };
        if found.cached_names + found.durable_names + found.changes + found.opens > 0 {
            return;
        }
        let Some(Node { body: Body::Directory(directory), .. }) = self.nodes.remove(&node) else {
            return;
        };
        for child in directory.durable.into_values() {
            self.node_mut(child).durable_names -= 1;
            self.release(child);
        }
    }

    pub(super) fn node_mut(&mut self, node: NodeId) -> &mut Node {
        self.nodes.get_mut(&node).expect("what is referred to is kept")
    }

    fn add(&mut self, body: Body) -> NodeId {
        let node = self.next_node;
        self.next_node += 1;
        self.nodes
            .insert(node, Node { body, cached_names: 0, durable_names: 0, changes: 0, opens: 0 });
        node
    }

    fn link(&mut self, name: Name, node: NodeId) {
        self.cached_names(name.directory).insert(name.name.clone(), node);
        self.node_mut(node).cached_names += 1;
        self.push(Change::Link { name, node });
    }

    fn unlink(&mut self, name: Name, node: NodeId) {
        self.cached_names(name.directory).remove(&name.name);
        self.push(Change::Unlink { name, node });
        self.unnamed(node);
    }

    fn unlink_all(&mut self, name: Name, node: NodeId) {
        let children = self.directory(node).map(|directory| directory.cached.clone());
        for (child_name, child) in children.unwrap_or_default() {
            self.unlink_all(Name { directory: node, name: child_name }, child);
        }
        self.unlink(name, node);
    }

    /// One name less leads to a node.
    fn unnamed(&mut self, node: NodeId) {
        self.node_mut(node).cached_names -= 1;
        self.give_back_room(node);
        self.release(node);
    }

    /// The room of a file is free when it has no name and is not open, synced or not.
    fn give_back_room(&mut self, node: NodeId) {
        let freed = &self.nodes[&node];
        if let Body::File(content) = &freed.body
            && freed.cached_names + freed.opens == 0
        {
            self.used -= room(content);
        }
    }

    fn cached_names(&mut self, node: NodeId) -> &mut BTreeMap<String, NodeId> {
        match &mut self.node_mut(node).body {
            Body::Directory(directory) => &mut directory.cached,
            Body::File(_) => unreachable!("a name was looked up in it"),
        }
    }

    fn push(&mut self, change: Change) {
        self.node_mut(change.node()).changes += 1;
        self.changes.push(change);
    }
}

/// Room that a file takes: every page up to its end, as if none were a hole.
fn room(content: &Content) -> u64 {
    content.len().next_multiple_of(PAGE_BYTES as u64)
}

/// The names in a path, which is taken as absolute.
fn names(path: &Path) -> impl Iterator<Item = io::Result<&str>> {
    path.components().filter_map(|component| match component {
        Component::RootDir | Component::CurDir => None,
        Component::Normal(name) => Some(name.to_str().ok_or(Errno::ILSEQ.into())),
        Component::ParentDir | Component::Prefix(_) => Some(Err(Errno::INVAL.into())),
    })
}
