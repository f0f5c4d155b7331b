//! Danube in a fake world that follows from a seed, and an oracle that knows the promises. For development only.
//!
//! ```text
//!  seed ─▶ options ─▶ world: a machine, its disk and clock ─▶ lives of a broker, cut short by faults
//!                                                              │ everything that is asked, answered and read
//!                                                              ▼
//!                                                            oracle ─▶ broken promises
//! ```
//!
//! The same seed gives the same run, event for event. A seed that fails prints its last events and the command that
//! shows them all; it goes into `seeds.txt` with the fix.
//!
//! Layers: `log` drives the durable log alone, `broker` a whole broker with its metadata. Reading order: [`options`],
//! [`faults`], [`oracle`], [`batches`], `producer`, `stage` (what both layers share), `log`, `broker`, [`runner`].

pub mod batches;
mod broker;
pub mod faults;
mod log;
pub mod options;
pub mod oracle;
mod producer;
pub mod runner;
mod stage;

pub use options::Options;
pub use runner::{Layer, Outcome, Run};
