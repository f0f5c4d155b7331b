//! A volume: what a machine's processes share, and what outlives them.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::super::generator::{Generator, mix};
use super::super::trace::{Trace, digest};
use super::content::Content;
use super::fault::{Crash, Operation, Plan, Verdict};
use super::luck::{Luck, Survival};
use super::page::PAGE_BYTES;
use super::tree::{NodeId, Tree};
use crate::disk::{Open, Space};

/// Size of a volume that nobody gave one: 1 TiB.
const DEFAULT_BYTES: u64 = 1 << 40;

/// An error of a disk whose machine is down, or of a process that died with an earlier crash.
#[derive(Debug, thiserror::Error)]
#[error("the simulated machine has crashed")]
pub(super) struct Crashed;

pub(super) fn crashed() -> io::Error {
    io::Error::other(Crashed)
}

/// Told when the machine goes down.
pub(super) type OnCrash = Arc<dyn Fn() + Send + Sync>;

pub(super) struct Volume {
    pub(super) tree: Tree,
    pub(super) plan: Plan,
    /// Counts the processes: each sees the volume until the next crash.
    pub(super) life: u64,
    pub(super) is_down: bool,
    /// Operations so far that could change the disk.
    pub(super) changes: u64,
    /// Operations so far that failed by the plan, and the syncs among them.
    pub(super) failures: u64,
    pub(super) failed_syncs: u64,
    /// Nothing can be changed until the power goes or the volume is mounted again.
    pub(super) is_shut_down: bool,
    pub(super) size: u64,
    pub(super) locks: Vec<NodeId>,
    pub(super) generator: Generator,
    pub(super) trace: Trace,
    pub(super) on_crash: Option<OnCrash>,
    boot: u64,
}

/// An operation, for faults and trace.
#[derive(Clone, Copy)]
pub(super) struct Event<'a> {
    pub(super) operation: Operation,
    pub(super) path: &'a Path,
    /// What else makes it this operation and no other: where, how much, and what.
    pub(super) detail: [u64; 3],
}

impl Volume {
    pub(super) fn new(seed: u64, trace: Trace) -> Self {
        let generator = Generator::derive(seed, "disk");
        Self {
            tree: Tree::new(),
            plan: Plan::default(),
            life: 0,
            is_down: false,
            changes: 0,
            failures: 0,
            failed_syncs: 0,
            is_shut_down: false,
            size: DEFAULT_BYTES,
            locks: Vec::new(),
            boot: generator.next(),
            generator,
            trace,
            on_crash: None,
        }
    }

    /// The same volume with another future: chance is drawn anew, nobody has it open.
    pub(super) fn fork(&self, seed: u64) -> Self {
        let mut tree = self.tree.clone();
        tree.close_all();
        Self {
            tree,
            size: self.size,
            life: self.life + 1,
            boot: self.boot,
            ..Self::new(seed, Trace::default())
        }
    }

    /// Lets the plan decide on an operation: it happens (`act`), fails (`fail`), or is the last one.
    pub(super) fn run<T>(
        &mut self,
        event: Event<'_>,
        act: impl FnOnce(&mut Self) -> io::Result<T>,
        fail: impl FnOnce(&mut Self),
    ) -> io::Result<T> {
        self.changes += u64::from(event.operation.is_change());
        let result = match self.plan.verdict(event.operation, event.path, &self.generator) {
            Verdict::Pass if self.is_shut_down && event.operation.is_change() => {
                self.failures += 1;
                Err(Errno::IO.into())
            }
            Verdict::Pass => act(self),
            Verdict::Fail { errno, shuts_down } => {
                self.is_shut_down |= shuts_down;
                self.failures += 1;
                self.failed_syncs += u64::from(event.operation.is_sync());
                fail(self);
                Err(io::Error::from_raw_os_error(errno))
            }
            Verdict::Crash(crash) => {
                // The process never learns whether it was done.
                if self.generator.one_in(2) {
                    let _ = act(self);
                }
                self.crash(crash);
                Err(crashed())
            }
        };
        self.note(event, result.as_ref().err());
        result
    }

    pub(super) fn crash(&mut self, crash: Crash) {
        self.is_down = true;
        self.locks.clear();
        // A plan holds for one life.
        self.plan.clear();
        match crash {
            Crash::Kill => self.tree.close_all(),
            Crash::PowerCut(survival) => {
                self.lose_power(survival);
                self.boot = mix(self.boot);
            }
            Crash::Remount(survival) => self.lose_power(survival),
        }
        let used = self.tree.used;
        self.trace.note(format_args!("crash {crash:?}: {used} bytes used"));
        if let Some(on_crash) = &self.on_crash {
            on_crash();
        }
    }

    fn lose_power(&mut self, survival: Survival) {
        self.is_shut_down = false;
        self.tree.lose_power(&Luck::new(survival, &self.generator));
    }

    /// Drops the clean pages of all files.
    pub(super) fn evict(&mut self) {
        self.tree.contents_mut().for_each(Content::forget);
    }

    pub(super) fn boot_id(&self) -> [u8; 16] {
        let (high, low) = (mix(self.boot), mix(self.boot ^ 1));
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }

