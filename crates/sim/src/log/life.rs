//! One process: from its start to its end.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use danube_env::Env;
use danube_env::sim::{Crash, Survival};
use danube_env::spawn::Running;
use danube_log::{Error, Log, Report, Store};
use danube_model::ErrorKind;
use tokio::sync::watch;

use super::{Scene, lock, owner, producer, reader, rot};
use crate::faults::{self, Ending, Plan, Rot, Weather};
use crate::oracle::Rule;

/// Nothing takes longer, in simulated time; what does waits for ever.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often something that is waited for may go on; what does so more often goes round in a circle.
const POLLS_MAX: u64 = 100_000;
/// How soon after a failed sync a store says so.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How long a stopped store is still asked for more.
const AFTER_STOP: Duration = Duration::from_millis(50);
/// After so long without work everything is synced, and entered as such.
const QUIET: Duration = Duration::from_secs(3);

/// A process that serves.
pub(super) struct Life {
    pub(super) scene: Arc<Scene>,
    pub(super) number: u64,
    pub(super) store: Store,
    /// The open log of each topic.
    logs: Vec<Mutex<Option<Log>>>,
    over: watch::Sender<bool>,
    failures_before: u64,
    /// Others have used up the volume for a while.
    lacked_space: AtomicBool,
}

/// How a process that nothing has cut short goes on to end.
enum End {
    Crash(Crash),
    Rot(Crash, Rot),
}

/// Starts a process and sees it to its end. The machine is down, or is to be restarted, when it returns.
pub(super) async fn live(scene: &Arc<Scene>, number: u64, env: Env, plan: &Plan) {
    scene.note(format_args!("life {number}: {plan}"));
    let disk = scene.machine.disk();
    let end = tokio::select! {
        biased;
        () = scene.machine.down() => None,
        () = scene.broken.notified() => return,
        end = process(scene, number, env, plan) => Some(end),
    };
    let down = plan.crash_at.map_or(Crash::Kill, |(_, crash)| crash);
    let down = lock(&scene.weather_crash).take().unwrap_or(down);
    let crash = match end {
        _ if disk.is_down() => down,
        _ if disk.is_shut_down() => Crash::Remount(Survival::Chance),
        Some(End::Crash(crash) | End::Rot(crash, _)) => crash,
        None => Crash::Kill,
    };
    scene.machine.crash(crash);
    scene.crashed(crash);
    if let Some(End::Rot(_, rot)) = end {
        rot::rot(scene, number, rot);
    }
    let panics = scene.world.take_panics();
    if !panics.is_empty() {
        let said = crate::runner::take_panic().unwrap_or_default();
        scene.broken(Rule::Alive, format!("{} panicked: {said}", panics.join(", ")));
    }
}

async fn process(scene: &Arc<Scene>, number: u64, env: Env, plan: &Plan) -> End {
    let disk = scene.machine.disk();
    let (failures_before, syncs_before) = (disk.failures(), disk.failed_syncs());
    let lacks_space = scene.begin_space(number);
    plan.arm(disk);
    let killed = End::Crash(Crash::Kill);
    let opening = Store::open(scene.options.config.clone(), env.clone());
    let opened = within(scene, "the store opens", opening).await;
    let (store, report) = match opened {
        Some(Ok(opened)) => opened,
        Some(Err(_)) if disk.is_down() => std::future::pending().await,
        Some(Err(error)) => {
            scene.note(format_args!("the store does not open: {error}"));
            if disk.failures() == failures_before && !lacks_space {
                scene.broken(Rule::Alive, format!("the store does not open: {}", full(&error)));
            }
            return killed;
        }
        None => return killed,
    };
    let life = Arc::new(Life {
        scene: Arc::clone(scene),
        number,
        store,
        logs: scene.topics.iter().map(|_| Mutex::default()).collect(),
        over: watch::Sender::new(false),
        failures_before,
        lacked_space: AtomicBool::new(lacks_space),
    });
    life.check_start(&report, plan);
    let has_failed = tokio::select! {
        biased;
        error = life.store.stopped() => {
            life.stopped(&error).await;
            true
        }
        () = life.weather(plan) => false,
        () = life.work(&env) => disk.failures() > failures_before,
    };
    if disk.failed_syncs() > syncs_before {
        let stopped = async { drop(life.store.stopped().await) };
        if life.within_time(STOP_PATIENCE, stopped).await.is_none() {
            scene.broken(Rule::Stopped, "a sync failed and the store goes on".to_owned());
        }
        return killed;
    }
    life.end(plan, has_failed).await
}

impl Life {
    /// What a store knows when it starts.
    fn check_start(&self, report: &Report, plan: &Plan) {
        let topics = self.store.topics();
        let facts: BTreeMap<_, _> =
            topics.iter().filter_map(|topic| Some((*topic, self.store.facts(*topic)?))).collect();
        self.scene.note(format_args!(
            "the store is open: {} rounds, {} frames, {} healed, {} cut, {} damaged, {} odd, {} logs",
            report.rounds,
            report.frames,
            report.healed.len(),
            report.cut.len(),
            report.damaged.len(),
            report.problems.len(),
            facts.len(),
        ));
        for error in report.cut.iter().chain(&report.damaged).chain(&report.healed) {
            self.scene.note(format_args!("  {error}"));
        }
        self.scene.oracle(|oracle| oracle.started(&facts));
        if plan.is_calm() && self.number > self.scene.options.lives && report.rounds > 0 {
            let what = format!("{} rounds to read after a clean stop", report.rounds);
            self.scene.broken(Rule::Alive, what);
        }
    }

