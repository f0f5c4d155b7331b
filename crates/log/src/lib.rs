//! One topic's durable log over its tiers: offset in, bytes out.
//!
//! ```text
//!  Log::submit ─▶ commit loop ─▶ journal (one write, one sync a round) ─▶ answer
//!                     │ tail (memory) ─────────────▶ Reader
//!                     └▶ filler ─▶ segments, checkpoints ─▶ Reader
//! ```
//!
//! A [`Store`] is the hot tier of one broker: all its logs, one commit loop, one filler. A [`Log`] is a handle of one that
//! is open under an epoch; a [`Reader`] reads one in order. Formats stand in `docs/format.md`, promises in
//! `docs/guarantees.md`; each codec repeats its table.
//!
//! Reading order: `segment`, `journal`, `checkpoint` (bytes); `producers`, `state` (pure); `commit`, `fill`, `bodies`
//! (the two loops); `recovery`; `reader`; `store` and `log` (the handles).
//!
//! Nothing here knows of topics' names, subscriptions, protocols or the metadata: who may open which log under which
//! epoch and ceiling is told.

mod bodies;
mod checkpoint;
mod codec;
mod commit;
mod config;
mod error;
mod files;
mod fill;
mod identity;
pub mod inspect;
mod journal;
mod layout;
mod log;
mod metrics;
mod mutant;
mod pool;
mod producers;
mod reader;
mod recovery;
mod repair;
mod segment;
mod shared;
mod state;
mod store;

pub use crate::checkpoint::{EndProof, Gap};
pub use crate::commit::{Appended, OpenLog};
pub use crate::config::Config;
pub use crate::error::{Effect, Error, Result};
pub use crate::log::{Appending, Extent, Log};
pub use crate::metrics::{Condition, Metrics};
#[cfg(feature = "mutants")]
pub use crate::mutant::{MUTANTS, plant};
pub use crate::reader::{Bounds, Damage, Read, Reader, Start};
pub use crate::recovery::{Report, RolledBack, holds_logs};
pub use crate::shared::Ends;
pub use crate::store::{Checked, Expected, Facts, Holding, Progress, SealedSegment, Store};
