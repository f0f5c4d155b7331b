//! Tests of the log through its public handles, on simulated disks and a real one.

mod crashes;
mod damage;
mod failures;
mod inspect;
mod panicking;
mod real;
mod rounds;
mod support;
