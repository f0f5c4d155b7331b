//! Which record goes to which consumer next.
//!
//! An [`Engine`] is one subscription's mind: events go in (records are there, a consumer came, acknowledged, refused,
//! time passed), [`Action`]s come out (deliver, dead-letter, blocked). It knows offsets, and keys where it must; never
//! payloads. Time is an argument, [`Engine::next_timer`] says when it wants to be asked again.
//!
//! Not here: reading logs, sending, saving cursors, waiting.
//!
//! Invariants:
//! * A record is at one consumer at a time, and is settled at most once between two settings of the cursor.
//! * State is bounded by [`Settings::max_unacked_messages`] and the consumers that are there or were lately, whatever they
//!   do; what is read ahead is asked for first ([`Engine::wants`]).
//! * Deterministic: the same events give the same actions; nothing here iterates in the order of a hash.
//!
//! Reading order: `docs/delivery.md`, which states the rules; [`engine`]; [`cursor`] for what is settled; then `spans`
//! (offsets in flight or waiting), `keys` (who has which key), `consumers`, `absent` and `filter`; `pace` stands alone.

#![deny(clippy::wildcard_enum_match_arm)]

mod absent;
mod consumers;
pub mod cursor;
pub mod engine;
mod filter;
mod keys;
pub mod pace;
mod ranges;
mod spans;

pub use cursor::{Cursor, CursorChanges};
pub use engine::{Action, Delivery, Engine, Joining, Promise, Settings};
pub use filter::Filter;
pub use pace::Pace;
