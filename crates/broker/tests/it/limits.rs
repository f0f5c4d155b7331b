//! What a topic and a subscription take at most.

use danube_broker::{MetricsLimits, Subscribe};
use danube_env::sim::World;
use danube_model::SubscriptionType;

use super::subscriptions::{subscribe, waiting};
use super::*;

async fn limited(world: &World, limit: impl FnOnce(&mut Config)) -> Broker {
    let mut config = config();
    limit(&mut config);
    Broker::open(config, world.machine("broker").env()).await.expect("the broker opens").0
}

async fn topic(broker: &Broker, text: &str, delivery: Option<Delivery>) -> Topic {
    broker.create_topic(NewTopic { delivery, ..new_topic(text) }).await.expect("it works");
    broker.topic(&name(text)).expect("it is there")
}

fn batch_of(records: usize) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None, BatchLimits::default());
    let value = Some(Bytes::from_static(b"v"));
    let record = Record { value, ..Record::default() };
    for _ in 0..records {
        builder.append(&record).expect("it is small");
    }
    builder.finish(None).expect("it has records")
}

/// Messages that one producer after the other brings into a topic until a time.
async fn taken(world: &World, topic: &Topic, records: usize, until: Duration) -> u64 {
    let mut taken = 0;
    while world.elapsed() < until {
        match topic.is_reliable() {
            true => drop(topic.append(batch_of(records)).await.expect("it is taken")),
            false => topic.publish(&batch_of(records)).await.expect("it is taken"),
        }
        taken += records as u64;
    }
    taken
}

#[test]
fn each_topic_keeps_to_its_rate_and_holds_up_no_other() {
    sim::run(60, |world| async move {
        let broker = limited(&world, |config| config.publish_rate_max = 500).await;
        let until = world.elapsed() + Duration::from_secs(4);
        let one = topic(&broker, "/default/a", None).await;
        let large = topic(&broker, "/default/b", None).await;
        let passing = topic(&broker, "/default/c", Some(Delivery::NonReliable)).await;
        let other = topic(&broker, "/default/d", None).await;
        let (first, second, large, passing, ()) = tokio::join!(
            taken(&world, &one, 1, until),
            taken(&world, &one, 7, until),
            taken(&world, &large, 200, until),
            taken(&world, &passing, 3, until),
            async {
                world.sleep(Duration::from_secs(2)).await;
                let began = world.elapsed();
                other.append(batch("one")).await.expect("it is taken");
                assert!(world.elapsed() - began < Duration::from_millis(100));
            },
        );
        for taken in [first + second, large, passing] {
            assert!((1_900..=2_250).contains(&taken), "{taken}");
        }
        let limits = MetricsLimits { topics: 1, subscriptions: 0 };
        let metrics = format!("{:?}", broker.metrics(limits).await.topics);
        assert!(!metrics.contains("throttled: 0ns"), "{metrics}");
    });
}

#[test]
fn a_stop_waits_for_nobody_who_is_beyond_the_rate() {
    sim::run(61, |world| async move {
        let broker = limited(&world, |config| config.publish_rate_max = 1).await;
        let topic = topic(&broker, "/default/a", None).await;
        topic.append(batch_of(3_600)).await.expect("it is taken");
        let (waiting, ()) = tokio::join!(topic.append(batch("late")), async {
            world.sleep(Duration::from_secs(1)).await;
            let began = world.elapsed();
            broker.close().await.expect("it stops");
            assert!(world.elapsed() - began < Duration::from_secs(1));
        });
        assert!(matches!(waiting, Err(Error::Stopping)), "{waiting:?}");
    });
}

#[test]
fn a_subscription_keeps_to_its_rate_whatever_its_consumer_takes() {
    sim::run(62, |world| async move {
        let broker = limited(&world, |config| config.subscriptions.rate_max = 100).await;
        let topic = topic(&broker, "/default/a", None).await;
        topic.append(batch_of(2_000)).await.expect("it is taken");
        let mut consumer = waiting(&topic).await;
        let began = world.elapsed();
        for offset in consumer.offsets(500).await {
            consumer.acknowledge(offset).await;
        }
        let took = world.elapsed() - began;
        assert!((4_500..=5_200).contains(&took.as_millis()), "{took:?}");
        let limits = MetricsLimits { topics: 1, subscriptions: 1 };
        let metrics = format!("{:?}", broker.metrics(limits).await.subscriptions);
        assert!(!metrics.contains("paused: 0ns"), "{metrics}");
    });
}

#[test]
fn the_consumers_of_all_subscriptions_of_a_topic_are_counted() {
    sim::run(63, |world| async move {
        let broker =
            limited(&world, |config| config.subscriptions.consumers_per_topic_max = 2).await;
        let (one, other) =
            (topic(&broker, "/default/a", None).await, topic(&broker, "/default/b", None).await);
        let to = |name: &str, consumer: &str| Subscribe {
            subscription: name.parse().expect("a good name"),
            ..subscribe(consumer, SubscriptionType::Shared)
        };
        one.subscribe(to("s", "a")).await.expect("there is room");
        one.subscribe(to("u", "a")).await.expect("there is room");
        for refused in [to("s", "b"), to("v", "a")] {
            let refused = one.subscribe(refused).await.expect_err("there is none");
            assert!(matches!(refused, Error::TooManyConsumers { limit: 2, .. }), "{refused}");
            assert_eq!(refused.kind(), ErrorKind::Exhausted);
        }
        one.subscribe(to("s", "a")).await.expect("it is in its own place");
        other.subscribe(to("s", "b")).await.expect("there is room");
    });
}
