//! The replicated facts of the cluster, and the only ones who write them.
//!
//! Brokers, namespaces and topics, with owners, epochs and ceilings, are one [`State`] that every member of a Raft group
//! has on its own disk. It changes by typed [commands](command) alone: [`Meta::propose`] returns once the command is
//! committed, synced and applied. Reading is local ([`Meta::read`]).
//!
//! Not here: messages, segments, whoever delivers them; and what a broker does about the facts.
//!
//! Invariants:
//! * [`State::apply`] is pure. Time and randomness travel in the command.
//! * Epochs and ceilings only rise; an identity is never given twice.
//! * What this version does not know, in a log or a snapshot, refuses the start and changes nothing on the disk.
//! * openraft is known to [`raft`] alone.
//!
//! Reading order: [`command`], [`state`], [`meta`] for the handle; then `store` for what is on the disk and `raft` for
//! how both come together. `docs/format.md`, section 8, describes the bytes.

#![deny(clippy::wildcard_enum_match_arm)]

pub mod caps;
mod codec;
pub mod command;
mod error;
mod failure;
mod meta;
mod metrics;
mod raft;
mod refusal;
pub mod state;
mod store;

pub use command::{Command, Outcome, Proposal};
pub use error::{Error, Result};
pub use meta::{Changes, Checked, Config, Meta};
pub use metrics::Metrics;
pub use refusal::{PartitionOperation, Refusal};
pub use state::State;
