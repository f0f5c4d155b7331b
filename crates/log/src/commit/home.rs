//! Where the commit loop runs: on a thread of its own, where it may block, or for a moment on that of a caller.
//!
//! To wake another thread and to be woken by it takes longer than a small round that needs no sync. So whoever appends
//! one lends the loop its own thread, if no other has it:
//!
//! ```text
//!            lend: one small round            go_home, or woken with no thread lent
//!   idle ───────────────────────▶ lent ──────────────────────────────────▶ at home
//!     ▲                            │ nothing left to do                        │
//!     └────────────────────────────┴───────────────────────────────────────────┘
//! ```
//!
//! The loop is one future, polled by one thread at a time. What it is told is the same wherever it runs. Before anything that
//! may block for long it waits until it is [at home](Home::reached).

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use danube_env::spawn::Task;

/// How often a lent thread polls the loop at most, before what is left goes home.
const LENT_POLLS_MAX: u32 = 3;

/// The place of one loop. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Home {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    held: Mutex<Held>,
    /// Whoever runs it at home.
    owner: Mutex<Option<Waker>>,
    /// It was woken since it was last polled.
    is_woken: AtomicBool,
    /// A lent thread polls it, and looks whether it was woken.
    is_lent: AtomicBool,
    /// The lent thread was not used for a round yet.
    has_turn: AtomicBool,
    /// It goes on at home alone.
    goes_home: AtomicBool,
}

#[derive(Default)]
struct Held {
    /// None before it begins and after it has ended.
    task: Option<Task>,
    panic: Option<Box<dyn Any + Send>>,
}

impl Home {
    /// Runs the loop where this future is polled, unless a thread is lent to it. Dropping it drops the loop.
    pub(crate) fn run(&self, task: Task) -> impl Future<Output = ()> + Send + use<> {
        let inner = Arc::clone(&self.inner);
        // It yields by itself, and takes from no caller's budget.
        inner.held().task = Some(Box::pin(tokio::task::unconstrained(task)));
        inner.is_woken.store(true, SeqCst);
        Owner { inner }
    }

    /// Gives the loop something small to do, and this thread to do it on; if it is busy it does it elsewhere.
    pub(crate) fn lend(&self, give: impl FnOnce()) {
        let inner = &self.inner;
        if inner.goes_home.load(SeqCst) {
            return give();
        }
        let mut held = match inner.held.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return give(),
        };
        inner.has_turn.store(true, SeqCst);
        inner.is_lent.store(true, SeqCst);
        give();
        for _ in 0..LENT_POLLS_MAX {
            if inner.goes_home.load(SeqCst) || !inner.is_woken.swap(false, SeqCst) {
                break;
            }
            if inner.poll(&mut held).is_ready() {
                // Its owner has to see how it ended.
                inner.is_woken.store(true, SeqCst);
                break;
            }
        }
        inner.is_lent.store(false, SeqCst);
        drop(held);
        if inner.is_woken.load(SeqCst) {
            inner.wake_owner();
        }
    }

    /// Whether the loop may do a round on the thread that it runs on; on a lent one only once.
    pub(crate) fn has_turn(&self) -> bool {
        !self.is_lent() || self.inner.has_turn.swap(false, SeqCst)
    }

    fn is_lent(&self) -> bool {
        self.inner.is_lent.load(SeqCst)
    }

    /// Completes on the loop's own thread, where it may block. To be awaited by the loop itself. Cancel safe.
    pub(crate) async fn reached(&self) {
        poll_fn(|context| {
            if !self.is_lent() {
                return Poll::Ready(());
            }
            self.inner.goes_home.store(true, SeqCst);
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(self: &Arc<Self>, held: &mut Held) -> Poll<()> {
        let Some(task) = &mut held.task else { return Poll::Ready(()) };
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => {}
            Err(panic) => held.panic = Some(panic),
        }
        held.task = None;
        Poll::Ready(())
    }

    fn wake_owner(&self) {
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(owner) = owner {
            owner.wake();
        }
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, SeqCst);
        // A lent thread looks again before it leaves.
        if !self.is_lent.load(SeqCst) {
            self.wake_owner();
        }
    }
}

