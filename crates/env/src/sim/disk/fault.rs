//! Which operations fail, and when the machine goes down.

use std::path::Path;

use super::super::generator::Generator;
use super::luck::Survival;

/// What a process asks of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening what exists.
    Open,
    /// Reading a file.
    Read,
    /// Listing a directory, and looking for a name.
    List,
    /// Creating or emptying a file, creating directories, taking a lock.
    Create,
    /// Writing.
    Write,
    /// Changing a file's length.
    SetLen,
    /// Giving another name.
    Rename,
    /// Removing a file, or a directory and all in it.
    Remove,
    /// Syncing a file.
    SyncData,
    /// Syncing the names in a directory.
    SyncDir,
    /// Syncing a volume.
    SyncVolume,
}

impl Operation {
    /// Whether it can change what the disk holds: these are counted by [`super::SimDisk::crash_at`].
    #[must_use]
    pub fn is_change(self) -> bool {
        !matches!(self, Self::Open | Self::Read | Self::List)
    }

    /// Whether it makes something durable.
    #[must_use]
    pub fn is_sync(self) -> bool {
        matches!(self, Self::SyncData | Self::SyncDir | Self::SyncVolume)
    }
}

/// An error of the disk, planned.
///
/// What a failed operation leaves: a write, some of its bytes; a sync, the *lie*: some of what it covered is durable,
/// the rest is marked clean, and a later sync succeeds without writing it; any other, nothing.
#[derive(Clone, Debug)]
pub struct Fault {
    operation: Operation,
    when: When,
    path_part: Option<String>,
    errno: i32,
    shuts_down: bool,
}

#[derive(Clone, Copy, Debug)]
enum When {
    /// Once, after so many others.
    After(u64),
    Always,
    OneIn(u64),
}

impl Fault {
    /// The `n`-th operation of this kind from here on fails, once; 0 is the next.
    #[must_use]
    pub fn nth(operation: Operation, n: u64) -> Self {
        Self::new(operation, When::After(n))
    }

    /// All operations of this kind fail.
    #[must_use]
    pub fn always(operation: Operation) -> Self {
        Self::new(operation, When::Always)
    }

    /// One in `n` operations of this kind fails, by chance.
    #[must_use]
    pub fn one_in(operation: Operation, n: u64) -> Self {
        Self::new(operation, When::OneIn(n))
    }

    /// Only on paths that contain `part`; others are not counted.
    #[must_use]
    pub fn on(self, part: &str) -> Self {
        Self { path_part: Some(part.to_owned()), ..self }
    }

    /// With "no space left on device" instead of "input/output error".
    #[must_use]
    pub fn no_space(self) -> Self {
        self.errno(rustix::io::Errno::NOSPC.raw_os_error())
    }

    /// With this error of the system instead of "input/output error".
    #[must_use]
    pub fn errno(self, errno: i32) -> Self {
        Self { errno, ..self }
    }

    /// The file system shuts itself down then, as it does when it can't keep its own journal: nothing can be changed any
    /// more until the power goes or the volume is mounted again.
    #[must_use]
    pub fn shuts_down(self) -> Self {
        Self { shuts_down: true, ..self }
    }

    fn new(operation: Operation, when: When) -> Self {
        let errno = rustix::io::Errno::IO.raw_os_error();
        Self { operation, when, path_part: None, errno, shuts_down: false }
    }
}

/// How a machine goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies; the page cache stays.
    Kill,
    /// The power goes; the machine has a new boot id after it.
    PowerCut(Survival),
    /// The volume's page cache is lost as by a power cut, and the boot id stays: a volume that was taken away and
    /// attached again.
    Remount(Survival),
}

/// What becomes of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Fail { errno: i32, shuts_down: bool },
    Crash(Crash),
}

/// The plan for a volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    faults: Vec<Fault>,
    /// Changes until the machine goes down, and how.
    crash: Option<(u64, Crash)>,
}

impl Plan {
    pub(super) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn crash_at(&mut self, n: u64, crash: Crash) {
        self.crash = Some((n, crash));
    }

    pub(super) fn verdict(
        &mut self,
        operation: Operation,
        path: &Path,
        generator: &Generator,
    ) -> Verdict {
        if operation.is_change()
            && let Some((left, crash)) = self.crash.take()
        {
            match left.checked_sub(1) {
                Some(left) => self.crash = Some((left, crash)),
                None => return Verdict::Crash(crash),
            }
        }
        let hit = self.faults.iter_mut().position(|fault| fault.hits(operation, path, generator));
        let Some(hit) = hit else { return Verdict::Pass };
        let Fault { errno, shuts_down, .. } = self.faults[hit];
        if let When::After(_) = self.faults[hit].when {
            self.faults.remove(hit);
        }
        Verdict::Fail { errno, shuts_down }
    }
}

impl Fault {
    fn hits(&mut self, operation: Operation, path: &Path, generator: &Generator) -> bool {
        if operation != self.operation {
            return false;
        }
        if let Some(part) = &self.path_part
            && !path.to_string_lossy().contains(part.as_str())
        {
            return false;
        }
        match &mut self.when {
            When::Always => true,
            When::OneIn(n) => generator.one_in(*n),
            When::After(0) => true,
            When::After(left) => {
                *left -= 1;
                false
            }
        }
    }
}
