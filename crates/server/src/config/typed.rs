//! The settings as types, for those who run with them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use danube_model::{ByteSize, Durability, Namespace, caps};

use super::value::Value;
use super::{Result, Settings};

/// What a broker runs with. Each field is the key of its name in the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Names the cluster.
    pub cluster_name: String,
    /// Address that all ports listen on.
    pub host: String,
    /// The ports; 0 takes a free one.
    pub ports: Ports,
    /// What lookups answer.
    pub advertised: Advertised,
    /// What fails together with this broker.
    pub failure_domain: Option<String>,
    /// The metadata's directory.
    pub meta_dir: PathBuf,
    /// Namespaces that a start creates.
    pub bootstrap_namespaces: Vec<Namespace>,
    /// Whether producers create missing topics.
    pub auto_create_topics: bool,
    /// Limits.
    pub policies: Policies,
    /// The tiers.
    pub storage: StorageConfig,
}

/// Port numbers; 0 takes a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Clients.
    pub client: u16,
    /// Admin gRPC of older tools.
    pub admin: u16,
    /// Brokers among themselves.
    pub raft: u16,
    /// HTTP.
    pub http: u16,
}

/// What lookups answer; without it the authority that the client called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// The broker's own address.
    pub broker_url: Option<String>,
    /// The address that clients connect to.
    pub connect_url: Option<String>,
}

/// Limits of topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    /// The largest payload.
    pub message_size_max: ByteSize,
}

/// Where messages are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageConfig {
    /// The hot tier's directory.
    pub wal_root: PathBuf,
    /// First part of keys in Valkey and bucket.
    pub metadata_prefix: String,
    /// What an acknowledgement means, for new topics.
    pub durability: Durability,
    /// When a segment is sealed.
    pub rotation: Rotation,
    /// Recent messages kept in memory.
    pub cache_size: ByteSize,
    /// Syncing.
    pub file_sync: FileSync,
    /// What is kept locally.
    pub local_retention: LocalRetention,
}

/// When a segment is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// At this size.
    pub size_max: ByteSize,
    /// At this age, if it is worth a file.
    pub age_max: Duration,
}

/// Syncing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSync {
    /// How often topics at `page_cache` are synced behind the ack.
    pub interval: Duration,
    /// The largest round.
    pub round_size_max: ByteSize,
}

/// What is kept locally; `None` is without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalRetention {
    /// For how long, per topic.
    pub time: Option<Duration>,
    /// How much, per topic.
    pub size: Option<ByteSize>,
    /// How often that is looked at.
    pub check_interval: Duration,
    /// How much, of all topics.
    pub total_size: Option<ByteSize>,
}

impl Config {
    /// The directory that holds everything, for people.
    pub fn data_dir(&self) -> &Path {
        let root = &self.storage.wal_root;
        match root.parent() {
            Some(parent) if root.ends_with("wal") && !parent.as_os_str().is_empty() => parent,
            _ => root,
        }
    }

    pub(crate) fn from_settings(settings: &Settings) -> Result<Config> {
        let settings = Typed(settings);
        let message_size_max = settings.size("policies.max_message_size");
        let largest = ByteSize::new(caps::MESSAGE_BYTES_MAX as u64);
        Ok(Config {
            cluster_name: settings.text("cluster_name"),
            host: settings.text("broker.host"),
            ports: Ports {
                client: settings.port("broker.ports.client"),
                admin: settings.port("broker.ports.admin"),
                raft: settings.port("broker.ports.raft"),
                http: settings.port("broker.ports.prometheus"),
            },
            advertised: Advertised {
                broker_url: settings.text_if_given("broker.advertised_listeners.broker_url"),
                connect_url: settings.text_if_given("broker.advertised_listeners.connect_url"),
            },
            failure_domain: settings.text_if_given("broker.failure_domain"),
            meta_dir: settings.text("meta_store.data_dir").into(),
            bootstrap_namespaces: settings.namespaces("bootstrap_namespaces"),
            auto_create_topics: settings.is_on("auto_create_topics"),
            policies: Policies {
                message_size_max: if message_size_max.get() == 0 {
                    largest
                } else {
                    message_size_max.min(largest)
                },
            },
            storage: StorageConfig {
                wal_root: settings.text("storage.local_wal_root").into(),
                metadata_prefix: settings.text("storage.metadata_prefix"),
                durability: settings.durability("storage.durability"),
                rotation: Rotation {
                    size_max: settings.size("storage.wal.rotation.max_bytes"),
                    age_max: settings.time("storage.wal.rotation.max_hours"),
                },
                cache_size: settings.size("storage.wal.advanced.cache_capacity"),
                file_sync: FileSync {
                    interval: settings.time("storage.wal.advanced.file_sync.interval_ms"),
                    round_size_max: settings.size("storage.wal.advanced.file_sync.max_batch_bytes"),
                },
                local_retention: LocalRetention {
                    time: Some(settings.time("storage.local_retention.time_minutes"))
                        .filter(|time| !time.is_zero()),
                    size: Some(settings.size("storage.local_retention.size_mb"))
                        .filter(|size| size.get() > 0),
                    check_interval: settings.time("storage.local_retention.check_interval_minutes"),
                    total_size: settings.size_if_given("storage.local_retention.total_size"),
                },
            },
        })
    }
}

/// Looks up keys whose kinds are known from the table.
struct Typed<'a>(&'a Settings);

/// A key of another kind, or without a default, would be a slip in this file that any test finds.
macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        fn $name(&self, path: &'static str) -> $type {
            match self.0.get(path) {
                Some(Value::$variant(value)) => value,
                other => unreachable!("{path} is {other:?}"),
            }
        }
    };
}

impl Typed<'_> {
    getter!(text, Text, String);
    getter!(is_on, Switch, bool);
    getter!(count, Count, u64);
    getter!(size, Size, ByteSize);
    getter!(time, Time, Duration);
    getter!(namespaces, Namespaces, Vec<Namespace>);

    fn port(&self, path: &'static str) -> u16 {
        self.count(path).try_into().expect("the table bounds ports")
    }

    fn text_if_given(&self, path: &'static str) -> Option<String> {
        self.0.get(path).map(|_| self.text(path))
    }

    fn size_if_given(&self, path: &'static str) -> Option<ByteSize> {
        self.0.get(path).map(|_| self.size(path))
    }

    fn durability(&self, path: &'static str) -> Durability {
        match self.0.get(path) {
            Some(Value::Durability(level)) => level,
            None => Durability::Disk,
            other => unreachable!("{path} is {other:?}"),
        }
    }
}
