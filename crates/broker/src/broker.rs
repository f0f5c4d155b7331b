//! The node: its hot tier, its metadata, and the topics that are open on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use danube_env::disk::Lock;
use danube_env::disk::names::create_dir_durably;
use danube_env::spawn::Running;
use danube_env::{Env, blocking};
use danube_log::{Expected, Report, RolledBack, Store};
use danube_meta::Meta;
use danube_meta::command::{CreateNamespace, ForgetDeleted, FormCluster, StartSession};
use danube_meta::state::ClusterId;
use danube_model::{BrokerId, Durability, Namespace, TimeMs, TopicId, TopicName};
use tokio::sync::{RwLock, oneshot, watch};

use crate::alarm::{self, AlarmConfig, Alarms, Troubles};
use crate::error::{Error, Result};
use crate::metrics::Counters;
use crate::retention::{self, AgeClock, RetentionConfig};
use crate::slot::Slot;
use crate::subscription::{self, SubscriptionConfig, Subscriptions};
use crate::throttle::Throttle;
use crate::topic::Topic;

/// Topics that are entered as gone in one command.
const FORGOTTEN_AT_ONCE: usize = 1_000;
/// Namespaces that every cluster has.
const NAMESPACES: [&str; 2] = ["default", "system"];

/// Settings of a broker.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the cluster that is formed on an empty disk.
    pub cluster_name: String,
    /// The URL at which clients reach this broker, for dead letters to say; empty if that is not known.
    pub address: String,
    /// Directory of the metadata (`raft`).
    pub meta_dir: PathBuf,
    /// The hot tier.
    pub log: danube_log::Config,
    /// Namespaces that are made at the start, besides `default` and `system`.
    pub namespaces: Vec<Namespace>,
    /// Whether producers create missing topics.
    pub auto_create_topics: bool,
    /// Level of new topics.
    pub durability: Durability,
    /// Producers that a topic takes at once; 0 = no limit.
    pub producers_per_topic_max: u64,
    /// Messages that a topic takes a second; 0 = no limit.
    pub publish_rate_max: u64,
    /// The largest message of topics without a limit of their own, in bytes; 0 = no limit but that of batches.
    pub message_bytes_max: u64,
    /// What is kept.
    pub retention: RetentionConfig,
    /// What holds for all subscriptions.
    pub subscriptions: SubscriptionConfig,
    /// When alarms are raised.
    pub alarms: AlarmConfig,
}

/// A node. Cheap to clone; it runs until [`Broker::close`].
#[derive(Clone)]
pub struct Broker {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) env: Env,
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) meta: Meta,
    slots: Mutex<BTreeMap<TopicId, Arc<Slot>>>,
    /// Turns true once.
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) counters: Counters,
    pub(crate) alarms: Alarms,
    pub(crate) troubles: Troubles,
    /// Tasks that end by themselves when the broker stops.
    tasks: Mutex<Vec<Running>>,
    /// Held for reading by what must end before a stop.
    at_work: Arc<RwLock<()>>,
    _lock: Box<dyn Lock>,
}

impl Broker {
    /// Opens the node on its directories, recovering what the last stop left, and forms the cluster on an empty disk.
    ///
    /// # Errors
    ///
    /// What [`Store::check`] and [`Meta::check`] refuse, and [`Error::MetadataMissing`]; nothing on the disk is changed by a
    /// refusal over versions or damage.
    pub async fn open(config: Config, env: Env) -> Result<(Self, Report)> {
        check_level(config.durability)?;
        let lock = take_lock(&config, &env).await?;
        // Both are checked before either is changed: what refuses the one must find the other as it was.
        let meta = danube_meta::Config::new(&config.meta_dir);
        let meta = Meta::check(meta, env.clone()).await?;
        // The offsets of new topics with the same names would begin at 0 again.
        if meta.is_new() && danube_log::holds_logs(&config.log.root, &env).await? {
            let (meta, logs) = (config.meta_dir, config.log.root);
            return Err(Error::MetadataMissing { meta, logs });
        }
        let store = Store::check(config.log.clone(), env.clone()).await?;
        let meta = meta.open().await?;
        let (store, report) = match store.open(expected(&meta)).await {
            Ok(opened) => opened,
            Err(error) => {
                meta.close().await;
                return Err(error.into());
            }
        };
        let (wall_ms, now) = (env.clock.wall_ms(), env.clock.monotonic());
        let age = AgeClock::start(wall_ms, now, report.newest);
        let inner = Inner {
            config,
            store,
            meta,
            slots: Mutex::new(BTreeMap::new()),
            stopping: watch::Sender::new(false),
            subscriptions: Subscriptions::default(),
            counters: Counters::default(),
            // A wall clock that is not believed counts as one that has jumped.
            alarms: Alarms::new(age.began_ms(), now),
            troubles: Troubles::default(),
            tasks: Mutex::default(),
            at_work: Arc::default(),
            env,
            _lock: lock,
        };
        let broker = Self { inner: Arc::new(inner) };
        broker.guard();
        // The next start does not find it again.
        broker.report_rolled_back(&report);
        broker.start_session().await?;
        broker.finish_deletions().await?;
        broker.report_strange_logs();
        broker.look_for_troubles();
        broker.beside("save-cursors", subscription::save_cursors(broker.clone()));
        broker.beside("retention", retention::run(broker.clone(), age));
        broker.beside("alarms", alarm::run(broker.clone()));
        Ok((broker, report))
    }

