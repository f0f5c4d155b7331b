//! Tests of the log through its public handles, on simulated disks and a real one.

mod crashes;
mod damage;
mod failures;
mod inspect;
mod missing;
mod panicking;
mod real;
mod refusals;
mod rounds;
mod support;
mod trimming;
