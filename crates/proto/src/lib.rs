//! The protocols on the wire: our `.proto` files, the code generated from them, and what turns their fields into the
//! words of the model.
//!
//! Nothing here behaves: conversions look at what a peer sent, and fail with an [`Error`], never with a panic.
//!
//! * [`stream`] is `danube.stream.v1`: producing and reading.
//! * [`admin`] is `danube.admin.v1`: administration.
//! * [`danube`] is `danube`, what existing clients speak, and how its messages become ours.
//! * [`failure`] is how errors travel, in messages and as the status of a call.
//! * [`convert`] turns single fields into the model's types and back.

pub mod convert;
pub mod danube;
pub mod error;
pub mod failure;
mod generated;

pub use convert::{Reliability, Start};
pub use error::{Error, Result};
pub use failure::{Failure, Outcome};
pub use generated::{admin::v1 as admin, stream::v1 as stream};
