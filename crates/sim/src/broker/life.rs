//! One process: a broker from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use danube_broker::{
    AlarmConfig, Broker, Config, Error, Read, RetentionConfig, Start, SubscriptionConfig, Topic,
};
use danube_env::Env;
use danube_env::sim::Crash;
use danube_model::{Durability, Offset, TopicId, TopicName};

use super::{Scene, admin, producer};
use crate::faults::{Ending, Plan};
use crate::oracle::Rule;
use crate::stage::{End, Stage, full};

/// Where the logs of topics are.
pub(super) const TOPICS: &str = "/data/wal/topics";
/// How soon after a failed sync a broker says so.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How long one half of a broker may go on after the other has failed.
const TOLD: Duration = Duration::from_millis(1);
/// How long a stopped broker is still asked for more.
const AFTER_STOP: Duration = Duration::from_millis(50);

/// A process that serves.
pub(super) struct Life {
    pub(super) scene: Arc<Scene>,
    pub(super) number: u64,
    pub(super) broker: Broker,
}

/// Starts a process and sees it to its end. The machine is down, or is to be restarted, when it returns.
pub(super) async fn live(scene: &Arc<Scene>, number: u64, env: Env, plan: &Plan) {
    scene.stage.live(number, plan, Box::pin(process(scene, number, env, plan))).await;
}

fn config(stage: &Stage) -> Config {
    Config {
        cluster_name: "sim".to_owned(),
        meta_dir: "/data/raft".into(),
        log: danube_log::Config { root: "/data/wal".into(), ..stage.options.config.clone() },
        namespaces: Vec::new(),
        address: "http://broker:6650".to_owned(),
        auto_create_topics: false,
        durability: Durability::Disk,
        producers_per_topic_max: 0,
        publish_rate_max: 0,
        message_bytes_max: 0,
        retention: retention(stage),
        subscriptions: SubscriptionConfig::default(),
        alarms: AlarmConfig::default(),
    }
}

fn retention(stage: &Stage) -> RetentionConfig {
    let bytes = (stage.options.trims > 0).then_some(4 << 10);
    RetentionConfig {
        bytes,
        check_interval: Duration::from_millis(40),
        ..RetentionConfig::default()
    }
}

async fn process(scene: &Arc<Scene>, number: u64, env: Env, plan: &Plan) -> End {
    let stage = &scene.stage;
    let disk = stage.machine.disk();
    let syncs_before = disk.failed_syncs();
    let killed = End::Crash(Crash::Kill);
    let opening = Box::pin(Broker::open(config(stage), env.clone()));
    let broker = match stage.within("the broker opens", opening).await {
        Some(Ok((broker, _))) => broker,
        Some(Err(_)) if disk.is_down() => std::future::pending().await,
        Some(Err(error)) => {
            stage.note(format_args!("the broker does not open: {}", full(&error)));
            if !stage.has_failed() && !stage.lacked_space() {
                stage.broken(Rule::Alive, format!("the broker does not open: {}", full(&error)));
            }
            return killed;
        }
        None => return killed,
    };
    stage.note(format_args!("the broker is open"));
    let life = Arc::new(Life { scene: Arc::clone(scene), number, broker });
    stage.oracle(|oracle| oracle.recovered());
    admin::check(&life);
    tokio::select! {
        biased;
        error = life.broker.failed() => life.failed(&error).await,
        () = stage.weather(plan) => {}
        () = life.work(&env) => {}
    }
    if disk.failed_syncs() > syncs_before {
        let failed = async { drop(life.broker.failed().await) };
        if stage.within_time(STOP_PATIENCE, failed).await.is_none() {
            stage.broken(Rule::Stopped, "a sync failed and the broker goes on".to_owned());
        }
        return killed;
    }
    life.end(plan).await
}

impl Life {
    /// All that a process does if nothing goes wrong.
    async fn work(self: &Arc<Self>, env: &Env) {
        self.read_all().await;
        let mut working = Vec::new();
        for number in 0..self.scene.producers.len() {
            let task = Box::pin(producer::run(Arc::clone(self), number));
            working.push(env.spawn.task(&format!("producer-{number}"), task));
        }
        working.push(env.spawn.task("admin", Box::pin(admin::run(Arc::clone(self)))));
        for task in working {
            // A panic is found in the world's list.
            let _ = task.join().await;
        }
        self.read_all().await;
    }

