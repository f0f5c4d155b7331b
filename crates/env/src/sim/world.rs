//! A world of machines that follows from a seed.

use std::future::Future;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock::{SimClock, now, sleep};
use super::disk::{Crash, SimDisk};
use super::generator::Generator;
use super::process::SimProcess;
use super::schedule::Schedule;
use super::spawn::{SimSpawn, Tasks, lock};
use super::trace::Trace;
use crate::Env;
use crate::process::Usage;

/// Simulated time after which [`run`] gives up: nothing that is tested takes so long, so that the test waits for what
/// will not come.
const PATIENCE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The world of one test. Clones are the same world.
#[derive(Clone)]
pub struct World {
    seed: u64,
    start: Instant,
    trace: Trace,
    schedule: Schedule,
    panics: Arc<Mutex<Vec<String>>>,
}

/// A machine: a disk, clocks, and one process at a time. Clones are the same machine.
#[derive(Clone)]
pub struct Machine {
    name: String,
    world: World,
    disk: SimDisk,
    process: Arc<Mutex<Process>>,
    /// What its wall clock is ahead, in milliseconds.
    ahead_ms: Arc<AtomicI64>,
    latency_max_us: Arc<AtomicU64>,
    usage: SimProcess,
    generator: Generator,
    crashed: Arc<Notify>,
}

/// What ends with a process, or with the boot that it runs under.
struct Process {
    tasks: Tasks,
    clock: SimClock,
    boot_id: [u8; 16],
}

/// Runs a test in the world of `seed`: on one thread, with a clock that jumps to the next timer whenever nothing is
/// left to do. The same seed gives the same run, as long as the test has no other source of chance: no hash map that
/// is iterated, no `select!` that is not `biased`, no thread of its own, no task but by [`Spawn`](crate::Spawn).
///
/// # Panics
///
/// If a task panicked whose panic was not taken out with [`World::take_panics`]; if the test waits for ever.
pub fn run<T, F>(seed: u64, test: impl FnOnce(World) -> F) -> T
where
    F: Future<Output = T>,
{
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without sockets needs nothing of the system");
    runtime.block_on(async {
        let world = World::new(seed);
        let _cleared = Cleared(world.schedule.clone());
        Handle::current().spawn(world.schedule.clone().run());
        let result = tokio::select! {
            biased;
            result = test(world.clone()) => result,
            () = world.sleep(PATIENCE) => panic!("seed {seed}: the test waits for ever"),
        };
        let panics = world.take_panics();
        assert!(panics.is_empty(), "seed {seed}: these tasks panicked: {panics:?}");
        result
    })
}

/// Drops the tasks of a world at its end, however it comes.
struct Cleared(Schedule);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Runs a test twice in the world of `seed` and returns what it returned.
///
/// # Panics
///
/// If the two runs differ: names the first event that does. As [`run`] otherwise.
pub fn run_twice<T, F>(seed: u64, test: impl Fn(World) -> F) -> T
where
    F: Future<Output = T>,
{
    let traced = || {
        let mut trace = Trace::default();
        let result = run(seed, |world| {
            trace = world.trace().clone();
            trace.keep_lines();
            test(world)
        });
        (result, trace)
    };
    let (_, first) = traced();
    let (result, second) = traced();
    if first.hash() != second.hash() {
        let (first, second) = (first.lines(), second.lines());
        let differs = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
        panic!(
            "seed {seed}: the runs differ at event {differs}: {:?}, then {:?}",
            first.get(differs),
            second.get(differs),
        );
    }
    result
}

impl World {
    fn new(seed: u64) -> Self {
        let schedule = Schedule::new(Generator::derive(seed, "schedule"));
        Self { seed, start: now(), trace: Trace::default(), schedule, panics: Arc::default() }
    }

    /// What it follows from.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What happened so far.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Chance for a test's own decisions: a sequence for each `purpose`.
    #[must_use]
    pub fn generator(&self, purpose: &str) -> Generator {
        Generator::derive(self.seed, &format!("test {purpose}"))
    }

