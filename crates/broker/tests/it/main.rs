//! A broker on a simulated machine, through its public handle.

mod crash;
mod limits;
mod messages;
mod openings;
mod retention;
mod subscriptions;
mod together;
mod watched;

use std::time::Duration;

use bytes::Bytes;
use danube_broker::{
    AlarmConfig, Broker, Change, Config, Created, Delivery, Error, NewTopic, Read, RetentionConfig,
    Start, SubscriptionConfig, Topic, TopicChange,
};
use danube_env::Env;
use danube_env::sim::{self, Crash, Survival};
use danube_model::batch::{BatchBuilder, BatchLimits};
use danube_model::{Batch, Compression, Durability, ErrorKind, Offset, Record, TimeMs, TopicName};

fn config() -> Config {
    Config {
        cluster_name: "test".to_owned(),
        address: "http://broker:6650".to_owned(),
        meta_dir: "/data/raft".into(),
        log: danube_log::Config {
            journal_bytes: 512 * 1024,
            segment_bytes: 16 * 1024,
            tail_bytes: 64 * 1024,
            ..danube_log::Config::new("/data/wal")
        },
        namespaces: vec!["mine".parse().expect("a good name")],
        auto_create_topics: true,
        durability: Durability::Disk,
        producers_per_topic_max: 0,
        publish_rate_max: 0,
        message_bytes_max: 0,
        retention: RetentionConfig::default(),
        subscriptions: SubscriptionConfig::default(),
        alarms: AlarmConfig::default(),
    }
}

async fn open(env: &Env) -> Broker {
    Broker::open(config(), env.clone()).await.expect("the broker opens").0
}

fn name(text: &str) -> TopicName {
    text.parse().expect("a good name")
}

fn new_topic(text: &str) -> NewTopic {
    NewTopic { name: name(text), partitions: None, delivery: None, settings: Default::default() }
}

fn batch(value: &str) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None, BatchLimits::default());
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    builder
        .append(&Record { timestamp: TimeMs::new(1), value, ..Record::default() })
        .expect("it is small");
    builder.finish(None).expect("it has a record")
}

/// Offsets and payloads, and the gaps and damaged ranges between them.
async fn read_all(topic: &Topic) -> (Vec<(u64, String)>, Vec<(u64, u64)>) {
    let reader = topic.read(Start::Earliest).await;
    let mut reader =
        reader.unwrap_or_else(|error| panic!("{} cannot be read: {error:?}", topic.name()));
    let (mut records, mut missing) = (Vec::new(), Vec::new());
    loop {
        match reader.next().await.expect("reading works") {
            Read::Frame(frame) => match frame.records(1 << 20) {
                None => missing.push((frame.base().get(), frame.next().get())),
                Some(found) => {
                    for record in found.expect("records decode") {
                        let (offset, record) = record.expect("a record decodes");
                        let value = record.value.expect("a value");
                        records
                            .push((offset.get(), String::from_utf8(value.to_vec()).expect("text")));
                    }
                }
            },
            Read::Damage(damage) => missing.push((damage.from.get(), damage.to.get())),
            Read::Trimmed { from, to } => missing.push((from.get(), to.get())),
            Read::CaughtUp(_) => return (records, missing),
        }
    }
}

#[test]
fn topics_live_through_restarts() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        let first = topic.append(batch("one")).await.unwrap();
        assert_eq!((first.base, first.epoch.get()), (Offset::ZERO, 1));
        broker.close().await.unwrap();

        let broker = open(&machine.restart().await).await;
        let topic = broker.topic(&name("/default/a")).unwrap();
        let second = topic.append(batch("two")).await.unwrap();
        assert_eq!((second.base, second.epoch.get()), (Offset::new(1), 2));
        machine.crash(Crash::PowerCut(Survival::Chance));

        let broker = open(&machine.restart().await).await;
        let topic = broker.topic(&name("/default/a")).unwrap();
        let (records, missing) = read_all(&topic).await;
        assert_eq!(records, [(0, "one".to_owned()), (1, "two".to_owned())]);
        assert!(missing.is_empty());
        assert_eq!(topic.describe().await.unwrap().epoch.get(), 3);
    });
}

