//! The server crate from outside.

#![expect(clippy::unwrap_used, reason = "a test that finds no value fails, helpers included")]

mod config;
mod http;
