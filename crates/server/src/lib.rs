//! The broker's outside: configuration.

pub mod config;
