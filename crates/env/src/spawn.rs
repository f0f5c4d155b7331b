//! Tasks and threads, each with a name and an owner.

use std::future::Future;
use std::pin::Pin;

/// A future that owns what it uses.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A piece of blocking work.
pub type Work = Box<dyn FnOnce() + Send>;

/// A running task. Letting go of it does not stop the task: its owner tells it to end, then joins it.
pub struct Running(pub(crate) Pin<Box<dyn Future<Output = Result<(), Panicked>> + Send>>);

/// A task ended by a panic.
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
