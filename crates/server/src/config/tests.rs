//! Whole configurations.

use std::time::Duration;

use danube_model::Durability;

use super::*;

fn settings(text: &str) -> Result<Settings> {
    let mut settings = Settings::new();
    settings.add_file("broker.yml", text)?;
    Ok(settings)
}

fn config(text: &str) -> Result<Config> {
    settings(text)?.config()
}

/// A port that can't be.
const BAD_PORT: &str = r#"
cluster_name: "west"
broker:
  host: "0.0.0.0"
  ports: { client: 16650, admin: 150051, raft: 17650, prometheus: 19040 }
"#;

const PLAIN: &str = r#"
cluster_name: west
broker:
  host: 0.0.0.0
  ports: {client: 16650, admin: 15051, raft: 17650, prometheus: 19040}
  advertised_listeners: {connect_url: "http://west.example:6650"}
meta_store:
  data_dir: /srv/danube/raft
  seed_nodes: []
bootstrap_namespaces: [default, orders]
auto_create_topics: false
auth:
  mode: none
  tls: {cert_file: c, key_file: k, ca_file: a}
  jwt: {secret_key: s3cret, issuer: i, expiration_time: 60}
load_manager:
  assignment_strategy: fair
  load_report_interval_seconds: 5
  rebalancing: {enabled: false, aggressiveness: aggressive, blacklist_topics: []}
storage:
  mode: local
  local_wal_root: /srv/danube/wal
  durability: page_cache
  wal:
    cache_capacity: 65536
    file_sync: {interval_ms: 250, max_batch_bytes: 4MiB}
    rotation: {max_bytes: 536870912, max_hours: 0.5}
  local_retention: {time_minutes: 2s, size_mb: 0, check_interval_minutes: 0.1, total_size: 1GiB}
dispatch: {max_unacked_messages: 10}
policies: {max_publish_rate: 0, max_message_size: 1048576}
"#;

#[test]
fn every_key_arrives() {
    let config = config(PLAIN).unwrap();
    assert_eq!(config.cluster_name, "west");
    assert_eq!(config.ports, Ports { client: 16650, admin: 15051, raft: 17650, http: 19040 });
    assert_eq!(config.advertised.connect_url.as_deref(), Some("http://west.example:6650"));
    assert_eq!(config.bootstrap_namespaces.len(), 2);
    assert!(!config.auto_create_topics);
    assert_eq!(config.data_dir().to_str(), Some("/srv/danube"));
    assert_eq!(config.policies.message_size_max.to_string(), "1MiB");
    let storage = config.storage;
    assert_eq!(storage.durability, Durability::PageCache);
    assert_eq!(storage.cache_size.to_string(), "64MiB");
    assert_eq!(storage.file_sync.interval, Duration::from_millis(250));
    assert_eq!(storage.file_sync.round_size_max.to_string(), "4MiB");
    assert_eq!(storage.rotation.size_max.to_string(), "512MiB");
    assert_eq!(storage.rotation.age_max, Duration::from_secs(1800));
    assert_eq!(storage.local_retention.time, Some(Duration::from_secs(2)));
    assert_eq!(storage.local_retention.size, None);
    assert_eq!(storage.local_retention.check_interval, Duration::from_secs(6));
    assert_eq!(storage.local_retention.total_size.unwrap().to_string(), "1GiB");
}

#[test]
fn without_a_file_everything_has_its_default() {
    let config = Settings::new().config().unwrap();
    assert_eq!(config.ports, Ports { client: 6650, admin: 50051, raft: 7650, http: 9040 });
    assert_eq!(config.data_dir().to_str(), Some("./danube-data"));
    assert_eq!(config.storage.durability, Durability::Disk);
    assert_eq!(config.policies.message_size_max.to_string(), "10MiB");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let mut settings =
        settings("cluster_name: file\nbroker: {host: file, ports: {client: 1}}").unwrap();
    let variables =
        [("DANUBE_BROKER__HOST", "environment"), ("DANUBE_CLUSTER_NAME", "environment")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings.add_environment(variables).unwrap();
    settings.add_flag("--host", "broker.host", "flag").unwrap();
    let config = settings.config().unwrap();
    assert_eq!((config.host.as_str(), config.cluster_name.as_str()), ("flag", "environment"));
    assert_eq!(config.ports.client, 1);
}

#[test]
fn what_this_build_lacks_is_refused_by_the_key_s_name() {
    for (text, path) in [
        ("storage: {mode: object_store}", "storage.mode"),
        ("storage: {mode: shared_fs}", "storage.mode"),
        ("storage: {object_store: {region: r}}", "storage.durable.region"),
        ("storage: {write_buffer: {endpoints: [redis://h]}}", "storage.write_buffer.endpoints"),
        ("storage: {durability: warm}", "storage.durability"),
        ("auth: {mode: tls}", "auth.mode"),
        ("admin_tls: true", "admin_tls"),
        ("meta_store: {seed_nodes: [h:1]}", "meta_store.seed_nodes"),
        ("load_manager: {rebalancing: {enabled: true}}", "load_manager.rebalancing.enabled"),
        ("policies: {max_publish_rate: 5}", "policies.max_publish_rate"),
        ("cluster: {bootstrap: restore}", "cluster.bootstrap"),
    ] {
        match config(&format!("cluster_name: c\n{text}")).unwrap_err() {
            Error::Lacking { path: found, .. } => assert_eq!(found, path),
            error => panic!("{text}: {error}"),
        }
    }
}

#[test]
fn errors_name_the_file_the_key_and_what_was_expected() {
    let message = |text| settings(text).unwrap_err().to_string();
    let expected =
        "broker.yml: broker.ports.admin is \"150051\", expected a whole number from 0 to 65535";
    assert_eq!(message(BAD_PORT), expected);
    assert_eq!(message("admin_tls: false"), "broker.yml: cluster_name is missing");
    let expected = "broker.yml: storage.root and storage.local_wal_root are the same setting";
    assert_eq!(message("cluster_name: c\nstorage: {local_wal_root: a, root: b}"), expected);
    let error = settings("cluster_name: c\nbrokr: {host: h}").unwrap_err();
    assert_eq!(error.to_string(), "broker.yml: unknown key brokr");
}

#[test]
fn secrets_are_never_shown() {
    let settings = settings(PLAIN).unwrap();
    let lines = settings.show();
    assert!(lines.iter().all(|(_, value, _)| !value.contains("s3cret")));
    assert!(
        lines.iter().any(|(path, value, _)| path == "auth.jwt.secret_key" && value.contains('*'))
    );
    let error = config("cluster_name: c\nauth: {jwt: {secret_key: [s3cret]}}").unwrap_err();
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[test]
fn what_is_shown_can_be_read_again() {
    let first = settings(PLAIN).unwrap();
    let mut second = Settings::new();
    for (path, value, _) in first.show() {
        if !value.contains('*') {
            let text = value.trim_matches(|c| "[]\"".contains(c));
            second.add_flag("again", &path, text).unwrap();
        }
    }
    assert_eq!(first.config().unwrap(), second.config().unwrap());
}
