//! The client against a broker in this process that can be told to fail, and a network that can be cut.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broker;
mod consume;
mod network;
mod produce;
mod read;
