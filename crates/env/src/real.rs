//! The world as it is: Linux, tokio, the kernel's clocks and random numbers.
//!
//! Read `disk` and `file` first; the rest is short.

mod clock;
mod disk;
mod file;
mod limits;
pub mod objects;
mod process;
mod random;
mod spawn;

use std::sync::Arc;

use crate::Env;

pub use clock::RealClock;
pub use disk::RealDisk;
pub use limits::{open_files, raise_open_files};
pub use process::RealProcess;
pub use random::RealRandom;
pub use spawn::RealSpawn;

impl Env {
    /// The real world, with tasks on the tokio runtime that this is called in.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn real() -> Self {
        Self {
            disk: Arc::new(RealDisk::new()),
            clock: Arc::new(RealClock),
            random: Arc::new(RealRandom),
            spawn: Arc::new(RealSpawn::new()),
            process: Arc::new(RealProcess),
        }
    }
}
