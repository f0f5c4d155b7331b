//! What can go wrong with topics.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use danube_log::Effect;
use danube_meta::Refusal;
use danube_model::{
    ConsumerId, DiskId, Durability, ErrorKind, Offset, Sequence, SubscriptionName, TopicName,
};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the broker.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A read begins beyond the end.
    #[error("topic {topic} has no offset {offset} yet, its end is {end}")]
    BeyondEnd {
        /// The topic.
        topic: TopicName,
        /// The offset asked for.
        offset: Offset,
        /// The durable end, exclusive.
        end: Offset,
    },
    /// There is no such topic.
    #[error("topic {topic} does not exist")]
    TopicNotFound {
        /// Its name.
        topic: TopicName,
    },
    /// The name of a topic with partitions, where one topic is meant.
    #[error("topic {topic} has {partitions} partitions, name one of them")]
    Partitioned {
        /// Its name.
        topic: TopicName,
        /// How many it has.
        partitions: u32,
    },
    /// A topic was asked for in a way that contradicts what it is.
    #[error("topic {topic} exists already, {what}")]
    Differs {
        /// Its name.
        topic: TopicName,
        /// In which way.
        what: String,
    },
    /// A level that needs a tier which is not configured.
    #[error("durability {level} needs a tier that is not configured")]
    Level {
        /// The level.
        level: Durability,
    },
    /// Something needs a log, and the topic has none.
    #[error("topic {topic} is not reliable and has no log")]
    NonReliable {
        /// Its name.
        topic: TopicName,
    },
    /// What is to be set is for what is kept, and the topic keeps nothing.
    #[error(
        "topic {topic} is not reliable: it keeps no messages, and has no durability or retention"
    )]
    NothingKept {
        /// Its name.
        topic: TopicName,
    },
    /// A topic has as many producers as it may have.
    #[error("topic {topic} has {limit} producers, which is the limit")]
    TooManyProducers {
        /// The topic.
        topic: TopicName,
        /// The limit.
        limit: u64,
    },
    /// Something is for topics without a log, and the topic has one.
    #[error("topic {topic} is reliable")]
    Reliable {
        /// Its name.
        topic: TopicName,
    },
    /// The topic's log is on another disk.
    #[error("the log of topic {topic} is on disk {disk}, this broker has another one")]
    OtherDisk {
        /// The topic.
        topic: TopicName,
        /// The disk.
        disk: DiskId,
    },
    /// There are logs, and no metadata that know of them.
    #[error("the metadata are missing from {meta}, while {logs} holds the logs of topics")]
    MetadataMissing {
        /// Where the metadata should be.
        meta: PathBuf,
        /// The hot tier.
        logs: PathBuf,
    },
    /// The topic's log should be on this disk and is not.
    #[error("the log of topic {topic} is gone from {path}")]
    LogMissing {
        /// The topic.
        topic: TopicName,
        /// Where it should be.
        path: PathBuf,
    },
    /// Damage may have taken the end of the log: it takes no writes until an operator accepts the gap.
    #[error("the end of topic {topic} behind offset {end} is damaged, it takes no messages")]
    DamagedEnd {
        /// The topic.
        topic: TopicName,
        /// Up to where it can be read.
        end: Offset,
    },
    /// The topic was deleted while it was used.
    #[error("topic {topic} was deleted")]
    Deleted {
        /// Its name.
        topic: TopicName,
    },
    /// Another broker uses the data directory, or it can't be used.
    #[error("cannot lock {path}")]
    Lock {
        /// The lock.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The topic has no such subscription.
    #[error("topic {topic} has no subscription {subscription}")]
    SubscriptionNotFound {
        /// The topic.
        topic: TopicName,
        /// The name.
        subscription: SubscriptionName,
    },
    /// The subscription was deleted while it was used.
    #[error("subscription {subscription} was deleted")]
    SubscriptionDeleted {
        /// Its name.
        subscription: SubscriptionName,
    },
    /// The subscription's task ended while it was asked.
    #[error("subscription {subscription} is being started anew")]
    SubscriptionStopped {
        /// Its name.
        subscription: SubscriptionName,
    },
    /// An exclusive subscription has a consumer of another name.
    #[error("subscription {subscription} is exclusive and has another consumer")]
    ExclusiveTaken {
        /// Its name.
        subscription: SubscriptionName,
    },
    /// There are as many consumers as there may be.
    #[error("subscription {subscription} or its topic has {limit} consumers, which is the limit")]
    TooManyConsumers {
        /// Its name.
        subscription: SubscriptionName,
        /// The limit, inclusive.
        limit: u64,
    },
    /// A consumer that is not registered, or was replaced.
    #[error("consumer {consumer} is not known")]
    ConsumerUnknown {
        /// Its id.
        consumer: ConsumerId,
    },
    /// A newer consumer took over, or a newer stream of the same one.
    #[error("a newer consumer of this name has taken over")]
    Replaced,
    /// A subscription must be allowed one message at least.
    #[error("a subscription may have at least one message that is not acknowledged")]
    NoWindow,
    /// What was asked for is stored, and what follows from it is not done: the next start sees to that.
    #[error("topic {topic} is {done}, but what follows from that was cut short")]
    CutShort {
        /// Its name.
        topic: TopicName,
        /// What it is.
        done: &'static str,
        /// What came in between.
        #[source]
        source: Box<Error>,
    },
    /// The broker is stopping.
    #[error("the broker is stopping")]
    Stopping,
    /// The log.
    #[error(transparent)]
    Log(#[from] danube_log::Error),
    /// The metadata.
    #[error(transparent)]
    Meta(#[from] danube_meta::Error),
    /// A name or a value.
    #[error(transparent)]
    Model(#[from] danube_model::Error),
}

impl Error {
    /// This error came after a change was stored.
    pub(crate) fn after(topic: &TopicName, done: &'static str) -> impl FnOnce(Self) -> Self {
        let topic = topic.clone();
        move |error| Self::CutShort { topic, done, source: Box::new(error) }
    }

    /// What a caller may conclude.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TopicNotFound { .. }
            | Self::Deleted { .. }
            | Self::SubscriptionNotFound { .. }
            | Self::SubscriptionDeleted { .. } => ErrorKind::NotFound,
            Self::BeyondEnd { .. }
            | Self::Partitioned { .. }
            | Self::Level { .. }
            | Self::NonReliable { .. }
            | Self::NothingKept { .. }
            | Self::Reliable { .. }
            | Self::NoWindow => ErrorKind::Invalid,
            Self::Differs { .. } | Self::ExclusiveTaken { .. } => ErrorKind::Conflict,
            Self::Replaced => ErrorKind::Fenced,
            Self::TooManyConsumers { .. } | Self::TooManyProducers { .. } => ErrorKind::Exhausted,
            Self::OtherDisk { .. }
            | Self::Lock { .. }
            | Self::Stopping
            | Self::ConsumerUnknown { .. }
            | Self::SubscriptionStopped { .. } => ErrorKind::Unavailable,
            Self::MetadataMissing { .. } | Self::LogMissing { .. } | Self::DamagedEnd { .. } => {
                ErrorKind::Corrupt
            }
            Self::CutShort { source, .. } => source.kind(),
            Self::Log(error) => error.kind(),
            Self::Meta(error) => error.kind(),
            Self::Model(error) => error.kind(),
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Stopping
            | Self::TooManyConsumers { .. }
            | Self::TooManyProducers { .. }
            | Self::SubscriptionStopped { .. } => true,
            Self::Log(error) => error.is_retryable(),
            Self::Meta(error) => {
                error.is_retryable() || matches!(error, danube_meta::Error::Closed)
            }
            Self::BeyondEnd { .. }
            | Self::TopicNotFound { .. }
            | Self::Partitioned { .. }
            | Self::Differs { .. }
            | Self::Level { .. }
            | Self::NonReliable { .. }
            | Self::NothingKept { .. }
            | Self::Reliable { .. }
            | Self::OtherDisk { .. }
            | Self::MetadataMissing { .. }
            | Self::LogMissing { .. }
            | Self::DamagedEnd { .. }
            | Self::Deleted { .. }
            | Self::Lock { .. }
            | Self::SubscriptionNotFound { .. }
            | Self::SubscriptionDeleted { .. }
            | Self::ExclusiveTaken { .. }
            | Self::ConsumerUnknown { .. }
            | Self::Replaced
            | Self::NoWindow
            | Self::CutShort { .. }
            | Self::Model(_) => false,
        }
    }

    /// Whether something of a failed call may appear.
    pub fn effect(&self) -> Effect {
        match self {
            Self::CutShort { .. } => Effect::Unknown,
            Self::Log(error) => error.effect(),
            Self::Meta(error) if error.is_unknown() => Effect::Unknown,
            _ => Effect::Definite,
        }
    }

    /// Whether the name of a topic is taken by another one: with partitions where one without is meant, or the other way
    /// round.
    pub fn is_name_taken(&self) -> bool {
        matches!(
            self,
            Self::Partitioned { .. }
                | Self::Meta(danube_meta::Error::Refused(
                    Refusal::TopicExists { .. } | Refusal::PartitionedTopicExists { .. }
                ))
        )
    }

    /// The sequence with which the producer has to go on, if that is what was wrong.
    pub fn expected_sequence(&self) -> Option<Sequence> {
        match self {
            Self::Log(danube_log::Error::OutOfOrder { expected, .. }) => {
                Sequence::new(*expected).ok()
            }
            Self::Log(danube_log::Error::UnknownProducer { .. }) => Some(Sequence::ZERO),
            _ => None,
        }
    }

    /// What to do about it, if there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OtherDisk { .. } => Some(
                "bring the disk back, or give it up with `danube topic repair TOPIC --accept-gap`, which shows what is lost",
            ),
            Self::MetadataMissing { .. } => Some(
                "restore the metadata from a copy of the data directory; or move the logs away to begin anew, without their messages. Nothing was changed",
            ),
            Self::LogMissing { .. } | Self::DamagedEnd { .. } => Some(
                "`danube topic repair TOPIC` shows what is lost; with `--accept-gap` the topic goes on behind an explicit gap",
            ),
            Self::Partitioned { .. } => Some("partitions are named TOPIC-part-0, TOPIC-part-1, …"),
            Self::Log(danube_log::Error::StorageFull { .. }) => {
                Some("free space on the volume; no restart is needed")
            }
            Self::Lock { source, .. } if source.kind() == io::ErrorKind::WouldBlock => {
                Some("is another broker using this data directory?")
            }
            Self::NonReliable { .. } => {
                Some("what passes through it can be consumed as it comes: `danube consume`")
            }
            Self::Level { .. } => Some("this version offers page_cache and disk"),
            Self::Meta(danube_meta::Error::Refused(Refusal::NameOfPartition { .. })) => {
                Some("danube topic create BASE --partitions N")
            }
            Self::Meta(error) => error.hint(),
            _ => None,
        }
    }
}
