//! What can be said on the command line, and what it means.

mod bench;
mod subscription;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use danube_client::{Client, Compression, Durability, Start, TopicName};
use danube_model::units::parse_duration;
use danube_model::{ByteSize, Namespace, Offset, caps};

pub(crate) use self::bench::{BenchCommand, BenchLoad, BenchRun, BenchTopics, PayloadKind};
pub(crate) use self::subscription::{ConsumeOptions, SubscriptionCommand};
use crate::failure::{Failure, Result};
use crate::time;

/// A streaming platform in one small binary.
#[derive(Debug, Parser)]
#[command(name = "danube", version, about, before_help = "danube server")]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a broker
    ///
    /// Prints one line to standard output when everything listens, `danube ready client=…`; logs go to standard error, and
    /// DANUBE_LOG says which (info, or info,danube_log=debug). SIGTERM or Ctrl-C stops it, a second one at once. Settings
    /// come from the file, from the environment (DANUBE_STORAGE__DURABILITY=page_cache) and from flags; later ones win.
    #[command(before_help = "danube server --config danube.yml --data-dir /var/lib/danube")]
    Server(ServerOptions),
    /// Send each line of standard input as a message
    #[command(before_help = "danube produce /default/orders --print-offsets <lines.txt")]
    Produce(ProduceOptions),
    /// Take messages of a subscription, each until it is acknowledged
    ///
    /// A message is acknowledged when it was printed. The subscription is created if it is new. SIGTERM or Ctrl-C ends it as
    /// --idle-exit does: what was printed is acknowledged, and the exit code is 0, or 1 if the broker did not confirm that
    /// within 5s. A second one ends it at once.
    #[command(
        before_help = "danube consume /default/orders --subscription billing --from earliest"
    )]
    Consume(ConsumeOptions),
    /// Read the log of a topic, without a subscription
    #[command(before_help = "danube read /default/orders --from offset:100 --follow --output json")]
    Read(ReadOptions),
    /// Create, list, describe, change, delete and repair topics
    #[command(subcommand)]
    Topic(TopicCommand),
    /// List, describe, create, delete and seek subscriptions
    #[command(subcommand)]
    Subscription(SubscriptionCommand),
    /// Measure a broker: throughput, and latency free of coordinated omission
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Check and show settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look at the files of a broker, offline: what they hold, and what is damaged
    #[command(subcommand)]
    Inspect(InspectCommand),
}

#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    /// File of settings, YAML
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory of everything that is kept: DIR/wal and DIR/raft [default: ./danube-data]
    #[arg(long, value_name = "DIR", value_parser = not_empty)]
    pub(crate) data_dir: Option<String>,
    /// Where clients connect; port 0 takes a free one [default: 127.0.0.1:6650]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Administration by existing tools [default: 127.0.0.1:50051]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin_listen: Option<String>,
    /// HTTP: health, metrics, alarms [default: 127.0.0.1:9040]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) http_listen: Option<String>,
    /// Brokers among themselves [default: 127.0.0.1:7650]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) raft_listen: Option<String>,
    /// URL that clients are told to connect to
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// Brokers of the cluster to join
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) join: Vec<String>,
    /// How logs are written to standard error; json: an object a line
    #[arg(long, env = "DANUBE_LOG_FORMAT", value_enum, default_value_t, hide_env_values = true)]
    pub(crate) log_format: Format,
}

/// How a broker is reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The broker
    #[arg(
        long,
        env = "DANUBE_URL",
        default_value = "http://127.0.0.1:6650",
        hide_env_values = true
    )]
    url: String,
    /// Token that says who is calling
    #[arg(long, env = "DANUBE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Authority of the broker's certificate, PEM
    #[arg(long, env = "DANUBE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate of the caller, PEM
    #[arg(long, env = "DANUBE_CERT", value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key of the caller, PEM
    #[arg(long, env = "DANUBE_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Connection {
    /// The broker's client; nothing is connected yet.
    pub(crate) fn client(&self) -> Result<Client> {
        for (flag, is_set) in [
            ("--token", self.token.is_some()),
            ("--ca", self.ca.is_some()),
            ("--cert", self.cert.is_some()),
            ("--key-file", self.key_file.is_some()),
        ] {
            if is_set {
                let text = format!("{flag} needs authentication, which this build lacks");
                return Err(Failure::new(text).hint("leave it out, in the environment too"));
            }
        }
        Client::connect(&self.url).map_err(|error| Failure::Misuse(format!("error: {error}")))
    }
}

/// How tables and single objects are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One object a line
    Json,
}

/// How messages are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MessageFormat {
    /// Each payload and a newline
    #[default]
    Text,
    /// One object a line
    Json,
    /// Payloads and nothing else
    Raw,
}

