//! Every key there is: one table for reading, checking, showing and documenting.

use super::value::Kind;

/// A key and what is known of it.
#[derive(Debug)]
pub(crate) struct Key {
    /// Where it stands, in dots.
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    /// As a file would say it; `None` where there is no value unless one is given.
    pub(crate) default: Option<&'static str>,
    /// One line for people.
    pub(crate) meaning: &'static str,
}

/// Another place where older files have a key, or a whole block of keys.
#[derive(Debug)]
pub(crate) struct Alias {
    /// A path, or with a dot at the end all paths that begin with it.
    pub(crate) old: &'static str,
    pub(crate) path: &'static str,
}

const fn key(
    path: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    meaning: &'static str,
) -> Key {
    Key { path, kind, default, meaning }
}

const PORT: Kind = Kind::Count(0, 65_535);
const COUNT: Kind = Kind::Count(0, u64::MAX);
const SECONDS: Kind = Kind::Time(Some("s"));
const MILLISECONDS: Kind = Kind::Time(Some("ms"));

/// Below it, keys of a store's client are passed through by name.
pub(crate) const PASSED_THROUGH: &str = "storage.durable.";

/// Keys whose values are never shown.
pub(crate) const SECRETS: [&str; 9] = [
    "auth.jwt.secret_key",
    "storage.durable.access_key",
    "storage.durable.secret_key",
    "storage.durable.session_token",
    "storage.durable.credentials_json",
    "storage.durable.account_key",
    "storage.durable.sas_token",
    // URLs may carry a password.
    "storage.write_buffer.endpoints",
    "storage.durable.endpoint",
];

pub(crate) const ALIASES: &[Alias] = &[
    Alias { old: "storage.root", path: "storage.local_wal_root" },
    Alias { old: "storage.cache_root", path: "storage.local_wal_root" },
    Alias { old: "storage.wal.dir", path: "storage.local_wal_root" },
    Alias { old: "storage.metadata_root", path: "storage.metadata_prefix" },
    Alias { old: "storage.wal.advanced.rotation.", path: "storage.wal.rotation." },
    Alias { old: "storage.wal.cache_capacity", path: "storage.wal.advanced.cache_capacity" },
    Alias { old: "storage.wal.file_sync.", path: "storage.wal.advanced.file_sync." },
    Alias { old: "storage.wal.retention.", path: "storage.local_retention." },
    Alias { old: "storage.object_store.", path: "storage.durable." },
];

