//! Which task runs next: by chance, one of those that can.
//!
//! An executor of its own, inside the runtime that has the clock. The runtime runs tasks in the order in which they
//! were woken, and that order does not follow from the seed: the waiters of one channel may be woken in any. Here only
//! which tasks were woken counts.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};

use super::generator::Generator;
use super::spawn::lock;
use crate::spawn::Task;

/// The tasks of a world. Clones are the same.
#[derive(Clone)]
pub(super) struct Schedule {
    inner: Arc<Inner>,
}

struct Inner {
    generator: Generator,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    added: u64,
    /// None while it runs.
    tasks: BTreeMap<u64, Option<Task>>,
    /// Those that were woken since they last ran.
    woken: BTreeSet<u64>,
    /// Of whoever runs the tasks, while none can run.
    runner: Option<Waker>,
}

/// Wakes one task.
struct Alarm {
    inner: Weak<Inner>,
    number: u64,
}

impl Schedule {
    pub(super) fn new(generator: Generator) -> Self {
        Self { inner: Arc::new(Inner { generator, state: Mutex::default() }) }
    }

    /// Adds a task, which can run at once. Returns its number.
    pub(super) fn add(&self, task: Task) -> u64 {
        let mut state = lock(&self.inner.state);
        state.added += 1;
        let number = state.added;
        state.tasks.insert(number, Some(task));
        drop(state);
        self.inner.wake(number);
        number
    }

    /// Lets a task run although nothing that it waits for has come.
    pub(super) fn wake(&self, number: u64) {
        self.inner.wake(number);
    }

    /// Runs tasks, one step at a time. Never completes.
    pub(super) async fn run(self) {
        poll_fn(|context| self.step(context)).await
    }

    fn step(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.inner.state);
        let choice = self.inner.generator.below(state.woken.len() as u64) as usize;
        let Some(number) = state.woken.iter().nth(choice).copied() else {
            state.runner = Some(context.waker().clone());
            return Poll::Pending;
        };
        state.woken.remove(&number);
        let task = state.tasks.get_mut(&number).and_then(Option::take);
        drop(state);
        if let Some(mut task) = task {
            let alarm = Alarm { inner: Arc::downgrade(&self.inner), number };
            let waker = Waker::from(Arc::new(alarm));
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            let mut state = lock(&self.inner.state);
            if polled.is_ready() {
                state.tasks.remove(&number);
                state.woken.remove(&number);
            } else {
                state.tasks.insert(number, Some(task));
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Drops all tasks, and with them what they refer to, this among it.
    pub(super) fn clear(&self) {
        let tasks = std::mem::take(&mut lock(&self.inner.state).tasks);
        drop(tasks);
    }
}

impl Inner {
    fn wake(&self, number: u64) {
        let mut state = lock(&self.state);
        if state.tasks.contains_key(&number) {
            state.woken.insert(number);
            let runner = state.runner.take();
            drop(state);
            if let Some(runner) = runner {
                runner.wake();
            }
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if let Some(inner) = self.inner.upgrade() {
            inner.wake(self.number);
        }
    }
}
