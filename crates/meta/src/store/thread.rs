//! The disk thread: the only owner of a [`Store`].
//!
//! Work reaches it through a bounded queue and is done in order; appends that wait next to each other are one group with
//! one sync. After the first error it does nothing more and says why to everyone who asks (P7).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use danube_env::spawn::Running;
use danube_env::{Env, Spawn};
use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;
use crate::store::Store;
use crate::store::entry::Entry;
use crate::{Error, Result, caps};

/// Called when entries are durable, or will never be.
pub(crate) type Done = Box<dyn FnOnce(Result<()>) + Send>;

type Work = Box<dyn FnOnce(Result<&mut Store>) -> Result<()> + Send>;

enum Job {
    Append(Vec<Entry>, Done),
    Other(Work),
}

/// Hands work to the disk thread. The thread ends when all of these are gone.
#[derive(Clone)]
pub(crate) struct StoreThread {
    jobs: mpsc::Sender<Job>,
    failure: Failure,
    reserve_used: Arc<AtomicBool>,
}

impl StoreThread {
    /// Moves a store to a thread of its own. Its failure is noted in `failure`.
    pub(crate) fn spawn(env: &Env, store: Store, failure: Failure) -> (StoreThread, Running) {
        let (jobs, queue) = mpsc::channel(caps::DISK_QUEUE_MAX);
        let reserve_used = Arc::new(AtomicBool::new(store.is_reserve_used()));
        let owner = Owner {
            store,
            queue,
            failure: failure.clone(),
            reserve_used: reserve_used.clone(),
            spawn: env.spawn.clone(),
        };
        let running = env.spawn.disk_thread("metadata disk", Box::pin(owner.run()));
        (StoreThread { jobs, failure, reserve_used }, running)
    }

    /// Appends entries behind all that were given before, and calls `done` when they are durable. Returns as soon as
    /// they are in the queue; waits while it is full. Cancel safe: if it is dropped, nothing happened.
    pub(crate) async fn append(&self, entries: Vec<Entry>, done: Done) -> Result<()> {
        self.jobs.send(Job::Append(entries, done)).await.map_err(|_| self.stopped())
    }

    /// Does something with the store, after all that was given before. If this future is dropped once the work is in the
    /// queue, it is done all the same.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |store| {
            let result = store.and_then(work);
            let failure = result.as_ref().err().cloned();
            // Whoever asked may be gone.
            let _ = answer.send(result);
            failure.map_or(Ok(()), Err)
        });
        self.jobs.send(Job::Other(work)).await.map_err(|_| self.stopped())?;
        answered.await.map_err(|_| self.stopped())?
    }

    /// Whether the space kept for a full volume was used and not yet set aside anew.
    pub(crate) fn is_reserve_used(&self) -> bool {
        self.reserve_used.load(Ordering::Relaxed)
    }

    /// Why the thread takes nothing more.
    fn stopped(&self) -> Error {
        self.failure.get().unwrap_or(Error::Closed)
    }
}

struct Owner {
    store: Store,
    queue: mpsc::Receiver<Job>,
    failure: Failure,
    reserve_used: Arc<AtomicBool>,
    spawn: Arc<dyn Spawn>,
}

impl Owner {
    async fn run(mut self) {
        let mut next = None;
        loop {
            let job = match next.take() {
                Some(job) => job,
                None => match self.queue.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            match job {
                Job::Append(entries, done) => next = self.append(entries, done),
                Job::Other(work) => {
                    let failure = self.failure.get();
                    let result = work(failure.map_or(Ok(&mut self.store), Err));
                    self.note(result);
                }
            }
            self.reserve_used.store(self.store.is_reserve_used(), Ordering::Relaxed);
            self.spawn.interleave().await;
        }
    }

    /// Appends entries together with those that wait behind them. Returns the job behind these, if one was taken.
    fn append(&mut self, mut entries: Vec<Entry>, done: Done) -> Option<Job> {
        let mut group = vec![done];
        let mut behind = None;
        let mut bytes = payload_bytes(&entries);
        while bytes < caps::ENTRY_BYTES_MAX {
            match self.queue.try_recv() {
                Ok(Job::Append(more, done)) => {
                    bytes += payload_bytes(&more);
                    entries.extend(more);
                    group.push(done);
                }
                Ok(other) => {
                    behind = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        let result = match self.failure.get() {
            Some(failure) => Err(failure),
            None => self.store.append(&entries),
        };
        self.note(result.clone());
        group.into_iter().for_each(|done| done(result.clone()));
        behind
    }

    fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            self.failure.note(error);
        }
    }
}

fn payload_bytes(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| entry.payload.len()).sum()
}
