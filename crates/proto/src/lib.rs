//! The protocols on the wire: our `.proto` files and the code generated from them.
//!
//! * [`stream`] is `danube.stream.v1`: producing and reading.
//! * [`admin`] is `danube.admin.v1`: administration.

mod generated;

pub use generated::{admin::v1 as admin, stream::v1 as stream};
