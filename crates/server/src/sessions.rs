//! The streams that are being served, and telling them that the broker stops.

use std::future::Future;
use std::sync::Arc;

use danube_env::{Clock, Env};
use tokio::sync::watch;

/// Knows of all streams. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Sessions {
    env: Env,
    is_stopping: watch::Sender<bool>,
    /// How many are served.
    active: Arc<watch::Sender<usize>>,
}

/// Counts one stream as served while it lives.
struct Active(Arc<watch::Sender<usize>>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.send_modify(|active| *active -= 1);
    }
}

/// Hears when the broker stops.
#[derive(Clone)]
pub(crate) struct Stopping(watch::Receiver<bool>);

impl Stopping {
    /// Completes when the broker stops. Cancel safe.
    pub(crate) async fn wait(&mut self) {
        // The sender gone means the same.
        let _ = self.0.wait_for(|is_stopping| *is_stopping).await;
    }
}

impl Sessions {
    pub(crate) fn new(env: Env) -> Sessions {
        Sessions {
            env,
            is_stopping: watch::Sender::new(false),
            active: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Runs a stream as a task of its own.
    pub(crate) fn spawn(&self, name: &str, stream: impl Future<Output = ()> + Send + 'static) {
        self.active.send_modify(|active| *active += 1);
        let active = Active(self.active.clone());
        let task = async move {
            let _active = active;
            stream.await;
        };
        // The count stands for the task: `ended` waits for it.
        drop(self.env.spawn.task(name, Box::pin(task)));
    }

    /// How many streams are served.
    pub(crate) fn count(&self) -> usize {
        *self.active.borrow()
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.env.clock)
    }

    pub(crate) fn stopping(&self) -> Stopping {
        Stopping(self.is_stopping.subscribe())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.is_stopping.borrow()
    }

    /// How many are served.
    pub(crate) fn active(&self) -> u64 {
        *self.active.borrow() as u64
    }

    /// Tells all streams to finish what they have begun and to end.
    pub(crate) fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Completes when no stream is served. Cancel safe.
    pub(crate) async fn ended(&self) {
        let mut active = self.active.subscribe();
        // The sender is in `self`.
        let _ = active.wait_for(|active| *active == 0).await;
    }
}
