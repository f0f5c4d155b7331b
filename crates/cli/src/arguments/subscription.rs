//! What can be said of subscriptions.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use danube_client::{ConsumerName, Start, SubscriptionName, SubscriptionType, TopicName};
use danube_model::units::parse_duration;

use super::{Common, Connection, MessageFormat, start, timeout};

#[derive(Debug, Args)]
pub(crate) struct ConsumeOptions {
    /// The topic, /namespace/topic
    pub(crate) topic: TopicName,
    /// The subscription
    #[arg(long, value_name = "NAME")]
    pub(crate) subscription: SubscriptionName,
    /// Who of its consumers gets what; it must be of this type
    #[arg(long = "type", value_enum, default_value_t)]
    pub(crate) kind: Kind,
    /// Where it begins, if this creates it: earliest, latest, offset:N, time:RFC3339
    #[arg(long, value_name = "POSITION", default_value = "latest", value_parser = start)]
    pub(crate) from: Start,
    /// Stop after so many messages
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Stop when no message came for so long, such as 5s; the time does not pass while the connection is lost
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) idle_exit: Option<Duration>,
    /// How long the connection may be lost before the command fails
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = timeout)]
    pub(crate) timeout: Duration,
    /// Acknowledge nothing: all comes again, and no more come at once than the subscription's max_unacked_messages
    #[arg(long)]
    pub(crate) no_ack: bool,
    /// Take only keys that match, such as eu-*; may be given more than once
    #[arg(long = "filter", value_name = "GLOB")]
    pub(crate) filters: Vec<String>,
    /// Name of this consumer; it takes over from one that has the same [default: a random one]
    #[arg(long)]
    pub(crate) name: Option<ConsumerName>,
    /// How messages are shown
    #[arg(long, env = "DANUBE_OUTPUT", value_enum, default_value_t, hide_env_values = true)]
    pub(crate) output: MessageFormat,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// The type of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One consumer, in order
    #[default]
    Exclusive,
    /// All consumers in turn
    Shared,
    /// The consumer that came first, in order; the others stand by
    Failover,
    /// Each key has one consumer, in order
    KeyShared,
}

impl From<Kind> for SubscriptionType {
    fn from(kind: Kind) -> SubscriptionType {
        match kind {
            Kind::Exclusive => SubscriptionType::Exclusive,
            Kind::Shared => SubscriptionType::Shared,
            Kind::Failover => SubscriptionType::Failover,
            Kind::KeyShared => SubscriptionType::KeyShared,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubscriptionCommand {
    /// Create a subscription
    #[command(
        before_help = "danube subscription create /default/orders billing --type shared --from earliest"
    )]
    Create {
        /// The topic, /namespace/topic
        topic: TopicName,
        /// The subscription
        subscription: SubscriptionName,
        /// Who of its consumers gets what
        #[arg(long = "type", value_enum, default_value_t)]
        kind: Kind,
        /// Where it begins: earliest, latest, offset:N, time:RFC3339
        #[arg(long, value_name = "POSITION", default_value = "latest", value_parser = start)]
        from: Start,
        #[command(flatten)]
        common: Common,
    },
    /// List the subscriptions of a topic, one name a line
    #[command(before_help = "danube subscription list /default/orders")]
    List {
        /// The topic, /namespace/topic
        topic: TopicName,
        #[command(flatten)]
        common: Common,
    },
    /// Show all about a subscription, of each partition
    #[command(before_help = "danube subscription describe /default/orders billing")]
    Describe {
        /// The topic, /namespace/topic
        topic: TopicName,
        /// The subscription
        subscription: SubscriptionName,
        #[command(flatten)]
        common: Common,
    },
    /// Delete a subscription; its consumers end
    #[command(before_help = "danube subscription delete /default/orders billing --yes")]
    Delete {
        /// The topic, /namespace/topic
        topic: TopicName,
        /// The subscription
        subscription: SubscriptionName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Go back or forward; consumers that are there get what follows
    #[command(before_help = "danube subscription seek /default/orders billing --to earliest")]
    Seek {
        /// The topic, /namespace/topic
        topic: TopicName,
        /// The subscription
        subscription: SubscriptionName,
        /// Where to: earliest, latest, offset:N, time:RFC3339
        #[arg(long, value_name = "POSITION", value_parser = start)]
        to: Start,
        #[command(flatten)]
        common: Common,
    },
}
