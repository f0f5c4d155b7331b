//! Settings from all their sources.

use danube_model::{Backoff, FailurePolicy, PoisonPolicy};

use super::*;

fn file(text: &str) -> Sources {
    let file = SettingsFile { name: "d.yml".to_owned(), text: text.to_owned() };
    Sources { file: Some(file), ..Sources::default() }
}

fn environment(variables: &[(&str, &str)]) -> Sources {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sources { environment: variables.iter().map(owned).collect(), ..Sources::default() }
}

fn load(sources: &Sources) -> Loaded {
    Config::load(sources).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Loads a file, with a name of the cluster in its first line.
fn config(text: &str) -> Config {
    load(&file(&format!("cluster_name: c\n{text}"))).config
}

#[track_caller]
fn refused(sources: &Sources, expected: &[&str]) {
    let problems = Config::load(sources).expect_err("it should be refused");
    let shown: Vec<String> = problems.0.iter().map(Problem::to_string).collect();
    assert_eq!(shown, expected);
}

#[track_caller]
fn notices(sources: &Sources, expected: &[&str]) {
    let loaded = load(sources);
    let shown: Vec<String> = loaded.settings.notices().iter().map(Notice::to_string).collect();
    assert_eq!(shown, expected);
}

#[test]
fn without_any_source_the_defaults_hold() {
    let config = load(&Sources::default()).config;
    assert_eq!(config.cluster_name, "danube");
    assert_eq!(config.listen.client.to_string(), "127.0.0.1:6650");
    assert_eq!(config.listen.admin.to_string(), "127.0.0.1:50051");
    assert_eq!(config.listen.http.to_string(), "127.0.0.1:9040");
    assert_eq!(config.listen.raft.to_string(), "127.0.0.1:7650");
    assert_eq!(config.data_dir(), Path::new("./danube-data"));
    assert_eq!(config.storage.root, Path::new("./danube-data/wal"));
    assert_eq!(config.metadata_dir, Path::new("./danube-data/raft"));
    assert_eq!(config.namespaces, ["default".parse().unwrap()]);
    assert!(config.auto_create_topics);
    assert_eq!(config.message_bytes_max, 10 << 20);
    let storage = &config.storage;
    assert_eq!(storage.durability, Durability::Disk);
    assert_eq!(storage.segment_bytes, 128 << 20);
    assert_eq!(storage.segment_age, Duration::from_secs(3600));
    assert_eq!(storage.segment_worth_bytes, 1 << 20);
    assert_eq!(storage.segment_age_max, Duration::from_secs(7 * 24 * 3600));
    assert_eq!((storage.tail_bytes, storage.queue_bytes), (64 << 20, 64 << 20));
    assert_eq!(storage.page_cache_sync, Duration::from_secs(1));
    assert_eq!(storage.quiet_sync, Duration::from_millis(100));
    assert_eq!(storage.round_bytes, 8 << 20);
    assert_eq!((storage.journal_bytes, storage.checkpoint_bytes), (512 << 20, 128 << 20));
    assert_eq!(storage.open_files_max, None);
    assert_eq!(storage.space_check, Duration::from_secs(1));
    let retention = storage.retention;
    assert_eq!(retention.time, Some(Duration::from_secs(2 * 24 * 3600)));
    assert_eq!((retention.bytes, retention.total_bytes), (Some(20 << 30), None));
    assert_eq!(retention.check_interval, Duration::from_secs(300));
}

#[test]
fn a_file_says_what_it_says() {
    let text = "
broker:
  host: 0.0.0.0
  ports: {client: 1, admin: 2, raft: 3, prometheus: 4}
  advertised_listeners:
    broker_url: http://b:1
    connect_url: http://c:1
meta_store: {data_dir: /d/raft}
bootstrap_namespaces: [default, orders]
auto_create_topics: false
storage:
  local_wal_root: /d/wal
  durability: page_cache
  local_retention: {time_minutes: 0, size_mb: 1, total_size: 5GiB, check_interval_minutes: 2s}
  wal:
    rotation: {max_bytes: 512MiB, max_hours: 2s, min_bytes: 0, max_days: 0.5}
    advanced:
      cache_capacity: 1048576
      queue_capacity: 1MiB
      file_sync: {interval_ms: 250, max_batch_bytes: 65536, quiet_ms: 5ms}
      journal: {max_bytes: 1MiB, checkpoint_bytes: 512KiB}
      max_open_files: 7
      space_check_interval: 10ms
policies: {max_message_size: 0, max_producers_per_topic: 7, max_publish_rate: 9}
";
    let config = config(text);
    let Listen { client, admin, http, raft } = &config.listen;
    let shown = [client, admin, raft, http].map(Address::to_string);
    assert_eq!(shown, ["0.0.0.0:1", "0.0.0.0:2", "0.0.0.0:3", "0.0.0.0:4"]);
    assert_eq!(config.data_dir(), Path::new("/d"));
    assert_eq!(config.namespaces.len(), 2);
    assert!(!config.auto_create_topics);
    let Advertised { broker_url, connect_url } = &config.advertised;
    let advertised = (broker_url.as_deref(), connect_url.as_deref());
    assert_eq!(advertised, (Some("http://b:1"), Some("http://c:1")));
    assert_eq!((config.producers_per_topic_max, config.publish_rate_max), (7, 9));
    assert_eq!(config.message_bytes_max, 31 << 20);
    let expected = Storage {
        root: "/d/wal".into(),
        durability: Durability::PageCache,
        segment_bytes: 512 << 20,
        segment_age: Duration::from_secs(2),
        segment_worth_bytes: 0,
        segment_age_max: Duration::from_secs(12 * 3600),
        tail_bytes: 1 << 30,
        queue_bytes: 1 << 20,
        page_cache_sync: Duration::from_millis(250),
        round_bytes: 65_536,
        quiet_sync: Duration::from_millis(5),
        journal_bytes: 1 << 20,
        checkpoint_bytes: 512 << 10,
        open_files_max: Some(7),
        space_check: Duration::from_millis(10),
        retention: RetentionConfig {
            time: None,
            bytes: Some(1 << 20),
            total_bytes: Some(5 << 30),
            check_interval: Duration::from_secs(2),
        },
    };
    assert_eq!(config.storage, expected);
}

#[test]
fn keys_are_found_where_older_files_have_them() {
    let text = "
storage:
  root: /d
  metadata_root: /danube
  wal:
    cache_capacity: 1024
    file_sync: {interval_ms: 7}
    retention: {time_minutes: 1}
    advanced:
      rotation: {max_bytes: 1MiB}
";
    let storage = config(text).storage;
    assert_eq!(storage.root, Path::new("/d"));
    assert_eq!(storage.tail_bytes, 16 << 20);
    assert_eq!(storage.page_cache_sync, Duration::from_millis(7));
    assert_eq!(storage.retention.time, Some(Duration::from_secs(60)));
    assert_eq!(storage.segment_bytes, 1 << 20);
    // Said twice is said once, unless it differs.
    assert_eq!(config("storage: {root: /d, wal: {dir: /d}}").storage.root, Path::new("/d"));
    let differs =
        "`storage.wal.dir` says something else than `storage.root`, which is the same key";
    let text = "cluster_name: c\nstorage:\n  root: /d\n  wal: {dir: /e}\n";
    refused(&file(text), &[&format!("d.yml:4: {differs}")]);
}

#[test]
fn all_problems_are_listed_at_once() {
    let text = "
broker:
  ports: {client: 99999, clinet: 1}
  host: [a]
durability: disk
storge:
  mode: local
auto_create_topics: maybe
storage: local
auth:
  mode: none
  mode: none
dispatch:
  max_unacked_messages: {a: 1}
bootstrap_namespaces: [a/b]
";
    refused(
        &file(text),
        &[
            "d.yml:3: unknown key `broker.ports.clinet`, the nearest is `broker.ports.client`",
            "d.yml:5: unknown key `durability`, the nearest is `storage.durability`",
            "d.yml:6: unknown key `storge`, the nearest is `storage`",
            "d.yml:9: `storage` is a block of keys",
            "d.yml:12: `auth.mode` is there twice",
            "d.yml:14: `dispatch.max_unacked_messages` is one value, not a block of keys",
            "d.yml:3: `broker.ports.client`: expected a whole number from 0 to 65535, found `99999`",
            "d.yml:4: `broker.host`: expected text, found a list",
            "d.yml:8: `auto_create_topics`: expected `true` or `false`, found `maybe`",
            "d.yml:15: `bootstrap_namespaces`: expected a list of namespaces, found `a/b`",
            "`cluster_name` is missing",
        ],
    );
    refused(&file("[a]"), &["d.yml:1: not a block of settings", "`cluster_name` is missing"]);
    refused(&file(""), &["`cluster_name` is missing"]);
}

#[test]
fn what_this_build_lacks_is_refused_by_name() {
    for (text, expected) in [
        ("storage: {mode: shared_fs}", "`storage.mode`: `shared_fs` needs the cold tier"),
        ("storage: {mode: object_store}", "`storage.mode`: `object_store` needs the cold tier"),
        (
            "storage: {durability: cold}",
            "`storage.durability`: `cold` needs the warm or the cold tier",
        ),
        (
            "storage: {durability: disk+warm}",
            "`storage.durability`: `disk+warm` needs the warm or the cold tier",
        ),
        (
            "storage: {write_buffer: {backend: valkey, endpoints: [a]}}",
            "`storage.write_buffer` needs the warm tier",
        ),
        ("storage: {write_buffer: {endpoints: [a]}}", "`storage.write_buffer` needs the warm tier"),
        (
            "storage: {export: {max_lag: 1s, concurrency: 1}}",
            "`storage.export` needs the cold tier",
        ),
        ("auth: {mode: tls, tls: {cert_file: a}}", "`auth.mode`: `tls` needs authentication"),
        ("admin_tls: true", "`admin_tls`: `true` needs TLS"),
        ("meta_store: {seed_nodes: ['a:1']}", "`meta_store.seed_nodes`: `[a:1]` needs clustering"),
        (
            "load_manager: {rebalancing: {enabled: true}}",
            "`load_manager.rebalancing.enabled`: `true` needs clustering",
        ),
        (
            "cluster: {bootstrap: restore}",
            "`cluster.bootstrap`: `restore` needs a restore from other tiers",
        ),
        (
            "failover: {unexported_tail: skip}",
            "`failover.unexported_tail`: `skip` needs clustering",
        ),
        (
            "http: {allow_remote_admin: true}",
            "`http.allow_remote_admin`: `true` needs the HTTP API",
        ),
    ] {
        let sources = file(&format!("cluster_name: c\n{text}"));
        refused(&sources, &[&format!("d.yml:2: {expected}, which this build lacks")]);
    }
}

#[test]
fn subscriptions_are_as_they_are_said_to_be() {
    let said = config(
        "
dispatch:
  max_unacked_messages: 10
  cursor_flush_interval: 200ms
  consumer_absence: 5s
  failure_policy:
    max_redelivery_count: 2
    ack_timeout_ms: 0
    base_redelivery_delay_ms: 50
    max_redelivery_delay_ms: 2s
    backoff_strategy: fixed
    poison_policy: dead_letter
    dead_letter_topic: /default/dead
policies: {max_subscriptions_per_topic: 1, max_consumers_per_topic: 2, max_consumers_per_subscription: 3, max_subscription_dispatch_rate: 4}
",
    );
    let expected = SubscriptionConfig {
        max_unacked_messages: 10,
        cursor_flush_interval: Duration::from_millis(200),
        consumer_absence: Duration::from_secs(5),
        failure_policy: FailurePolicy {
            max_redelivery_count: 2,
            ack_timeout_ms: 0,
            base_redelivery_delay_ms: 50,
            max_redelivery_delay_ms: 2_000,
            backoff: Backoff::Fixed,
            poison: PoisonPolicy::DeadLetter("/default/dead".parse().unwrap()),
        },
        subscriptions_per_topic_max: 1,
        consumers_per_topic_max: 2,
        consumers_per_subscription_max: 3,
        rate_max: 4,
    };
    assert_eq!(said.subscriptions, expected);
    assert_eq!(config("").subscriptions, SubscriptionConfig::default());
    let policy = |policy: &str| {
        file(&format!("cluster_name: c\ndispatch: {{failure_policy: {{{policy}}}}}"))
    };
    refused(
        &policy("poison_policy: dead_letter"),
        &[
            "d.yml:2: `dispatch.failure_policy.poison_policy`: `dead_letter` needs a `dispatch.failure_policy.dead_letter_topic`",
        ],
    );
    refused(
        &policy("dead_letter_topic: dead"),
        &[
            "d.yml:2: `dispatch.failure_policy.dead_letter_topic`: invalid topic name \"dead\": expected /namespace/topic",
        ],
    );
}

#[test]
fn what_is_switched_off_or_done_anyway_loads() {
    config(
        "
meta_store: {seed_nodes: []}
admin_tls: false
auth:
  mode: none
  tls: {cert_file: a}
  jwt: {secret_key: s, issuer: i, expiration_time: 3600}
  super_admins: [admin]
load_manager: {assignment_strategy: balanced, rebalancing: {enabled: false, blacklist_topics: }}
storage:
  mode: local
  durable: {root: /x, region: y, allow_http: true}
  write_buffer: {max_cached_closed_segments: 5}
policies: {max_publish_rate: 0, max_consumers_per_topic: 3}
dispatch: {max_unacked_messages: 10}
cluster: {bootstrap: refuse, lease: 2.5s}
failover: {unexported_tail: wait}
",
    );
}

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    let mut sources =
        file("cluster_name: c\nbroker: {ports: {client: 1, admin: 2}}\nstorage: {mode: shared_fs}");
    sources.environment = environment(&[
        ("DANUBE_BROKER__PORTS__CLIENT", "11"),
        ("DANUBE_STORAGE__MODE", "local"),
        ("DANUBE_STORAGE__WAL__DIR", "/e/wal"),
        ("DANUBE_BOOTSTRAP_NAMESPACES", "a,b"),
        ("PATH", "/bin"),
    ])
    .environment;
    let config = load(&sources).config;
    assert_eq!((config.listen.client.port, config.listen.admin.port), (11, 2));
    assert_eq!(config.storage.root, Path::new("/e/wal"));
    assert_eq!(config.data_dir(), Path::new("/e/wal"));
    assert_eq!(config.namespaces.len(), 2);
    sources.flags = Flags {
        data_dir: Some("/f".to_owned()),
        listen: Some("[::1]:21".to_owned()),
        advertise: Some("http://a:1".to_owned()),
        ..Flags::default()
    };
    let config = load(&sources).config;
    assert_eq!(config.listen.client.to_string(), "[::1]:21");
    assert_eq!(config.listen.admin.port, 2);
    assert_eq!(config.data_dir(), Path::new("/f"));
    let set = load(&sources).settings.set();
    let advertised = set.iter().filter(|line| line.origin == "--advertise");
    assert_eq!(advertised.map(|line| line.value.as_str()).collect::<Vec<_>>(), ["http://a:1"; 2]);
}

