//! What each command does. Every function checks first and changes then, so that what is refused changes nothing.

use std::sync::Arc;

use danube_model::{Epoch, Offset, TopicId, TopicName, caps};

use crate::command::*;
use crate::refusal::{PartitionOperation, Refusal};
use crate::state::topic::{CEILING_STEP, Delivery, Ownership, Partition, Topic};
use crate::state::{
    Broker, ByName, CLUSTER_NAME_BYTES_MAX, Cluster, DeletedTopic, NamespaceEntry,
    PartitionedTopic, State,
};

impl State {
    /// Does what a command says, or refuses it and changes nothing. The same state and command give the same result
    /// everywhere.
    pub fn apply(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        match command {
            Command::FormCluster(form) => self.form_cluster(form).map(Outcome::FormCluster),
            Command::StartSession(start) => self.start_session(start).map(Outcome::StartSession),
            Command::CreateNamespace(create) => {
                self.create_namespace(create).map(Outcome::CreateNamespace)
            }
            Command::DeleteNamespace(delete) => {
                self.delete_namespace(delete).map(Outcome::DeleteNamespace)
            }
            Command::CreateTopic(create) => self.create_topic(create).map(Outcome::CreateTopic),
            Command::UpdateTopic(update) => self.update_topic(update).map(Outcome::UpdateTopic),
            Command::DeleteTopic(delete) => self.delete_topic(delete).map(Outcome::DeleteTopic),
            Command::OpenTopics(open) => self.open_topics(open).map(Outcome::OpenTopics),
            Command::RaiseCeiling(raise) => self.raise_ceiling(raise).map(Outcome::RaiseCeiling),
            Command::ForgetDeleted(forget) => {
                Ok(Outcome::ForgetDeleted(self.forget_deleted(forget)))
            }
            Command::CreateSubscription(create) => {
                self.create_subscription(create).map(Outcome::CreateSubscription)
            }
            Command::DeleteSubscription(delete) => {
                self.delete_subscription(delete).map(Outcome::DeleteSubscription)
            }
            Command::UpdateSubscription(update) => {
                self.update_subscription(update).map(Outcome::UpdateSubscription)
            }
            Command::SeekSubscription(seek) => {
                self.seek_subscription(seek).map(Outcome::SeekSubscription)
            }
            Command::SaveCursors(save) => Ok(Outcome::SaveCursors(self.save_cursors(save))),
            Command::RegisterConsumer(register) => {
                self.register_consumer(register).map(Outcome::RegisterConsumer)
            }
            Command::ForgetConsumers(forget) => {
                Ok(Outcome::ForgetConsumers(self.forget_consumers(forget)))
            }
        }
    }

    fn form_cluster(&mut self, form: &FormCluster) -> Result<(), Refusal> {
        if let Some(cluster) = &self.cluster {
            return Err(Refusal::ClusterExists { name: cluster.name.clone() });
        }
        if !(1..=CLUSTER_NAME_BYTES_MAX).contains(&form.name.len()) {
            return Err(Refusal::ClusterName {
                found: form.name.len(),
                limit: CLUSTER_NAME_BYTES_MAX,
            });
        }
        self.cluster = Some(Cluster {
            id: form.cluster,
            name: form.name.clone(),
            generation: 1,
            formed: form.at,
        });
        Ok(())
    }

    fn start_session(&mut self, start: &StartSession) -> Result<u64, Refusal> {
        self.require_cluster()?;
        let broker = self.brokers.entry(start.broker).or_insert(Broker {
            disk: start.disk,
            sessions: 0,
            registered: start.at,
            started: start.at,
        });
        broker.disk = start.disk;
        broker.sessions += 1;
        broker.started = start.at;
        Ok(broker.sessions)
    }

    fn create_namespace(&mut self, create: &CreateNamespace) -> Result<(), Refusal> {
        self.require_cluster()?;
        if self.namespaces.contains_key(&create.namespace) {
            return Err(Refusal::NamespaceExists { namespace: create.namespace.clone() });
        }
        self.namespaces.insert(create.namespace.clone(), NamespaceEntry { created: create.at });
        Ok(())
    }

    fn delete_namespace(&mut self, delete: &DeleteNamespace) -> Result<(), Refusal> {
        let namespace = &delete.namespace;
        if let Some(topic) = self.topics_in(namespace).next() {
            let topic = topic.name.clone();
            return Err(Refusal::NamespaceNotEmpty { namespace: namespace.clone(), topic });
        }
        match self.namespaces.remove(namespace) {
            Some(_) => Ok(()),
            None => Err(Refusal::NamespaceNotFound { namespace: namespace.clone() }),
        }
    }

