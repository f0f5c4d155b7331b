//! What the worlds of both layers share: a machine, the oracle, and how a process lives and ends.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use danube_env::Env;
use danube_env::sim::{Crash, Generator, Machine, Survival, World};
use danube_model::ErrorKind;
use tokio::sync::Notify;

use crate::batches::BatchId;
use crate::faults::{self, Ending, Plan, Rot, Weather};
use crate::options::{LARGE_VOLUME, Options};
use crate::oracle::{Loss, Oracle, Rule};
use crate::runner::Outcome;

/// Nothing takes longer, in simulated time; what does waits for ever.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often something that is waited for may go on; what does so more often goes round in a circle.
const POLLS_MAX: u64 = 100_000;

/// What outlives the processes of one world.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) machine: Machine,
    pub(crate) options: Options,
    oracle: Mutex<Oracle>,
    batches: AtomicU64,
    /// Others have filled the volume.
    is_filled: AtomicBool,
    /// In this life it lacked space.
    lacked_space: AtomicBool,
    /// Operations of the disk that had failed before this life.
    failures_before: AtomicU64,
    /// A promise is broken: the world ends.
    broken: Notify,
    /// The crash that the weather brought, in this life.
    weather_crash: Mutex<Option<Crash>>,
}

/// How a process that nothing has cut short goes on to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Crash(Crash),
    Rot(Crash, Rot),
}

impl Stage {
    pub(crate) fn new(world: World, options: Options) -> Self {
        let machine = world.machine("broker");
        machine.disk().set_size(options.volume_bytes);
        machine.set_latency_max(options.latency_max);
        let oracle = Oracle::new(options.loss_window());
        Self {
            world,
            machine,
            options,
            oracle: Mutex::new(oracle),
            batches: AtomicU64::new(1),
            is_filled: AtomicBool::new(false),
            lacked_space: AtomicBool::new(false),
            failures_before: AtomicU64::new(0),
            broken: Notify::new(),
            weather_crash: Mutex::default(),
        }
    }

    /// Life after life, then two after the faults, of which each ends in a clean stop: nothing is left to recover.
    pub(crate) async fn run(&self, live: impl AsyncFn(u64, Env, &Plan)) -> Outcome {
        let random = self.world.generator("plans");
        let mut env = self.machine.env();
        for number in 0..self.options.lives {
            live(number, env, &Plan::new(&self.options.faults, &random)).await;
            env = self.machine.restart().await;
            if self.is_broken() {
                return self.outcome();
            }
        }
        self.is_filled.store(false, Ordering::Relaxed);
        self.machine.set_latency_max(Duration::ZERO);
        let power_cut = Some(Crash::PowerCut(Survival::Nothing));
        for ending in [Ending::CleanStop(power_cut), Ending::CleanStop(None)] {
            live(self.options.lives, env, &Plan { ending, ..Plan::calm() }).await;
            env = self.machine.restart().await;
            if self.is_broken() {
                break;
            }
        }
        self.outcome()
    }

    /// Tells the oracle of something, or asks it.
    pub(crate) fn oracle<T>(&self, tell: impl FnOnce(&mut Oracle) -> T) -> T {
        let mut oracle = lock(&self.oracle);
        oracle.set_now(self.world.elapsed());
        let known = oracle.violations().len();
        let told = tell(&mut oracle);
        for violation in &oracle.violations()[known..] {
            self.note(format_args!("BROKEN {violation}"));
            self.broken.notify_one();
        }
        told
    }

    pub(crate) fn next_batch(&self) -> BatchId {
        BatchId(self.batches.fetch_add(1, Ordering::Relaxed))
    }

    /// Chance for one actor in one life.
    pub(crate) fn random(&self, actor: &str, life: u64) -> Generator {
        self.world.generator(&format!("{actor} {life}"))
    }

    /// Enters an event in the trace.
    pub(crate) fn note(&self, event: fmt::Arguments<'_>) {
        crate::runner::note(&self.world, event);
    }

    /// Enters something that is wrong.
    pub(crate) fn broken(&self, rule: Rule, what: String) {
        self.oracle(|oracle| oracle.broken(rule, what));
    }

    fn is_broken(&self) -> bool {
        !lock(&self.oracle).violations().is_empty()
    }

    fn outcome(&self) -> Outcome {
        let oracle = lock(&self.oracle);
        Outcome { counts: oracle.counts(), violations: oracle.violations().to_vec() }
    }

    /// Whether a life comes after the faults.
    pub(crate) fn is_calm(&self, life: u64) -> bool {
        life >= self.options.lives
    }

