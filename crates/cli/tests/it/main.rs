//! The binary `danube`, run as people and scripts run it.

#![expect(clippy::unwrap_used, reason = "a test that finds no value fails, helpers included")]

mod bench;
mod consume;
mod messages;
mod offline;
mod server;
mod topics;
