//! Creating, listing, changing and deleting topics and namespaces.

use danube_meta::Refusal;
use danube_meta::command::{
    Change, CreateNamespace, CreateTopic, DeleteNamespace, DeleteTopic, NewTopics, UpdateTopic,
};
use danube_meta::state::{Delivery, TopicSettings};
use danube_model::{BrokerId, Durability, Namespace, TopicId, TopicName, caps};

use crate::broker::{Broker, check_level};
use crate::error::{Error, Result};

/// A topic to create.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Its name. Not that of a partition.
    pub name: TopicName,
    /// How many partitions; None: a plain topic.
    pub partitions: Option<u32>,
    /// None: reliable, at the broker's level.
    pub delivery: Option<Delivery>,
    /// What is set for it.
    pub settings: TopicSettings,
}

/// Whether a topic was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was.
    New,
    /// It was there already.
    Existing,
}

/// What is changed of a topic.
#[derive(Clone, Debug, Default)]
pub struct TopicChange {
    /// Another level.
    pub durability: Option<Durability>,
    /// How long messages are kept, in milliseconds.
    pub retention_ms: Change<u64>,
    /// How many bytes are kept.
    pub retention_bytes: Change<u64>,
    /// The largest message, in bytes.
    pub message_bytes_max: Change<u64>,
}

/// A topic in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: TopicName,
    /// How many partitions; None: a plain topic.
    pub partitions: Option<u32>,
    /// What an acknowledgement promises.
    pub delivery: Delivery,
    /// The broker that has it.
    pub owner: Option<BrokerId>,
}

impl Broker {
    /// Creates a topic, with all its partitions.
    ///
    /// # Errors
    ///
    /// `Conflict` if the name is taken, `NotFound` if the namespace is not there, `Invalid` for what this build does not have.
    pub async fn create_topic(&self, new: NewTopic) -> Result<()> {
        let ids = match new.partitions {
            None => NewTopics::Plain(self.new_topic_id()),
            // Refused here, so that a wild number makes no ids.
            Some(partitions) if partitions > caps::PARTITIONS_MAX => {
                let (found, limit) = (u64::from(partitions), caps::PARTITIONS_MAX);
                return Err(refused(Refusal::PartitionCount { found, limit }));
            }
            Some(partitions) => {
                let ids = (0..partitions).map(|_| self.new_topic_id());
                NewTopics::Partitioned(ids.collect())
            }
        };
        self.propose_topic(new, ids).await
    }

    /// Creates one partition by its name, and its topic with it if it is the first. It takes after the partitions that are
    /// there, whatever `delivery` says.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is there, or its topic is a plain one; `NotFound` if the namespace is not there, `Invalid` for what this
    /// build does not have.
    pub async fn create_partition(
        &self,
        name: TopicName,
        delivery: Option<Delivery>,
    ) -> Result<()> {
        let ids = NewTopics::Partition(self.new_topic_id());
        let settings = TopicSettings::default();
        self.propose_topic(NewTopic { name, partitions: None, delivery, settings }, ids).await
    }

    async fn propose_topic(&self, new: NewTopic, ids: NewTopics) -> Result<()> {
        self.check_running()?;
        check_message_bytes(new.settings.message_bytes_max)?;
        let delivery = new.delivery.unwrap_or(Delivery::Reliable(self.inner.config.durability));
        match delivery {
            Delivery::Reliable(level) => check_level(level)?,
            Delivery::NonReliable => check_no_retention(&new.name, &new.settings)?,
        }
        let (topic, settings, at) = (new.name, new.settings, self.now());
        self.inner.meta.propose(CreateTopic { topic, ids, delivery, settings, at }).await?;
        Ok(())
    }

    fn new_topic_id(&self) -> TopicId {
        TopicId::new(self.inner.env.random.next_id())
    }