    pub(super) fn space(&self) -> Space {
        Space { available: self.size.saturating_sub(self.tree.used), total: self.size }
    }

    /// Finds or makes what a process opens.
    pub(super) fn open(&mut self, path: &Path, how: Open) -> io::Result<NodeId> {
        let (name, found) = self.tree.find_name(path)?;
        let node = match (how, found) {
            (Open::Create, Some(_)) => return Err(Errno::EXIST.into()),
            (Open::Read | Open::Write, None) => return Err(Errno::NOENT.into()),
            (Open::Create | Open::Replace, None) => self.tree.create_file(name),
            (Open::Read | Open::Write | Open::Replace, Some(node)) => node,
        };
        self.tree.content(node)?;
        if how == Open::Replace {
            self.set_len(node, 0)?;
        }
        self.tree.opened(node);
        Ok(node)
    }

    /// Writes as much as there is room for; an error if that is not all.
    pub(super) fn write(&mut self, node: NodeId, parts: &[&[u8]], position: u64) -> io::Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes == 0 {
            return Ok(());
        }
        let end = position.checked_add(bytes as u64).ok_or(Errno::FBIG)?;
        let room_end = self.room_end(node)?;
        let fits = room_end.saturating_sub(position).min(bytes as u64) as usize;
        self.write_back_some(node, position, end)?;
        self.write_prefix(node, parts, position, fits)?;
        if fits < bytes { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }

    /// A write that fails leaves any part of itself.
    pub(super) fn write_failing(&mut self, node: NodeId, parts: &[&[u8]], position: u64) {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let fits = self.room_end(node).unwrap_or(0).saturating_sub(position).min(bytes as u64);
        let count = self.generator.below(fits + 1) as usize;
        let written = self.write_prefix(node, parts, position, count);
        debug_assert!(written.is_ok(), "the file is open");
    }

    pub(super) fn set_len(&mut self, node: NodeId, len: u64) -> io::Result<()> {
        let room_end = self.room_end(node)?;
        let commits = self.generator.one_in(2);
        self.tree.with_content(node, |content| {
            if len > content.len() && len > room_end {
                return Err(Errno::NOSPC.into());
            }
            if len < content.len() && commits {
                content.commit_len();
            }
            content.set_len(len);
            Ok(())
        })?
    }

    pub(super) fn sync_data(&mut self, node: NodeId) -> io::Result<()> {
        self.tree.with_content(node, Content::sync)
    }

    pub(super) fn sync_data_failing(&mut self, node: NodeId) {
        let luck = Luck::new(Survival::Chance, &self.generator);
        let failed = self.tree.with_content(node, |content| content.sync_failing(&luck));
        debug_assert!(failed.is_ok(), "the file is open");
    }

    pub(super) fn sync_volume(&mut self) {
        self.tree.sync_all();
        self.tree.contents_mut().for_each(Content::sync);
    }

    pub(super) fn sync_volume_failing(&mut self) {
        let luck = Luck::new(Survival::Chance, &self.generator);
        self.tree.sync_all_failing(&luck);
        for content in self.tree.contents_mut() {
            content.sync_failing(&luck);
        }
    }

    pub(super) fn sync_dir_failing(&mut self, directory: NodeId) {
        let luck = Luck::new(Survival::Chance, &self.generator);
        self.tree.sync_dir_failing(directory, &luck);
    }

    /// How long a file could become.
    fn room_end(&self, node: NodeId) -> io::Result<u64> {
        let len = self.tree.content(node)?.len();
        Ok(len.next_multiple_of(PAGE_BYTES as u64).saturating_add(self.space().available))
    }

    fn write_prefix(
        &mut self,
        node: NodeId,
        parts: &[&[u8]],
        position: u64,
        count: usize,
    ) -> io::Result<()> {
        self.tree.with_content(node, |content| {
            let mut written = 0;
            for part in parts {
                let now = part.len().min(count - written);
                content.write(&part[..now], position + written as u64);
                written += now;
            }
        })
    }

    fn write_back_some(&mut self, node: NodeId, position: u64, end: u64) -> io::Result<()> {
        // Seldom: most crashes find the older content through what they lose.
        if !self.generator.one_in(8) {
            return Ok(());
        }
        let luck = Luck::new(Survival::Chance, &self.generator);
        self.tree.with_content(node, |content| content.write_back_some(position..end, &luck))
    }

    fn note(&self, event: Event<'_>, error: Option<&io::Error>) {
        let Event { operation, path, detail } = event;
        let mut hash = digest(path.as_os_str().as_encoded_bytes()) ^ operation as u64;
        for number in detail {
            hash = mix(hash.rotate_left(9) ^ number);
        }
        let outcome = error.map_or(0, |error| digest(error.to_string().as_bytes()));
        self.trace.enter(hash ^ outcome, || Line { event, error }.to_string());
    }
}

/// An operation as a line of the trace.
struct Line<'a> {
    event: Event<'a>,
    error: Option<&'a io::Error>,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { operation, path, detail: [position, bytes, content] } = &self.event;
        write!(to, "{operation:?} {} {position}+{bytes} #{content:016x}", path.display())?;
        match self.error {
            Some(error) => write!(to, ": {error}"),
            None => Ok(()),
        }
    }
}
