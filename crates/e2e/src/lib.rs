//! The real binary, started, killed, restarted and checked from outside. For development only.
//!
//! A test starts a [`Broker`], works on it through [`Cli`] or a client, writes down what it did in a
//! [`checker::History`], and lets [`checker::check`] say whether the promises of `docs/guarantees.md` were kept.
//! Whatever goes wrong in the harness itself is a panic that says what was being done and what the processes said.
//!
//! Reading order: [`broker`], [`cli`], [`produce`], [`native`], [`consume`], [`peer`], [`load`], [`forwarder`], [`volume`], then [`checker`], and [`scenario`]: what is
//! done to brokers, short in `tests/it` and long in the program `soak`. Apart from those, [`figures`] with [`echo`]: how fast it is.

pub mod binary;
pub mod broker;
pub mod checker;
pub mod cli;
pub mod consume;
pub mod echo;
pub mod figures;
pub mod files;
pub mod forwarder;
pub mod http;
pub mod load;
pub mod measured;
pub mod native;
pub mod peer;
pub mod plot;
pub mod produce;
pub mod scenario;
pub mod usage;
pub mod volume;
pub mod wait;

pub use broker::{Broker, Options};
pub use cli::Cli;
/// Chance that follows from a seed; the seed of a failed test repeats it.
pub use danube_env::sim::Generator;
pub use load::Load;
pub use measured::Measured;
pub use native::Native;
pub use peer::Peer;
pub use volume::Volume;
pub use wait::within;
