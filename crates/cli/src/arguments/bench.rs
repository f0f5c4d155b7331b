//! What can be said of a measurement.

use std::num::NonZeroU64;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use danube_client::{Compression, Durability, TopicName};
use danube_model::ByteSize;

use super::{Common, partitions, rate, timeout};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure producing: throughput, and the time from when a message was due until it is acknowledged
    ///
    /// Without --rate each producer keeps --in-flight messages unacknowledged, and a message is due when it is sent. With
    /// --rate it is due at its time, however late it could be sent: a broker that pauses is not excused. The topics are
    /// created, and deleted at the end; topics that are named are used as they are. Ctrl-C ends it with what was measured.
    #[command(before_help = "danube bench produce --topics 4 --rate 50000 --duration 30s")]
    Produce {
        #[command(flatten)]
        topics: BenchTopics,
        #[command(flatten)]
        load: BenchLoad,
        /// Messages per second of all producers together; without it as many as go
        #[arg(long, value_name = "N", value_parser = rate)]
        rate: Option<f64>,
        #[command(flatten)]
        run: BenchRun,
    },
    /// Measure consuming: how fast a backlog is taken and acknowledged
    ///
    /// Topics that it creates are filled with --count messages first, 100000 if it is not said; those that are named are
    /// read from their start, by a subscription that is deleted at the end. The end-to-end time is that of messages which `danube bench
    /// produce` sent on the same machine.
    #[command(before_help = "danube bench consume --partitions 4 --consumers 4 --count 1000000")]
    Consume {
        #[command(flatten)]
        topics: BenchTopics,
        #[command(flatten)]
        load: BenchLoad,
        /// Consumers in all; those of one topic share a subscription [default: one for each topic]
        #[arg(long, value_name = "N", value_parser = workers())]
        consumers: Option<u32>,
        #[command(flatten)]
        run: BenchRun,
    },
    /// Measure from producers to consumers: also the time from when a message was due until it is consumed
    ///
    /// As `danube bench produce`, with consumers at the same time. The time at which a message was due stands in its payload,
    /// by a clock of this machine.
    #[command(before_help = "danube bench end-to-end --rate 1000 --duration 30s --output json")]
    EndToEnd {
        #[command(flatten)]
        topics: BenchTopics,
        #[command(flatten)]
        load: BenchLoad,
        /// Consumers in all; those of one topic share a subscription [default: one for each topic]
        #[arg(long, value_name = "N", value_parser = workers())]
        consumers: Option<u32>,
        /// Messages per second of all producers together; without it as many as go
        #[arg(long, value_name = "N", value_parser = rate)]
        rate: Option<f64>,
        #[command(flatten)]
        run: BenchRun,
    },
}

/// On which topics.
#[derive(Debug, Args)]
pub(crate) struct BenchTopics {
    /// Topics that are there, /namespace/topic; none: it creates its own
    pub(crate) named: Vec<TopicName>,
    /// How many topics it creates [default: 1]
    #[arg(long, value_name = "N", value_parser = workers(), conflicts_with = "named")]
    pub(crate) topics: Option<u32>,
    /// Partitions of each topic that it creates
    #[arg(long, value_name = "N", value_parser = partitions(), conflicts_with = "named")]
    pub(crate) partitions: Option<u32>,
    /// What an acknowledgement means in the topics that it creates: page_cache, disk
    #[arg(long, value_name = "LEVEL", conflicts_with = "named")]
    pub(crate) durability: Option<Durability>,
    /// Leave the topics that it created
    #[arg(long, conflicts_with = "named")]
    pub(crate) keep: bool,
}

/// What is sent.
#[derive(Debug, Args)]
pub(crate) struct BenchLoad {
    /// Producers in all; they take the topics in turn [default: one for each topic]
    #[arg(long, value_name = "N", value_parser = workers())]
    pub(crate) producers: Option<u32>,
    /// Payload of a message [default: 1KiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) message_size: Option<ByteSize>,
    /// A batch of this size is sent without waiting for more [default: 256KiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) batch_size: Option<ByteSize>,
    /// Messages of a producer that are not acknowledged yet, at most [default: 1000, or 64MiB of large ones]
    #[arg(long, value_name = "N", value_parser = workers())]
    pub(crate) in_flight: Option<u32>,
    /// How batches are compressed: none, lz4, zstd [default: none]
    #[arg(long)]
    pub(crate) compression: Option<Compression>,
    /// What is in a message [default: random]
    #[arg(long, value_enum)]
    pub(crate) payload: Option<PayloadKind>,
}

/// How long, and what is shown.
#[derive(Debug, Args)]
pub(crate) struct BenchRun {
    /// End after so many messages in all
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<NonZeroU64>,
    /// End after this time [default: 10s, unless --count says when]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    pub(crate) duration: Option<Duration>,
    /// Say once a second how it goes, also where standard error is no terminal
    #[arg(long)]
    pub(crate) progress: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What payloads are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadKind {
    /// Noise, which nothing compresses
    #[default]
    Random,
    /// Words, which compress as text does
    Text,
}

impl BenchLoad {
    /// The names of what was said.
    pub(crate) fn said(&self) -> impl Iterator<Item = &'static str> {
        let said = [
            ("--producers", self.producers.is_some()),
            ("--message-size", self.message_size.is_some()),
            ("--batch-size", self.batch_size.is_some()),
            ("--in-flight", self.in_flight.is_some()),
            ("--compression", self.compression.is_some()),
            ("--payload", self.payload.is_some()),
        ];
        said.into_iter().filter_map(|(flag, is_said)| is_said.then_some(flag))
    }
}

fn workers() -> clap::builder::RangedU64ValueParser<u32> {
    clap::builder::RangedU64ValueParser::new().range(1..=1_000_000)
}
