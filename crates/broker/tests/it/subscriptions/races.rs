//! What must hold whatever happens at the same moment, and whenever the broker dies.

use std::collections::BTreeSet;

use SubscriptionType::{Exclusive, Shared};

use super::*;

/// A seek that succeeded holds, whatever was acknowledged before or is acknowledged late.
#[test]
fn a_seek_is_not_undone_by_acknowledgements() {
    for round in 0..20 {
        sim::run(100 + round, |world| async move {
            let machine = world.machine("broker");
            let broker = open(&machine.env()).await;
            broker.create_topic(new_topic("/default/t")).await.unwrap();
            let topic = broker.topic(&name("/default/t")).unwrap();
            publish(&topic, 0..100).await;
            let mut consumer = attach(&topic, "a", Exclusive).await;
            let id = consumer.consumer.id();
            let held = consumer.offsets(100).await;
            let earlier = consumer.incarnation;
            for offset in &held[..80 + round as usize] {
                consumer.acknowledge(*offset).await;
            }
            world.sleep(Duration::from_millis(100 * round)).await;
            let late = async {
                for offset in &held {
                    consumer.acknowledge(*offset).await;
                }
            };
            let (s, to) = (sub(S), Start::Offset(Offset::new(10)));
            let (sought, ()) = tokio::join!(topic.seek(&s, to), late);
            assert_eq!(sought.unwrap(), Offset::new(10));
            let (topic, mut consumer) = if round % 2 == 0 {
                machine.crash(Crash::Kill);
                let broker = open(&machine.restart().await).await;
                let topic = broker.topic(&name("/default/t")).unwrap();
                let consumer = broker.attach_consumer(id, Window::Unlimited).await.unwrap();
                (topic, Attached::new(consumer))
            } else {
                (topic, consumer)
            };
            let again = within(&world, Duration::from_secs(5), consumer.offsets(90)).await;
            assert_eq!(again.expect("it gets them"), (10..100).collect::<Vec<_>>());
            // Those that are later still are for the earlier deliveries, not for these.
            let late = Settle::Acknowledge(vec![Offset::new(0)..Offset::new(100)]);
            consumer.consumer.settle(late, earlier).await.unwrap();
            assert_eq!(describe(&topic).await.floor, Offset::new(10));
            consumer.acknowledge(10).await;
            assert_eq!(describe(&topic).await.floor, Offset::new(11));
        });
    }
}

/// Nobody sits on what was published at the very moment at which it subscribed, or was about to wait.
#[test]
fn no_wake_up_is_missed() {
    for seed in 200..400 {
        sim::run(seed, |world| async move {
            let (_broker, topic) = with_topic(&world).await;
            let publishing = async {
                for value in 0..3 {
                    world.sleep(Duration::from_micros(world.generator("pause").below(900))).await;
                    publish(&topic, value..value + 1).await;
                }
            };
            let consuming = async {
                let mut consumer = attach(&topic, "a", Exclusive).await;
                for offset in 0..3 {
                    assert_eq!(consumer.next().await.unwrap().offset, offset);
                    consumer.acknowledge(offset).await;
                }
                world.elapsed()
            };
            let published = async {
                publishing.await;
                world.elapsed()
            };
            let both = Box::pin(async { tokio::join!(published, consuming) });
            let (published, consumed) =
                within(&world, Duration::from_secs(10), both).await.expect("nothing waits");
            let late = consumed.saturating_sub(published);
            assert!(late < Duration::from_millis(500), "seed {seed}: {late:?} late");
        });
    }
}

/// Of two that want an exclusive subscription at the same moment one has it, and never both.
#[test]
fn an_exclusive_subscription_has_one_consumer() {
    for seed in 500..520 {
        sim::run(seed, |world| async move {
            let (broker, topic) = with_topic(&world).await;
            publish(&topic, 0..1).await;
            let (one, two) = tokio::join!(
                topic.subscribe(subscribe("a", Exclusive)),
                topic.subscribe(subscribe("b", Exclusive)),
            );
            let (winner, loser) = if one.is_ok() { (one, two) } else { (two, one) };
            assert!(matches!(loser, Err(Error::ExclusiveTaken { .. })), "{loser:?}");
            let winner: ConsumerId = winner.unwrap();
            let (first, second) = tokio::join!(
                broker.attach_consumer(winner, Window::Unlimited),
                broker.attach_consumer(winner, Window::Unlimited),
            );
            let mut both = [Attached::new(first.unwrap()), Attached::new(second.unwrap())];
            let [first, second] = &mut both;
            let (first, second) = tokio::join!(
                within(&world, Duration::from_secs(1), first.next()),
                within(&world, Duration::from_secs(1), second.next()),
            );
            let replaced = |got: &Option<Result<Got>>| matches!(got, Some(Err(Error::Replaced)));
            assert!(replaced(&first) != replaced(&second), "{first:?} {second:?}");
        });
    }
}

