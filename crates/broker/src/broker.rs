//! The node: its hot tier, its metadata, and the topics that are open on it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use danube_env::Env;
use danube_log::{Report, Store};
use danube_meta::Meta;
use danube_meta::command::{CreateNamespace, ForgetDeleted, FormCluster, StartSession};
use danube_meta::state::ClusterId;
use danube_model::{BrokerId, Durability, Namespace, TimeMs, TopicId, TopicName};

use crate::error::{Error, Result};
use crate::slot::Slot;
use crate::topic::Topic;

/// Namespaces that every cluster has.
const NAMESPACES: [&str; 2] = ["default", "system"];

/// Settings of a broker.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the cluster that is formed on an empty disk.
    pub cluster_name: String,
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
    /// The largest message of topics without a limit of their own, in bytes; 0 = no limit but that of batches.
    pub message_bytes_max: u64,
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
    stopping: AtomicBool,
}

impl Broker {
    /// Opens the node on its directories, recovering what the last stop left, and forms the cluster on an empty disk.
    ///
    /// # Errors
    ///
    /// What [`Store::open`] and [`Meta::open`] refuse; nothing on the disk is changed by a refusal over versions or damage.
    pub async fn open(config: Config, env: Env) -> Result<(Self, Report)> {
        check_level(config.durability)?;
        let (store, report) = Store::open(config.log.clone(), env.clone()).await?;
        let meta = Meta::open(danube_meta::Config::new(&config.meta_dir), env.clone()).await?;
        let inner = Inner {
            env,
            config,
            store,
            meta,
            slots: Mutex::new(BTreeMap::new()),
            stopping: AtomicBool::new(false),
        };
        let broker = Self { inner: Arc::new(inner) };
        broker.start_session().await?;
        broker.finish_deletions().await?;
        broker.report_strange_logs();
        Ok((broker, report))
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
            self.inner.store.delete(*topic).await?;
        }
        self.inner.meta.propose(ForgetDeleted { topics }).await?;
        Ok(())
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
            (state.topic(name).cloned(), state.partitioned(name).map(|topic| topic.partitions))
        });
        match (topic, partitions) {
            (Some(topic), _) if !topic.is_reliable() => {
                Err(Error::NonReliable { topic: name.clone() })
            }
            (Some(topic), _) => {
                let slot = Arc::clone(
                    self.slots()
                        .entry(topic.id)
                        .or_insert_with(|| Arc::new(Slot::new(topic.id, topic.name.clone()))),
                );
                Ok(Topic::new(self.clone(), slot))
            }
            (None, Some(partitions)) => Err(Error::Partitioned { topic: name.clone(), partitions }),
            (None, None) => Err(Error::TopicNotFound { topic: name.clone() }),
        }
    }

    /// Completes with the reason once a disk has failed and nothing is acknowledged any more; the process is to end then
    /// (promise P7). Never completes otherwise. Cancel safe.
    pub async fn failed(&self) -> Error {
        tokio::select! {
            biased;
            error = self.inner.store.stopped() => error.into(),
            error = self.inner.meta.failed() => error.into(),
        }
    }

    /// A clean stop: refuses what comes, finishes what was submitted, closes all logs, and saves everything.
    pub async fn close(&self) -> Result<()> {
        self.inner.stopping.store(true, Ordering::Relaxed);
        let stored = self.inner.store.close().await;
        self.inner.meta.close().await;
        Ok(stored?)
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        if self.inner.stopping.load(Ordering::Relaxed) { Err(Error::Stopping) } else { Ok(()) }
    }

    pub(crate) fn now(&self) -> TimeMs {
        TimeMs::new(self.inner.env.clock.wall_ms())
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, BTreeMap<TopicId, Arc<Slot>>> {
        self.inner.slots.lock().expect("nothing panics while it holds the slots")
    }
}

/// Whether this build can give a level.
pub(crate) fn check_level(level: Durability) -> Result<()> {
    match level {
        Durability::PageCache | Durability::Disk => Ok(()),
        Durability::Warm | Durability::DiskWarm | Durability::Cold => Err(Error::Level { level }),
    }
}
