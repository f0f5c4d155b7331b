//! What a broker takes of its machine.

use crate::broker::Broker;
use crate::files;

/// Memory that it holds, in KiB.
///
/// # Panics
///
/// If it does not run.
#[must_use]
pub fn resident_kib(broker: &Broker) -> u64 {
    status(broker, "VmRSS:")
}

/// Files, sockets and the like that it has open.
///
/// # Panics
///
/// If it does not run.
#[must_use]
pub fn descriptors(broker: &Broker) -> usize {
    files::names(format!("/proc/{}/fd", broker.process_id()).as_ref()).len()
}

fn status(broker: &Broker, name: &str) -> u64 {
    let status = files::read(format!("/proc/{}/status", broker.process_id()).as_ref());
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it runs");
    let kib = line.trim().strip_suffix(" kB").expect("in kB").parse();
    kib.expect("a number")
}