    /// A new machine, running, with an empty disk. Its chances follow from the world's seed and its name.
    #[must_use]
    pub fn machine(&self, name: &str) -> Machine {
        let seed = Generator::derive(self.seed, name).next();
        let disk = SimDisk::with_trace(seed, self.trace.clone());
        let ahead_ms = Arc::<AtomicI64>::default();
        let process = Process {
            tasks: Tasks::new(self.schedule.clone()),
            clock: SimClock::new(self.start, Arc::clone(&ahead_ms)),
            boot_id: disk.boot_id(),
        };
        let machine = Machine {
            name: name.to_owned(),
            world: self.clone(),
            disk,
            process: Arc::new(Mutex::new(process)),
            ahead_ms,
            latency_max_us: Arc::default(),
            usage: SimProcess::default(),
            generator: Generator::derive(seed, "spawn"),
            crashed: Arc::default(),
        };
        let (process, crashed) = (Arc::clone(&machine.process), Arc::clone(&machine.crashed));
        machine.disk.on_crash(Arc::new(move || {
            lock(&process).tasks.kill();
            crashed.notify_waiters();
        }));
        machine
    }

    /// The names of tasks that panicked, which are then forgotten.
    #[must_use]
    pub fn take_panics(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.panics))
    }

    /// Runs a task that belongs to no machine.
    pub(super) fn beside(&self, task: crate::spawn::Task) {
        self.schedule.add(task);
    }

    /// Completes after simulated time. Cancel safe.
    pub async fn sleep(&self, duration: Duration) {
        sleep(duration).await;
    }

    /// Simulated time since the world began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        now() - self.start
    }
}

impl Machine {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The world for the process that runs now on this machine.
    #[must_use]
    pub fn env(&self) -> Env {
        let process = lock(&self.process);
        Env {
            disk: self.disk.mount(),
            clock: Arc::new(process.clock.clone()),
            random: Arc::new(Generator::new(self.generator.next())),
            spawn: Arc::new(SimSpawn {
                tasks: process.tasks.clone(),
                generator: self.generator.clone(),
                trace: self.world.trace.clone(),
                latency_max_us: Arc::clone(&self.latency_max_us),
                panics: Arc::clone(&self.world.panics),
            }),
            process: Arc::new(self.usage.clone()),
        }
    }

    /// What its process is to use from now on; at first nothing.
    pub fn set_usage(&self, usage: Usage) {
        self.usage.set(usage);
    }

    /// Its disk.
    #[must_use]
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// The machine crashes now, unless it is down already: the tasks of its process end, each when it would take its
    /// next step, and its disk fails for them. Who joins them gets an error.
    pub fn crash(&self, crash: Crash) {
        self.disk.crash(crash);
    }

    /// Completes when the machine is down, by [`Machine::crash`] or by [`SimDisk::crash_at`]. Cancel safe.
    pub async fn down(&self) {
        let crashed = self.crashed.notified();
        if !self.disk.is_down() {
            crashed.await;
        }
    }

    /// Starts the next process, on a machine that crashed, or else by killing the one that runs. Its tasks are gone when
    /// this completes. After a power cut the monotonic clock begins anew.
    pub async fn restart(&self) -> Env {
        self.crash(Crash::Kill);
        let tasks = lock(&self.process).tasks.clone();
        while !tasks.are_gone() {
            // The runtime drops them, each at its turn.
            tokio::task::yield_now().await;
        }
        self.disk.restart();
        let mut process = lock(&self.process);
        process.tasks = Tasks::new(self.world.schedule.clone());
        let boot_id = self.disk.boot_id();
        if process.boot_id != boot_id {
            process.boot_id = boot_id;
            process.clock = SimClock::new(self.world.start, Arc::clone(&self.ahead_ms));
        }
        drop(process);
        self.world.trace.note(format_args!("restart {}", self.name));
        self.env()
    }

    /// Sets how long [`Spawn::interleave`](crate::Spawn::interleave) sleeps at most, by chance: calls of the disk take no
    /// simulated time by themselves, and with this a machine is slow between them. At first it is zero.
    pub fn set_latency_max(&self, latency: Duration) {
        self.latency_max_us.store(latency.as_micros() as u64, Ordering::Relaxed);
    }

    /// Sets how far the machine's wall clock is ahead of the world's, in milliseconds; negative: behind.
    pub fn set_wall_ahead_ms(&self, ahead: i64) {
        self.ahead_ms.store(ahead, Ordering::Relaxed);
    }
}
