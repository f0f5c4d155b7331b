//! The first layer: one broker's logs, under crashes.
//!
//! What outlives a process stands in the [`Scene`]: the topics as the metadata would have them, the producers with what
//! they have not heard of yet, and the oracle. Each process is a `life`: it recovers, opens its topics, serves producers
//! and readers, and comes to an end, by plan or before.
//!
//! Reading order: this module, `life`, then who acts in one: `owner` (opens, closes, deletes), `producer`, `reader`.

mod life;
mod owner;
mod producer;
mod reader;
mod rot;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use danube_env::sim::{Crash, Generator, Machine, Survival, World};

use tokio::sync::Notify;

use self::owner::Topic;
use self::producer::Producer;
use crate::batches::BatchId;
use crate::faults::{Ending, Plan};
use crate::options::{LARGE_VOLUME, Options};
use crate::oracle::{Loss, Oracle, Rule};
use crate::runner::Outcome;

/// What outlives the processes of one world.
struct Scene {
    world: World,
    machine: Machine,
    options: Options,
    oracle: Mutex<Oracle>,
    topics: Vec<Mutex<Topic>>,
    producers: Vec<Mutex<Producer>>,
    batches: AtomicU64,
    /// Others have filled the volume.
    is_filled: AtomicBool,
    /// A promise is broken: the world ends.
    broken: Notify,
    /// The crash that the weather brought, in this life.
    weather_crash: Mutex<Option<Crash>>,
}

/// Runs the world that the options describe.
pub(crate) async fn run(world: World, options: Options) -> Outcome {
    let scene = Arc::new(Scene::new(world, options));
    scene.machine.disk().set_size(scene.options.volume_bytes);
    let random = scene.world.generator("plans");
    let mut env = scene.machine.env();
    for number in 0..scene.options.lives {
        let plan = Plan::new(&scene.options.faults, &random);
        life::live(&scene, number, env, &plan).await;
        env = scene.machine.restart().await;
        if scene.is_broken() {
            return scene.outcome();
        }
    }
    // The faults end: everything works again, and a clean stop leaves nothing to recover.
    scene.is_filled.store(false, Ordering::Relaxed);
    let power_cut = Some(Crash::PowerCut(Survival::Nothing));
    for ending in [Ending::CleanStop(power_cut), Ending::CleanStop(None)] {
        let plan = Plan { ending, ..Plan::calm() };
        life::live(&scene, scene.options.lives, env, &plan).await;
        env = scene.machine.restart().await;
        if scene.is_broken() {
            return scene.outcome();
        }
    }
    scene.outcome()
}

impl Scene {
    fn new(world: World, options: Options) -> Self {
        let machine = world.machine("broker");
        let topics = (0..options.topics).map(|number| Mutex::new(Topic::new(number))).collect();
        let producers = (0..options.topics as u64 * options.producers)
            .map(|number| Mutex::new(Producer::new(number, number as usize % options.topics)))
            .collect();
        Self {
            world,
            machine,
            options,
            oracle: Mutex::default(),
            topics,
            producers,
            batches: AtomicU64::new(1),
            is_filled: AtomicBool::new(false),
            broken: Notify::new(),
            weather_crash: Mutex::default(),
        }
    }

    /// Tells the oracle of something, or asks it.
    fn oracle<T>(&self, tell: impl FnOnce(&mut Oracle) -> T) -> T {
        let mut oracle = lock(&self.oracle);
        let known = oracle.violations().len();
        let told = tell(&mut oracle);
        for violation in &oracle.violations()[known..] {
            self.note(format_args!("BROKEN {violation}"));
            self.broken.notify_one();
        }
        told
    }

    fn topic(&self, number: usize) -> MutexGuard<'_, Topic> {
        lock(&self.topics[number])
    }

    fn producer(&self, number: usize) -> MutexGuard<'_, Producer> {
        lock(&self.producers[number])
    }

    fn next_batch(&self) -> BatchId {
        BatchId(self.batches.fetch_add(1, Ordering::Relaxed))
    }

    /// Some processes start on the volume that others have filled; whether this one does.
    fn begin_space(&self, life: u64) -> bool {
        let disk = self.machine.disk();
        let lacks =
            self.is_filled.swap(false, Ordering::Relaxed) && self.random("space", life).one_in(2);
        if !lacks {
            let is_calm = life >= self.options.lives;
            disk.set_size(if is_calm { LARGE_VOLUME } else { self.options.volume_bytes });
        }
        self.is_filled.store(lacks, Ordering::Relaxed);
        lacks
    }

    /// Chance for one actor in one life.
    fn random(&self, actor: &str, life: u64) -> Generator {
        self.world.generator(&format!("{actor} {life}"))
    }

    /// Enters an event in the trace.
    fn note(&self, event: fmt::Arguments<'_>) {
        crate::runner::note(&self.world, event);
    }

    /// Enters something that is wrong.
    fn broken(&self, rule: Rule, what: String) {
        self.oracle(|oracle| oracle.broken(rule, what));
    }

    fn is_broken(&self) -> bool {
        !lock(&self.oracle).violations().is_empty()
    }

    /// The process is over.
    fn crashed(&self, crash: Crash) {
        self.note(format_args!("the process is over: {crash:?}"));
        let loss = match crash {
            Crash::Kill => Loss::Process,
            Crash::PowerCut(_) | Crash::Remount(_) => Loss::PageCache,
        };
        self.oracle(|oracle| oracle.crashed(loss));
    }

    fn outcome(&self) -> Outcome {
        let oracle = lock(&self.oracle);
        Outcome { counts: oracle.counts(), violations: oracle.violations().to_vec() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is complete, and a panic elsewhere is found by itself.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
