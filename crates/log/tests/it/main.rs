//! Tests of the log through its public handles, on simulated disks.

mod crashes;
mod inspect;
mod support;
