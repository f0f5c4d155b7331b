//! The one place where it is noted that the metadata have failed for good.

use std::sync::Arc;

use tokio::sync::watch;

use crate::Error;

/// Shared by whoever can find out. The first reason counts.
#[derive(Clone)]
pub(crate) struct Failure(Arc<watch::Sender<Option<Error>>>);

impl Failure {
    pub(crate) fn none() -> Failure {
        Failure(Arc::new(watch::Sender::new(None)))
    }

    /// Notes a reason, unless there is one.
    pub(crate) fn note(&self, error: Error) {
        self.0.send_if_modified(|noted| {
            let is_first = noted.is_none();
            if is_first {
                tracing::error!(%error, cause = ?std::error::Error::source(&error), "metadata failed");
                *noted = Some(error);
            }
            is_first
        });
    }

    /// The reason, if there is one.
    pub(crate) fn get(&self) -> Option<Error> {
        self.0.borrow().clone()
    }

    /// Waits for a reason. Cancel safe.
    pub(crate) async fn wait(&self) -> Error {
        let mut noted = self.0.subscribe();
        let error = noted.wait_for(Option::is_some).await.expect("the sender lives in self");
        error.clone().expect("waited for it to be there")
    }
}