    /// Sees a process to its end. The machine is down, or is to be restarted, when it returns; how it ended, unless a promise
    /// is broken.
    pub(crate) async fn live(
        &self,
        number: u64,
        plan: &Plan,
        process: impl Future<Output = End>,
    ) -> Option<End> {
        self.note(format_args!("life {number}: {plan}"));
        let disk = self.machine.disk();
        self.failures_before.store(disk.failures(), Ordering::Relaxed);
        self.begin_space(number);
        plan.arm(disk);
        let end = tokio::select! {
            biased;
            () = self.machine.down() => None,
            () = self.broken.notified() => return None,
            end = process => Some(end),
        };
        let down = plan.crash_at.map_or(Crash::Kill, |(_, crash)| crash);
        let down = lock(&self.weather_crash).take().unwrap_or(down);
        let crash = match end {
            _ if disk.is_down() => down,
            _ if disk.is_shut_down() => Crash::Remount(Survival::Chance),
            Some(End::Crash(crash) | End::Rot(crash, _)) => crash,
            None => Crash::Kill,
        };
        self.machine.crash(crash);
        self.crashed(crash);
        let panics = self.world.take_panics();
        if !panics.is_empty() {
            let said = crate::runner::take_panic().unwrap_or_default();
            self.broken(Rule::Alive, format!("{} panicked: {said}", panics.join(", ")));
        }
        end
    }

    /// Some processes start on the volume that others have filled.
    fn begin_space(&self, life: u64) {
        let disk = self.machine.disk();
        let lacks =
            self.is_filled.swap(false, Ordering::Relaxed) && self.random("space", life).one_in(2);
        if !lacks {
            let is_calm = self.is_calm(life);
            disk.set_size(if is_calm { LARGE_VOLUME } else { self.options.volume_bytes });
        }
        self.is_filled.store(lacks, Ordering::Relaxed);
        self.lacked_space.store(lacks, Ordering::Relaxed);
    }

    /// The process is over.
    fn crashed(&self, crash: Crash) {
        self.note(format_args!("the process is over: {crash:?}"));
        let loss = match crash {
            Crash::Kill => Loss::Process,
            Crash::PowerCut(_) | Crash::Remount(_) => Loss::PageCache,
        };
        let has_failed = self.has_failed();
        self.oracle(|oracle| {
            if has_failed {
                oracle.disturbed();
            }
            oracle.crashed(loss);
        });
    }

    /// What happens around the process. Never completes.
    pub(crate) async fn weather(&self, plan: &Plan) {
        let disk = self.machine.disk();
        for (after, what) in &plan.weather {
            self.world.sleep(*after).await;
            self.note(format_args!("weather: {what:?}"));
            match *what {
                Weather::Eviction => {
                    self.oracle(|oracle| oracle.evicted());
                    disk.evict();
                }
                Weather::Clock(ahead) => self.machine.set_wall_ahead_ms(ahead),
                Weather::NoSpace(available) => {
                    self.lacked_space.store(true, Ordering::Relaxed);
                    self.is_filled.store(true, Ordering::Relaxed);
                    faults::leave(disk, available);
                }
                Weather::Space => {
                    self.is_filled.store(false, Ordering::Relaxed);
                    disk.set_size(self.options.volume_bytes);
                }
                Weather::Crash(crash) => {
                    *lock(&self.weather_crash) = Some(crash);
                    self.machine.crash(crash);
                }
            }
        }
        std::future::pending().await
    }

    /// Whether the process has died: what it says then was heard by nobody.
    pub(crate) fn is_dead(&self) -> bool {
        self.machine.disk().is_down()
    }

    /// Whether an operation of the disk failed in this life.
    pub(crate) fn has_failed(&self) -> bool {
        self.machine.disk().failures() > self.failures_before.load(Ordering::Relaxed)
    }

    /// Whether others have used up the volume in this life.
    pub(crate) fn lacked_space(&self) -> bool {
        self.lacked_space.load(Ordering::Relaxed)
    }

    /// Whether a fault of this life can be the cause of an error.
    pub(crate) fn explains(&self, kind: ErrorKind) -> bool {
        let is_small = self.options.volume_bytes < LARGE_VOLUME;
        match kind {
            ErrorKind::Exhausted => self.has_failed() || self.lacked_space() || is_small,
            ErrorKind::Unavailable => self.has_failed() || self.lacked_space(),
            _ => self.has_failed(),
        }
    }

    /// An error that a caller got is explained by a fault, or is one itself.
    pub(crate) fn must_be_explained(&self, what: &str, kind: ErrorKind, error: &dyn Error) {
        self.note(format_args!("{what}: {}", full(error)));
        if !self.explains(kind) {
            self.broken(Rule::Alive, format!("{what}: {}", full(error)));
        }
    }

    /// What comes of `future`; None, and a broken promise, if it waits for ever.
    pub(crate) async fn within<T>(&self, what: &str, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut polls = 0;
        let counted = poll_fn(|context| {
            polls += 1;
            if polls > POLLS_MAX {
                return Poll::Ready(None);
            }
            future.as_mut().poll(context).map(Some)
        });
        tokio::select! {
            biased;
            done = counted => {
                if done.is_none() {
                    self.broken(Rule::Alive, format!("goes on and on until {what}"));
                }
                done
            }
            () = self.world.sleep(PATIENCE) => {
                self.broken(Rule::Alive, format!("waits for ever until {what}"));
                None
            }
        }
    }

    pub(crate) async fn within_time<T>(
        &self,
        time: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = self.world.sleep(time) => None,
        }
    }
}

/// An error with what it comes from.
pub(crate) fn full(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is complete, and a panic elsewhere is found by itself.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
