//! The signals that ask a command to end: SIGINT, which is Ctrl-C, and SIGTERM.

use danube_env::Env;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::{Result, failed};
use crate::terminal;

/// Tells of the first signal. The second ends the process at once, whatever the command is busy with: it may be stuck in
/// output that nobody takes.
pub(crate) struct Signals {
    /// The name of the first one.
    first: watch::Receiver<Option<&'static str>>,
}

impl Signals {
    /// Listens from now on. `lost` says what an end at once leaves out.
    pub(crate) fn listen(lost: &'static str) -> Result<Signals> {
        let listen =
            |kind| signal(kind).map_err(|error| failed("cannot listen for signals", &error));
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let (told, first) = watch::channel(None);
        let listening = async move {
            told.send_replace(Some(next(&mut interrupt, &mut terminate).await));
            let name = next(&mut interrupt, &mut terminate).await;
            terminal::note(&format!("error: a second {name}: ended at once, {lost}"));
            std::process::exit(1);
        };
        // It is there for as long as the process.
        let _ = Env::real().spawn.task("signals", Box::pin(listening));
        Ok(Signals { first })
    }

    /// Waits for the first signal; returns its name, at once if it has come. Cancel safe.
    pub(crate) async fn first(&mut self) -> &'static str {
        let told = self.first.wait_for(Option::is_some).await;
        told.ok().and_then(|name| *name).expect("the listening task ends with the process")
    }
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}
