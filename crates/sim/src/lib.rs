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
//! Layers: [`log`](crate) drives the durable log alone. Reading order: [`options`], [`faults`], [`oracle`], [`batches`],
//! `log`, [`runner`].

pub mod batches;
pub mod faults;
mod log;
pub mod options;
pub mod oracle;
pub mod runner;

pub use options::Options;
pub use runner::{Outcome, Run};
