//! gRPC: decode, call the broker once, encode.
//!
//! Nothing is decided here that is not about the protocol. How errors are told stands in [`status`] alone. The streams,
//! [`produce`], [`read`] and [`consume`], are tasks of their own, which hear when the broker stops. What existing clients speak stands
//! in [`danube`].

pub(crate) mod admin;
pub(crate) mod consume;
pub(crate) mod danube;
pub(crate) mod produce;
pub(crate) mod read;
pub(crate) mod status;
pub(crate) mod stream;
mod topics;