#[test]
fn flags_and_variables_are_named_where_they_are_wrong() {
    let mut sources = environment(&[("DANUBE_AUTO_CREATE_TOPICS", "perhaps")]);
    sources.flags.listen = Some("6650".to_owned());
    sources.flags.join = vec!["a:1".to_owned()];
    refused(
        &sources,
        &[
            "DANUBE_AUTO_CREATE_TOPICS: expected `true` or `false`, found `perhaps`",
            "--join: `[a:1]` needs clustering, which this build lacks",
            "--listen: expected `host:port`, found `6650`",
        ],
    );
}

#[test]
fn variables_that_are_nearly_settings_are_pointed_out() {
    let did_you_mean =
        |name, meant| format!("{name} in the environment is no setting; did you mean {meant}?");
    for (name, meant) in [
        ("DANUBE_STORAGE_DURABILITY", "DANUBE_STORAGE__DURABILITY"),
        ("DANUBE_STORAGE__DURABILTY", "DANUBE_STORAGE__DURABILITY"),
        ("DANUBE_BROKER_PORTS_CLIENT", "DANUBE_BROKER__PORTS__CLIENT"),
        ("DANUBE_Cluster_Name", "DANUBE_CLUSTER_NAME"),
    ] {
        notices(&environment(&[(name, "x")]), &[&did_you_mean(name, meant)]);
    }
    for name in ["DANUBE_URL", "DANUBE_TOKEN", "DANUBE_PORT_6650_TCP", "DANUBE_LOG", "OTHER"] {
        notices(&environment(&[(name, "x")]), &[]);
    }
}