    /// Creates a topic unless it is there; one that is there and differs from what was asked for is an error.
    pub async fn ensure_topic(&self, new: NewTopic) -> Result<Created> {
        match self.create_topic(new.clone()).await {
            Ok(()) => Ok(Created::New),
            Err(Error::Meta(danube_meta::Error::Refused(
                Refusal::TopicExists { .. } | Refusal::PartitionedTopicExists { .. },
            ))) => self.check_same(&new).map(|()| Created::Existing),
            Err(error) => Err(error),
        }
    }

    fn check_same(&self, new: &NewTopic) -> Result<()> {
        let listed = self.listed(&new.name)?;
        let what = if new.partitions.is_some() && new.partitions != listed.partitions {
            match listed.partitions {
                Some(partitions) => format!("with {partitions} partitions"),
                None => "without partitions".to_owned(),
            }
        } else if new.delivery.is_some_and(|delivery| delivery != listed.delivery) {
            match listed.delivery {
                Delivery::Reliable(level) => format!("with durability {level}"),
                Delivery::NonReliable => "and is not reliable".to_owned(),
            }
        } else {
            return Ok(());
        };
        Err(Error::Differs { topic: new.name.clone(), what })
    }

    /// Whether producers create missing topics.
    pub fn auto_creates_topics(&self) -> bool {
        self.inner.config.auto_create_topics
    }

    /// One topic as it is listed, by its own name or, with partitions, its base name.
    ///
    /// # Errors
    ///
    /// [`Error::TopicNotFound`].
    pub fn listed(&self, name: &TopicName) -> Result<Listed> {
        let found = self.inner.meta.read(|state| {
            let delivery = match state.partitioned(name) {
                Some(_) => state.partitions(name).next().map(|first| first.delivery),
                None => state.topic(name).map(|topic| topic.delivery),
            };
            Some(Listed {
                name: name.clone(),
                // Those that are there: partitions may be created one by one.
                partitions: state.partitioned(name).map(|_| state.partitions(name).count() as u32),
                delivery: delivery?,
                owner: state.topic(name).and_then(|topic| topic.owner()),
            })
        });
        found.ok_or_else(|| Error::TopicNotFound { topic: name.clone() })
    }

    /// Topics by name, those with partitions once, in `namespace` or in all, after the name `after`, at most `limit`.
    ///
    /// # Errors
    ///
    /// `NotFound` if the namespace is not there.
    pub fn list_topics(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&TopicName>,
        limit: usize,
    ) -> Result<Vec<Listed>> {
        if let Some(namespace) = namespace
            && !self.inner.meta.read(|state| state.has_namespace(namespace))
        {
            return Err(refused(Refusal::NamespaceNotFound { namespace: namespace.clone() }));
        }
        // All names of a namespace begin with this, which is itself behind those of the namespaces before.
        let prefix = namespace.map_or_else(String::new, |namespace| format!("/{namespace}/"));
        let behind = after.map_or("", TopicName::as_str).max(&prefix);
        let is_asked_for = |name: &TopicName| name.as_str().starts_with(&prefix);
        let mut names: Vec<_> = self.inner.meta.read(|state| {
            let plain =
                state.topics_after(behind).map(|topic| (&topic.name, topic.partition.is_none()));
            let plain =
                plain.take_while(|(name, _)| is_asked_for(name)).filter(|(_, is_plain)| *is_plain);
            let partitioned = state.partitioned_after(behind).map(|(name, _)| name);
            let partitioned = partitioned.take_while(|name| is_asked_for(name)).take(limit);
            plain.map(|(name, _)| name).take(limit).chain(partitioned).cloned().collect()
        });
        names.sort_unstable();
        names.truncate(limit);
        // One that was deleted meanwhile is left out.
        Ok(names.iter().filter_map(|name| self.listed(name).ok()).collect())
    }

    /// Names of a topic's partitions, in order; for a plain topic its own.
    ///
    /// # Errors
    ///
    /// [`Error::TopicNotFound`].
    pub fn partitions(&self, name: &TopicName) -> Result<Vec<TopicName>> {
        let names: Vec<_> = self.inner.meta.read(|state| match state.partitioned(name) {
            Some(_) => state.partitions(name).map(|topic| topic.name.clone()).collect(),
            None => state.topic(name).map(|topic| topic.name.clone()).into_iter().collect(),
        });
        if names.is_empty() { Err(Error::TopicNotFound { topic: name.clone() }) } else { Ok(names) }
    }

