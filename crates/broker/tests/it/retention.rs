//! Retention: what goes by time, by size and for the whole broker, and what clocks, readers and subscriptions make of it.

use danube_broker::{AlarmName, Delivered};
use danube_env::sim::{Machine, World};
use danube_model::SubscriptionType;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);
const DAY_MS: i64 = 24 * 3600 * 1000;

/// Looks every second.
fn retention() -> RetentionConfig {
    RetentionConfig { check_interval: Duration::from_secs(1), ..RetentionConfig::default() }
}

async fn start(env: &Env, retention: RetentionConfig) -> Broker {
    let config = Config { retention, ..config() };
    Broker::open(config, env.clone()).await.expect("the broker opens").0
}

async fn with_topics(
    world: &World,
    retention: RetentionConfig,
    names: &[&str],
) -> (Machine, Broker, Vec<Topic>) {
    let machine = world.machine("broker");
    let broker = start(&machine.env(), retention).await;
    let mut topics = Vec::new();
    for text in names {
        broker.create_topic(new_topic(text)).await.expect("it works");
        topics.push(broker.topic(&name(text)).expect("it is there"));
    }
    (machine, broker, topics)
}

/// Messages of 1 KiB: a segment takes some fifteen.
async fn publish(topic: &Topic, count: u64) {
    for _ in 0..count {
        topic.append(batch(&"x".repeat(1024))).await.expect("it works");
    }
}

async fn extent(topic: &Topic) -> (u64, u64, u64) {
    let described = topic.describe().await.expect("it works");
    (described.start.get(), described.durable_end.get(), described.bytes)
}

async fn start_offset(topic: &Topic) -> u64 {
    extent(topic).await.0
}

#[test]
fn messages_go_when_they_are_as_old_as_the_topic_says() {
    sim::run(1, |world| async move {
        let config = RetentionConfig { time: Some(MINUTE), ..retention() };
        let (_, broker, topics) = with_topics(&world, config, &["/default/a", "/default/b"]).await;
        let change = TopicChange { retention_ms: Change::Set(0), ..TopicChange::default() };
        broker.update_topic(&name("/default/b"), change).await.expect("it works");
        for topic in &topics {
            publish(topic, 40).await;
        }
        world.sleep(MINUTE - Duration::from_secs(5)).await;
        assert_eq!(start_offset(&topics[0]).await, 0);
        publish(&topics[0], 1).await;
        world.sleep(Duration::from_secs(10)).await;
        // What is being filled stays, and what was added to it.
        let (start, end, _) = extent(&topics[0]).await;
        assert!(20 < start && start < end && end == 41, "{start} {end}");
        assert_eq!(start_offset(&topics[1]).await, 0, "0 is without limit");

        // Nothing comes any more: that goes too, and the next message has the next offset.
        world.sleep(3 * MINUTE).await;
        assert_eq!(extent(&topics[0]).await, (41, 41, 0));
        publish(&topics[0], 1).await;
        assert_eq!(read_all(&topics[0]).await.0.len(), 1);
    });
}

#[test]
fn what_was_never_used_since_the_start_goes_too() {
    sim::run(2, |world| async move {
        let config = RetentionConfig { time: Some(MINUTE), ..retention() };
        let (machine, broker, topics) = with_topics(&world, config, &["/default/a"]).await;
        publish(&topics[0], 40).await;
        broker.close().await.expect("it works");
        drop(topics);
        let segments = |machine: &Machine| {
            let files = machine.disk().files();
            files.iter().filter(|path| path.extension().is_some_and(|of| of == "seg")).count()
        };
        let env = machine.restart().await;
        world.sleep(2 * MINUTE).await;
        assert_eq!(segments(&machine), 3);
        let _broker = start(&env, config).await;
        world.sleep(Duration::from_secs(2)).await;
        assert_eq!(segments(&machine), 1, "sealed ones go at the start");
        world.sleep(MINUTE + Duration::from_secs(5)).await;
        assert_eq!(segments(&machine), 0);
    });
}

/// Age is measured by the time that passed, whatever the wall clock says.
#[test]
fn a_wall_clock_that_jumps_deletes_nothing_early_and_stops_nothing() {
    for ahead_ms in [DAY_MS, 10_000 * DAY_MS, -DAY_MS, -3600 * 1000] {
        sim::run(3, |world| async move {
            let config = RetentionConfig { time: Some(MINUTE), ..retention() };
            let (machine, _broker, topics) = with_topics(&world, config, &["/default/a"]).await;
            publish(&topics[0], 40).await;
            world.sleep(Duration::from_secs(10)).await;
            machine.set_wall_ahead_ms(ahead_ms);
            publish(&topics[0], 40).await;
            world.sleep(MINUTE - Duration::from_secs(15)).await;
            assert_eq!(start_offset(&topics[0]).await, 0, "{ahead_ms}: early");
            machine.set_wall_ahead_ms(0);
            world.sleep(2 * MINUTE + Duration::from_secs(30)).await;
            assert_eq!(start_offset(&topics[0]).await, 80, "{ahead_ms}: stopped");
        });
    }
}

