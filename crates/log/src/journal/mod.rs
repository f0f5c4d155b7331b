//! The journal: the shared place where every batch is durable before its ack.
//!
//! `round` is the bytes, `writer` appends rounds to files that are used in turn, `scan` reads them back after a
//! stop. Which log may take which record is not known here; that is `recovery`.

pub(crate) mod round;
pub(crate) mod scan;
pub(crate) mod writer;
