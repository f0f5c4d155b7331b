//! Objects in a bucket, by the `object_store` crate, and in a shared directory.

mod bucket;
mod directory;

pub use bucket::{Backend, Bucket, BucketSettings};
pub use directory::Directory;