#[test]
fn a_topic_keeps_as_many_bytes_as_it_says_and_hardly_more_from_the_next_check_on() {
    sim::run(4, |world| async move {
        let (_, broker, topics) =
            with_topics(&world, retention(), &["/default/a", "/default/b"]).await;
        for topic in &topics {
            publish(topic, 100).await;
        }
        world.sleep(3 * MINUTE).await;
        assert_eq!(start_offset(&topics[0]).await, 0);
        for limit in [60_000, 30_000] {
            let change =
                TopicChange { retention_bytes: Change::Set(limit), ..TopicChange::default() };
            broker.update_topic(&name("/default/a"), change).await.expect("it works");
            world.sleep(Duration::from_secs(3)).await;
            let (start, end, bytes) = extent(&topics[0]).await;
            assert!(start > 0 && end == 100 && bytes >= limit, "{start} {end} {bytes}");
            assert!(bytes < limit + 17_000, "no more than that and a segment: {bytes}");
            let (records, missing) = read_all(&topics[0]).await;
            assert_eq!((records.len() as u64, missing.len()), (100 - start, 0));
        }
        assert_eq!(start_offset(&topics[1]).await, 0);
    });
}

/// Nothing is sealed by its size: the limit has it done.
#[test]
fn a_small_limit_is_kept_under_segments_that_never_fill() {
    sim::run(7, |world| async move {
        let mut config = Config { retention: retention(), ..config() };
        config.log.segment_bytes = 128 << 20;
        let broker = Broker::open(config, world.machine("broker").env()).await.expect("it opens").0;
        let mut new = new_topic("/default/a");
        new.settings.retention_bytes = Some(40_000);
        broker.create_topic(new).await.expect("it works");
        let topic = broker.topic(&name("/default/a")).expect("it is there");
        for _ in 0..30 {
            publish(&topic, 10).await;
            world.sleep(Duration::from_secs(1)).await;
            let (_, end, bytes) = extent(&topic).await;
            assert!(end < 40 || bytes >= 40_000, "{bytes}");
            assert!(bytes < 2 * 40_000 + 3 * 11_000, "{bytes}");
        }
        assert!(start_offset(&topic).await > 200);
    });
}

#[test]
fn what_keeps_nothing_has_no_retention() {
    sim::run(8, |world| async move {
        let (_, broker, _) = with_topics(&world, retention(), &["/default/a"]).await;
        let delivery = Some(Delivery::NonReliable);
        let mut new = NewTopic { delivery, ..new_topic("/default/n") };
        new.settings.retention_ms = Some(0);
        let refused = broker.create_topic(new.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::NothingKept { .. }), "{refused}");
        new.settings.retention_ms = None;
        broker.create_topic(new).await.expect("it works");
        let update = async |change| broker.update_topic(&name("/default/n"), change).await;
        for change in [
            TopicChange { retention_bytes: Change::Set(1), ..TopicChange::default() },
            TopicChange { durability: Some(Durability::Disk), ..TopicChange::default() },
        ] {
            let refused = update(change).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        }
        let change = TopicChange { message_bytes_max: Change::Set(9), ..TopicChange::default() };
        update(change).await.expect("it works");
    });
}

/// The clock of a machine that comes up years ahead is found out by what is stored, again and again.
#[test]
fn a_start_years_ahead_deletes_nothing_early_and_a_week_without_the_broker_counts() {
    sim::run(9, |world| async move {
        let config = RetentionConfig { time: Some(10 * MINUTE), ..retention() };
        let (machine, broker, topics) = with_topics(&world, config, &["/default/a"]).await;
        publish(&topics[0], 40).await;
        broker.close().await.expect("it works");
        for _ in 0..2 {
            let env = machine.restart().await;
            machine.set_wall_ahead_ms(3_650 * DAY_MS);
            let broker = start(&env, config).await;
            world.sleep(MINUTE).await;
            let topic = broker.topic(&name("/default/a")).expect("it is there");
            assert_eq!(start_offset(&topic).await, 0);
            let told: Vec<_> = broker.alarms().iter().map(|alarm| alarm.name).collect();
            assert!(told.contains(&AlarmName::ClockJumped), "{told:?}");
            broker.close().await.expect("it works");
        }
        let env = machine.restart().await;
        machine.set_wall_ahead_ms(7 * DAY_MS);
        let broker = start(&env, config).await;
        world.sleep(Duration::from_secs(5)).await;
        let topic = broker.topic(&name("/default/a")).expect("it is there");
        assert!(start_offset(&topic).await > 20, "what was sealed is a week old");
    });
}

