//! What can be done to the state, and what comes of it.
//!
//! Commands are stored in the Raft log and read by every later version. A field that is added needs a default that
//! means what its absence meant; a command that changes its meaning needs a new version of the entries
//! (`docs/format.md`, section 8). Time and identities are chosen by whoever proposes and travel in the command.

use danube_model::{
    BrokerId, Chunk, ConsumerId, ConsumerName, DiskId, Durability, Epoch, FailurePolicy, Namespace,
    Offset, SubscriptionName, SubscriptionType, TimeMs, TopicId, TopicName,
};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
use crate::state::{ClusterId, Delivery, TopicSettings};

/// Forms the cluster, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormCluster {
    /// Its identity.
    pub cluster: ClusterId,
    /// Its name, for people.
    pub name: String,
    /// When.
    pub at: TimeMs,
}

/// Enters a start of a broker, and the broker itself at its first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSession {
    /// Which broker.
    pub broker: BrokerId,
    /// The disk that its hot tier is on.
    pub disk: DiskId,
    /// When.
    pub at: TimeMs,
}

/// Creates a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateNamespace {
    /// Its name.
    pub namespace: Namespace,
    /// When.
    pub at: TimeMs,
}

/// Deletes a namespace without topics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteNamespace {
    /// Its name.
    pub namespace: Namespace,
}

/// Creates a topic, with all its partitions or with its first; or one more partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateTopic {
    /// Its name; that of a partition for [`NewTopics::Partition`] and for nothing else.
    pub topic: TopicName,
    /// New identities, for the topic or for its partitions.
    pub ids: NewTopics,
    /// What an acknowledgement promises. A partition takes after those that are there.
    pub delivery: Delivery,
    /// What is set for this topic. A partition takes after those that are there.
    pub settings: TopicSettings,
    /// When.
    pub at: TimeMs,
}

/// Identities of the topics that a creation makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewTopics {
    /// One topic without partitions.
    Plain(TopicId),
    /// A topic with one partition for each of these, in this order.
    Partitioned(Vec<TopicId>),
    /// One partition, of a topic that comes with its first one. They may come in any order.
    Partition(TopicId),
}

/// Changes what is set for a topic, and for all its partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateTopic {
    /// Its name. Not that of a partition.
    pub topic: TopicName,
    /// Another durability level, or none: it keeps the one that it has.
    pub durability: Option<Durability>,
    /// How long records are kept, in milliseconds.
    pub retention_ms: Change<u64>,
    /// How many bytes are kept.
    pub retention_bytes: Change<u64>,
    /// The largest message, in bytes.
    pub message_bytes_max: Change<u64>,
}

/// What becomes of a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change<T> {
    /// It stays.
    #[default]
    Keep,
    /// It is removed: the broker's setting counts.
    Reset,
    /// It is this.
    Set(T),
}

/// Deletes a topic, with all its partitions. What is stored of it goes later; [`ForgetDeleted`] says that it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteTopic {
    /// Its name. Not that of a partition.
    pub topic: TopicName,
    /// When.
    pub at: TimeMs,
}

/// Makes a broker the owner of topics, each under its next epoch. It stands for every opening, a plain restart too. The
/// topics are independent of each other: some may be opened and others refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenTopics {
    /// The new owner.
    pub broker: BrokerId,
    /// The disk that it will have the logs on.
    pub disk: DiskId,
    /// Which topics.
    pub topics: Vec<OpenTopic>,
}

/// One topic to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenTopic {
    /// Which.
    pub topic: TopicId,
    /// The epoch that it is thought to have. If it has another, somebody else was faster.
    pub expected: Epoch,
    /// The epoch of the log on the owner's disk, if there is one: higher than expected if these metadata were taken back in
    /// time. The new epoch is above it too.
    #[serde(default)]
    pub stored: Option<Epoch>,
    /// What to do if the log was last on another disk.
    #[serde(default)]
    pub other_disk: OtherDisk,
}

/// What becomes of a topic whose log was last on another disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OtherDisk {
    /// It is not opened.
    #[default]
    Refuse,
    /// What the disk of its last opening had is given up, even if it is the same one: the topic goes on at its ceiling,
    /// which rises by one step.
    GiveUp,
}

/// Raises the limit of the offsets that a topic's owner may assign. A ceiling that is not above the present one changes
/// nothing, and is not refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaiseCeiling {
    /// Which topic.
    pub topic: TopicId,
    /// The epoch of the owner that asks.
    pub epoch: Epoch,
    /// No offset at or above it is assigned. A multiple of [`crate::state::CEILING_STEP`].
    pub ceiling: Offset,
}

/// Enters that nothing is left of deleted topics. Those that are not known as deleted are passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetDeleted {
    /// Which.
    pub topics: Vec<TopicId>,
}

/// Creates a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateSubscription {
    /// Of which topic or partition.
    pub topic: TopicId,
    /// Its name.
    pub subscription: SubscriptionName,
    /// Who of its consumers gets what.
    pub kind: SubscriptionType,
    /// The first offset that it delivers.
    pub start: Offset,
    /// What becomes of records that fail.
    pub policy: FailurePolicy,
    /// How many subscriptions the topic may have; 0: without limit.
    pub subscriptions_max: u64,
    /// When.
    pub at: TimeMs,
}