    fn create_topic(&mut self, create: &CreateTopic) -> Result<(), Refusal> {
        let name = &create.topic;
        let base = match (name.partition_of(), &create.ids) {
            (Some((base, index)), NewTopics::Partition(_)) => Some(Partition { base, index }),
            (Some((base, _)), _) => {
                return Err(Refusal::NameOfPartition { topic: name.clone(), base });
            }
            (None, _) => None,
        };
        let namespace = name.namespace();
        if !self.namespaces.contains_key(&namespace) {
            return Err(Refusal::NamespaceNotFound { namespace });
        }
        self.require_name_free(name)?;
        let topics = match (&create.ids, base) {
            (NewTopics::Plain(id), _) => vec![new_topic(create, *id, name.clone(), None)],
            (NewTopics::Partitioned(ids), _) => partitions(create, ids)?,
            (NewTopics::Partition(id), Some(partition)) => {
                vec![self.new_partition(create, *id, partition)?]
            }
            (NewTopics::Partition(_), None) => {
                return Err(Refusal::NotPartition { topic: name.clone() });
            }
        };
        self.require_ids_new(&topics)?;
        for topic in topics {
            if let Some(Partition { base, index }) = &topic.partition {
                let new = PartitionedTopic { partitions: 0, created: create.at };
                let partitioned = self.partitioned.entry(ByName(base.clone())).or_insert(new);
                partitioned.partitions = partitioned.partitions.max(index + 1);
            }
            self.insert(topic);
        }
        Ok(())
    }

    /// A partition that comes alone.
    fn new_partition(
        &self,
        create: &CreateTopic,
        id: TopicId,
        partition: Partition,
    ) -> Result<Topic, Refusal> {
        if self.topic(&partition.base).is_some() {
            return Err(Refusal::TopicExists { topic: partition.base });
        }
        let mut create = create.clone();
        if let Some(other) = self.partitions(&partition.base).next() {
            (create.delivery, create.settings) = (other.delivery, other.settings.clone());
        }
        Ok(new_topic(&create, id, create.topic.clone(), Some(partition)))
    }

    fn update_topic(&mut self, update: &UpdateTopic) -> Result<(), Refusal> {
        let topics = self.whole_topic(&update.topic, PartitionOperation::Update)?;
        let is_non_reliable =
            |id: &TopicId| self.topics.get(id).is_some_and(|topic| !topic.is_reliable());
        if update.durability.is_some() && topics.iter().any(is_non_reliable) {
            return Err(Refusal::NotReliable { topic: update.topic.clone() });
        }
        for id in topics {
            if let Some(topic) = self.topics.get_mut(&id) {
                Arc::make_mut(topic).update(update);
            }
        }
        Ok(())
    }

    fn delete_topic(&mut self, delete: &DeleteTopic) -> Result<Vec<TopicId>, Refusal> {
        let topics = self.whole_topic(&delete.topic, PartitionOperation::Delete)?;
        self.partitioned.remove(delete.topic.as_str());
        for id in &topics {
            if let Some(topic) = self.remove(id) {
                let (name, owner, disk) = (topic.name.clone(), topic.owner(), topic.disk);
                self.deleted
                    .insert(*id, DeletedTopic { id: *id, name, owner, disk, deleted: delete.at });
            }
        }
        Ok(topics)
    }

    fn open_topics(&mut self, open: &OpenTopics) -> Result<Vec<Result<Opening, Refusal>>, Refusal> {
        if !self.brokers.contains_key(&open.broker) {
            return Err(Refusal::BrokerNotFound { broker: open.broker });
        }
        Ok(open.topics.iter().map(|topic| self.open_topic(open, topic)).collect())
    }

    fn open_topic(&mut self, open: &OpenTopics, wanted: &OpenTopic) -> Result<Opening, Refusal> {
        let id = wanted.topic;
        let topic = self.topics.get_mut(&id).ok_or(Refusal::TopicIdNotFound { topic: id })?;
        if topic.epoch != wanted.expected {
            return Err(Refusal::OtherEpoch {
                topic: id,
                expected: wanted.expected,
                found: topic.epoch,
            });
        }
        if let Ownership::Serving(owner) = topic.ownership
            && owner != open.broker
        {
            return Err(Refusal::OtherOwner { topic: id, owner });
        }
        let epoch = topic
            .epoch
            .max(wanted.stored.unwrap_or(Epoch::ZERO))
            .next()
            .map_err(|_| Refusal::EpochsUsedUp { topic: id })?;
        let (resume_at, ceiling) = match (topic.disk, wanted.other_disk) {
            (Some(disk), OtherDisk::Refuse) if disk != open.disk => {
                return Err(Refusal::OtherDisk { topic: id, disk });
            }
            (_, OtherDisk::GiveUp) => {
                let raised = topic.ceiling.checked_add(CEILING_STEP);
                (topic.ceiling, raised.ok_or(Refusal::OffsetsUsedUp { topic: id })?)
            }
            _ => (topic.resume_at, topic.ceiling),
        };
        let topic = Arc::make_mut(topic);
        topic.epoch = epoch;
        topic.resume_at = resume_at;
        topic.ceiling = ceiling;
        topic.ownership = Ownership::Serving(open.broker);
        topic.disk = Some(open.disk);
        Ok(Opening { topic: id, epoch, ceiling, resume_at })
    }

