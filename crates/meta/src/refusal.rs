//! Why a command was refused. The same on every member: a refusal depends on state and command alone.

use danube_model::{
    BrokerId, ConsumerId, DiskId, Epoch, ErrorKind, Namespace, Offset, SubscriptionName,
    SubscriptionType, TopicId, TopicName,
};
use serde::{Deserialize, Serialize};

/// What contradicts the command. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The cluster was formed before.
    #[error("the cluster is formed already, its name is {name:?}")]
    ClusterExists {
        /// Its name.
        name: String,
    },
    /// The cluster has not been formed.
    #[error("the cluster is not formed yet")]
    NoCluster,
    /// A cluster's name is empty or too long.
    #[error("a cluster's name has 1 to {limit} bytes, this one has {found}")]
    ClusterName {
        /// Its length in bytes.
        found: usize,
        /// The limit, inclusive.
        limit: usize,
    },
    /// The namespace exists.
    #[error("namespace {namespace} exists already")]
    NamespaceExists {
        /// Which.
        namespace: Namespace,
    },
    /// There is no such namespace.
    #[error("namespace {namespace} does not exist")]
    NamespaceNotFound {
        /// Which.
        namespace: Namespace,
    },
    /// The namespace has topics.
    #[error("namespace {namespace} is not empty: it has topic {topic}")]
    NamespaceNotEmpty {
        /// Which.
        namespace: Namespace,
        /// One of its topics.
        topic: TopicName,
    },
    /// A topic has this name.
    #[error("topic {topic} exists already")]
    TopicExists {
        /// Its name.
        topic: TopicName,
    },
    /// A topic with partitions has this name.
    #[error("topic {topic} exists already, with {partitions} partitions")]
    PartitionedTopicExists {
        /// Its name.
        topic: TopicName,
        /// How many partitions it has.
        partitions: u32,
    },
    /// There is no such topic.
    #[error("topic {topic} does not exist")]
    TopicNotFound {
        /// Its name.
        topic: TopicName,
    },
    /// There is no topic of this identity; it may have been deleted.
    #[error("topic with id {topic} does not exist")]
    TopicIdNotFound {
        /// Its identity.
        topic: TopicId,
    },
    /// An identity is in use, or was.
    #[error("topic id {topic} was given before")]
    TopicIdTaken {
        /// Which.
        topic: TopicId,
    },
    /// A topic cannot be created under the name of a partition.
    #[error("{topic} is the name of a partition: create the topic {base} with partitions")]
    NameOfPartition {
        /// The name.
        topic: TopicName,
        /// The topic that it would be a partition of.
        base: TopicName,
    },
    /// A partition cannot be created under the name of a topic.
    #[error("{topic} is not the name of a partition")]
    NotPartition {
        /// The name.
        topic: TopicName,
    },
    /// The names of a topic's partitions would be too long.
    #[error("topic {topic} cannot have {partitions} partitions: their names are too long")]
    PartitionNames {
        /// The topic.
        topic: TopicName,
        /// How many it was to have.
        partitions: u32,
    },
    /// A topic has too few or too many partitions.
    #[error("a topic with partitions has 1 to {limit} of them, not {found}")]
    PartitionCount {
        /// How many it was to have.
        found: u64,
        /// The limit, inclusive.
        limit: u32,
    },
    /// Something concerns one partition that is only possible for the topic as a whole. Clients look for these words.
    #[error("Cannot {operation} individual partition {topic}: {operation} the topic {base}")]
    IndividualPartition {
        /// What was to be done.
        operation: PartitionOperation,
        /// The partition.
        topic: TopicName,
        /// The topic that it is a partition of.
        base: TopicName,
    },
    /// A topic that is not reliable has no durability level.
    #[error("topic {topic} is not reliable and has no durability level")]
    NotReliable {
        /// Which.
        topic: TopicName,
    },
    /// There is no such broker.
    #[error("broker {broker} is not registered")]
    BrokerNotFound {
        /// Which.
        broker: BrokerId,
    },
    /// A topic was opened by someone else meanwhile.
    #[error("topic {topic} is at epoch {found}, not {expected}")]
    OtherEpoch {
        /// Which.
        topic: TopicId,
        /// What the command expected.
        expected: Epoch,
        /// What it has.
        found: Epoch,
    },
    /// Another broker has the topic.
    #[error("topic {topic} belongs to broker {owner}")]
    OtherOwner {
        /// Which.
        topic: TopicId,
        /// Its owner.
        owner: BrokerId,
    },
    /// The topic's log is on another disk, and nobody has given that disk up.
    #[error("the log of topic {topic} is on disk {disk}, which is not this broker's")]
    OtherDisk {
        /// Which.
        topic: TopicId,
        /// The disk of its last opening.
        disk: DiskId,
    },
    /// The topic was opened 2^31 - 1 times.
    #[error("all epochs of topic {topic} are used up")]
    EpochsUsedUp {
        /// Which.
        topic: TopicId,
    },
    /// A ceiling is not a multiple of the step, or beyond the greatest offset.
    #[error(
        "{ceiling} is not a ceiling of topic {topic}: ceilings are multiples of 2^32 below 2^63"
    )]
    NotACeiling {
        /// Which topic.
        topic: TopicId,
        /// The number.
        ceiling: Offset,
    },
    /// A number is beyond the greatest offset.
    #[error("{offset} is not an offset of topic {topic}: offsets are below 2^63")]
    NotAnOffset {
        /// Which topic.
        topic: TopicId,
        /// The number.
        offset: Offset,
    },
    /// The topic has a subscription of this name.
    #[error("subscription {subscription} of topic {topic} exists already, its type is {kind}")]
    SubscriptionExists {
        /// The topic.
        topic: TopicName,
        /// Its name.
        subscription: SubscriptionName,
        /// Its type.
        kind: SubscriptionType,
    },
    /// The topic has no subscription of this name.
    #[error("topic {topic} has no subscription {subscription}")]
    SubscriptionNotFound {
        /// The topic.
        topic: TopicName,
        /// The name.
        subscription: SubscriptionName,
    },
    /// The topic has as many subscriptions as it may have.
    #[error("topic {topic} has {limit} subscriptions, which is the limit")]
    TooManySubscriptions {
        /// The topic.
        topic: TopicName,
        /// The limit, inclusive.
        limit: u64,
    },
    /// A consumer's identity is in use.
    #[error("consumer id {consumer} is in use")]
    ConsumerIdTaken {
        /// Which.
        consumer: ConsumerId,
    },
    /// The topic has no offsets left above its ceiling.
    #[error("all offsets of topic {topic} are used up")]
    OffsetsUsedUp {
        /// Which.
        topic: TopicId,
    },
}

