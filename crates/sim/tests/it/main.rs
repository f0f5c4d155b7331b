//! Worlds from seeds: those that have failed once, some hundreds more, and with planted bugs.

mod seeds;

#[cfg(feature = "mutants")]
mod mutants;