#[test]
fn page_cache_goes_on_at_the_ceiling_after_a_power_cut_and_not_after_a_kill() {
    sim::run(2, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let delivery = Some(Delivery::Reliable(Durability::PageCache));
        broker.create_topic(NewTopic { delivery, ..new_topic("/default/p") }).await.unwrap();
        broker.topic(&name("/default/p")).unwrap().append(batch("one")).await.unwrap();
        machine.crash(Crash::Kill);

        let broker = open(&machine.restart().await).await;
        let topic = broker.topic(&name("/default/p")).unwrap();
        assert_eq!(topic.append(batch("two")).await.unwrap().base, Offset::new(1));
        machine.crash(Crash::Remount(Survival::Nothing));

        let broker = open(&machine.restart().await).await;
        let topic = broker.topic(&name("/default/p")).unwrap();
        let next = topic.append(batch("three")).await.unwrap();
        assert_eq!(next.base, Offset::new(1 << 32));
        let (_, missing) = read_all(&topic).await;
        assert!(matches!(missing[..], [(_, to)] if to == 1 << 32), "{missing:?}");
        let description = topic.describe().await.unwrap();
        assert_eq!(description.ceiling, Offset::new(2 << 32));
        assert_eq!(description.gaps.len(), 1);
    });
}

#[test]
fn another_level_counts_from_the_next_opening_on() {
    sim::run(3, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        assert_eq!(topic.append(batch("one")).await.unwrap().level, Durability::Disk);
        let change = TopicChange { durability: Some(Durability::PageCache), ..Default::default() };
        broker.update_topic(&name("/default/a"), change).await.unwrap();
        let appended = topic.append(batch("two")).await.unwrap();
        assert_eq!((appended.level, appended.epoch.get()), (Durability::PageCache, 2));
        let change = TopicChange { message_bytes_max: Change::Set(10), ..Default::default() };
        broker.update_topic(&name("/default/a"), change).await.unwrap();
        assert_eq!(topic.message_bytes_max(), 10);
    });
}

#[test]
fn a_deleted_topic_leaves_nothing_and_its_name_is_free() {
    sim::run(4, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        topic.append(batch("one")).await.unwrap();
        broker.delete_topic(&name("/default/a")).await.unwrap();
        assert_eq!(topic.append(batch("two")).await.unwrap_err().kind(), ErrorKind::NotFound);
        let files = machine.disk().files();
        assert!(!files.iter().any(|path| path.starts_with("/data/wal/topics")), "{files:?}");
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        assert_eq!(topic.append(batch("three")).await.unwrap().base, Offset::ZERO);
        let (records, _) = read_all(&topic).await;
        assert_eq!(records, [(0, "three".to_owned())]);
    });
}

#[test]
fn what_contradicts_is_refused_by_name() {
    sim::run(5, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        broker
            .create_topic(NewTopic { partitions: Some(3), ..new_topic("/default/p") })
            .await
            .unwrap();
        assert!(matches!(
            broker.topic(&name("/default/p")),
            Err(Error::Partitioned { partitions: 3, .. })
        ));
        assert!(matches!(broker.topic(&name("/default/x")), Err(Error::TopicNotFound { .. })));
        assert_eq!(
            broker.create_topic(new_topic("/default/p")).await.unwrap_err().kind(),
            ErrorKind::Conflict
        );
        assert_eq!(
            broker.create_topic(new_topic("/nowhere/p")).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let same = NewTopic { partitions: Some(3), ..new_topic("/default/p") };
        assert_eq!(broker.ensure_topic(same).await.unwrap(), Created::Existing);
        let other = NewTopic { partitions: Some(4), ..new_topic("/default/p") };
        assert!(matches!(broker.ensure_topic(other).await, Err(Error::Differs { .. })));
        let warm = NewTopic {
            delivery: Some(Delivery::Reliable(Durability::Warm)),
            ..new_topic("/default/w")
        };
        assert!(matches!(broker.create_topic(warm).await, Err(Error::Level { .. })));
        let part = broker.topic(&name("/default/p-part-2")).unwrap();
        assert_eq!(part.append(batch("one")).await.unwrap().base, Offset::ZERO);
        assert_eq!(broker.partitions(&name("/default/p")).unwrap().len(), 3);
        assert_eq!(broker.list_topics(None, None, 10).unwrap().len(), 1);
        broker.delete_topic(&name("/default/p")).await.unwrap();
        assert!(broker.list_topics(None, None, 10).unwrap().is_empty());
    });
}