#[test]
fn the_oldest_of_all_topics_go_for_the_limit_of_the_broker() {
    sim::run(5, |world| async move {
        let config = RetentionConfig { total_bytes: Some(150_000), ..retention() };
        let names = ["/default/a", "/default/b", "/default/c"];
        let (_, _broker, topics) = with_topics(&world, config, &names).await;
        for topic in &topics {
            publish(topic, 60).await;
            world.sleep(Duration::from_secs(2)).await;
        }
        let (mut starts, mut total) = (Vec::new(), 0);
        for topic in &topics {
            let (start, _, bytes) = extent(topic).await;
            starts.push(start);
            total += bytes;
        }
        assert!(total <= 150_000 && total > 120_000, "{total}");
        assert!(starts[0] >= 30 && starts[1] < 30 && starts[2] == 0, "{starts:?}");
    });
}

/// A subscription holds nothing back; it is told, goes on at the start, and late acknowledgements harm nobody.
#[test]
fn a_subscription_goes_on_at_the_start() {
    sim::run(6, |world| async move {
        let (_, broker, topics) = with_topics(&world, retention(), &["/default/a"]).await;
        let topic = &topics[0];
        let mut reader = topic.read(Start::Earliest).await.expect("it works");
        let (mut late, mut consumer) = {
            let consumer = |subscription: &'static str| async move {
                let subscribe = danube_broker::Subscribe {
                    subscription: subscription.parse().expect("a good name"),
                    consumer: "c".parse().expect("a good name"),
                    kind: SubscriptionType::Exclusive,
                    filters: Vec::new(),
                    start: Start::Earliest,
                };
                let id = topic.subscribe(subscribe).await.expect("it works");
                let window = danube_broker::Window::Credit(0);
                topic.broker().attach_consumer(id, window).await.expect("it works")
            };
            (consumer("late").await, consumer("early").await)
        };
        publish(topic, 100).await;
        consumer.grant(3);
        let got = consumer.next().await.expect("it works");
        assert!(matches!(got[..], [Delivered::Records { .. }, ..]), "{got:?}");

        let change = TopicChange { retention_bytes: Change::Set(20_000), ..TopicChange::default() };
        broker.update_topic(&name("/default/a"), change).await.expect("it works");
        world.sleep(Duration::from_secs(3)).await;
        let start = start_offset(topic).await;
        assert!(start > 50, "{start}");
        let read = reader.next().await.expect("it can be read");
        assert!(
            matches!(read, Read::Trimmed { from: Offset::ZERO, to } if to.get() == start),
            "{read:?}"
        );

        let described =
            topic.describe_subscription(&"late".parse().unwrap()).await.expect("it works");
        assert_eq!((described.floor.get(), described.lag), (0, 100 - start));

        // One that had read nothing is told before it gets the first message that is there.
        late.grant(1);
        let mut told = Vec::new();
        while !matches!(told.last(), Some(Delivered::Records { .. })) {
            told.extend(late.next().await.expect("it works"));
        }
        let [Delivered::Missing { range, why }, Delivered::Records { range: records, .. }] =
            &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((range.start, range.end.get()), (Offset::ZERO, start));
        assert!(matches!(why, danube_broker::MissingReason::Trimmed), "{why:?}");
        assert_eq!(records.start.get(), start);

        // What the other one holds is gone; its acknowledgement is no error. It is told of the rest, whatever the subscription had
        // read of it, and goes on.
        let acknowledge = danube_broker::Settle::Acknowledge(vec![Offset::ZERO..Offset::new(3)]);
        consumer.settle(acknowledge, 0).await.expect("it works");
        consumer.grant(1);
        let mut told = Vec::new();
        while !matches!(told.last(), Some(Delivered::Records { .. })) {
            told.extend(consumer.next().await.expect("it works"));
        }
        let mut at = Offset::new(3);
        for delivered in &told {
            let (Delivered::Records { range, .. } | Delivered::Missing { range, .. }) = delivered;
            assert_eq!(range.start, at, "{told:?}");
            at = range.end;
        }
        assert_eq!(at.get(), start + 1);
        let described =
            topic.describe_subscription(&"early".parse().unwrap()).await.expect("it works");
        assert!(described.floor.get() >= start, "{described:?}");
    });
}
