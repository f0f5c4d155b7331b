//! Alarms of a real broker: each is raised by its cause, and goes with it.

use std::process::Command;
use std::time::Duration;

use danube_client::{Durability, Message};
use danube_e2e::broker::Options;
use danube_e2e::volume::{Kind, Volume};
use danube_e2e::{Broker, Cli, Native, files, http, within};
use danube_env::Disk;
use danube_env::real::RealDisk;
use serde_json::Value;

use crate::beside_others;

const TOPIC: &str = "/default/watched";
/// A topic that an older copy of the messages does not have.
const LATER: &str = "/default/later";
const MAX: Duration = Duration::from_secs(20);

/// Waits until an alarm stands, or does not any more, and looks at all who tell of it.
fn until(broker: &Broker, name: &str, stands: bool) {
    let is = |(found, _): &(String, String)| found == name;
    within(MAX, &format!("{name}: {stands}"), || {
        (http::alarms(broker).iter().any(is) == stands).then_some(())
    });
    let metric = http::metric(broker, &format!("danube_alarm{{name=\"{name}\"}}"));
    assert_eq!(metric > 0.0, stands, "{name}");
    let said = if stands { "alarm raised" } else { "alarm cleared" };
    let is_said = |line: &str| line.contains(said) && line.contains(&format!("alarm={name} "));
    assert!(broker.log().lines().any(is_said), "{said}, {name}: {}", broker.log());
    let health = http::get(broker, "/healthz");
    assert_eq!(health.contains("degraded"), !http::alarms(broker).is_empty(), "{health}");
}

#[test]
fn a_full_volume_and_a_used_reserve_are_told() {
    let _guard = beside_others();
    let volume = Volume::new(Kind::Tmpfs, 64 << 20);
    let mut broker = Broker::start(Options::default().data_dir(volume.path().join("data")));
    assert_eq!(http::alarms(&broker), []);
    let ballast = volume.path().join("ballast");
    files::write(&ballast, &vec![1; 64 << 20]).expect_err("the volume has no room for that");
    broker.kill9();
    broker.restart();
    until(&broker, "storage_full", true);
    until(&broker, "reserve_in_use", true);
    files::remove(&ballast);
    until(&broker, "storage_full", false);
    until(&broker, "reserve_in_use", false);
    assert_eq!(http::alarms(&broker), []);
    broker.stop();
}

#[test]
fn descriptors_that_are_nearly_used_up_are_told() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    let limit = |files: u64| {
        let process = broker.process_id().to_string();
        let files = format!("--nofile={files}:");
        let status = Command::new("prlimit").args(["--pid", &process, &files]).status();
        assert!(status.expect("prlimit is a part of every Linux").success());
    };
    let open = http::metric(&broker, "process_open_fds") as u64;
    limit(open + 1);
    until(&broker, "open_files_low", true);
    limit(open + 1000);
    until(&broker, "open_files_low", false);
    broker.stop();
}

/// While a sync hangs, everything that can be asked is answered.
#[test]
fn a_disk_that_hangs_is_told_while_it_does() {
    let _guard = beside_others();
    let volume = Volume::new(Kind::Ext4, 256 << 20);
    let options = Options::default().data_dir(volume.path().join("data"));
    let mut broker = Broker::start(options.setting("alarms.slow_storage", "300ms"));
    let native = Native::of(&broker);
    let producer = native.producer(TOPIC, Durability::Disk);
    let frozen = volume.freeze();
    let sending = native.beside(async move {
        producer.send(Message::default()).await.expect("there is room").await.expect("it is stored")
    });
    until(&broker, "storage_slow", true);
    drop(frozen);
    until(&broker, "storage_slow", false);
    let receipt = native.wait(sending).expect("it does not panic");
    assert_eq!(receipt.offset.get(), 0);
    broker.stop();
}

/// Sends messages, a batch each, so that the topic has many frames.
fn fill(native: &Native, topic: &str) {
    let producer = native.producer(topic, Durability::Disk);
    for number in 0..100 {
        let payload = format!("{number:010}").repeat(100);
        native.send_all(&producer, [Message { payload: payload.into(), ..Message::default() }]);
    }
}

#[test]
fn damage_and_loss_of_topics_are_told_until_they_are_accepted() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    fill(&native, TOPIC);
    let id = native.describe(TOPIC).topic_id.expect("one without partitions");
    broker.stop();
    let wal = broker.data_dir().join("wal");
    let old = files::all(&wal);
    broker.restart();
    let native = Native::of(&broker);
    fill(&native, LATER);
    broker.stop();
    // The other topic begins after the copy.
    RealDisk::new().remove_dir_all(&wal).expect("it is there");
    files::put(&wal, &old);
    let segment = wal.join("topics").join(id.to_string()).join("00000000000000000000.seg");
    let mut bytes = files::read(&segment);
    bytes[50_000] ^= 1;
    files::write(&segment, &bytes).expect("it is written");
    broker.restart();
    until(&broker, "topic_unavailable", true);
    let native = Native::of(&broker);
    assert_eq!(native.read(TOPIC).damage.len(), 1);
    until(&broker, "topic_damaged", true);
    for topic in [TOPIC, LATER] {
        let repaired = Cli::of(&broker).run(["topic", "repair", topic, "--accept-gap", "--yes"]);
        assert!(!repaired.success().text().is_empty(), "{topic}");
    }
    until(&broker, "topic_damaged", false);
    until(&broker, "topic_unavailable", false);
    broker.stop();
}

#[test]
fn logs_are_objects_where_that_is_asked_for() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default().arguments(["--log-format", "json"]));
    broker.stop();
    let log = broker.log();
    assert!(log.lines().count() > 1, "{log}");
    for line in log.lines() {
        let event: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["level"].is_string() && event["message"].is_string(), "{line}");
    }
}
