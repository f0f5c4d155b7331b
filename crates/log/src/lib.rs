//! One topic's durable log over its tiers: offset in, bytes out.
//!
//! Formats stand in `docs/format.md`; each codec repeats its table. Reading order: `segment`, `journal`,
//! `checkpoint` (bytes); `producers`, `state` (pure); `commit`, `fill` (the two loops); `recovery`; `reader`;
//! `store` and `log` (the handles).
