//! The real binary against the promises of `docs/guarantees.md`, in minutes. The long forms of the same scenarios are in the
//! program `soak`.
//!
//! Tests are named after the promise or fault that they hold. Those that measure time run alone.

mod alarms;
mod consuming;
mod damage;
mod delivery;
mod disk;
mod kills;
mod lines;
mod peers;
mod ports;
mod retention;
mod speed;
mod start;
mod steady;
mod topics;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// For a test that measures time: no other runs meanwhile.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// For all other tests.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}
