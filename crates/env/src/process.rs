//! What this process uses of the machine.

use std::time::Duration;

/// What is used now. `None`: it can't be found out at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory that it has in the machine, in bytes.
    pub resident_bytes: Option<u64>,
    /// Time of processors that it has used since it started.
    pub processor_time: Duration,
    /// Descriptors that are open.
    pub open_files: Option<u64>,
    /// How many may be; none: without limit.
    pub open_files_max: Option<u64>,
}

/// The process as the kernel sees it.
pub trait Process: Send + Sync + 'static {
    /// What it uses now. Does not wait for a disk.
    fn usage(&self) -> Usage;
}