pub(crate) const KEYS: &[Key] = &[
    key("cluster_name", Kind::Text, Some("danube"), "names the cluster; a file must say it"),
    key("broker.host", Kind::Text, Some("127.0.0.1"), "address that all ports listen on"),
    key("broker.ports.client", PORT, Some("6650"), "clients"),
    key("broker.ports.admin", PORT, Some("50051"), "admin gRPC of older tools"),
    key("broker.ports.raft", PORT, Some("7650"), "brokers among themselves"),
    key("broker.ports.prometheus", PORT, Some("9040"), "HTTP: health, metrics, API, console"),
    key(
        "broker.advertised_listeners.broker_url",
        Kind::Url,
        None,
        "the broker's own address, as lookups answer it",
    ),
    key(
        "broker.advertised_listeners.connect_url",
        Kind::Url,
        None,
        "the address that clients connect to, as lookups answer it",
    ),
    key("broker.failure_domain", Kind::Text, None, "what fails together with this broker"),
    key("meta_store.data_dir", Kind::Path, Some("./danube-data/raft"), "the metadata's directory"),
    key("meta_store.seed_nodes", Kind::List, Some(""), "brokers to join, host:port"),
    key(
        "bootstrap_namespaces",
        Kind::Namespaces,
        Some("default"),
        "namespaces that a start creates",
    ),
    key("auto_create_topics", Kind::Switch, Some("true"), "producers create missing topics"),
    key("admin_tls", Kind::Switch, Some("false"), "TLS on the admin port"),
    key("auth.mode", Kind::Word(&["none", "tls"]), Some("none"), "who may do what"),
    key("auth.tls.cert_file", Kind::Path, None, "the broker's certificate"),
    key("auth.tls.key_file", Kind::Path, None, "the broker's private key"),
    key("auth.tls.ca_file", Kind::Path, None, "who signs certificates"),
    key("auth.jwt.secret_key", Kind::Text, None, "signs and verifies tokens"),
    key("auth.jwt.issuer", Kind::Text, None, "issuer of tokens"),
    key("auth.jwt.expiration_time", SECONDS, Some("3600"), "life of a token"),
    key("auth.super_admins", Kind::List, Some(""), "who may do everything"),
    key(
        "load_manager.assignment_strategy",
        Kind::Word(&["fair", "balanced", "weighted_load"]),
        Some("fair"),
        "which broker gets a topic",
    ),
    key(
        "load_manager.load_report_interval_seconds",
        SECONDS,
        Some("30"),
        "how often load is reported",
    ),
    key(
        "load_manager.rebalancing.enabled",
        Kind::Switch,
        Some("false"),
        "topics move by themselves",
    ),
    key(
        "load_manager.rebalancing.aggressiveness",
        Kind::Word(&["conservative", "balanced", "aggressive"]),
        Some("balanced"),
        "how soon topics move",
    ),
    key(
        "load_manager.rebalancing.check_interval_seconds",
        SECONDS,
        Some("300"),
        "how often balance is looked at",
    ),
    key("load_manager.rebalancing.max_moves_per_hour", COUNT, Some("10"), "moves in an hour"),
    key("load_manager.rebalancing.cooldown_seconds", SECONDS, Some("60"), "time between two moves"),
    key("load_manager.rebalancing.min_brokers_for_rebalance", COUNT, Some("2"), "brokers needed"),
    key(
        "load_manager.rebalancing.min_topic_age_seconds",
        SECONDS,
        Some("300"),
        "younger topics stay",
    ),
    key(
        "load_manager.rebalancing.blacklist_topics",
        Kind::List,
        Some(""),
        "topics that stay, exact or /namespace/*",
    ),
    key(
        "dispatch.max_unacked_messages",
        Kind::Count(1, 10_000_000),
        Some("1000"),
        "messages in flight of a subscription",
    ),
    key(
        "dispatch.cursor_flush_interval",
        Kind::Time(None),
        Some("1s"),
        "how often cursors are saved",
    ),
    key(
        "dispatch.failure_policy.max_redelivery_count",
        COUNT,
        Some("5"),
        "deliveries after the first",
    ),
    key(
        "dispatch.failure_policy.ack_timeout_ms",
        MILLISECONDS,
        Some("30000"),
        "delivered again after it",
    ),
    key(
        "dispatch.failure_policy.base_redelivery_delay_ms",
        MILLISECONDS,
        Some("1000"),
        "first delay",
    ),
    key(
        "dispatch.failure_policy.max_redelivery_delay_ms",
        MILLISECONDS,
        Some("60000"),
        "longest delay",
    ),
    key(
        "dispatch.failure_policy.backoff_strategy",
        Kind::Word(&["fixed", "exponential"]),
        Some("exponential"),
        "how delays grow",
    ),
    key(
        "dispatch.failure_policy.poison_policy",
        Kind::Word(&["block", "drop", "dead_letter"]),
        Some("block"),
        "what happens to a message that can't be handled",
    ),
    key("dispatch.failure_policy.dead_letter_topic", Kind::Text, None, "where it goes then"),
    key("policies.max_producers_per_topic", COUNT, Some("0"), "0: no limit"),
    key("policies.max_subscriptions_per_topic", COUNT, Some("0"), "0: no limit"),
    key("policies.max_consumers_per_topic", COUNT, Some("0"), "0: no limit"),
    key("policies.max_consumers_per_subscription", COUNT, Some("0"), "0: no limit"),
    key("policies.max_publish_rate", COUNT, Some("0"), "messages a second; 0: no limit"),
    key(
        "policies.max_subscription_dispatch_rate",
        COUNT,
        Some("0"),
        "messages a second; 0: no limit",
    ),
    key(
        "policies.max_message_size",
        Kind::Size("B"),
        Some("10MiB"),
        "largest payload; 0: no limit but the build's",
    ),
    key(
        "storage.mode",
        Kind::Word(&["local", "shared_fs", "object_store"]),
        Some("local"),
        "where sealed segments go",
    ),
    key(
        "storage.local_wal_root",
        Kind::Path,
        Some("./danube-data/wal"),
        "the hot tier's directory",
    ),
    key(
        "storage.metadata_prefix",
        Kind::Text,
        Some("/danube"),
        "first part of keys in Valkey and bucket",
    ),
    key(
        "storage.durability",
        Kind::Durability,
        None,
        "what an acknowledgement means, for new topics",
    ),
    key("storage.wal.rotation.max_bytes", Kind::Size("B"), Some("128MiB"), "size of a segment"),
    key("storage.wal.rotation.max_hours", Kind::Time(Some("h")), Some("1"), "age of a segment"),
    key(
        "storage.wal.advanced.cache_capacity",
        Kind::Cache,
        Some("64MiB"),
        "recent messages kept in memory",
    ),
    key(
        "storage.wal.advanced.file_sync.interval_ms",
        MILLISECONDS,
        Some("1000"),
        "how often page_cache topics are synced",
    ),
    key(
        "storage.wal.advanced.file_sync.max_batch_bytes",
        Kind::Size("B"),
        Some("8MiB"),
        "largest round",
    ),
    key(
        "storage.local_retention.time_minutes",
        Kind::Time(Some("m")),
        Some("2880"),
        "how long messages are kept, per topic; 0: no limit",
    ),
    key(
        "storage.local_retention.size_mb",
        Kind::Size("MiB"),
        Some("20480"),
        "how much is kept, per topic; 0: no limit",
    ),
    key(
        "storage.local_retention.check_interval_minutes",
        Kind::Time(Some("m")),
        Some("5"),
        "how often that is looked at",
    ),
    key(
        "storage.local_retention.total_size",
        Kind::Size("B"),
        None,
        "how much is kept, of all topics",
    ),
    key("storage.durable.root", Kind::Text, None, "directory, or URL of a bucket and prefix"),
    key(
        "storage.durable.backend",
        Kind::Word(&["s3", "gcs", "azblob"]),
        None,
        "kind of object store",
    ),
    key(
        "storage.export.max_lag",
        Kind::Time(None),
        Some("60s"),
        "how soon the cold tier has a message",
    ),
    key("storage.export.concurrency", Kind::Count(1, 64), Some("4"), "uploads at once"),
    key("storage.write_buffer.backend", Kind::Word(&["valkey"]), None, "the warm tier"),
    key(
        "storage.write_buffer.endpoints",
        Kind::List,
        None,
        "redis://, rediss:// or redis+sentinel:// URLs",
    ),
    key(
        "storage.write_buffer.wait_replicas",
        Kind::Count(0, 100),
        Some("0"),
        "replicas that confirm",
    ),
    key("storage.write_buffer.wait_disk", Kind::Switch, Some("false"), "disks confirm, not memory"),
    key("storage.write_buffer.wait_timeout_ms", MILLISECONDS, Some("100"), "for that"),
    key(
        "storage.write_buffer.on_wait_timeout",
        Kind::Word(&["fail", "ack"]),
        Some("fail"),
        "what then happens",
    ),
    key(
        "storage.write_buffer.max_cached_closed_segments",
        COUNT,
        Some("5"),
        "sealed segments kept there",
    ),
    key("storage.write_buffer.max_bytes", Kind::Size("B"), None, "bound of all streams"),
    key(
        "failover.unexported_tail",
        Kind::Word(&["wait", "skip"]),
        Some("wait"),
        "what only a lost disk holds",
    ),
    key("cluster.lease", Kind::Time(None), Some("2.5s"), "of a broker on its topics"),
    key(
        "cluster.election_timeout",
        Kind::TimeRange,
        Some("250ms to 500ms"),
        "of the metadata's leader",
    ),
    key(
        "cluster.bootstrap",
        Kind::Word(&["refuse", "restore"]),
        Some("refuse"),
        "an empty broker before a full store",
    ),
    key(
        "http.allow_remote_admin",
        Kind::Switch,
        Some("false"),
        "changes over HTTP without authentication from anywhere",
    ),
];

