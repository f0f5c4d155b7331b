//! Tests of the log through its public handles, on simulated disks.

mod crashes;
mod damage;
mod inspect;
mod support;
