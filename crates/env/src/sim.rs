//! A simulated world: machines with disks that fail, clocks that jump, and tasks in an order drawn from a seed.
//!
//! ```
//! use danube_env::disk::Open;
//! use danube_env::sim::{self, Crash, Survival};
//!
//! sim::run(7, |world| async move {
//!     let machine = world.machine("broker");
//!     let env = machine.env();
//!     let file = env.disk.open("/a".as_ref(), Open::Create).unwrap();
//!     env.disk.sync_dir("/".as_ref()).unwrap();
//!     file.write_at(&[b"synced"], 0).unwrap();
//!     file.sync_data().unwrap();
//!     file.write_at(&[b" or not"], 6).unwrap();
//!
//!     machine.crash(Crash::PowerCut(Survival::Nothing));
//!     let env = machine.restart().await;
//!     assert_eq!(machine.disk().content("/a".as_ref()).unwrap(), b"synced");
//!     # let _ = env;
//! });
//! ```
//!
//! Read [`disk`](SimDisk) first; `world` ties it to clocks, tasks and chance. Tests of a disk alone need no world:
//! [`SimDisk::new`] and [`SimDisk::mount`] do.

mod clock;
mod disk;
mod generator;
mod objects;
mod process;
mod schedule;
mod spawn;
mod trace;
mod world;

pub use clock::{SimClock, WALL_START_MS};
pub use disk::{Crash, Fault, Operation, SimDisk, Survival, is_crashed};
pub use generator::Generator;
pub use objects::{Badness, SimObjects};
pub use trace::Trace;
pub use world::{Machine, World, run, run_twice};