    /// Changes what is set for a topic and all its partitions. Another level counts from the next opening on, which
    /// follows at once. It is done whether or not anybody waits for it.
    pub async fn update_topic(&self, name: &TopicName, change: TopicChange) -> Result<()> {
        self.check_running()?;
        if let Some(level) = change.durability {
            check_level(level)?;
        }
        if let Change::Set(bytes) = change.message_bytes_max {
            check_message_bytes(Some(bytes))?;
        }
        let (broker, name) = (self.clone(), name.clone());
        self.to_the_end("update-topic", async move { broker.update(&name, change).await }).await
    }

    async fn update(&self, name: &TopicName, change: TopicChange) -> Result<()> {
        let partitions = self.partitions(name)?;
        let TopicChange { durability, retention_ms, retention_bytes, message_bytes_max } = change;
        let has_retention =
            [retention_ms, retention_bytes].iter().any(|to| matches!(to, Change::Set(_)));
        if (has_retention || durability.is_some())
            && self.listed(name)?.delivery == Delivery::NonReliable
        {
            return Err(Error::NothingKept { topic: name.clone() });
        }
        let topic = name.clone();
        let update =
            UpdateTopic { topic, durability, retention_ms, retention_bytes, message_bytes_max };
        self.inner.meta.propose(update).await?;
        if durability.is_some() {
            self.close_logs(partitions).await.map_err(Error::after(name, "changed"))?;
        }
        Ok(())
    }

    async fn close_logs(&self, topics: Vec<TopicName>) -> Result<()> {
        for name in topics {
            match self.topic(&name) {
                Ok(topic) => topic.slot.close().await?,
                Err(Error::TopicNotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes a topic, with all its partitions and what is stored of them. It is done whether or not anybody waits for it.
    pub async fn delete_topic(&self, name: &TopicName) -> Result<()> {
        self.check_running()?;
        let (broker, topic, at) = (self.clone(), name.clone(), self.now());
        let delete = async move {
            let name = topic.clone();
            let deleted = broker.inner.meta.propose(DeleteTopic { topic, at }).await?;
            broker.remove_logs(deleted).await.map_err(Error::after(&name, "deleted"))
        };
        self.to_the_end("delete-topic", delete).await
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, namespace: Namespace) -> Result<()> {
        self.inner.meta.propose(CreateNamespace { namespace, at: self.now() }).await?;
        Ok(())
    }

    /// Deletes a namespace without topics.
    pub async fn delete_namespace(&self, namespace: Namespace) -> Result<()> {
        self.inner.meta.propose(DeleteNamespace { namespace }).await?;
        Ok(())
    }

    /// All namespaces, sorted.
    pub fn list_namespaces(&self) -> Vec<Namespace> {
        self.inner.meta.read(|state| state.namespaces().map(|(name, _)| name.clone()).collect())
    }
}

/// Refuses what would be without effect.
fn check_no_retention(topic: &TopicName, settings: &TopicSettings) -> Result<()> {
    match (settings.retention_ms, settings.retention_bytes) {
        (None, None) => Ok(()),
        _ => Err(Error::NothingKept { topic: topic.clone() }),
    }
}

/// Refuses a limit that no message could reach.
fn check_message_bytes(set: Option<u64>) -> Result<()> {
    let limit = caps::MESSAGE_BYTES_MAX as u64;
    match set {
        Some(found) if found > limit => {
            Err(danube_model::Error::OutOfRange { what: "message size", found, limit }.into())
        }
        Some(_) | None => Ok(()),
    }
}

/// The same as if the metadata had been asked.
fn refused(refusal: Refusal) -> Error {
    danube_meta::Error::Refused(refusal).into()
}
