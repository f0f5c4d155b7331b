//! The broker as a program: configuration, ports, and the protocols translated into calls.
//!
//! ```text
//!  Server ── ports (listen) ── rpc: danube.stream.v1, danube.admin.v1 ──▶ danube_broker::Broker
//!     └───── http: health and readiness, metrics, alarms
//! ```
//!
//! A call is decoded, answered by one call of the broker, and encoded: no rule of the business is decided here.
//!
//! Reading order: [`config`], [`server`], `listen`, `sessions`, `rpc`, [`readiness`], `watched`, [`metrics`], [`http`]. All limits on what clients may
//! take stand in `caps`.

mod caps;
pub mod config;
pub mod http;
mod listen;
pub mod metrics;
pub mod readiness;
mod rpc;
pub mod server;
mod sessions;
mod watched;

pub use config::{Config, Settings};
pub use readiness::Readiness;
pub use server::{Addresses, Server};
pub use watched::Watched;
