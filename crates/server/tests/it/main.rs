//! The server crate from outside: its parts, and whole servers on real disks and sockets with clients on them.

#![expect(clippy::unwrap_used, reason = "a test that finds no value fails, helpers included")]

mod config;
mod consuming;
mod danube;
mod fixture;
mod hostile;
mod http;
mod metrics;
mod serving;
mod stopping;
mod windows;
