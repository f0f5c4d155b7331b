//! What can be seen of a broker from outside: numbers and alarms.

use danube_broker::{Alarm, AlarmName, MetricsLimits, Remedy, SubscriptionChange};
use danube_env::process::Usage;
use danube_env::sim::World;
use danube_model::metric::{Row, Value};
use danube_model::{FailurePolicy, PoisonPolicy, SubscriptionName, SubscriptionType};

use super::*;
use crate::openings::{contents, put_back};
use crate::subscriptions::waiting;

const ALL: MetricsLimits = MetricsLimits { topics: 100, subscriptions: 100 };

/// The value of a metric of the row with these labels.
fn value<R: Row>(rows: &[R], labels: &[&str], name: &str) -> Value {
    let row = rows.iter().find(|row| row.labels() == labels);
    let row = row.unwrap_or_else(|| panic!("nothing is told of {labels:?}"));
    let metric = R::METRICS.iter().find(|metric| metric.name == name);
    (metric.unwrap_or_else(|| panic!("there is no metric {name}")).value)(row)
}

async fn topic_value(broker: &Broker, topic: &str, name: &str) -> Value {
    value(&broker.metrics(ALL).await.topics, &[topic], name)
}

async fn subscription_value(broker: &Broker, subscription: &str, name: &str) -> Value {
    let metrics = broker.metrics(ALL).await;
    value(&metrics.subscriptions, &["/default/t", subscription], name)
}

const LAG: &str = "danube_subscription_lag_messages";
const AGE: &str = "danube_subscription_oldest_unacked_age_seconds";

fn sub(text: &str) -> SubscriptionName {
    text.parse().expect("a good name")
}

async fn subscribed(broker: &Broker) -> Topic {
    broker.create_topic(new_topic("/default/t")).await.expect("it works");
    let topic = broker.topic(&name("/default/t")).expect("it works");
    let kind = SubscriptionType::Exclusive;
    topic.create_subscription(&sub("unused"), kind, Start::Earliest).await.expect("it works");
    topic
}

/// Also where nobody ever used the subscription, after a restart, and without opening its topic.
#[test]
fn the_lag_of_a_subscription_is_there_without_a_consumer() {
    sim::run(70, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let topic = subscribed(&broker).await;
        assert_eq!(subscription_value(&broker, "unused", LAG).await, Value::Whole(0));
        assert_eq!(subscription_value(&broker, "unused", AGE).await, Value::Real(0.0));
        for text in ["one", "two", "three"] {
            topic.append(batch(text)).await.unwrap();
        }
        world.sleep(Duration::from_secs(60)).await;
        assert_eq!(subscription_value(&broker, "unused", LAG).await, Value::Whole(3));
        let Value::Real(age) = subscription_value(&broker, "unused", AGE).await else { panic!() };
        assert!((60.0..61.0).contains(&age), "{age}");
        broker.close().await.unwrap();

        // Then it is in a file.
        let broker = open(&machine.restart().await).await;
        world.sleep(Duration::from_secs(60)).await;
        for _ in 0..2 {
            assert_eq!(subscription_value(&broker, "unused", LAG).await, Value::Whole(3));
            let Value::Real(age) = subscription_value(&broker, "unused", AGE).await else {
                panic!()
            };
            assert!((120.0..122.0).contains(&age), "{age}");
        }
        let end = topic_value(&broker, "/default/t", "danube_topic_durable_end_offset").await;
        assert_eq!(end, Value::Whole(3));
        let topic = broker.topic(&name("/default/t")).unwrap();
        assert_eq!(topic.open().await.unwrap().0.get(), 2, "nobody else has opened it");
    });
}

#[test]
fn what_goes_in_and_out_is_counted_until_its_object_ends() {
    sim::run(71, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        let topic = subscribed(&broker).await;
        let mut consumer = waiting(&topic).await;
        topic.append(batch("one")).await.unwrap();
        topic.append(batch("two")).await.unwrap();
        consumer.offsets(2).await;
        consumer.acknowledge(0).await;
        consumer.refuse(1, 0).await;
        consumer.offsets(1).await;
        world.sleep(Duration::from_secs(3)).await;
        let metrics = broker.metrics(ALL).await;
        let of_topic = |name| value(&metrics.topics, &["/default/t"], name);
        assert_eq!(of_topic("danube_topic_messages_in_total"), Value::Whole(2));
        assert_eq!(of_topic("danube_topic_active_consumers"), Value::Whole(1));
        assert_eq!(of_topic("danube_topic_active_subscriptions"), Value::Whole(2));
        let of_s = |name| value(&metrics.subscriptions, &["/default/t", "s"], name);
        assert_eq!(of_s("danube_consumer_messages_out_total"), Value::Whole(3));
        assert_eq!(of_s("danube_subscription_redelivered_messages_total"), Value::Whole(1));
        assert_eq!(of_s("danube_subscription_in_flight_messages"), Value::Whole(1));
        assert_eq!(of_s(LAG), Value::Whole(1));

        topic.delete_subscription(&sub("s")).await.unwrap();
        broker.delete_topic(&name("/default/t")).await.unwrap();
        let metrics = broker.metrics(ALL).await;
        assert!(metrics.topics.is_empty() && metrics.subscriptions.is_empty(), "{metrics:?}");
    });
}