    fn raise_ceiling(&mut self, raise: &RaiseCeiling) -> Result<Offset, Refusal> {
        let id = raise.topic;
        let topic = self.topics.get_mut(&id).ok_or(Refusal::TopicIdNotFound { topic: id })?;
        if topic.epoch != raise.epoch {
            return Err(Refusal::OtherEpoch {
                topic: id,
                expected: raise.epoch,
                found: topic.epoch,
            });
        }
        if !raise.ceiling.get().is_multiple_of(CEILING_STEP) || raise.ceiling > Offset::MAX {
            return Err(Refusal::NotACeiling { topic: id, ceiling: raise.ceiling });
        }
        if raise.ceiling > topic.ceiling {
            Arc::make_mut(topic).ceiling = raise.ceiling;
        }
        Ok(topic.ceiling)
    }

    fn forget_deleted(&mut self, forget: &ForgetDeleted) -> u64 {
        forget.topics.iter().filter(|id| self.deleted.remove(id).is_some()).count() as u64
    }

    fn require_cluster(&self) -> Result<(), Refusal> {
        self.cluster.as_ref().map(|_| ()).ok_or(Refusal::NoCluster)
    }

    fn require_name_free(&self, name: &TopicName) -> Result<(), Refusal> {
        if let Some(topic) = self.partitioned(name) {
            let partitions = topic.partitions;
            return Err(Refusal::PartitionedTopicExists { topic: name.clone(), partitions });
        }
        match self.topic(name) {
            Some(_) => Err(Refusal::TopicExists { topic: name.clone() }),
            None => Ok(()),
        }
    }

    fn require_ids_new(&self, topics: &[Topic]) -> Result<(), Refusal> {
        let mut ids: Vec<_> = topics.iter().map(|topic| topic.id).collect();
        ids.sort_unstable();
        let twice = ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        let known = |id: &&TopicId| self.topics.contains_key(*id) || self.deleted.contains_key(*id);
        match twice.or(ids.iter().find(known).copied()) {
            Some(topic) => Err(Refusal::TopicIdTaken { topic }),
            None => Ok(()),
        }
    }

    /// The topic of this name, or all its partitions; one partition alone is refused.
    fn whole_topic(
        &self,
        name: &TopicName,
        operation: PartitionOperation,
    ) -> Result<Vec<TopicId>, Refusal> {
        if self.partitioned(name).is_some() {
            return Ok(self.partitions(name).map(|topic| topic.id).collect());
        }
        match self.topic(name) {
            None => Err(Refusal::TopicNotFound { topic: name.clone() }),
            Some(topic) => match &topic.partition {
                None => Ok(vec![topic.id]),
                Some(Partition { base, .. }) => Err(Refusal::IndividualPartition {
                    operation,
                    topic: name.clone(),
                    base: base.clone(),
                }),
            },
        }
    }
}

fn partitions(create: &CreateTopic, ids: &[TopicId]) -> Result<Vec<Topic>, Refusal> {
    let base = &create.topic;
    let count = ids.len() as u64;
    if !(1..=u64::from(caps::PARTITIONS_MAX)).contains(&count) {
        return Err(Refusal::PartitionCount { found: count, limit: caps::PARTITIONS_MAX });
    }
    (0..)
        .zip(ids)
        .map(|(index, id)| {
            let name = base.partition(index).map_err(|_| Refusal::PartitionNames {
                topic: base.clone(),
                partitions: count as u32,
            })?;
            Ok(new_topic(create, *id, name, Some(Partition { base: base.clone(), index })))
        })
        .collect()
}

fn new_topic(
    create: &CreateTopic,
    id: TopicId,
    name: TopicName,
    partition: Option<Partition>,
) -> Topic {
    Topic {
        id,
        name,
        delivery: create.delivery,
        settings: create.settings.clone(),
        epoch: Epoch::ZERO,
        ceiling: match create.delivery {
            Delivery::Reliable(_) => Offset::new(CEILING_STEP),
            Delivery::NonReliable => Offset::ZERO,
        },
        resume_at: Offset::ZERO,
        ownership: Ownership::Unowned,
        disk: None,
        created: create.at,
        partition,
    }
}
