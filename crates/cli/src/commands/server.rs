//! `danube server`: a broker, from its start to its stop.

use std::time::Duration;

use danube_env::Env;
use danube_env::real::raise_open_files;
use danube_server::config::{Config, Flags, Loaded, Sources};
use danube_server::{Addresses, Server};

use super::config::{environment, read_file};
use crate::arguments::ServerOptions;
use crate::failure::{Failure, Result, failed};
use crate::signals::Signals;
use crate::terminal::Output;

/// A broker whose disk has failed ends after this, whatever it still waits for.
const STOP_AFTER_FAILURE_MAX: Duration = Duration::from_secs(5);

/// Runs a broker until it is told to stop, or can't go on.
pub(crate) async fn run(options: ServerOptions) -> Result<()> {
    let Loaded { config, settings } = load(options)?;
    for notice in settings.notices() {
        tracing::warn!("{notice}");
    }
    match raise_open_files() {
        Ok(Some(limit)) => tracing::info!(limit, "open files are limited"),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files can't be raised"),
    }
    let mut signals = Signals::listen("without a clean stop")?;
    let server = tokio::select! {
        biased;
        started = Server::start(&config, Env::real()) => started.map_err(refused)?,
        name = signals.first() => {
            tracing::info!(signal = name, "stopped while starting");
            return Ok(());
        }
    };
    say_ready(&config, &server.addresses())?;
    tokio::select! {
        biased;
        error = server.failed() => {
            // Clients are told, as far as that works: nothing more is acknowledged, and the disk may never answer.
            let stopped = tokio::time::timeout(STOP_AFTER_FAILURE_MAX, server.stop()).await;
            if stopped.is_err() {
                tracing::warn!("ended without a stop");
            }
            return Err(refused(error));
        }
        name = signals.first() => tracing::info!(signal = name, "stopping"),
    }
    server.stop().await.map_err(refused)
}

fn load(options: ServerOptions) -> Result<Loaded> {
    let ServerOptions {
        config,
        data_dir,
        listen,
        admin_listen,
        http_listen,
        raft_listen,
        advertise,
        join,
        log_format: _,
    } = options;
    let flags = Flags { data_dir, listen, admin_listen, http_listen, raft_listen, advertise, join };
    let file = config.as_deref().map(read_file).transpose()?;
    let sources = Sources { file, environment: environment(), flags };
    Config::load(&sources).map_err(|problems| {
        Failure::new(format!("settings can't be used\n{problems}"))
            .hint("docs/reference/configuration.md, or `danube config reference`, has all settings")
    })
}

/// The one line that a server writes to standard output.
fn say_ready(config: &Config, addresses: &Addresses) -> Result<()> {
    let Addresses { client, admin, http, raft } = addresses;
    let data = config.data_dir().display();
    let mut output = Output::new();
    let line =
        format!("danube ready client={client} admin={admin} http={http} raft={raft} data={data}");
    match output.line(line).and_then(|()| output.flush()) {
        // Whoever started it may not want to know.
        Err(Failure::ClosedPipe) => Ok(()),
        said => said,
    }
}

fn refused(error: danube_server::server::Error) -> Failure {
    let failure = failed("the broker can't go on", &error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
