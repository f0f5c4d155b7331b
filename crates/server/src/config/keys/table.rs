//! The keys outside `storage`.

use std::time::Duration;

use super::Fallback::{None, Value};
use super::Key;
use super::Support::{self, Idle, Only};
use crate::config::value::Item::{Address, Namespace, Text as Texts};
use crate::config::value::Kind::{
    self, Bool, Choice, List, Number, Path, Secret, Size, Text, Time, Url,
};
use crate::config::value::Plain::Bytes;

const PORT: Kind = Number(0, 65_535);
const COUNT: Kind = Number(0, u64::MAX);
const MILLISECONDS: Kind = Time(Some("ms"), Duration::ZERO);
const SECONDS: Kind = Time(Some("s"), Duration::from_millis(1));
const PERIOD: Kind = Time(Option::None, Duration::from_millis(1));

const CLUSTER: Support = Idle("clustering");
const AUTHENTICATION: Support = Idle("authentication");

/// What comes before `storage` in the reference.
pub(super) const BEFORE_STORAGE: &[Key] = &[
    Key::new("cluster_name", Text, Value("danube"), "Name of the cluster. A file must say it."),
    Key::new(
        "bootstrap_namespaces",
        List(Namespace),
        Value("[default]"),
        "Namespaces that are created at start where they are missing.",
    ),
    Key::new(
        "auto_create_topics",
        Bool,
        Value("true"),
        "Whether a producer creates the topic that it is for.",
    ),
    Key::new("admin_tls", Bool, Value("false"), "Whether the port for administration takes TLS.")
        .support(Only(&["false"], "TLS")),
    Key::new(
        "broker.host",
        Text,
        Value("127.0.0.1"),
        "The address that the broker listens on: an IP address, or a name that stands for one.",
    ),
    Key::new("broker.ports.client", PORT, Value("6650"), "Port for clients. 0 takes a free one."),
    Key::new(
        "broker.ports.admin",
        PORT,
        Value("50051"),
        "Port for administration by existing tools. 0 takes a free one.",
    ),
    Key::new(
        "broker.ports.raft",
        PORT,
        Value("7650"),
        "Port for other brokers. 0 takes a free one.",
    ),
    Key::new(
        "broker.ports.prometheus",
        PORT,
        Value("9040"),
        "Port for HTTP: health, metrics, API. 0 takes a free one.",
    ),
    Key::new(
        "broker.advertised_listeners.broker_url",
        Url,
        None("the authority that the client called"),
        "URL of the broker itself, which look-ups answer.",
    ),
    Key::new(
        "broker.advertised_listeners.connect_url",
        Url,
        None("`broker_url`"),
        "URL that clients are to connect to, where it is another, as behind a proxy.",
    ),
    Key::new(
        "broker.failure_domain",
        Text,
        None("none"),
        "What the broker fails together with, such as a rack or a zone.",
    )
    .support(CLUSTER),
    Key::new(
        "meta_store.data_dir",
        Path,
        None("`raft` in the data directory"),
        "Directory of the metadata.",
    ),
    Key::new(
        "meta_store.seed_nodes",
        List(Address),
        Value("[]"),
        "Brokers of the cluster to join. Empty: one broker.",
    )
    .support(Only(&["[]"], "clustering")),
    Key::new(
        "auth.mode",
        Choice(&["none", "tls"]),
        Value("none"),
        "How clients prove who they are. `none`: everyone may do everything.",
    )
    .support(Only(&["none"], "authentication")),
    Key::new("auth.tls.cert_file", Path, None("none"), "Certificate of the broker, PEM.")
        .support(AUTHENTICATION),
    Key::new("auth.tls.key_file", Path, None("none"), "Private key of the broker, PEM.")
        .support(AUTHENTICATION),
    Key::new("auth.tls.ca_file", Path, None("none"), "Authority that signs certificates, PEM.")
        .support(AUTHENTICATION),
    Key::new("auth.jwt.secret_key", Secret, None("none"), "Key that signs tokens.")
        .support(AUTHENTICATION),
    Key::new("auth.jwt.issuer", Text, None("none"), "Issuer of tokens.").support(AUTHENTICATION),
    Key::new("auth.jwt.expiration_time", SECONDS, None("none"), "How long a token is valid.")
        .support(AUTHENTICATION),
    Key::new("auth.super_admins", List(Texts), Value("[]"), "Who may do everything.")
        .support(AUTHENTICATION),
    Key::new(
        "load_manager.assignment_strategy",
        Choice(&["fair", "balanced", "weighted_load"]),
        Value("fair"),
        "How topics are given to brokers.",
    )
    .support(CLUSTER),
    Key::new(
        "load_manager.load_report_interval_seconds",
        SECONDS,
        Value("30s"),
        "How often a broker says how busy it is.",
    )
    .support(CLUSTER),
    Key::new(
        "load_manager.rebalancing.enabled",
        Bool,
        Value("false"),
        "Whether topics are moved from busy brokers to idle ones.",
    )
    .support(Only(&["false"], "clustering")),
    Key::new(
        "load_manager.rebalancing.aggressiveness",
        Choice(&["conservative", "balanced", "aggressive"]),
        Value("balanced"),
        "How small a difference is worth a move.",
    )
    .support(CLUSTER),
    Key::new(
        "load_manager.rebalancing.check_interval_seconds",
        SECONDS,
        Value("5m"),
        "How often differences are looked for.",
    )
    .support(CLUSTER),
    Key::new(
        "load_manager.rebalancing.max_moves_per_hour",
        COUNT,
        Value("10"),
        "Moves in an hour at most.",
    )
    .support(CLUSTER),
    Key::new(
        "load_manager.rebalancing.cooldown_seconds",
        SECONDS,
        Value("1m"),
        "Time between two moves at least.",
    )
    .support(CLUSTER),
    Key::new(
        "load_manager.rebalancing.min_brokers_for_rebalance",
        COUNT,
        Value("2"),
        "Fewer brokers than these move nothing.",
    )
    .support(CLUSTER),
    Key::new(
        "load_manager.rebalancing.min_topic_age_seconds",
        SECONDS,
        Value("5m"),
        "A younger topic is not moved.",
    )
    .support(CLUSTER),
    Key::new(
        "load_manager.rebalancing.blacklist_topics",
        List(Texts),
        Value("[]"),
        "Topics that are not moved: their names, or `/namespace/*`.",
    )
    .support(CLUSTER),
];

