//! Logs of this process, to standard error.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::arguments::Command;

/// Says what is logged: a level, or levels by module, as in `info,danube_log=debug`.
pub(crate) const VARIABLE: &str = "DANUBE_LOG";

/// What libraries say is for those who look for a fault in them: an ordinary start of openraft warns.
const LIBRARIES: [&str; 4] = ["openraft", "h2", "hyper", "tonic"];
const LIBRARY_LEVEL: LevelFilter = LevelFilter::ERROR;

/// Starts logging: of a server from `info` on, of other commands from `warn` on, unless [`VARIABLE`] says otherwise.
pub(crate) fn start(command: &Command) {
    let level = match command {
        Command::Server(_) => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    };
    let wanted = std::env::var(VARIABLE).ok();
    let parsed = wanted.as_deref().map(str::parse::<Targets>);
    let targets = match &parsed {
        Some(Ok(targets)) => targets.clone(),
        Some(Err(_)) | None => Targets::new()
            .with_default(level)
            .with_targets(LIBRARIES.map(|name| (name, LIBRARY_LEVEL))),
    };
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::stderr);
    tracing_subscriber::registry().with(targets).with(lines).init();
    if let Some(Err(error)) = parsed {
        tracing::warn!(%error, "{VARIABLE} is not understood");
    }
}