/// A consumer that takes nothing costs others nothing.
#[test]
fn a_slow_consumer_slows_neither_the_producer_nor_another_subscription() {
    sim::run(40, |world| async move {
        let (broker, topic) = with_topic(&world).await;
        let _dead = attach(&topic, "a", Exclusive).await;
        let quick = Subscribe { subscription: sub("u"), ..subscribe("a", Shared) };
        let quick = topic.subscribe(quick).await.unwrap();
        let mut quick =
            Attached::new(broker.attach_consumer(quick, Window::Unlimited).await.unwrap());
        let began = world.elapsed();
        for value in 0..3_000u64 {
            topic.append(batch(&format!("{value}-{}", "x".repeat(400)))).await.unwrap();
            let got = quick.next().await.unwrap();
            assert_eq!(got.offset, value);
            quick.acknowledge(value).await;
        }
        let took = world.elapsed() - began;
        assert!(took < Duration::from_secs(30), "{took:?}");
        let description = describe(&topic).await;
        assert!(description.in_flight <= 1000 && description.lag == 3_000, "{description:?}");
    });
}

/// P4 under crashes: everything is delivered until it is acknowledged; what was acknowledged a flush ago never again.
#[test]
fn twenty_crashes_lose_no_message_and_no_old_acknowledgement() {
    sim::run(41, |world| async move {
        let machine = world.machine("broker");
        let mut env = machine.env();
        let (mut published, mut acknowledged) = (0, BTreeSet::new());
        let mut id = None;
        for round in 0..20u64 {
            let broker = open(&env).await;
            if round == 0 {
                broker.create_topic(new_topic("/default/t")).await.unwrap();
            }
            let topic = broker.topic(&name("/default/t")).unwrap();
            let registered = match id {
                Some(id) => id,
                None => topic.subscribe(subscribe("a", Exclusive)).await.unwrap(),
            };
            id = Some(registered);
            let consumer = broker.attach_consumer(registered, Window::Unlimited).await.unwrap();
            let mut consumer = Attached::new(consumer);
            publish(&topic, published..published + 20).await;
            published += 20;
            let expected: Vec<_> =
                (0..published).filter(|offset| !acknowledged.contains(offset)).collect();
            assert_eq!(consumer.offsets(expected.len()).await, expected, "round {round}");
            for offset in expected.iter().filter(|offset| (*offset + round) % 3 != 0) {
                consumer.acknowledge(*offset).await;
                acknowledged.insert(*offset);
            }
            // More than a flush interval: they are saved.
            world.sleep(Duration::from_millis(2_500)).await;
            machine.crash(if round % 2 == 0 {
                Crash::Kill
            } else {
                Crash::PowerCut(Survival::Chance)
            });
            env = machine.restart().await;
        }
    });
}

/// A log that is closed and opened anew under its consumers goes on being delivered, and its cursor being saved.
#[test]
fn a_subscription_outlives_the_opening_of_its_log() {
    sim::run(42, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/t")).await.unwrap();
        let topic = broker.topic(&name("/default/t")).unwrap();
        let mut consumer = attach(&topic, "a", Exclusive).await;
        let id = consumer.consumer.id();
        for (value, level) in [Durability::PageCache, Durability::Disk].into_iter().enumerate() {
            let value = value as u64;
            publish(&topic, value..value + 1).await;
            assert_eq!(consumer.next().await.unwrap().offset, value);
            consumer.acknowledge(value).await;
            let change = TopicChange { durability: Some(level), ..Default::default() };
            broker.update_topic(&name("/default/t"), change).await.unwrap();
        }
        publish(&topic, 2..3).await;
        let limit = Duration::from_secs(2);
        let next = within(&world, limit, consumer.next()).await.expect("it comes");
        assert_eq!(next.unwrap().offset, 2);
        broker.close().await.unwrap();
        let broker = open(&machine.restart().await).await;
        let consumer = broker.attach_consumer(id, Window::Unlimited).await.unwrap();
        assert_eq!(Attached::new(consumer).next().await.unwrap().offset, 2);
    });
}
