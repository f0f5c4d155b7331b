//! What goes wrong in the life of one process, and how it ends.

use std::fmt;
use std::time::Duration;

use danube_env::sim::{Crash, Fault, Generator, Operation, SimDisk, Survival};

use crate::options::{Faults, LARGE_VOLUME};

/// Files that a fault may be about, by a part of their paths.
pub const LOG_PARTS: &[&str] = &["", ".jnl", ".seg", "checkpoint", "topics", "residency"];
/// As [`LOG_PARTS`], of a whole broker.
pub const BROKER_PARTS: &[&str] = &["", ".jnl", ".seg", "checkpoint", "topics", "raft", ".rlog"];

/// The plan for one life.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The process dies at so many changes of the disk from its start, if it lives so long.
    pub crash_at: Option<(u64, Crash)>,
    /// How it ends if it lives to its end.
    pub ending: Ending,
    /// Errors of the disk, with what they are for the trace.
    pub faults: Vec<(String, Fault)>,
    /// What happens while it runs: after so long each, in this order.
    pub weather: Vec<(Duration, Weather)>,
}

/// How a life ends that nothing has cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process dies.
    Crash(Crash),
    /// The store is closed, and then the machine may lose its power.
    CleanStop(Option<Crash>),
    /// Nothing happens for a while, the process dies, and bits change on the disk.
    Rot(Crash, Rot),
}

/// How bits change on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rot {
    /// Some bits of one byte.
    Byte,
    /// All of a sector.
    Sector,
}

/// What happens around a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Clean pages are dropped.
    Eviction,
    /// The wall clock is ahead by so many milliseconds from here on.
    Clock(i64),
    /// Others leave so many bytes of the volume.
    NoSpace(u64),
    /// Others give the space back.
    Space,
    /// The process dies.
    Crash(Crash),
}

impl Plan {
    /// A life with the faults that its world has.
    pub fn new(faults: &Faults, random: &Generator) -> Self {
        let crash = || random_crash(faults, random);
        let crash_at = random.below(4) > 0;
        let crash_at =
            crash_at.then(|| (random.below([12, 60, 200][random.below(3) as usize]), crash()));
        let ending = if random.one_in(faults.rot) {
            Ending::Rot(crash(), if random.one_in(2) { Rot::Byte } else { Rot::Sector })
        } else if faults.clean_stop > 0 && random.one_in(3) {
            Ending::CleanStop(random.one_in(2).then(crash))
        } else {
            Ending::Crash(crash())
        };
        // What rots is to have been synced, by a life that came to its end.
        let crash_at = crash_at.filter(|_| !matches!(ending, Ending::Rot(..)));
        Self {
            crash_at,
            ending,
            faults: disk_faults(faults, random),
            weather: weather(faults, random),
        }
    }

    /// A life without a fault, that ends as it should.
    pub fn calm() -> Self {
        Self { crash_at: None, ending: Ending::CleanStop(None), faults: vec![], weather: vec![] }
    }

    /// Whether nothing goes wrong in it.
    pub fn is_calm(&self) -> bool {
        self.crash_at.is_none() && self.faults.is_empty() && self.weather.is_empty()
    }

    /// Arms the disk of the process that runs now.
    pub fn arm(&self, disk: &SimDisk) {
        if let Some((changes, crash)) = self.crash_at {
            disk.crash_at(changes, crash);
        }
        self.faults.iter().for_each(|(_, fault)| disk.plan(fault.clone()));
    }
}

fn random_crash(faults: &Faults, random: &Generator) -> Crash {
    let survival = match random.below(8) {
        0 => Survival::Nothing,
        1 => Survival::Everything,
        _ => Survival::Chance,
    };
    let at = random.below(faults.kill + faults.power_cut + faults.remount);
    if at < faults.kill {
        Crash::Kill
    } else if at < faults.kill + faults.power_cut {
        Crash::PowerCut(survival)
    } else {
        Crash::Remount(survival)
    }
}

fn disk_faults(faults: &Faults, random: &Generator) -> Vec<(String, Fault)> {
    let part = || faults.parts[random.below(faults.parts.len() as u64) as usize];
    let mut planned = Vec::new();
    let mut plan = |operation: Operation, fault: Fault, how: String| {
        let part = part();
        planned.push((format!("{operation:?} of `{part}` fails {how}"), fault.on(part)));
    };
    if random.one_in(faults.failed_sync) {
        let operations =
            [Operation::SyncData, Operation::SyncData, Operation::SyncDir, Operation::SyncVolume];
        let operation = operations[random.below(4) as usize];
        let after = random.below([3, 10, 60][random.below(3) as usize]);
        let fault = Fault::nth(operation, after);
        // A file system that can't make its own structures durable goes no further, most often.
        let is_of_names = operation != Operation::SyncData;
        let fault = if is_of_names && random.one_in(2) { fault.shuts_down() } else { fault };
        plan(operation, fault, format!("after {after}"));
    }
    if random.one_in(faults.failed_write) {
        let one_in = 2 + random.below(30);
        let fault = Fault::one_in(Operation::Write, one_in);
        let fault = if random.one_in(2) { fault.no_space() } else { fault };
        plan(Operation::Write, fault, format!("one in {one_in}"));
    }
    if random.one_in(faults.failed_other) {
        let operations = [
            Operation::Open,
            Operation::Read,
            Operation::List,
            Operation::Create,
            Operation::SetLen,
            Operation::Rename,
            Operation::Remove,
        ];
        let operation = operations[random.below(operations.len() as u64) as usize];
        let after = random.below(20);
        plan(operation, Fault::nth(operation, after), format!("after {after}"));
    }
    planned
}

fn weather(faults: &Faults, random: &Generator) -> Vec<(Duration, Weather)> {
    let soon = || Duration::from_micros(random.below(400_000));
    let mut weather = Vec::new();
    if random.one_in(faults.clock) {
        let jump = random.below(7_200_000) as i64 - 3_600_000;
        weather.push((soon(), Weather::Clock(jump)));
    }
    if random.one_in(faults.eviction) {
        weather.push((soon(), Weather::Eviction));
    }
    if random.one_in(faults.no_space) {
        weather.push((soon(), Weather::NoSpace(random.below(200_000))));
        weather.push((soon(), Weather::Space));
    }
    if random.one_in(6) {
        weather.push((soon(), Weather::Crash(random_crash(faults, random))));
    }
    weather
}

impl Weather {
    /// Whether an operation may fail for want of space after it.
    pub fn takes_space(self) -> bool {
        matches!(self, Self::NoSpace(_))
    }
}

/// Sets the size of a volume so that `available` bytes are left of it.
pub fn leave(disk: &SimDisk, available: u64) {
    disk.set_size(LARGE_VOLUME);
    let used = disk.mount().space("/".as_ref()).map_or(0, |space| space.total - space.available);
    disk.set_size(used + available);
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((changes, crash)) = self.crash_at {
            write!(f, "{crash:?} at change {changes}, else ")?;
        }
        write!(f, "{:?}", self.ending)?;
        self.faults.iter().try_for_each(|(what, _)| write!(f, "; {what}"))?;
        self.weather.iter().try_for_each(|(after, what)| write!(f, "; {what:?} after {after:?}"))
    }
}