#[derive(Debug, Args)]
pub(crate) struct ProduceOptions {
    /// The topic, /namespace/topic; created if it is missing
    pub(crate) topic: TopicName,
    /// Send this file as one message instead; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// Routing key of every message
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// What stands between key and payload in each line
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["key", "file"], value_parser = not_empty)]
    pub(crate) key_separator: Option<String>,
    /// Attribute of every message; may be given more than once
    #[arg(long = "attr", value_name = "NAME=VALUE", value_parser = attribute)]
    pub(crate) attributes: Vec<(String, String)>,
    /// Messages per second at most
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// How batches are compressed: none, lz4, zstd
    #[arg(long, default_value = "none")]
    pub(crate) compression: Compression,
    /// Print `topic<TAB>offset` for each message when it is acknowledged, in the order of the input
    #[arg(long)]
    pub(crate) print_offsets: bool,
    /// How long a message is tried again before the command fails
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = timeout)]
    pub(crate) timeout: Duration,
    /// Partitions of the topic, if this creates it; else it must have as many
    #[arg(long, value_name = "N", value_parser = partitions())]
    pub(crate) partitions: Option<u32>,
    /// Keep nothing, if this creates the topic; else it must be so
    #[arg(long, conflicts_with = "durability")]
    pub(crate) non_reliable: bool,
    /// What an acknowledgement means, if this creates the topic; else it must be so: page_cache, disk
    #[arg(long, value_name = "LEVEL")]
    pub(crate) durability: Option<Durability>,
    /// How offsets are printed
    #[arg(long, env = "DANUBE_OUTPUT", value_enum, default_value_t, hide_env_values = true)]
    pub(crate) output: MessageFormat,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Args)]
pub(crate) struct ReadOptions {
    /// The topic, /namespace/topic
    pub(crate) topic: TopicName,
    /// Where to begin: earliest, latest, offset:N, time:RFC3339
    #[arg(long, value_name = "POSITION", default_value = "earliest", value_parser = start)]
    pub(crate) from: Start,
    /// Before which offset to stop: offset:N
    #[arg(long, value_name = "POSITION", value_parser = end)]
    pub(crate) to: Option<Offset>,
    /// Stop after so many messages
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Wait for more at the end
    #[arg(long)]
    pub(crate) follow: bool,
    /// How messages are shown
    #[arg(long, env = "DANUBE_OUTPUT", value_enum, default_value_t, hide_env_values = true)]
    pub(crate) output: MessageFormat,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Create a topic
    #[command(
        before_help = "danube topic create /default/orders --partitions 4 --retention-time 7d"
    )]
    Create {
        /// The topic, /namespace/topic
        topic: TopicName,
        /// How many partitions; none if it is not said
        #[arg(long, value_name = "N", value_parser = partitions())]
        partitions: Option<u32>,
        /// Keep nothing: messages pass from memory to whoever listens
        #[arg(long, conflicts_with = "durability")]
        non_reliable: bool,
        #[command(flatten)]
        settings: TopicSettings,
        #[command(flatten)]
        common: Common,
    },
    /// List topics, one name a line
    #[command(before_help = "danube topic list --namespace default")]
    List {
        /// Only those of this namespace
        #[arg(long)]
        namespace: Option<Namespace>,
        #[command(flatten)]
        common: Common,
    },
    /// Show all about a topic
    #[command(before_help = "danube topic describe /default/orders")]
    Describe {
        /// The topic, /namespace/topic
        topic: TopicName,
        #[command(flatten)]
        common: Common,
    },
    /// Change settings of a topic; what is not said stays
    #[command(before_help = "danube topic update /default/orders --durability page_cache")]
    Update {
        /// The topic, /namespace/topic
        topic: TopicName,
        /// Add partitions, until there are so many
        #[arg(long, value_name = "N", value_parser = partitions())]
        partitions: Option<u32>,
        #[command(flatten)]
        settings: TopicSettings,
        #[command(flatten)]
        common: Common,
    },
    /// Delete a topic with all its messages
    #[command(before_help = "danube topic delete /default/orders --yes")]
    Delete {
        /// The topic, /namespace/topic
        topic: TopicName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Show what is damaged or lost in a topic, and mend what can be mended
    #[command(before_help = "danube topic repair /default/orders --accept-gap")]
    Repair {
        /// The topic, /namespace/topic
        topic: TopicName,
        /// Give up what can't be mended: readers are told of a gap and go on
        #[arg(long)]
        accept_gap: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        common: Common,
    },
}

