//! Tasks of the simulated world: all on one thread, in an order that chance varies.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::clock::sleep;
use super::generator::Generator;
use super::trace::Trace;
use crate::spawn::{Panicked, Running, Spawn, Task, Work};

/// The tasks of one process. They end when it dies: each is dropped when it would take its next step.
#[derive(Clone, Default)]
pub(super) struct Tasks {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    started: u64,
    /// Those that were not dropped yet; with their handles once they run.
    running: BTreeMap<u64, Option<AbortHandle>>,
    is_dead: bool,
}

/// Starts tasks of one process.
pub(super) struct SimSpawn {
    pub(super) runtime: Handle,
    pub(super) tasks: Tasks,
    pub(super) generator: Generator,
    pub(super) trace: Trace,
    /// Most that [`Spawn::interleave`] sleeps, in microseconds.
    pub(super) latency_max_us: Arc<AtomicU64>,
    /// Names of tasks that panicked, for the whole world.
    pub(super) panics: Arc<Mutex<Vec<String>>>,
}

impl Tasks {
    /// The process dies: its tasks end, and those that they still start do not begin.
    pub(super) fn kill(&self) {
        let mut state = lock(&self.state);
        state.is_dead = true;
        state.running.values().flatten().for_each(AbortHandle::abort);
    }

    /// Whether all that were started have been dropped.
    pub(super) fn are_gone(&self) -> bool {
        lock(&self.state).running.is_empty()
    }

    fn enter(&self) -> Entry {
        let mut state = lock(&self.state);
        state.started += 1;
        let number = state.started;
        state.running.insert(number, None);
        Entry { tasks: self.clone(), number }
    }

    fn started(&self, number: u64, task: AbortHandle) {
        let mut state = lock(&self.state);
        if state.is_dead {
            task.abort();
        }
        if let Some(entry) = state.running.get_mut(&number) {
            *entry = Some(task);
        }
    }
}

impl Spawn for SimSpawn {
    fn task(&self, name: &str, task: Task) -> Running {
        let entry = self.tasks.enter();
        let number = entry.number;
        self.trace.note(format_args!("start {name}"));
        let step = Step {
            task,
            name: name.to_owned(),
            generator: self.generator.clone(),
            trace: self.trace.clone(),
            panics: Arc::clone(&self.panics),
            _entry: entry,
        };
        let joined = self.runtime.spawn(step.instrument(tracing::info_span!("task", name)));
        self.tasks.started(number, joined.abort_handle());
        let name = name.to_owned();
        Running(Box::pin(async move { joined.await.map_err(|_| Panicked { name }) }))
    }

    fn disk_thread(&self, name: &str, task: Task) -> Running {
        self.task(name, task)
    }

    fn blocking(&self, work: Work) {
        work();
    }

    fn interleave(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let steps = if self.generator.one_in(4) { self.generator.below(16) } else { 0 };
        let latency_max_us = self.latency_max_us.load(Ordering::Relaxed);
        let latency = Duration::from_micros(self.generator.below(latency_max_us));
        Box::pin(async move {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            if !latency.is_zero() {
                sleep(latency).await;
            }
        })
    }
}

/// Takes a task out of its machine's list when it ends, however it does.
struct Entry {
    tasks: Tasks,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.tasks.state).running.remove(&self.number);
    }
}

/// A task that now and then lets the others go first, as a busy thread would, and whose panic is entered in the
/// world's list.
struct Step {
    task: Task,
    name: String,
    generator: Generator,
    trace: Trace,
    panics: Arc<Mutex<Vec<String>>>,
    _entry: Entry,
}

impl Future for Step {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.generator.one_in(4) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = catch_unwind(AssertUnwindSafe(|| self.task.as_mut().poll(context)));
        let outcome = match &polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => "end",
            Err(_) => "panic of",
        };
        self.trace.note(format_args!("{outcome} {}", self.name));
        polled.unwrap_or_else(|panic| {
            lock(&self.panics).push(self.name.clone());
            resume_unwind(panic)
        })
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is complete, so that a panic elsewhere does not matter.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