    /// The metadata are on the same disk as the hot tier: when that failed for the one, the other acknowledges nothing more
    /// either (promise P7).
    fn guard(&self) {
        let Inner { meta, store, stopping, .. } = &*self.inner;
        let (meta, store, mut stopping) = (meta.clone(), store.clone(), stopping.subscribe());
        let guard = async move {
            let failure = tokio::select! {
                // After a stop there is nothing left to guard.
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => None,
                error = meta.failed() => Some(error),
            };
            if let Some(error) = failure {
                store.fail(&format!("the metadata failed: {error}")).await;
            }
        };
        self.beside("metadata-guard", guard);
    }

    /// Runs a task that ends by itself when the broker stops.
    fn beside(&self, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        let running = self.inner.env.spawn.task(name, Box::pin(task));
        self.inner.tasks.lock().expect("nothing panics while it holds the tasks").push(running);
    }

    async fn start_session(&self) -> Result<()> {
        let Inner { env, config, store, meta, .. } = &*self.inner;
        let at = self.now();
        if meta.read(|state| state.cluster().is_none()) {
            let cluster = ClusterId::new(env.random.next_id());
            meta.propose(FormCluster { cluster, name: config.cluster_name.clone(), at }).await?;
        }
        let wanted = NAMESPACES.iter().map(|name| name.parse::<Namespace>());
        let wanted = wanted.chain(config.namespaces.iter().cloned().map(Ok));
        for namespace in wanted {
            let namespace = namespace?;
            if !meta.read(|state| state.has_namespace(&namespace)) {
                meta.propose(CreateNamespace { namespace, at }).await?;
            }
        }
        meta.propose(StartSession { broker: meta.broker(), disk: store.disk_id(), at }).await?;
        Ok(())
    }

    /// Removes what is left of topics whose deletion a stop interrupted.
    async fn finish_deletions(&self) -> Result<()> {
        let topics: Vec<_> =
            self.inner.meta.read(|state| state.deleted().map(|deleted| deleted.id).collect());
        self.remove_logs(topics).await
    }

    pub(crate) async fn remove_logs(&self, topics: Vec<TopicId>) -> Result<()> {
        if topics.is_empty() {
            return Ok(());
        }
        for topic in &topics {
            let slot = self.slots().remove(topic);
            if let Some(slot) = slot {
                slot.delete().await;
            }
            self.inner.troubles.forget(*topic);
        }
        self.inner.subscriptions.forget_topics(&topics);
        self.inner.store.delete(&topics).await?;
        for topics in topics.chunks(FORGOTTEN_AT_ONCE) {
            self.inner.meta.propose(ForgetDeleted { topics: topics.to_vec() }).await?;
        }
        Ok(())
    }