/// Settings of a topic that can be changed.
#[derive(Debug, Args)]
pub(crate) struct TopicSettings {
    /// What an acknowledgement means: page_cache, disk
    #[arg(long, value_name = "LEVEL")]
    pub(crate) durability: Option<Durability>,
    /// How long messages are kept, such as 7d; none: without limit; default: as the broker says
    #[arg(long, value_name = "TIME", value_parser = |text: &str| kept(text, Duration::ZERO, parse_duration))]
    pub(crate) retention_time: Option<Kept<Duration>>,
    /// How much is kept at least, such as 10GiB; none: without limit; default: as the broker says
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| kept(text, ByteSize::new(0), str::parse))]
    pub(crate) retention_size: Option<Kept<ByteSize>>,
    /// The largest message, such as 1MiB; 0: as the broker says
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_message_size: Option<ByteSize>,
}

/// How long, or how much, is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept<T> {
    /// As the broker says.
    Default,
    /// So long, or so much; zero: without limit.
    Of(T),
}

impl<T> Kept<T> {
    pub(crate) fn said(self) -> Option<T> {
        match self {
            Kept::Default => None,
            Kept::Of(limit) => Some(limit),
        }
    }
}

fn kept<T, E>(
    text: &str,
    unlimited: T,
    parse: impl Fn(&str) -> std::result::Result<T, E>,
) -> std::result::Result<Kept<T>, E> {
    match text {
        "default" => Ok(Kept::Default),
        "none" => Ok(Kept::Of(unlimited)),
        limit => parse(limit).map(Kept::Of),
    }
}

/// What all commands of administration take.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// How results are shown
    #[arg(long, env = "DANUBE_OUTPUT", value_enum, default_value_t, hide_env_values = true)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what is wrong with a file of settings
    #[command(before_help = "danube config check danube.yml")]
    Check {
        /// The file
        file: PathBuf,
    },
    /// Show the settings that are in force, and where each was said
    #[command(before_help = "danube config show --config danube.yml")]
    Show {
        /// File of settings, as for `danube server`
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// How they are shown; text is a file that can be used again
        #[arg(long, value_enum, default_value_t)]
        output: Format,
    },
    /// Print the reference of all settings, Markdown
    Reference,
    /// Print the reference of all metrics, Markdown
    Metrics,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InspectCommand {
    /// Print and verify a segment
    #[command(
        before_help = "danube inspect segment danube-data/wal/topics/…/00000000000000000000.seg"
    )]
    Segment {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        options: InspectOptions,
    },
    /// Print and verify the journal, and say what a start would make of it
    #[command(before_help = "danube inspect journal danube-data")]
    Journal {
        /// The data directory, or the directory of the messages in it
        dir: PathBuf,
        #[command(flatten)]
        options: InspectOptions,
    },
}

#[derive(Debug, Args)]
pub(crate) struct InspectOptions {
    /// Only what is wrong, and the sum
    #[arg(long)]
    pub(crate) summary: bool,
    /// How it is shown
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

impl Arguments {
    /// The arguments of this process.
    pub(crate) fn parse_all() -> Result<Arguments> {
        Arguments::of(std::env::args_os())
    }

    /// What `words` mean; the first is the name of the program.
    pub(crate) fn of(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Arguments> {
        Arguments::try_parse_from(words).map_err(|error| {
            let text = error.render().to_string();
            if error.use_stderr() { Failure::Misuse(text) } else { Failure::Help(text) }
        })
    }
}

fn not_empty(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Err("expected some text") } else { Ok(text.to_owned()) }
}

fn attribute(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE"),
    }
}

fn partitions() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=u64::from(caps::PARTITIONS_MAX))
}

fn timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("expected a time above 0".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("expected a number above 0"),
    }
}

fn start(text: &str) -> Result<Start, String> {
    let unknown = || "expected earliest, latest, offset:N or time:RFC3339".to_owned();
    match text.split_once(':') {
        None if text == "earliest" => Ok(Start::Earliest),
        None if text == "latest" => Ok(Start::Latest),
        Some(("offset", number)) => offset(number).map(Start::Offset),
        Some(("time", time)) => time::parse(time)
            .map(Start::Time)
            .ok_or_else(|| "expected a time such as time:2026-01-31T12:00:00Z".to_owned()),
        _ => Err(unknown()),
    }
}

fn end(text: &str) -> Result<Offset, String> {
    match text.split_once(':') {
        Some(("offset", number)) => offset(number),
        _ => Err("expected offset:N".to_owned()),
    }
}

fn offset(number: &str) -> Result<Offset, String> {
    let number =
        number.parse::<u64>().map_err(|_| "expected a number behind offset:".to_owned())?;
    Offset::try_from(number).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
