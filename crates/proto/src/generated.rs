//! What `build.rs` makes of the `.proto` files, which document it. Laid out as the packages are, since the code
//! refers to itself that way.
#![expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    missing_docs,
    unused_qualifications,
    reason = "generated"
)]

/// Package `danube.stream`.
pub(crate) mod stream {
    /// `danube.stream.v1`: producing and reading.
    pub mod v1 {
        tonic::include_proto!("danube.stream.v1");
    }
}

/// Package `danube.admin`.
pub(crate) mod admin {
    /// `danube.admin.v1`: administration.
    pub mod v1 {
        tonic::include_proto!("danube.admin.v1");
    }
}

/// Package `danube`: the protocol of existing clients.
pub(crate) mod danube {
    tonic::include_proto!("danube");
}
