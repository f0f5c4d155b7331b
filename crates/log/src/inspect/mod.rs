//! Looking at files offline: what they hold, what is damaged, and what a start would make of them.
//!
//! For `danube inspect`. Nothing here writes, and no broker need be stopped: what it is writing at that moment shows
//! as the end of a file. Each function hands on what it finds piece by piece, in the order of the file, so that a file
//! of any size takes no memory, and returns the sum of it.

pub mod journal;
pub mod segment;

pub use journal::journal;
pub use segment::segment;