#[test]
fn damage_is_read_around_and_becomes_a_gap_when_it_is_accepted() {
    sim::run(6, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        for i in 0..300 {
            topic.append(batch(&format!("{i}-{}", "x".repeat(100)))).await.unwrap();
        }
        broker.close().await.unwrap();
        let env = machine.restart().await;
        let segments: Vec<_> = machine.disk().files();
        let segment = segments.iter().find(|path| path.extension().is_some_and(|seg| seg == "seg"));
        machine.disk().flip(segment.expect("there is one"), 3000, 0xff).unwrap();

        let broker = open(&env).await;
        let topic = broker.topic(&name("/default/a")).unwrap();
        let (records, missing) = read_all(&topic).await;
        assert_eq!(missing.len(), 1);
        assert_eq!(records.len() as u64, 300 - (missing[0].1 - missing[0].0));
        let findings = broker.repair_topic(&name("/default/a"), false).await.unwrap();
        assert_eq!(findings.len(), 1);
        assert!(!findings[0].done && findings[0].file.ends_with(".seg"));
        let findings = broker.repair_topic(&name("/default/a"), true).await.unwrap();
        assert!(findings[0].done);
        let after = read_all(&topic).await;
        assert_eq!(after, (records, missing.clone()));
        let gaps = topic.describe().await.unwrap().gaps;
        assert_eq!((gaps[0].from.get(), gaps[0].to.get()), missing[0]);
        assert!(broker.repair_topic(&name("/default/a"), false).await.unwrap().is_empty());
        assert_eq!(topic.append(batch("after")).await.unwrap().base, Offset::new(300));
        broker.close().await.unwrap();
        let broker = open(&machine.restart().await).await;
        assert_eq!(broker.topic(&name("/default/a")).unwrap().describe().await.unwrap().gaps, gaps);
    });
}

#[test]
fn a_lost_hot_tier_is_given_up_only_when_that_is_accepted() {
    sim::run(7, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        broker.topic(&name("/default/a")).unwrap().append(batch("one")).await.unwrap();
        broker.close().await.unwrap();
        let env = machine.restart().await;
        env.disk.remove_dir_all("/data/wal".as_ref()).unwrap();

        let broker = open(&env).await;
        let topic = broker.topic(&name("/default/a")).unwrap();
        assert!(matches!(topic.append(batch("two")).await, Err(Error::OtherDisk { .. })));
        assert_eq!(broker.repair_topic(&name("/default/a"), false).await.unwrap().len(), 1);
        assert!(matches!(topic.append(batch("two")).await, Err(Error::OtherDisk { .. })));
        broker.repair_topic(&name("/default/a"), true).await.unwrap();
        assert_eq!(topic.append(batch("two")).await.unwrap().base, Offset::new(1 << 32));
    });
}

#[test]
fn a_stop_is_quick_and_refuses_what_comes_after() {
    sim::run(8, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        topic.append(batch("one")).await.unwrap();
        let began = world.elapsed();
        broker.close().await.unwrap();
        assert!(world.elapsed() - began < Duration::from_secs(1));
        assert!(matches!(topic.append(batch("two")).await, Err(Error::Stopping)));
    });
}
