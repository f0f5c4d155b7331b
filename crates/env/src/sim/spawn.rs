//! Tasks of the simulated world: all on one thread, in an order that chance varies (`schedule`).

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

use super::clock::{now, sleep};
use super::generator::Generator;
use super::schedule::Schedule;
use super::trace::Trace;
use crate::spawn::{Panicked, Running, Spawn, Task, Work};

/// Steps that the tasks of a process may take while no time passes; more than any work needs.
const STEPS_MAX: u64 = 2_000_000;

/// The tasks of one process. They end when it dies: each is dropped when it would take its next step.
#[derive(Clone)]
pub(super) struct Tasks {
    schedule: Schedule,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    started: u64,
    /// Steps that were taken since the clock last moved, and where it stood.
    steps: (u64, Option<Instant>),
    /// Those that were not dropped yet, with their numbers in the schedule once they have one.
    running: BTreeMap<u64, Option<u64>>,
    is_dead: bool,
}

/// Starts tasks of one process.
pub(super) struct SimSpawn {
    pub(super) tasks: Tasks,
    pub(super) generator: Generator,
    pub(super) trace: Trace,
    /// Most that [`Spawn::interleave`] sleeps, in microseconds.
    pub(super) latency_max_us: Arc<AtomicU64>,
    /// Names of tasks that panicked, for the whole world.
    pub(super) panics: Arc<Mutex<Vec<String>>>,
}

impl Tasks {
    pub(super) fn new(schedule: Schedule) -> Self {
        Self { schedule, state: Arc::default() }
    }

    /// The process dies: its tasks end, and those that they still start do not begin.
    pub(super) fn kill(&self) {
        let mut state = lock(&self.state);
        state.is_dead = true;
        let running: Vec<_> = state.running.values().copied().flatten().collect();
        drop(state);
        running.into_iter().for_each(|number| self.schedule.wake(number));
    }

    /// Whether all that were started have been dropped.
    pub(super) fn are_gone(&self) -> bool {
        lock(&self.state).running.is_empty()
    }

    fn are_dead(&self) -> bool {
        lock(&self.state).is_dead
    }

    /// Counts a step; whether so many were taken that time seems to stand still.
    fn step_is_vain(&self) -> bool {
        let mut state = lock(&self.state);
        let now = Some(now());
        if state.steps.1 != now {
            state.steps = (0, now);
        }
        state.steps.0 += 1;
        state.steps.0 > STEPS_MAX
    }

    fn enter(&self) -> Entry {
        let mut state = lock(&self.state);
        state.started += 1;
        let number = state.started;
        state.running.insert(number, None);
        Entry { tasks: self.clone(), number }
    }

    fn add(&self, number: u64, task: Task) {
        let scheduled = self.schedule.add(task);
        if let Some(entry) = lock(&self.state).running.get_mut(&number) {
            *entry = Some(scheduled);
        }
    }
}

impl Spawn for SimSpawn {
    fn task(&self, name: &str, task: Task) -> Running {
        let entry = self.tasks.enter();
        let number = entry.number;
        self.trace.note(format_args!("start {name}"));
        let (ended, joined) = oneshot::channel();
        let step = Step {
            task: Some(task),
            name: name.to_owned(),
            trace: self.trace.clone(),
            panics: Arc::clone(&self.panics),
            ended: Some(ended),
            entry,
        };
        self.tasks.add(number, Box::pin(step.instrument(tracing::info_span!("task", name))));
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

/// A task until its process dies. A panic of it is entered in the world's list.
struct Step {
    task: Option<Task>,
    name: String,
    trace: Trace,
    panics: Arc<Mutex<Vec<String>>>,
    ended: Option<oneshot::Sender<()>>,
    entry: Entry,
}

impl Future for Step {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let step = &mut *self;
        if step.entry.tasks.are_dead() {
            return Poll::Ready(());
        }
        let is_vain = step.entry.tasks.step_is_vain();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            assert!(!is_vain, "task {} goes on and on while no time passes", step.name);
            step.task.as_mut().map_or(Poll::Ready(()), |task| task.as_mut().poll(context))
        }));
        let outcome = match &polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => "end",
            Err(_) => "panic of",
        };
        step.trace.note(format_args!("{outcome} {}", step.name));
        step.task = None;
        match (polled, step.ended.take()) {
            (Ok(_), Some(ended)) => {
                // Who joins it may be gone.
                let _ = ended.send(());
            }
            (Ok(_), None) => {}
            (Err(_), _) => lock(&step.panics).push(step.name.clone()),
        }
        Poll::Ready(())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is complete, so that a panic elsewhere does not matter.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
