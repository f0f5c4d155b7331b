//! Tests of the log through its public handles, on simulated disks.

mod crashes;
mod damage;
mod failures;
mod inspect;
mod rounds;
mod support;