/// The loop at home.
struct Owner {
    inner: Arc<Inner>,
}

impl Future for Owner {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let inner = &self.inner;
        *inner.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        let mut held = inner.held();
        if !inner.is_woken.swap(false, SeqCst) {
            return Poll::Pending;
        }
        inner.goes_home.store(false, SeqCst);
        let polled = inner.poll(&mut held);
        if let Some(panic) = held.panic.take() {
            drop(held);
            resume_unwind(panic);
        }
        polled
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let task = self.inner.held().task.take();
        drop(task);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use tokio::sync::mpsc::channel;

    use super::*;

    /// That wait at most.
    const QUESTIONS: usize = 10_000;

    /// Runs `task` at home on a thread of its own, and says which.
    #[expect(clippy::disallowed_methods, reason = "which thread runs it is what is tested")]
    fn at_home(home: &Home, task: Task) -> (thread::JoinHandle<()>, ThreadId) {
        let owner = home.run(task);
        let thread = thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime")
                .block_on(owner);
        });
        let id = thread.thread().id();
        (thread, id)
    }

    /// A loop that answers each question with the thread it is on, `reached` first where that is asked.
    struct Echo {
        home: Home,
        ask: tokio::sync::mpsc::Sender<bool>,
        answers: mpsc::Receiver<ThreadId>,
        thread: thread::JoinHandle<()>,
        own: ThreadId,
    }

    impl Echo {
        fn start() -> Self {
            let home = Home::default();
            let (ask, mut asked) = channel(QUESTIONS);
            let (answer, answers) = mpsc::sync_channel(QUESTIONS);
            let at = home.clone();
            let task = Box::pin(async move {
                while let Some(at_home) = asked.recv().await {
                    if at_home {
                        at.reached().await;
                    }
                    answer.send(thread::current().id()).expect("somebody asked");
                }
            });
            let (thread, own) = at_home(&home, task);
            let echo = Self { home, ask, answers, thread, own };
            // It waits for what is asked next.
            assert_eq!(echo.ask(true), own);
            while echo.home.inner.held.try_lock().is_err() {
                thread::yield_now();
            }
            echo
        }

        fn ask(&self, at_home: bool) -> ThreadId {
            self.home.lend(|| self.ask.try_send(at_home).expect("the loop runs"));
            self.answers.recv().expect("the loop answers")
        }

        fn end(self) {
            drop(self.ask);
            self.thread.join().expect("it ends in peace");
        }
    }

    #[test]
    fn what_is_short_is_done_on_the_lent_thread_and_the_rest_at_home() {
        let echo = Echo::start();
        assert_eq!(echo.ask(false), thread::current().id());
        assert_eq!(echo.ask(true), echo.own);
        echo.end();
    }

    #[test]
    fn nothing_that_is_given_waits_for_the_next_call() {
        let echo = Echo::start();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for count in 0..2_000 {
                        echo.home
                            .lend(|| echo.ask.try_send(count % 7 == 0).expect("the loop runs"));
                    }
                });
            }
        });
        for _ in 0..8_000 {
            echo.answers.recv_timeout(std::time::Duration::from_secs(60)).expect("an answer");
        }
        echo.end();
    }

    #[test]
    fn a_panic_on_a_lent_thread_is_the_loops_own() {
        let home = Home::default();
        let (ask, mut asked) = channel::<()>(QUESTIONS);
        let task = async move {
            asked.recv().await;
            panic!("the loop is broken");
        };
        let (thread, _) = at_home(&home, Box::pin(task));
        home.lend(|| ask.try_send(()).expect("the loop waits"));
        assert!(thread.join().is_err());
        // Nothing is polled any more.
        home.lend(|| ());
    }

    #[test]
    fn a_lent_thread_does_one_round() {
        let home = Home::default();
        assert!(home.has_turn() && home.has_turn());
        let (said, turns) = mpsc::sync_channel(QUESTIONS);
        let at = home.clone();
        let task = async move {
            said.send([at.has_turn(), at.has_turn()]).expect("somebody listens");
        };
        let owner = home.run(Box::pin(task));
        home.lend(|| ());
        assert_eq!(turns.recv().expect("it ran"), [true, false]);
        drop(owner);
    }
}
