//! The outside world, each seam real and simulated: disk, clock, randomness, spawning, and what the process uses.
//!
//! Nothing here knows a word of the domain. Everything above takes an [`Env`] and reaches the world only through
//! it, so that the simulator can run the same code from a seed.
//!
//! Read [`disk`] first: it says what may be assumed of a file system, and the simulated disk takes away
//! everything else.

pub mod clock;
pub mod disk;
pub mod objects;
pub mod process;
pub mod random;
pub mod real;
mod reserve;
#[cfg(feature = "sim")]
pub mod sim;
pub mod spawn;

use std::sync::Arc;

pub use clock::Clock;
pub use disk::{Disk, File};
pub use objects::Objects;
pub use process::Process;
pub use random::Random;
pub use reserve::Reserve;
pub use spawn::{Spawn, blocking};

/// The world that a component runs in. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Files and directories.
    pub disk: Arc<dyn Disk>,
    /// Wall and monotonic time, and sleeping.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub random: Arc<dyn Random>,
    /// Tasks, threads for disk work, and blocking calls.
    pub spawn: Arc<dyn Spawn>,
    /// What this process uses of its machine.
    pub process: Arc<dyn Process>,
}