/// What is not done to one partition alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionOperation {
    /// Deleting it.
    Delete,
    /// Changing its settings.
    Update,
}

impl std::fmt::Display for PartitionOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PartitionOperation::Delete => "delete",
            PartitionOperation::Update => "update",
        })
    }
}

impl Refusal {
    /// What a caller may conclude.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Refusal::NamespaceNotFound { .. }
            | Refusal::TopicNotFound { .. }
            | Refusal::TopicIdNotFound { .. }
            | Refusal::BrokerNotFound { .. }
            | Refusal::SubscriptionNotFound { .. }
            | Refusal::IndividualPartition { .. } => ErrorKind::NotFound,
            Refusal::ClusterExists { .. }
            | Refusal::NoCluster
            | Refusal::NamespaceExists { .. }
            | Refusal::NamespaceNotEmpty { .. }
            | Refusal::TopicExists { .. }
            | Refusal::PartitionedTopicExists { .. }
            | Refusal::TopicIdTaken { .. }
            | Refusal::SubscriptionExists { .. }
            | Refusal::ConsumerIdTaken { .. }
            | Refusal::OtherOwner { .. }
            | Refusal::OtherDisk { .. } => ErrorKind::Conflict,
            Refusal::OtherEpoch { .. } => ErrorKind::Fenced,
            Refusal::EpochsUsedUp { .. }
            | Refusal::OffsetsUsedUp { .. }
            | Refusal::TooManySubscriptions { .. } => ErrorKind::Exhausted,
            Refusal::ClusterName { .. }
            | Refusal::NameOfPartition { .. }
            | Refusal::NotPartition { .. }
            | Refusal::PartitionNames { .. }
            | Refusal::PartitionCount { .. }
            | Refusal::NotReliable { .. }
            | Refusal::NotACeiling { .. }
            | Refusal::NotAnOffset { .. } => ErrorKind::Invalid,
        }
    }
}
