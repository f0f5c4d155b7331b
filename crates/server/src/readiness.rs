//! Whether the broker serves, for whoever asks: a value that is watched.

use tokio::sync::watch;

/// How far the broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It recovers what the last stop left.
    Starting,
    /// It serves.
    Ready,
    /// It was told to stop.
    Stopping,
    /// It can't go on, for this reason, and is about to exit.
    Failed(String),
}

impl Readiness {
    /// Why it does not serve; `None` if it does.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Readiness::Starting => Some("starting"),
            Readiness::Ready => None,
            Readiness::Stopping => Some("stopping"),
            Readiness::Failed(reason) => Some(reason),
        }
    }
}

/// Who says it, and who is told.
pub fn channel() -> (watch::Sender<Readiness>, watch::Receiver<Readiness>) {
    watch::channel(Readiness::Starting)
}