#[test]
fn what_a_non_reliable_topic_drops_is_counted() {
    sim::run(72, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        let delivery = Some(Delivery::NonReliable);
        broker.create_topic(NewTopic { delivery, ..new_topic("/default/t") }).await.unwrap();
        let topic = broker.topic(&name("/default/t")).unwrap();
        let mut consumer = waiting(&topic).await;
        topic.publish(&batch("one")).await.unwrap();
        consumer.offsets(1).await;
        drop(consumer);
        world.sleep(Duration::from_secs(1)).await;
        topic.publish(&batch("two")).await.unwrap();
        let of_topic = async |name| topic_value(&broker, "/default/t", name).await;
        assert_eq!(of_topic("danube_topic_messages_in_total").await, Value::Whole(2));
        assert_eq!(of_topic("danube_topic_dropped_messages_total").await, Value::Whole(1));
        assert_eq!(of_topic("danube_topic_start_offset").await, Value::None);
        assert_eq!(subscription_value(&broker, "s", LAG).await, Value::None);
    });
}

#[test]
fn beyond_the_limits_it_is_told_how_many_are_left_out() {
    sim::run(73, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        for number in 0..5 {
            let topic = format!("/default/t{number}");
            broker.create_topic(new_topic(&topic)).await.unwrap();
            let topic = broker.topic(&name(&topic)).unwrap();
            for subscription in ["a", "b"] {
                let kind = SubscriptionType::Shared;
                let subscription = sub(subscription);
                topic.create_subscription(&subscription, kind, Start::Latest).await.unwrap();
            }
        }
        let metrics = broker.metrics(MetricsLimits { topics: 3, subscriptions: 4 }).await;
        assert_eq!((metrics.topics.len(), metrics.subscriptions.len()), (3, 4));
        let of_broker = |name| value(std::slice::from_ref(&metrics.broker), &[], name);
        assert_eq!(of_broker("danube_metrics_topics_left_out"), Value::Whole(2));
        assert_eq!(of_broker("danube_metrics_subscriptions_left_out"), Value::Whole(6));
        assert_eq!(of_broker("danube_broker_topics_owned"), Value::Whole(5));
        for topic in &metrics.topics {
            let count =
                value(&metrics.topics, &topic.labels(), "danube_topic_active_subscriptions");
            assert_eq!(count, Value::Whole(2));
        }
    });
}

fn standing(broker: &Broker) -> Vec<(AlarmName, String)> {
    broker.alarms().into_iter().map(|Alarm { name, subject, .. }| (name, subject)).collect()
}

fn one(name: AlarmName, subject: &str) -> Vec<(AlarmName, String)> {
    vec![(name, subject.to_owned())]
}

#[test]
fn a_wall_clock_that_jumps_is_told_for_a_while() {
    sim::run(74, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        world.sleep(Duration::from_secs(3)).await;
        assert_eq!(standing(&broker), []);
        machine.set_wall_ahead_ms(-3_600_000);
        world.sleep(Duration::from_secs(3)).await;
        assert_eq!(standing(&broker), one(AlarmName::ClockJumped, "clock"));
        let what = &broker.alarms()[0].what;
        assert!(what.starts_with("the wall clock went back by 3600"), "{what}");
        world.sleep(Duration::from_secs(601)).await;
        assert_eq!(standing(&broker), []);
    });
}

#[test]
fn descriptors_that_are_nearly_used_up_are_told() {
    sim::run(75, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let usage =
            |open| Usage { open_files: Some(open), open_files_max: Some(1000), ..Usage::default() };
        for (open, stands) in [(899, false), (900, true), (1000, true), (500, false)] {
            machine.set_usage(usage(open));
            assert_eq!(!standing(&broker).is_empty(), stands, "{open}");
        }
    });
}