    /// The broker has failed: it is asked for more for a while, and gives nothing.
    async fn failed(&self, error: &Error) {
        let stage = self.stage();
        stage.note(format_args!("the broker failed: {}", full(error)));
        stage.world.sleep(TOLD + 50 * stage.options.latency_max).await;
        stage.oracle(|oracle| oracle.stopped());
        if !stage.has_failed() && !stage.lacked_space() {
            stage.broken(Rule::Alive, format!("the broker failed: {}", full(error)));
        }
        stage.world.sleep(AFTER_STOP).await;
    }

    async fn end(&self, plan: &Plan) -> End {
        let stage = self.stage();
        let crash = match plan.ending {
            Ending::Crash(crash) | Ending::Rot(crash, _) => return End::Crash(crash),
            Ending::CleanStop(crash) => crash.unwrap_or(Crash::Kill),
        };
        match stage.within("the broker closes", self.broker.close()).await {
            Some(Ok(())) => {
                stage.note(format_args!("the broker is closed"));
                stage.oracle(|oracle| oracle.closed_cleanly());
            }
            Some(Err(Error::Log(danube_log::Error::Unfinished { .. })))
                if !stage.options.latency_max.is_zero() =>
            {
                stage.note(format_args!("the broker is not closed in time"));
            }
            Some(Err(error)) => self.must_be_explained("the broker does not close", &error),
            None => {}
        }
        End::Crash(crash)
    }

    /// Reads all of every topic.
    async fn read_all(&self) {
        let count = self.scene.names().all.len();
        for number in 0..count {
            for partition in 0.. {
                let known = self.scene.names().all[number].ids().len();
                if partition >= known {
                    break;
                }
                let target = self.scene.names().target(number, partition);
                let Some((name, id)) = target else { break };
                let Some(topic) = self.topic(number, &name, id) else { continue };
                if self.read(number, &topic).await.is_none() {
                    return;
                }
            }
        }
    }

    /// The handle of a topic. None: it is being changed, or the broker is stopping.
    pub(super) fn topic(&self, number: usize, name: &TopicName, id: TopicId) -> Option<Topic> {
        let found = match self.broker.topic(name) {
            Ok(topic) if topic.id() == id => return Some(topic),
            Err(Error::Stopping) => return None,
            found => found.map(|topic| topic.id()),
        };
        // What nobody knows of yet may be done already.
        if self.scene.names().is_settled(number, id) && !self.is_dead() {
            self.stage().broken(Rule::Durable, format!("{name} is {found:?}, not {id}"));
        }
        None
    }

    /// Reads all of a topic. None: the end.
    async fn read(&self, number: usize, topic: &Topic) -> Option<()> {
        let (stage, id) = (self.stage(), topic.id());
        let failed = |error: &Error| {
            if self.scene.names().is_settled(number, id) {
                self.must_be_explained("a topic can't be read", error);
            }
            Some(())
        };
        let opened = stage.within("a reader opens", topic.read(Start::Earliest)).await?;
        let mut reader = match opened {
            _ if self.is_dead() => return None,
            Ok(reader) => reader,
            Err(error) => return failed(&error),
        };
        let offset = reader.offset();
        let mut reading =
            stage.oracle(|oracle| oracle.reading(id, Start::Earliest, offset, Offset::ZERO));
        loop {
            stage.oracle(|oracle| oracle.asking(&mut reading));
            let read = match stage.within("something is read", reader.next()).await? {
                _ if self.is_dead() => return None,
                Ok(read) => read,
                Err(error) => return failed(&error.into()),
            };
            stage.oracle(|oracle| oracle.read(&mut reading, &read));
            if let Read::CaughtUp(end) = read {
                stage.note(format_args!("{} read up to {end}", topic.name()));
                return Some(());
            }
        }
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
        if !self.is_dead() {
            self.stage().must_be_explained(what, error.kind(), error);
        }
    }
}