    /// Does something to its end, whether or not its caller still waits, and before the broker closes.
    pub(crate) async fn to_the_end<T: Send + 'static>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (done, answer) = oneshot::channel();
        let at_work = Arc::clone(&self.inner.at_work).read_owned().await;
        self.check_running()?;
        // Owned by `at_work`, which a stop waits for.
        drop(self.inner.env.spawn.task(
            name,
            Box::pin(async move {
                // Whoever asked may be gone.
                let _ = done.send(work.await);
                drop(at_work);
            }),
        ));
        answer.await.unwrap_or(Err(Error::Stopping))
    }

    /// Logs that no topic has: set aside by being left alone, and said aloud.
    fn report_strange_logs(&self) {
        let logs = self.inner.store.topics();
        let strange = self.inner.meta.read(|state| {
            let unknown = |topic: &TopicId| state.topic_by_id(topic).is_none();
            logs.into_iter().filter(unknown).collect::<Vec<_>>()
        });
        for topic in strange {
            tracing::error!(%topic, "the disk has a log that the metadata do not know; it is left as it is");
        }
    }

    /// Logs that are older than what the metadata say of them, or metadata that are older than the logs.
    fn report_rolled_back(&self, report: &Report) {
        if report.metadata_are_older {
            tracing::warn!(
                meta_dir = %self.inner.config.meta_dir.display(),
                "the metadata are older than the hot tier, as a copy is: topics, settings and cursors are as they were then"
            );
        }
        for rolled_back in &report.rolled_back {
            let RolledBack { topic, epoch, expected, end } = *rolled_back;
            self.inner.meta.read(|state| {
                let Some(topic) = state.topic_by_id(&topic) else { return };
                tracing::error!(
                    topic = %topic.name,
                    %epoch,
                    expected_epoch = %expected,
                    %end,
                    ceiling = %topic.ceiling,
                    "the hot tier is older than the metadata, as a copy is: messages behind the end of this topic may be lost, and it goes on at its ceiling"
                );
            });
        }
    }

    /// This broker's identity in the cluster.
    pub fn id(&self) -> BrokerId {
        self.inner.meta.broker()
    }

    /// The topic of this name, whether or not its log is open yet.
    ///
    /// # Errors
    ///
    /// [`Error::TopicNotFound`]; [`Error::Partitioned`] for the name of a topic with partitions.
    pub fn topic(&self, name: &TopicName) -> Result<Topic> {
        self.check_running()?;
        let (topic, partitions) = self.inner.meta.read(|state| {
            let partitions = state.partitioned(name).map(|_| state.partitions(name).count() as u32);
            (state.topic(name).cloned(), partitions)
        });
        match (topic, partitions) {
            (Some(topic), _) => {
                let new = || Arc::new(Slot::new(topic.id, topic.name.clone(), self.throttle()));
                let slot = Arc::clone(self.slots().entry(topic.id).or_insert_with(new));
                Ok(Topic::new(self.clone(), slot))
            }
            (None, Some(partitions)) => Err(Error::Partitioned { topic: name.clone(), partitions }),
            (None, None) => Err(Error::TopicNotFound { topic: name.clone() }),
        }
    }

    fn throttle(&self) -> Throttle {
        let Inner { config, env, .. } = &*self.inner;
        Throttle::new(config.publish_rate_max, env.clock.monotonic())
    }

    /// Completes with the reason once a disk has failed and nothing is acknowledged any more; the process is to end then
    /// (promise P7). Never completes otherwise. Cancel safe.
    pub async fn failed(&self) -> Error {
        tokio::select! {
            biased;
            error = self.inner.meta.failed() => error.into(),
            error = self.inner.store.stopped() => error.into(),
        }
    }

    /// A clean stop: refuses what comes, finishes what was submitted, closes all logs, and saves everything.
    pub async fn close(&self) -> Result<()> {
        self.inner.stopping.send_replace(true);
        drop(self.inner.at_work.write().await);
        let tasks = std::mem::take(
            &mut *self.inner.tasks.lock().expect("nothing panics while it holds the tasks"),
        );
        for task in tasks {
            if let Err(panicked) = task.join().await {
                tracing::error!(%panicked, "a task ended before the broker did");
            }
        }
        subscription::stop(self).await;
        let stored = self.inner.store.close().await;
        self.inner.meta.close().await;
        Ok(stored?)
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        if *self.inner.stopping.borrow() { Err(Error::Stopping) } else { Ok(()) }
    }

    pub(crate) fn now(&self) -> TimeMs {
        TimeMs::new(self.inner.env.clock.wall_ms())
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, BTreeMap<TopicId, Arc<Slot>>> {
        self.inner.slots.lock().expect("nothing panics while it holds the slots")
    }
}

/// What the metadata say of the hot tier.
fn expected(meta: &Meta) -> Expected {
    meta.read(|state| {
        let broker = state.brokers().find(|(id, _)| *id == meta.broker());
        let sessions = broker.map_or(0, |(_, broker)| broker.sessions);
        let epochs = state.topics().map(|topic| (topic.id, topic.epoch)).collect();
        Expected { sessions, epochs }
    })
}

/// Makes the data directory this broker's alone, or says that another has it.
async fn take_lock(config: &Config, env: &Env) -> Result<Box<dyn Lock>> {
    let dir = config.meta_dir.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let (path, disk) = (dir.join("lock"), Arc::clone(&env.disk));
    let locked = blocking(&*env.spawn, move || {
        create_dir_durably(&*disk, &dir)
            .map_err(|error| std::io::Error::new(error.source.kind(), error))?;
        disk.lock(&dir.join("lock"))
    });
    locked.await.map_err(|source| Error::Lock { path, source: Arc::new(source) })
}

/// Whether this build can give a level.
pub(crate) fn check_level(level: Durability) -> Result<()> {
    match level {
        Durability::PageCache | Durability::Disk => Ok(()),
        Durability::Warm | Durability::DiskWarm | Durability::Cold => Err(Error::Level { level }),
    }
}
