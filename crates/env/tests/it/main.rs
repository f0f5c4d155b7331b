//! What the two worlds promise.

#![expect(clippy::unwrap_used, reason = "a test fails by its panic")]
#![expect(clippy::print_stdout, reason = "a failing suite names its case")]

mod conformance;
mod crash;
mod objects;
mod real;
mod sim;
