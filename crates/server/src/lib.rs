//! The broker as a program: configuration, listeners, and the protocols translated into calls.
//!
//! A call is decoded, answered by one call of the broker, and encoded: no rule of the business is decided here.
//!
//! Reading order: [`config`], [`readiness`], [`http`].

pub mod config;
pub mod http;
pub mod readiness;

pub use config::{Config, Settings};
pub use readiness::Readiness;