/// The key of this path, which may be an older name, as its path today.
pub(crate) fn find(path: &str) -> Option<(String, Kind)> {
    let path = ALIASES
        .iter()
        .find_map(|alias| match alias.old.strip_suffix('.') {
            None => (path == alias.old).then(|| alias.path.to_owned()),
            Some(_) => path.strip_prefix(alias.old).map(|rest| format!("{}{rest}", alias.path)),
        })
        .unwrap_or_else(|| path.to_owned());
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Some((path, key.kind));
    }
    // An option of the store's client: one word below the block.
    let option = path.strip_prefix(PASSED_THROUGH)?;
    let is_word = option.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
    (is_word && !option.is_empty()).then_some((path, Kind::Text))
}

/// Whether some key lies below this path.
pub(crate) fn is_block(path: &str) -> bool {
    let below = |known: &str| known.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    KEYS.iter().any(|key| below(key.path)) || ALIASES.iter().any(|alias| below(alias.old))
}

/// The known path that is nearest to an unknown one, if one is near.
pub(crate) fn nearest(path: &str) -> Option<&'static str> {
    let known = KEYS.iter().map(|key| key.path).chain(ALIASES.iter().map(|alias| alias.old));
    let known = known.filter(|known| !known.ends_with('.'));
    let (distance, nearest) = known.map(|known| (strangeness(path, known), known)).min()?;
    (distance <= 2 + path.len() / 4).then_some(nearest)
}

