//! Between the links of a consumer and whoever takes its messages.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::{Notify, watch};

use super::Connection;
use super::delivery::Arrivals;
use crate::{Error, Result};

/// What has come and was not taken. Bounded by the credit that the links give.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Somebody waits for one thing at a time.
    changed: Notify,
    /// Why partitions are cut off, while some are.
    lost: watch::Sender<Option<Error>>,
}

#[derive(Debug, Default)]
struct State {
    arrived: VecDeque<Arrivals>,
    /// Partitions in which the broker has not taken the consumer yet.
    opening: usize,
    /// Partitions that are cut off.
    lost: usize,
    failed: Option<Error>,
}

impl Inbox {
    pub(crate) fn new(partitions: usize) -> Inbox {
        let state = State { opening: partitions, ..State::default() };
        Inbox { state: Mutex::new(state), changed: Notify::new(), lost: watch::Sender::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds an inbox")
    }

    /// Waits until the consumer is taken everywhere. Cancel safe.
    pub(crate) async fn opened(&self) -> Result<()> {
        self.wait(|state| (state.opening == 0).then_some(())).await
    }

    /// What came first. Cancel safe.
    pub(crate) async fn next(&self) -> Result<Arrivals> {
        self.wait(|state| state.arrived.pop_front()).await
    }

    /// What was taken before a failure is told before it.
    async fn wait<T>(&self, take: impl Fn(&mut State) -> Option<T>) -> Result<T> {
        loop {
            {
                let mut state = self.lock();
                if let Some(taken) = take(&mut state) {
                    return Ok(taken);
                }
                if let Some(error) = &state.failed {
                    return Err(error.clone());
                }
            }
            self.changed.notified().await;
        }
    }

    pub(crate) fn put(&self, arrivals: Arrivals) {
        self.lock().arrived.push_back(arrivals);
        self.changed.notify_one();
    }

    /// The consumer is taken in one more partition.
    pub(crate) fn partition_opened(&self) {
        self.lock().opening -= 1;
        self.changed.notify_one();
    }

    pub(crate) fn connection(&self) -> Connection {
        Connection { lost: self.lost.subscribe(), was_lost: false }
    }

    /// A partition is cut off that was not; of several, the first says why.
    pub(crate) fn lost(&self, error: &Error) {
        let mut state = self.lock();
        state.lost += 1;
        if state.lost == 1 {
            self.lost.send_replace(Some(error.clone()));
        }
    }

    /// A partition is no longer cut off.
    pub(crate) fn found(&self) {
        let mut state = self.lock();
        state.lost -= 1;
        if state.lost == 0 {
            self.lost.send_replace(None);
        }
    }

    /// A stream broke: what came on it comes again.
    pub(crate) fn forget(&self, partition: usize) {
        self.lock().arrived.retain(|arrivals| arrivals.partition != partition);
    }

    /// Nothing more comes; the first reason stays.
    pub(crate) fn fail(&self, error: Error) {
        self.lock().failed.get_or_insert(error);
        self.changed.notify_one();
    }
}
