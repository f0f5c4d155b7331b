//! One process: from its start to its end.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use danube_env::Env;
use danube_env::sim::Crash;
use danube_env::spawn::Running;
use danube_log::{Error, Log, Report, Store};
use tokio::sync::watch;

use super::{Scene, owner, producer, reader, rot, trimmer};
use crate::faults::{Ending, Plan};
use crate::oracle::Rule;
use crate::stage::{End, Stage, full, lock};

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
}

/// Starts a process and sees it to its end. The machine is down, or is to be restarted, when it returns.
pub(super) async fn live(scene: &Arc<Scene>, number: u64, env: Env, plan: &Plan) {
    let end = scene.stage.live(number, plan, Box::pin(process(scene, number, env, plan))).await;
    if let Some(End::Rot(_, rot)) = end {
        rot::rot(scene, number, rot);
    }
}

async fn process(scene: &Arc<Scene>, number: u64, env: Env, plan: &Plan) -> End {
    let stage = &scene.stage;
    let disk = stage.machine.disk();
    let syncs_before = disk.failed_syncs();
    let killed = End::Crash(Crash::Kill);
    let opening = Store::open(stage.options.config.clone(), env.clone());
    let opened = stage.within("the store opens", opening).await;
    let (store, report) = match opened {
        Some(Ok(opened)) => opened,
        Some(Err(_)) if disk.is_down() => std::future::pending().await,
        Some(Err(error)) => {
            stage.note(format_args!("the store does not open: {}", full(&error)));
            if !stage.has_failed() && !stage.lacked_space() {
                stage.broken(Rule::Alive, format!("the store does not open: {}", full(&error)));
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
    });
    life.check_start(&report, plan);
    let has_failed = tokio::select! {
        biased;
        error = life.store.stopped() => {
            life.stopped(&error).await;
            true
        }
        () = stage.weather(plan) => false,
        () = life.work(&env) => stage.has_failed(),
    };
    if disk.failed_syncs() > syncs_before {
        let stopped = async { drop(life.store.stopped().await) };
        if stage.within_time(STOP_PATIENCE, stopped).await.is_none() {
            stage.broken(Rule::Stopped, "a sync failed and the store goes on".to_owned());
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
        self.scene.stage.note(format_args!(
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
            self.scene.stage.note(format_args!("  {error}"));
        }
        self.scene.stage.oracle(|oracle| oracle.started(&facts));
        if plan.is_calm() && self.number > self.scene.stage.options.lives && report.rounds > 0 {
            let what = format!("{} rounds to read after a clean stop", report.rounds);
            self.scene.stage.broken(Rule::Alive, what);
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
            for number in 0..self.scene.stage.options.readers {
                let task = Box::pin(reader::run(Arc::clone(self), topic, number));
                reading.push(env.spawn.task(&format!("reader-{topic}-{number}"), task));
            }
        }
        let task = Box::pin(owner::run(Arc::clone(self)));
        working.push(env.spawn.task("owner", task));
        if self.scene.stage.options.trims > 0 {
            working.push(env.spawn.task("trimmer", Box::pin(trimmer::run(Arc::clone(self)))));
        }
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
        self.scene.stage.note(format_args!("the store stopped: {}", full(error)));
        self.scene.stage.oracle(|oracle| oracle.stopped());
        if !self.stage().has_failed() {
            self.scene.stage.broken(Rule::Alive, format!("the store stopped: {}", full(error)));
        }
        self.scene.stage.world.sleep(AFTER_STOP).await;
    }

    async fn end(&self, plan: &Plan, has_failed: bool) -> End {
        let scene = self.stage();
        match plan.ending {
            // On a full disk the last round may be synced and not entered as such.
            Ending::Rot(crash, rot) if !has_failed && !self.stage().lacked_space() => {
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
                    Some(Err(Error::Unfinished { .. })) if !scene.options.latency_max.is_zero() => {
                        scene.note(format_args!("the store is not closed in time"));
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

    pub(super) fn stage(&self) -> &Stage {
        &self.scene.stage
    }

    /// Whether the process has died: what it says then was heard by nobody.
    pub(super) fn is_dead(&self) -> bool {
        self.stage().is_dead()
    }

    /// An error that a caller got is explained by a fault, or is one itself.
    pub(super) fn must_be_explained(&self, what: &str, error: &Error) {
        self.stage().must_be_explained(what, error.kind(), error);
    }

    /// What comes of `future`; None, and a broken promise, if it waits for ever.
    pub(super) async fn within<T>(&self, what: &str, future: impl Future<Output = T>) -> Option<T> {
        self.stage().within(what, future).await
    }
}