    /// All that a process does if nothing goes wrong.
    async fn work(self: &Arc<Self>, env: &Env) {
        owner::begin(self).await;
        let mut working: Vec<Running> = Vec::new();
        let mut reading = Vec::new();
        for number in 0..self.scene.producers.len() {
            let task = Box::pin(producer::run(Arc::clone(self), number));
            working.push(env.spawn.task(&format!("producer-{number}"), task));
        }
        for topic in 0..self.scene.topics.len() {
            for number in 0..self.scene.options.readers {
                let task = Box::pin(reader::run(Arc::clone(self), topic, number));
                reading.push(env.spawn.task(&format!("reader-{topic}-{number}"), task));
            }
        }
        let task = Box::pin(owner::run(Arc::clone(self)));
        working.push(env.spawn.task("owner", task));
        for task in working {
            // A panic is found in the world's list.
            let _ = task.join().await;
        }
        self.over.send_replace(true);
        for task in reading {
            let _ = task.join().await;
        }
    }

    /// The store has stopped: it is asked for more for a while, and gives nothing.
    async fn stopped(&self, error: &Error) {
        self.scene.note(format_args!("the store stopped: {}", full(error)));
        self.scene.oracle(|oracle| oracle.stopped());
        if self.scene.machine.disk().failures() == self.failures_before {
            self.scene.broken(Rule::Alive, format!("the store stopped: {}", full(error)));
        }
        self.scene.world.sleep(AFTER_STOP).await;
    }

    /// What happens around the process. Never completes.
    async fn weather(&self, plan: &Plan) {
        let (scene, disk) = (&self.scene, self.scene.machine.disk());
        for (after, what) in &plan.weather {
            scene.world.sleep(*after).await;
            scene.note(format_args!("weather: {what:?}"));
            match *what {
                Weather::Eviction => {
                    scene.oracle(|oracle| oracle.evicted());
                    disk.evict();
                }
                Weather::Clock(ahead) => scene.machine.set_wall_ahead_ms(ahead),
                Weather::NoSpace(available) => {
                    self.lacked_space.store(true, Ordering::Relaxed);
                    scene.is_filled.store(true, Ordering::Relaxed);
                    faults::leave(disk, available);
                }
                Weather::Space => {
                    scene.is_filled.store(false, Ordering::Relaxed);
                    disk.set_size(scene.options.volume_bytes);
                }
                Weather::Crash(crash) => {
                    *lock(&scene.weather_crash) = Some(crash);
                    scene.machine.crash(crash);
                }
            }
        }
        std::future::pending().await
    }

    async fn end(&self, plan: &Plan, has_failed: bool) -> End {
        let scene = &self.scene;
        match plan.ending {
            // On a full disk the last round may be synced and not entered as such.
            Ending::Rot(crash, rot)
                if !has_failed && !self.lacked_space.load(Ordering::Relaxed) =>
            {
                scene.world.sleep(QUIET).await;
                End::Rot(crash, rot)
            }
            Ending::Crash(crash) | Ending::Rot(crash, _) => End::Crash(crash),
            Ending::CleanStop(crash) => {
                let crash = crash.unwrap_or(Crash::Kill);
                match self.within("the store closes", self.store.close()).await {
                    Some(Ok(())) => {
                        scene.note(format_args!("the store is closed"));
                        scene.oracle(|oracle| oracle.closed_cleanly());
                    }
                    Some(Err(error)) => self.must_be_explained("the store does not close", &error),
                    None => {}
                }
                End::Crash(crash)
            }
        }
    }

    /// The topic's log, while it is open.
    pub(super) fn log(&self, topic: usize) -> Option<Log> {
        lock(&self.logs[topic]).clone()
    }

    pub(super) fn set_log(&self, topic: usize, log: Option<Log>) {
        *lock(&self.logs[topic]) = log;
    }

    /// Whether those who read are to end.
    pub(super) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Completes when those who read are to end. Cancel safe.
    pub(super) async fn over(&self) {
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Whether the process has died: what it says then was heard by nobody.
    pub(super) fn is_dead(&self) -> bool {
        self.scene.machine.disk().is_down()
    }

    /// An error that a caller got is explained by a fault, or is one itself.
    pub(super) fn must_be_explained(&self, what: &str, error: &Error) {
        self.scene.note(format_args!("{what}: {}", full(error)));
        if !self.explains(error) {
            self.scene.broken(Rule::Alive, format!("{what}: {}", full(error)));
        }
    }

    /// Whether a fault of this life can be the cause of an error.
    pub(super) fn explains(&self, error: &Error) -> bool {
        let has_failed = self.scene.machine.disk().failures() > self.failures_before;
        let lacked_space = self.lacked_space.load(Ordering::Relaxed);
        let is_small = self.scene.options.volume_bytes < crate::options::LARGE_VOLUME;
        match error.kind() {
            ErrorKind::Exhausted => has_failed || lacked_space || is_small,
            ErrorKind::Unavailable => has_failed || lacked_space,
            _ => has_failed,
        }
    }

    /// What comes of `future`; None, and a broken promise, if it waits for ever.
    pub(super) async fn within<T>(&self, what: &str, future: impl Future<Output = T>) -> Option<T> {
        within(&self.scene, what, future).await
    }

    async fn within_time<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = self.scene.world.sleep(time) => None,
        }
    }
}

async fn within<T>(scene: &Scene, what: &str, future: impl Future<Output = T>) -> Option<T> {
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
                scene.broken(Rule::Alive, format!("goes on and on until {what}"));
            }
            done
        }
        () = scene.world.sleep(PATIENCE) => {
            scene.broken(Rule::Alive, format!("waits for ever until {what}"));
            None
        }
    }
}

/// An error with what it comes from.
pub(super) fn full(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
