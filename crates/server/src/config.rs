//! Settings: what an operator can tune, from a file, the environment and the command line.
//!
//! ```text
//!  file ─────────┐
//!  environment ──┼─▶ sources ─▶ settings ─▶ Config, which the server is made of
//!  command line ─┘      │           │
//!                       └── keys ───┴─▶ show, reference
//! ```
//!
//! One table, [`keys`], says what keys there are, what they take, what holds without them, and what this build makes of them.
//! All else follows from it. Nothing is ignored in silence: an unknown key, a value of the wrong kind and a key that needs what
//! this build lacks refuse the start, all at once; what is read without being enforced is a [`Notice`].
//!
//! Reading order: [`keys`], [`value`], [`yaml`], [`sources`], [`settings`], [`show`].

mod address;
mod keys;
mod problem;
mod settings;
mod show;
mod sources;
mod subscriptions;
mod value;
mod yaml;

use std::path::{Path, PathBuf};
use std::time::Duration;

use danube_broker::{AlarmConfig, MetricsLimits, RetentionConfig, SubscriptionConfig};
use danube_model::{Durability, Namespace, caps};

pub use address::Address;
pub use problem::{Notice, Place, Problem, Problems};
pub use settings::{Line, Settings};
pub use show::{as_file, reference};
pub use sources::{Flags, SettingsFile, Sources};

/// Where everything is kept unless something else is said.
const DATA_DIR: &str = "./danube-data";
/// Directory of the messages in a data directory.
const WAL: &str = "wal";
/// Directory of the metadata in a data directory.
const RAFT: &str = "raft";

/// Settings of a broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Where it listens.
    pub listen: Listen,
    /// What look-ups answer.
    pub advertised: Advertised,
    /// Directory of the metadata.
    pub metadata_dir: PathBuf,
    /// Namespaces that are created at start where they are missing.
    pub namespaces: Vec<Namespace>,
    /// Whether a producer creates the topic that it is for.
    pub auto_create_topics: bool,
    /// The hot tier.
    pub storage: Storage,
    /// Producers of a topic at most; 0 = no limit.
    pub producers_per_topic_max: u64,
    /// Messages per second into a topic at most; 0 = no limit.
    pub publish_rate_max: u64,
    /// Payload of a message at most, in bytes.
    pub message_bytes_max: u64,
    /// Subscriptions.
    pub subscriptions: SubscriptionConfig,
    /// Of how many objects there are metrics.
    pub metrics: MetricsLimits,
    /// When alarms are raised.
    pub alarms: AlarmConfig,
}

/// URLs that look-ups answer, with scheme and port. `None`: what the client called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// The broker's own.
    pub broker_url: Option<String>,
    /// Where clients connect, if that is another one.
    pub connect_url: Option<String>,
}

/// The four addresses of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Clients.
    pub client: Address,
    /// Administration by existing tools.
    pub admin: Address,
    /// HTTP.
    pub http: Address,
    /// Other brokers.
    pub raft: Address,
}

/// Settings of what is kept on the broker's disk. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Directory of the messages.
    pub root: PathBuf,
    /// Level of topics that do not say one.
    pub durability: Durability,
    /// A segment is sealed before it grows beyond this.
    pub segment_bytes: u64,
    /// A segment that is worth a file is sealed when it is this old.
    pub segment_age: Duration,
    /// What makes a segment worth a file.
    pub segment_worth_bytes: u64,
    /// Any segment is sealed when it is this old.
    pub segment_age_max: Duration,
    /// Memory for recent messages.
    pub tail_bytes: u64,
    /// Memory for messages that wait to be written.
    pub queue_bytes: u64,
    /// How often `page_cache` topics are synced.
    pub page_cache_sync: Duration,
    /// What one sync makes durable at most.
    pub round_bytes: u64,
    /// After a busy spell, its last sync is noted this much later.
    pub quiet_sync: Duration,
    /// Size of the journal at most.
    pub journal_bytes: u64,
    /// A checkpoint is taken when so much was written since the last.
    pub checkpoint_bytes: u64,
    /// Files of messages that stay open between two uses; None: by the process's limit.
    pub open_files_max: Option<usize>,
    /// How often free space is looked for while the volume is full.
    pub space_check: Duration,
    /// What is kept.
    pub retention: RetentionConfig,
}

/// Settings as they were read, and what they amount to.
#[derive(Debug)]
pub struct Loaded {
    /// For the server.
    pub config: Config,
    /// Key by key, for people.
    pub settings: Settings,
}

