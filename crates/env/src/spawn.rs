//! Tasks and threads, each with a name and an owner.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;

use tokio::sync::oneshot;

/// A future that owns what it uses.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A piece of blocking work.
pub type Work = Box<dyn FnOnce() + Send>;

/// A running task. Letting go of it does not stop the task: its owner tells it to end, then joins it.
pub struct Running(pub(crate) Pin<Box<dyn Future<Output = Result<(), Panicked>> + Send>>);

/// A task ended by a panic, or in the simulated world by a crash of its machine.
#[derive(Debug, thiserror::Error)]
#[error("task {name} panicked")]
pub struct Panicked {
    /// The task's name.
    pub name: String,
}

impl Running {
    /// Waits for the task's end. Cancel safe; the task goes on.
    pub async fn join(self) -> Result<(), Panicked> {
        self.0.await
    }
}

/// Starts tasks.
pub trait Spawn: Send + Sync + 'static {
    /// Runs a task on the worker threads. It must not block.
    fn task(&self, name: &str, task: Task) -> Running;
    /// Runs a task on a thread of its own, where it may block. Simulated, it is a task as any other.
    fn disk_thread(&self, name: &str, task: Task) -> Running;
    /// Hands one piece of blocking work to a pool of threads. Simulated, it runs at once.
    fn blocking(&self, work: Work);
    /// A place where the simulator may let others run between two steps that real threads would interleave. Does nothing in the real world.
    fn interleave(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Runs `work` where it may block ([`Spawn::blocking`]) and gives back what it returned.
///
/// Dropping this future does not stop the work; its answer is then lost.
///
/// # Panics
///
/// As `work` did, or if the runtime ended before it ran.
pub async fn blocking<T: Send + 'static>(
    spawn: &dyn Spawn,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    // Simulated work is done in no time; real work takes some, in which others run.
    spawn.interleave().await;
    let (answer, answered) = oneshot::channel();
    spawn.blocking(Box::new(move || {
        // Fails only if the caller no longer waits.
        let _ = answer.send(catch_unwind(AssertUnwindSafe(work)));
    }));
    match answered.await {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => panic!("the runtime ended before a piece of blocking work ran"),
    }
}
