//! One topic's durable log over its tiers: offset in, bytes out.
//!
//! Formats stand in `docs/format.md`; each codec repeats its table. Reading order: `segment`, `journal`,
//! `checkpoint` (bytes); `producers`, `state` (pure); `commit`, `fill` (the two loops); `recovery`; `reader`;
//! `store` and `log` (the handles).

#![cfg_attr(
    not(test),
    expect(
        dead_code,
        unused_imports,
        reason = "the loops that use the formats come on top of them"
    )
)]

pub mod error;
pub mod inspect;

mod checkpoint;
mod codec;
mod identity;
mod layout;
mod producers;
mod segment;

pub use error::{Error, Result};