#[test]
fn a_volume_without_room_is_told_until_there_is_some() {
    sim::run(76, |world| async move {
        let machine = world.machine("broker");
        machine.disk().set_size(8 << 20);
        let broker = open(&machine.env()).await;
        let topic = subscribed(&broker).await;
        let large = "x".repeat(16 << 10);
        while topic.append(batch(&large)).await.is_ok() {}
        world.sleep(Duration::from_secs(2)).await;
        let stand = standing(&broker);
        assert!(stand.contains(&(AlarmName::StorageFull, "/data/wal".to_owned())), "{stand:?}");
        machine.disk().set_size(64 << 20);
        world.sleep(Duration::from_secs(3)).await;
        assert_eq!(standing(&broker), []);
    });
}

/// From the start on, whether or not anybody uses the topic.
#[test]
fn a_topic_whose_log_is_gone_is_told_until_that_is_accepted() {
    sim::run(77, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.close().await.unwrap();
        let old = contents(&machine);
        let broker = open(&machine.restart().await).await;
        let topic = subscribed(&broker).await;
        topic.append(batch("one")).await.unwrap();
        broker.close().await.unwrap();
        let env = machine.restart().await;
        put_back(&machine, &env, "/data/wal", &old);

        let broker = open(&env).await;
        assert_eq!(standing(&broker), one(AlarmName::TopicUnavailable, "/default/t"));
        let found = broker.repair_topic(&name("/default/t"), true).await.unwrap();
        assert_eq!(found[0].remedy, Remedy::Gap);
        assert_eq!(standing(&broker), []);
    });
}

/// From the start on, too.
#[test]
fn files_that_are_gone_are_told_until_that_is_accepted() {
    sim::run(81, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let topic = subscribed(&broker).await;
        topic.append(batch("one")).await.unwrap();
        let dir = format!("/data/wal/topics/{}", topic.id());
        broker.close().await.unwrap();
        let env = machine.restart().await;
        env.disk.remove_dir_all(dir.as_ref()).unwrap();

        let broker = open(&env).await;
        assert_eq!(standing(&broker), one(AlarmName::TopicDamaged, "/default/t"));
        broker.repair_topic(&name("/default/t"), true).await.unwrap();
        assert_eq!(standing(&broker), []);
    });
}

#[test]
fn damage_that_a_reader_meets_is_told_until_it_is_a_gap() {
    sim::run(78, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let topic = subscribed(&broker).await;
        for _ in 0..8 {
            topic.append(batch(&"x".repeat(4 << 10))).await.unwrap();
        }
        broker.close().await.unwrap();
        let env = machine.restart().await;
        let path = format!("/data/wal/topics/{}/00000000000000000000.seg", topic.id());
        machine.disk().flip(path.as_ref(), 9_000, 1).unwrap();

        let broker = open(&env).await;
        let topic = broker.topic(&name("/default/t")).unwrap();
        assert_eq!(standing(&broker), [], "nobody has looked");
        read_all(&topic).await;
        assert_eq!(standing(&broker), one(AlarmName::TopicDamaged, "/default/t"));
        broker.repair_topic(&name("/default/t"), true).await.unwrap();
        assert_eq!(standing(&broker), []);
        read_all(&topic).await;
        assert_eq!(standing(&broker), []);
    });
}

#[test]
fn poison_that_blocks_a_subscription_is_told_until_it_is_out_of_the_way() {
    sim::run(79, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        let topic = subscribed(&broker).await;
        let mut consumer = waiting(&topic).await;
        let policy = FailurePolicy {
            poison: PoisonPolicy::Block,
            max_redelivery_count: 0,
            ..FailurePolicy::default()
        };
        let change = SubscriptionChange { policy: Some(policy), ..Default::default() };
        topic.update_subscription(&sub("s"), change).await.unwrap();
        topic.append(batch("one")).await.unwrap();
        consumer.offsets(1).await;
        consumer.refuse(0, 0).await;
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(standing(&broker), one(AlarmName::SubscriptionBlocked, "/default/t s"));
        topic.seek(&sub("s"), Start::Latest).await.unwrap();
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(standing(&broker), []);
    });
}

/// For as long as the broker can still be asked.
#[test]
fn a_disk_that_failed_is_told() {
    sim::run(80, |world: World| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let topic = subscribed(&broker).await;
        machine.disk().plan(sim::Fault::always(sim::Operation::SyncData));
        topic.append(batch("one")).await.unwrap_err();
        broker.failed().await;
        assert_eq!(standing(&broker), one(AlarmName::StorageFailed, "/data/wal"));
    });
}