impl Config {
    /// Reads and checks all sources.
    ///
    /// # Errors
    ///
    /// All problems at once.
    pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
        let (settings, mut problems) = Settings::resolve(sources::Reading::of(sources));
        if sources.file.is_some() && settings.place("cluster_name").is_none() {
            problems.push(Problem { place: None, what: "`cluster_name` is missing".to_owned() });
        }
        let listen = listen(&settings, &sources.flags, &mut problems);
        let config = Config::of(&settings, listen, &mut problems);
        config.check(&mut problems);
        if problems.is_empty() { Ok(Loaded { config, settings }) } else { Err(Problems(problems)) }
    }

    fn of(settings: &Settings, listen: Listen, problems: &mut Vec<Problem>) -> Config {
        let default_dir = |name| Path::new(DATA_DIR).join(name);
        let message_bytes_max = match settings.size("policies.max_message_size") {
            None | Some(0) => caps::MESSAGE_BYTES_MAX as u64,
            Some(bytes) => bytes,
        };
        let namespaces = settings.list("bootstrap_namespaces").iter();
        let advertised = |url| {
            let path = format!("broker.advertised_listeners.{url}");
            settings.text(&path).map(str::to_owned)
        };
        Config {
            cluster_name: settings.text("cluster_name").expect(HAS_DEFAULT).to_owned(),
            listen,
            advertised: Advertised {
                broker_url: advertised("broker_url"),
                connect_url: advertised("connect_url"),
            },
            metadata_dir: settings.path("meta_store.data_dir").unwrap_or_else(|| default_dir(RAFT)),
            namespaces: namespaces
                .map(|name| name.parse().expect("checked when the list was read"))
                .collect(),
            auto_create_topics: settings.flag("auto_create_topics"),
            storage: Storage::of(settings, default_dir(WAL)),
            producers_per_topic_max: settings.number("policies.max_producers_per_topic"),
            publish_rate_max: settings.number("policies.max_publish_rate"),
            message_bytes_max,
            subscriptions: subscriptions::of(settings, problems),
            metrics: MetricsLimits {
                topics: settings.number("metrics.max_topics"),
                subscriptions: settings.number("metrics.max_subscriptions"),
            },
            alarms: AlarmConfig {
                check_interval: settings.time("alarms.check_interval"),
                slow: settings.time("alarms.slow_storage"),
                clock_jump: settings.time("alarms.clock_jump"),
                clock_jump_kept: settings.time("alarms.clock_jump_kept"),
                open_files_percent: settings.number("alarms.open_files_percent"),
            },
        }
    }

    /// The directory that holds all that is kept, where there is one; else that of the messages.
    pub fn data_dir(&self) -> &Path {
        let (root, metadata) = (self.storage.root.as_path(), self.metadata_dir.as_path());
        match (root.parent(), metadata.parent()) {
            (Some(one), Some(other))
                if one == other && root.ends_with(WAL) && metadata.ends_with(RAFT) =>
            {
                one
            }
            _ => root,
        }
    }

    /// What each key alone can't show.
    fn check(&self, problems: &mut Vec<Problem>) {
        let mut found = |what: String| problems.push(Problem { place: None, what });
        let Listen { client, admin, http, raft } = &self.listen;
        let all = [("client", client), ("admin", admin), ("http", http), ("raft", raft)];
        for (at, (name, address)) in all.iter().enumerate() {
            for (other_name, other) in &all[at + 1..] {
                if address == other && address.port != 0 {
                    found(format!("{name} and {other_name} can't both listen on {address}"));
                }
            }
        }
        if self.storage.root == self.metadata_dir {
            let dir = self.metadata_dir.display();
            found(format!("messages and metadata can't share the directory {dir}"));
        }
    }
}

impl Storage {
    fn of(settings: &Settings, default_root: PathBuf) -> Storage {
        let size = |path| settings.size(path).expect(HAS_DEFAULT);
        let limit = |path| settings.size(path).filter(|bytes| *bytes > 0);
        let durability = settings.text("storage.durability").expect(HAS_DEFAULT);
        let time = settings.time("storage.local_retention.time_minutes");
        Storage {
            root: settings.path("storage.local_wal_root").unwrap_or(default_root),
            durability: durability.parse().expect("the key takes nothing else"),
            segment_bytes: size("storage.wal.rotation.max_bytes"),
            segment_age: settings.time("storage.wal.rotation.max_hours"),
            segment_worth_bytes: size("storage.wal.rotation.min_bytes"),
            segment_age_max: settings.time("storage.wal.rotation.max_days"),
            tail_bytes: size("storage.wal.advanced.cache_capacity"),
            queue_bytes: size("storage.wal.advanced.queue_capacity"),
            page_cache_sync: settings.time("storage.wal.advanced.file_sync.interval_ms"),
            round_bytes: size("storage.wal.advanced.file_sync.max_batch_bytes"),
            quiet_sync: settings.time("storage.wal.advanced.file_sync.quiet_ms"),
            journal_bytes: size("storage.wal.advanced.journal.max_bytes"),
            checkpoint_bytes: size("storage.wal.advanced.journal.checkpoint_bytes"),
            open_files_max: settings
                .number_if_set("storage.wal.advanced.max_open_files")
                .map(|files| files as usize),
            space_check: settings.time("storage.wal.advanced.space_check_interval"),
            retention: RetentionConfig {
                time: Some(time).filter(|time| !time.is_zero()),
                bytes: limit("storage.local_retention.size_mb"),
                total_bytes: limit("storage.local_retention.total_size"),
                check_interval: settings.time("storage.local_retention.check_interval_minutes"),
            },
        }
    }
}

const HAS_DEFAULT: &str = "the table has a default for it";

fn listen(settings: &Settings, flags: &Flags, problems: &mut Vec<Problem>) -> Listen {
    let host = settings.text("broker.host").expect(HAS_DEFAULT);
    let mut address = |port: &str, flag: &'static str, text: &Option<String>| {
        let port = settings.number(port);
        let port = u16::try_from(port).expect("the key takes nothing larger");
        let otherwise = Address { host: host.to_owned(), port };
        let Some(text) = text else { return otherwise };
        Address::parse(text).unwrap_or_else(|| {
            let what = format!("expected `host:port`, found `{text}`");
            problems.push(Problem { place: Some(Place::Flag { flag }), what });
            otherwise
        })
    };
    Listen {
        client: address("broker.ports.client", "--listen", &flags.listen),
        admin: address("broker.ports.admin", "--admin-listen", &flags.admin_listen),
        http: address("broker.ports.prometheus", "--http-listen", &flags.http_listen),
        raft: address("broker.ports.raft", "--raft-listen", &flags.raft_listen),
    }
}

#[cfg(test)]
mod tests;