/// Deletes a subscription with its cursor and its consumers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteSubscription {
    /// Of which topic or partition.
    pub topic: TopicId,
    /// Which.
    pub subscription: SubscriptionName,
}

/// Changes what is set for a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateSubscription {
    /// Of which topic or partition.
    pub topic: TopicId,
    /// Which.
    pub subscription: SubscriptionName,
    /// Another policy, or none: it keeps the one that it has.
    pub policy: Option<FailurePolicy>,
    /// Records that may be delivered and not settled.
    pub max_unacked_messages: Change<u64>,
}

/// Sets the cursor of a subscription anew, which gives it its next incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekSubscription {
    /// Of which topic or partition.
    pub topic: TopicId,
    /// Which.
    pub subscription: SubscriptionName,
    /// The first offset that is delivered from now on.
    pub floor: Offset,
}

/// Saves the cursors of any number of subscriptions. They are independent of each other: one that is gone, of another
/// incarnation, or whose topic has another epoch, is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaveCursors {
    /// What changed of each.
    pub cursors: Vec<SaveCursor>,
}

/// What changed of one cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaveCursor {
    /// Of which topic or partition.
    pub topic: TopicId,
    /// The epoch of the topic's owner that delivers.
    pub epoch: Epoch,
    /// Which subscription.
    pub subscription: SubscriptionName,
    /// The incarnation that its deliveries belong to.
    pub incarnation: u64,
    /// The first offset that is not settled. One below that which is known changes nothing.
    pub floor: Offset,
    /// Settled offsets above it: the chunks that changed, by number.
    pub chunks: Vec<(u64, Chunk)>,
}

/// Registers a consumer. An earlier registration of its name is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterConsumer {
    /// Of which topic or partition.
    pub topic: TopicId,
    /// Of which subscription.
    pub subscription: SubscriptionName,
    /// Its name.
    pub name: ConsumerName,
    /// A new identity.
    pub consumer: ConsumerId,
    /// Globs over the keys that it wants; none: every key.
    pub filters: Vec<String>,
    /// When.
    pub at: TimeMs,
}

/// Forgets registrations. Those that are not known are passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetConsumers {
    /// Which.
    pub consumers: Vec<ConsumerId>,
}

/// A topic was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Which.
    pub topic: TopicId,
    /// The epoch of this opening.
    pub epoch: Epoch,
    /// No offset at or above it is assigned.
    pub ceiling: Offset,
    /// No offset below it is assigned: a log that ends before it goes on here, with a gap.
    pub resume_at: Offset,
}

/// A command that says what comes of it.
pub trait Proposal: Into<Command> + Send {
    /// What comes of it.
    type Outcome;

    /// Takes it from an outcome; `None` if that is another command's.
    fn outcome(outcome: Outcome) -> Option<Self::Outcome>;
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident -> $outcome:ty,)*) => {
        /// A change of the state. What it does is said at the struct of its name.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Command {
            $($(#[$doc])* $name($name),)*
        }

        /// What came of a command that was not refused. Its name says which.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Outcome {
            $($(#[$doc])* $name($outcome),)*
        }

        impl Command {
            /// Names of all commands.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Its name, as it is stored.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Command::$name(_) => stringify!($name),)*
                }
            }
        }

        $(
            impl From<$name> for Command {
                fn from(command: $name) -> Command {
                    Command::$name(command)
                }
            }

            impl Proposal for $name {
                type Outcome = $outcome;

                fn outcome(outcome: Outcome) -> Option<$outcome> {
                    if let Outcome::$name(outcome) = outcome { Some(outcome) } else { None }
                }
            }
        )*
    };
}

commands! {
    /// The cluster is formed.
    FormCluster -> (),
    /// The broker's session, counted from 1.
    StartSession -> u64,
    /// The namespace exists.
    CreateNamespace -> (),
    /// The namespace is gone.
    DeleteNamespace -> (),
    /// The topic exists.
    CreateTopic -> (),
    /// The settings are changed.
    UpdateTopic -> (),
    /// What was deleted: the topic, or all its partitions.
    DeleteTopic -> Vec<TopicId>,
    /// What became of each topic, in the order of the command.
    OpenTopics -> Vec<Result<Opening, Refusal>>,
    /// The ceiling, at least what was asked for.
    RaiseCeiling -> Offset,
    /// How many were known as deleted.
    ForgetDeleted -> u64,
    /// The subscription exists.
    CreateSubscription -> (),
    /// The subscription is gone.
    DeleteSubscription -> (),
    /// The settings are changed.
    UpdateSubscription -> (),
    /// The incarnation of the cursor.
    SeekSubscription -> u64,
    /// Whether each was saved, in the order of the command.
    SaveCursors -> Vec<bool>,
    /// The registration that was replaced.
    RegisterConsumer -> Option<ConsumerId>,
    /// How many were known.
    ForgetConsumers -> u64,
}