/// How far a path is from a known one. The right word in a wrong place of the right block is near.
fn strangeness(path: &str, known: &str) -> usize {
    let ends = |path: &str| {
        let block = path.split_once('.').map(|(block, _)| block.to_owned());
        block.zip(path.rsplit_once('.').map(|(_, word)| word.to_owned()))
    };
    let is_misplaced = ends(path).is_some() && ends(path) == ends(known);
    if is_misplaced { distance(path, known).min(2) } else { distance(path, known) }
}

/// Letters to change, add or leave out to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::value::Raw;
    use super::*;

    #[test]
    fn every_default_can_be_read_and_every_path_is_there_once() {
        for (at, key) in KEYS.iter().enumerate() {
            if let Some(default) = key.default {
                let raw = Raw::Scalar(default.to_owned());
                assert!(key.kind.read(&raw).is_ok(), "{}", key.path);
            }
            assert!(!key.meaning.is_empty(), "{}", key.path);
            assert!(KEYS[..at].iter().all(|other| other.path != key.path), "{}", key.path);
        }
    }

    #[test]
    fn aliases_lead_to_keys() {
        for (old, path) in [
            ("storage.root", "storage.local_wal_root"),
            ("storage.wal.advanced.rotation.max_bytes", "storage.wal.rotation.max_bytes"),
            ("storage.object_store.region", "storage.durable.region"),
            ("storage.wal.retention.size_mb", "storage.local_retention.size_mb"),
        ] {
            assert_eq!(find(old).unwrap().0, path);
        }
        assert_eq!(find("storage.wal.retention.sizes"), None);
        assert_eq!(find("storage.durable.a.b"), None);
    }

    #[test]
    fn the_nearest_key_is_suggested_and_a_far_one_is_not() {
        for (path, expected) in [
            ("broker.port.client", Some("broker.ports.client")),
            ("storage.durabilty", Some("storage.durability")),
            ("storage.wal.max_bytes", Some("storage.wal.rotation.max_bytes")),
            ("auto_create_topic", Some("auto_create_topics")),
            ("xyz", None),
        ] {
            assert_eq!(nearest(path), expected, "{path}");
        }
    }
}