/// What comes after `storage` in the reference.
pub(super) const AFTER_STORAGE: &[Key] = &[
    Key::new(
        "dispatch.max_unacked_messages",
        Number(1, 1_000_000),
        Value("1000"),
        "Messages of a subscription that may be delivered and not acknowledged.",
    ),
    Key::new(
        "dispatch.cursor_flush_interval",
        PERIOD,
        Value("1s"),
        "How often the cursors of subscriptions are saved.",
    ),
    Key::new(
        "dispatch.consumer_absence",
        Time(Option::None, Duration::ZERO),
        Value("1m"),
        "How long a key-shared subscription keeps the messages of keys that only a consumer takes which is not there. 0: not at all.",
    ),
    Key::new(
        "dispatch.failure_policy.max_redelivery_count",
        Number(0, u32::MAX as u64),
        Value("5"),
        "How often a message is delivered again before it counts as poison.",
    ),
    Key::new(
        "dispatch.failure_policy.ack_timeout_ms",
        MILLISECONDS,
        Value("30s"),
        "A message that is not acknowledged within this time is delivered again. 0: it may take for ever.",
    ),
    Key::new(
        "dispatch.failure_policy.base_redelivery_delay_ms",
        MILLISECONDS,
        Value("1s"),
        "Delay of the first redelivery after a refusal.",
    ),
    Key::new(
        "dispatch.failure_policy.max_redelivery_delay_ms",
        MILLISECONDS,
        Value("1m"),
        "Delay of a redelivery at most.",
    ),
    Key::new(
        "dispatch.failure_policy.backoff_strategy",
        Choice(&["fixed", "exponential"]),
        Value("exponential"),
        "How the delay grows.",
    ),
    Key::new(
        "dispatch.failure_policy.poison_policy",
        Choice(&["block", "drop", "dead_letter"]),
        Value("block"),
        "What becomes of poison.",
    ),
    Key::new(
        "dispatch.failure_policy.dead_letter_topic",
        Text,
        None("none"),
        "Where `dead_letter` puts it.",
    ),
    Key::new(
        "policies.max_producers_per_topic",
        COUNT,
        Value("0"),
        "Producers of a topic at most. 0: no limit.",
    ),
    Key::new(
        "policies.max_subscriptions_per_topic",
        COUNT,
        Value("0"),
        "Subscriptions of a topic at most. 0: no limit.",
    ),
    Key::new(
        "policies.max_consumers_per_topic",
        COUNT,
        Value("0"),
        "Consumers of a topic at most. 0: no limit.",
    ),
    Key::new(
        "policies.max_consumers_per_subscription",
        COUNT,
        Value("0"),
        "Consumers of a subscription at most. 0: no limit.",
    ),
    Key::new(
        "policies.max_publish_rate",
        COUNT,
        Value("0"),
        "Messages per second into a topic, or a partition, at most: producers wait. 0: no limit.",
    ),
    Key::new(
        "policies.max_subscription_dispatch_rate",
        COUNT,
        Value("0"),
        "Messages per second out of a subscription of a topic, or of a partition, at most, redeliveries included. 0: no limit.",
    ),
    Key::new(
        "policies.max_message_size",
        Size(Bytes, 0, danube_model::caps::MESSAGE_BYTES_MAX as u64),
        Value("10MiB"),
        "Payload of a message at most. 0: the largest that there can be, 31 MiB. A smaller journal takes less: no more than one of its files, 1/16 of it but 12 MiB at least.",
    ),
    Key::new(
        "failover.unexported_tail",
        Choice(&["wait", "skip"]),
        Value("wait"),
        "What becomes of a topic whose broker is lost with messages that no other tier holds: wait for the broker, or \
         go on with a gap.",
    )
    .support(Only(&["wait"], "clustering")),
    Key::new(
        "cluster.lease",
        PERIOD,
        Value("2500ms"),
        "How long a broker may serve without having heard from the cluster.",
    )
    .support(CLUSTER),
    Key::new(
        "cluster.election_timeout",
        PERIOD,
        Value("250ms"),
        "How long a silent leader is waited for; each broker takes a chance value up to twice this.",
    )
    .support(CLUSTER),
    Key::new(
        "cluster.bootstrap",
        Choice(&["refuse", "restore"]),
        Value("refuse"),
        "What a broker with an empty disk and without peers does when bucket or Valkey already hold this cluster.",
    )
    .support(Only(&["refuse"], "a restore from other tiers")),
    Key::new(
        "metrics.max_topics",
        COUNT,
        Value("10000"),
        "Topics and partitions that have metrics of their own, at most.",
    ),
    Key::new(
        "metrics.max_subscriptions",
        COUNT,
        Value("10000"),
        "Subscriptions that have metrics of their own, at most.",
    ),
    Key::new(
        "alarms.check_interval",
        PERIOD,
        Value("1s"),
        "How often it is looked at what alarms are about.",
    ),
    Key::new(
        "alarms.slow_storage",
        PERIOD,
        Value("5s"),
        "A write, a sync or a command to the metadata that takes longer raises an alarm.",
    ),
    Key::new(
        "alarms.clock_jump",
        PERIOD,
        Value("10s"),
        "A wall clock that is off by so much from one check to the next raises an alarm.",
    ),
    Key::new(
        "alarms.clock_jump_kept",
        PERIOD,
        Value("10m"),
        "How long that alarm stands after the last jump.",
    ),
    Key::new(
        "alarms.open_files_percent",
        Number(1, 100),
        Value("90"),
        "So many in a hundred of the descriptors that may be open raise an alarm when they are.",
    ),
    Key::new(
        "http.allow_remote_admin",
        Bool,
        Value("false"),
        "Whether the HTTP API may change things for callers from other machines while `auth.mode` is `none`.",
    )
    .support(Only(&["false"], "the HTTP API")),
];
