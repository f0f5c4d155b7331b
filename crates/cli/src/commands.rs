//! What each command does.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod consume;
pub(crate) mod inspect;
mod messages;
pub(crate) mod produce;
pub(crate) mod read;
pub(crate) mod server;
pub(crate) mod subscription;
pub(crate) mod topic;
