//! Records that fail: delivered again, dropped, dead-lettered, or in the way.

use SubscriptionType::{Exclusive, Shared};
use danube_broker::SubscriptionChange;
use danube_model::{FailurePolicy, Message, PoisonPolicy, Sender};

use super::*;

async fn set_policy(topic: &Topic, poison: PoisonPolicy, max_redelivery_count: u32) {
    let policy = FailurePolicy {
        poison,
        max_redelivery_count,
        ack_timeout_ms: 2_000,
        ..FailurePolicy::default()
    };
    let change = SubscriptionChange { policy: Some(policy), ..Default::default() };
    topic.update_subscription(&sub(S), change).await.expect("it is changed");
}

#[test]
fn a_refused_message_comes_again_alone_after_its_delay() {
    sim::run(30, |world| async move {
        let (_broker, topic) = with_topic(&world).await;
        publish(&topic, 0..3).await;
        let mut consumer = attach(&topic, "a", Exclusive).await;
        consumer.offsets(3).await;
        consumer.refuse(1, 5_000).await;
        publish(&topic, 3..4).await;
        let began = world.elapsed();
        assert_eq!(consumer.next().await.unwrap().offset, 3);
        let again = consumer.next().await.unwrap();
        assert_eq!((again.offset, again.deliveries), (1, 2));
        let took = world.elapsed() - began;
        assert!((4_900..5_200).contains(&took.as_millis()), "{took:?}");
    });
}

/// On two consumers: the others of a batch are not repeated.
#[test]
fn only_the_late_message_is_delivered_again() {
    sim::run(31, |world| async move {
        let (_broker, topic) = with_topic(&world).await;
        let mut consumers = [attach(&topic, "a", Shared).await, attach(&topic, "b", Shared).await];
        set_policy(&topic, PoisonPolicy::Block, 5).await;
        publish(&topic, 0..40).await;
        let mut seen = vec![0; 40];
        for consumer in &mut consumers {
            for offset in consumer.offsets(20).await {
                seen[offset as usize] += 1;
                if offset != 0 {
                    consumer.acknowledge(offset).await;
                }
            }
        }
        let began = world.elapsed();
        let [first, second] = &mut consumers;
        while world.elapsed() - began < Duration::from_secs(7) {
            let next = tokio::select! {
                biased;
                got = first.next() => got,
                got = second.next() => got,
                () = world.sleep(Duration::from_secs(8)) => break,
            };
            seen[next.unwrap().offset as usize] += 1;
        }
        assert!((4..=5).contains(&seen[0]), "{} deliveries of the late one", seen[0]);
        assert!(seen[1..].iter().all(|count| *count == 1), "{seen:?}");
    });
}

#[test]
fn poison_blocks_until_the_policy_drops_it() {
    sim::run(32, |world| async move {
        let (_broker, topic) = with_topic(&world).await;
        publish(&topic, 0..2).await;
        let mut consumer = attach(&topic, "a", Exclusive).await;
        set_policy(&topic, PoisonPolicy::Block, 0).await;
        consumer.offsets(2).await;
        consumer.refuse(0, 0).await;
        publish(&topic, 2..3).await;
        assert!(within(&world, Duration::from_secs(1), consumer.next()).await.is_none());
        assert_eq!(describe(&topic).await.blocked, [Offset::ZERO]);
        set_policy(&topic, PoisonPolicy::Drop, 0).await;
        assert_eq!(consumer.next().await.unwrap().offset, 2);
        consumer.acknowledge(1).await;
        assert_eq!(describe(&topic).await.floor, Offset::new(2));
    });
}

#[test]
fn poison_goes_to_the_dead_letter_topic_with_where_it_comes_from() {
    sim::run(33, |world| async move {
        let (broker, topic) = with_topic(&world).await;
        publish(&topic, 0..1).await;
        let existing_client = Message {
            payload: "1".into(),
            producer_name: Some("p".into()),
            sender: Some(Sender {
                producer_id: 7,
                broker_address: "http://b/".into(),
                request_id: 1,
            }),
            ..Message::default()
        };
        let mut builder = BatchBuilder::new(Compression::None, BatchLimits::default());
        builder.append(&existing_client.to_record().unwrap()).unwrap();
        topic.append(builder.finish(None).unwrap()).await.unwrap();
        let mut consumer = attach(&topic, "a", Exclusive).await;
        let dead = name("/default/dead");
        set_policy(&topic, PoisonPolicy::DeadLetter(dead.clone()), 0).await;
        consumer.offsets(2).await;
        consumer.refuse(0, 0).await;
        consumer.refuse(1, 0).await;
        let settled = async {
            while describe(&topic).await.floor < Offset::new(2) {
                world.sleep(Duration::from_millis(10)).await;
            }
        };
        within(&world, Duration::from_secs(5), settled).await.expect("it is settled");
        let dead = broker.topic(&dead).unwrap();
        let mut letters = dead.read(Start::Earliest).await.unwrap();
        for (offset, producer, id, address) in
            [("0", "dead-letters", "0", "http://broker:6650"), ("1", "p", "7", "http://b/")]
        {
            let Read::Frame(frame) = letters.next().await.unwrap() else {
                panic!("there is no dead letter");
            };
            let (_, record) = frame.records(1 << 20).unwrap().unwrap().next().unwrap().unwrap();
            let message = Message::from_record(&record).unwrap();
            assert_eq!(message.payload, offset);
            assert_eq!(message.producer_name, Some(producer.into()));
            let attributes = message.attributes.iter();
            let attributes = attributes.map(|(name, value)| (name.as_str(), value.as_str()));
            assert_eq!(
                attributes.collect::<Vec<_>>(),
                [
                    ("x-original-topic", "/default/t"),
                    ("x-original-subscription", S),
                    ("x-original-topic-offset", offset),
                    ("x-original-producer-id", id),
                    ("x-original-broker-addr", address),
                    ("x-poison-policy", "dead_letter"),
                    ("x-delivery-attempt", "1"),
                    ("x-failure-reason", "no good"),
                ]
            );
        }
    });
}

/// Acknowledgements of anything, any number of times, are no error and move no cursor past what was not delivered.
#[test]
fn a_storm_of_acknowledgements_settles_only_what_was_delivered() {
    sim::run(34, |world| async move {
        let (_broker, topic) = with_topic(&world).await;
        publish(&topic, 0..10).await;
        let mut consumer = attach(&topic, "a", Exclusive).await;
        consumer.offsets(10).await;
        publish(&topic, 10..20).await;
        drop(consumer);
        let mut consumer = attach(&topic, "a", Exclusive).await;
        for round in 0..500u64 {
            let offset = Offset::new(round * 7 % 40);
            let ranges = vec![
                offset..offset + 1,
                Offset::new(3)..Offset::new(3),
                offset..Offset::new(1 << 62),
            ];
            topic.settle(&sub(S), Settle::Acknowledge(ranges)).await.unwrap();
            let (reason, delay_ms) = (String::new(), 1);
            topic.settle(&sub(S), Settle::Refuse { offset, delay_ms, reason }).await.unwrap();
        }
        assert!(describe(&topic).await.floor <= Offset::new(20));
        publish(&topic, 20..25).await;
        let mut last = 0;
        while last < 24 {
            last = consumer.next().await.unwrap().offset;
        }
    });
}
