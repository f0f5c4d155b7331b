//! Tokio tasks, and threads that run one task each.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::spawn::{Panicked, Running, Spawn, Task, Work};

/// Starts tasks on one tokio runtime. Its owner joins what it started before the runtime ends: timers of a
/// disk thread stand still without it.
#[derive(Clone, Debug)]
pub struct RealSpawn {
    runtime: Handle,
}

impl RealSpawn {
    /// Starts tasks on the runtime that this is called in.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new() -> Self {
        Self { runtime: Handle::current() }
    }
}

impl Default for RealSpawn {
    fn default() -> Self {
        Self::new()
    }
}

impl Spawn for RealSpawn {
    fn task(&self, name: &str, task: Task) -> Running {
        let joined = self.runtime.spawn(task.instrument(span(name)));
        let name = name.to_owned();
        // Nobody aborts these tasks, so that an error is a panic.
        Running(Box::pin(async move { joined.await.map_err(|_| Panicked { name }) }))
    }

    fn disk_thread(&self, name: &str, task: Task) -> Running {
        let (ended, end) = oneshot::channel();
        let runtime = self.runtime.clone();
        let task = task.instrument(span(name));
        let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // `block_on` drops the task before it returns: who joined finds all that it held released.
            let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(task)));
            // Fails only if the owner does not join.
            let _ = ended.send(result.is_ok());
        });
        if let Err(error) = started {
            // The sender is gone with the closure, so that joining reports the task as failed.
            tracing::error!(%error, thread = name, "cannot start a disk thread");
        }
        let name = name.to_owned();
        Running(Box::pin(async move {
            match end.await {
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => Err(Panicked { name }),
            }
        }))
    }

    fn blocking(&self, work: Work) {
        drop(self.runtime.spawn_blocking(work));
    }

    fn interleave(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

fn span(name: &str) -> tracing::Span {
    tracing::info_span!("task", name)
}