#[test]
fn listeners_and_directories_do_not_collide() {
    refused(
        &file("cluster_name: c\nbroker: {ports: {client: 50051}}"),
        &["client and admin can't both listen on 127.0.0.1:50051"],
    );
    refused(
        &file("cluster_name: c\nstorage: {root: /d}\nmeta_store: {data_dir: /d}"),
        &["messages and metadata can't share the directory /d"],
    );
    config("broker: {ports: {client: 0, admin: 0, raft: 0, prometheus: 0}}");
}

#[test]
fn secrets_are_never_shown() {
    let text = "cluster_name: c
auth: {jwt: {secret_key: hunter2}}
storage:
  durable: {secret_key: hunter2, endpoint: 'http://me:hunter2@s3', sas_token: hunter2}
";
    let loaded = load(&file(text));
    let shown = format!("{}{:?}", as_file(&loaded.settings.effective()), loaded.settings.set());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("http://***@s3"), "{shown}");
    let text = "cluster_name: c\nstorage: {write_buffer: {endpoints: ['redis://:hunter2@a']}}";
    let problems = Config::load(&file(text)).unwrap_err();
    assert!(!problems.to_string().contains("hunter2"), "{problems}");
}

#[test]
fn what_is_shown_can_be_loaded_again() {
    let text = "cluster_name: 'my cluster: #1'
broker: {host: '::1', failure_domain: 'null'}
bootstrap_namespaces: [a, 'b-1']
storage:
  local_wal_root: './with space/wal'
  wal: {rotation: {max_hours: 90s}}
auth: {super_admins: ['a b']}
";
    let loaded = load(&file(text));
    let shown = as_file(&loaded.settings.effective());
    let again = load(&file(&shown));
    assert_eq!(again.config, loaded.config, "{shown}");
    let values = |loaded: &Loaded| -> Vec<(&str, String)> {
        loaded.settings.effective().into_iter().map(|line| (line.path, line.value)).collect()
    };
    assert_eq!(values(&again), values(&loaded));
    assert!(shown.contains("max_hours: 90s # d.yml:6\n"), "{shown}");
    assert!(shown.contains("max_bytes: 128MiB # default\n"), "{shown}");
}
