//! Each type hands out what it should, and consumers go and come back.

use SubscriptionType::{Exclusive, Failover, KeyShared, Shared};

use super::*;

#[test]
fn an_exclusive_subscription_delivers_in_order_and_goes_on_behind_its_cursor() {
    sim::run(20, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/t")).await.unwrap();
        let topic = broker.topic(&name("/default/t")).unwrap();
        publish(&topic, 0..20).await;
        let mut consumer = attach(&topic, "a", Exclusive).await;
        publish(&topic, 20..30).await;
        assert_eq!(consumer.offsets(30).await, (0..30).collect::<Vec<_>>());
        for offset in (0..12).chain([15, 17, 18]) {
            consumer.acknowledge(offset).await;
        }
        let description = describe(&topic).await;
        assert_eq!((description.floor, description.in_flight), (Offset::new(12), 15));
        assert_eq!((description.settled.len(), description.lag), (2, 15));
        broker.close().await.unwrap();
        assert!(matches!(consumer.next().await, Err(Error::Stopping)));

        let broker = open(&machine.restart().await).await;
        let topic = broker.topic(&name("/default/t")).unwrap();
        assert_eq!(topic.subscriptions(), [sub(S)]);
        let id = consumer.consumer.id();
        let mut consumer =
            Attached::new(broker.attach_consumer(id, Window::Unlimited).await.unwrap());
        let left: Vec<_> = (12..30).filter(|offset| ![15, 17, 18].contains(offset)).collect();
        assert_eq!(consumer.offsets(left.len()).await, left);
    });
}

#[test]
fn a_new_subscription_begins_at_the_end_unless_it_is_told_otherwise() {
    sim::run(21, |world| async move {
        let (broker, topic) = with_topic(&world).await;
        publish(&topic, 0..5).await;
        let latest = Subscribe { start: Start::Latest, ..subscribe("a", Exclusive) };
        let id = topic.subscribe(latest).await.unwrap();
        publish(&topic, 5..7).await;
        let mut consumer =
            Attached::new(broker.attach_consumer(id, Window::Unlimited).await.unwrap());
        assert_eq!(consumer.offsets(2).await, [5, 6]);
    });
}

#[test]
fn what_a_gone_consumer_held_is_delivered_again_in_order() {
    sim::run(22, |world| async move {
        let (_broker, topic) = with_topic(&world).await;
        publish(&topic, 0..10).await;
        let mut first = attach(&topic, "a", Failover).await;
        let mut second = attach(&topic, "b", Failover).await;
        assert_eq!(first.offsets(10).await.len(), 10);
        first.acknowledge(0).await;
        first.acknowledge(4).await;
        drop(first);
        let left = [1, 2, 3, 5, 6, 7, 8, 9];
        assert_eq!(second.offsets(8).await, left);
        publish(&topic, 10..11).await;
        assert_eq!(second.next().await.unwrap().offset, 10);
        let mut back = attach(&topic, "a", Failover).await;
        assert!(within(&world, Duration::from_secs(1), back.next()).await.is_none());
        drop(second);
        let again = back.next().await.unwrap();
        assert_eq!((again.offset, again.deliveries), (1, 3));
    });
}

#[test]
fn a_shared_subscription_divides_and_nobody_gets_the_same() {
    sim::run(23, |world| async move {
        let (_broker, topic) = with_topic(&world).await;
        let mut first = attach(&topic, "a", Shared).await;
        let mut second = attach(&topic, "b", Shared).await;
        publish(&topic, 0..20).await;
        let mut all = first.offsets(10).await;
        all.extend(second.offsets(10).await);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_key_has_one_consumer_and_filters_skip_what_nobody_wants() {
    sim::run(24, |world| async move {
        let (broker, topic) = with_topic(&world).await;
        let mut consumers = Vec::new();
        for (consumer, filter) in [("a", "eu.*"), ("b", "us.?")] {
            let filters = vec![filter.to_owned()];
            let id = topic.subscribe(Subscribe { filters, ..subscribe(consumer, KeyShared) }).await;
            let consumer = broker.attach_consumer(id.unwrap(), Window::Unlimited).await.unwrap();
            consumers.push(Attached::new(consumer));
        }
        topic.append(keyed(&["eu.x", "us.1", "other", "us.22", "eu.y"])).await.unwrap();
        assert_eq!(consumers[0].offsets(2).await, [0, 4]);
        assert_eq!(consumers[1].offsets(1).await, [1]);
        consumers[0].acknowledge(0).await;
        consumers[1].acknowledge(1).await;
        let description = describe(&topic).await;
        assert_eq!((description.floor, description.in_flight), (Offset::new(4), 1));
    });
}

#[test]
fn the_window_and_credit_bound_what_is_delivered() {
    sim::run(25, |world| async move {
        let (broker, topic) = with_topic(&world).await;
        publish(&topic, 0..30).await;
        let id = topic.subscribe(subscribe("a", Exclusive)).await.unwrap();
        let mut consumer =
            Attached::new(broker.attach_consumer(id, Window::Credit(3)).await.unwrap());
        assert_eq!(consumer.offsets(3).await, [0, 1, 2]);
        let second = Duration::from_secs(1);
        assert!(within(&world, second, consumer.next()).await.is_none());
        consumer.consumer.grant(2);
        assert_eq!(consumer.offsets(2).await, [3, 4]);
        let change = danube_broker::SubscriptionChange {
            max_unacked_messages: Change::Set(8),
            ..Default::default()
        };
        topic.update_subscription(&sub(S), change).await.unwrap();
        consumer.consumer.grant(100);
        assert_eq!(consumer.offsets(3).await, [5, 6, 7]);
        assert!(within(&world, second, consumer.next()).await.is_none());
        consumer.acknowledge(2).await;
        assert_eq!(consumer.offsets(1).await, [8]);
    });
}

#[test]
fn what_contradicts_a_subscription_is_refused() {
    sim::run(26, |world| async move {
        let machine = world.machine("broker");
        let mut config = config();
        config.subscriptions.subscriptions_per_topic_max = 1;
        config.subscriptions.consumers_per_subscription_max = 2;
        let broker = Broker::open(config, machine.env()).await.unwrap().0;
        broker.create_topic(new_topic("/default/t")).await.unwrap();
        let topic = broker.topic(&name("/default/t")).unwrap();
        let first = topic.subscribe(subscribe("a", Shared)).await.unwrap();
        let other = topic.subscribe(subscribe("a", Exclusive)).await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Conflict);
        let another = Subscribe { subscription: sub("u"), ..subscribe("a", Shared) };
        assert_eq!(topic.subscribe(another).await.unwrap_err().kind(), ErrorKind::Exhausted);
        topic.subscribe(subscribe("b", Shared)).await.unwrap();
        let third = topic.subscribe(subscribe("c", Shared)).await.unwrap_err();
        assert!(matches!(third, Error::TooManyConsumers { limit: 2, .. }), "{third}");
        let again = topic.subscribe(subscribe("a", Shared)).await.unwrap();
        assert_ne!(first, again);
        assert!(!broker.consumer_is_alive(first) && broker.consumer_is_alive(again));
        let replaced = broker.attach_consumer(first, Window::Unlimited).await.err().unwrap();
        assert!(matches!(replaced, Error::ConsumerUnknown { .. }), "{replaced}");
        let unknown = topic.settle(&sub("u"), Settle::Acknowledge(Vec::new())).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn consumers_are_told_why_nothing_more_comes() {
    sim::run(27, |world| async move {
        let (broker, topic) = with_topic(&world).await;
        let mut consumer = attach(&topic, "a", Exclusive).await;
        let id = consumer.consumer.id();
        let mut newer = Attached::new(broker.attach_consumer(id, Window::Unlimited).await.unwrap());
        assert!(matches!(consumer.next().await, Err(Error::Replaced)));
        topic.delete_subscription(&sub(S)).await.unwrap();
        assert!(matches!(newer.next().await, Err(Error::SubscriptionDeleted { .. })));
        let mut consumer = attach(&topic, "a", Exclusive).await;
        broker.delete_topic(&name("/default/t")).await.unwrap();
        assert_eq!(consumer.next().await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_non_reliable_topic_reaches_those_who_listen() {
    sim::run(28, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        let delivery = Some(Delivery::NonReliable);
        broker.create_topic(NewTopic { delivery, ..new_topic("/default/n") }).await.unwrap();
        let topic = broker.topic(&name("/default/n")).unwrap();
        let mut one = attach(&topic, "a", Shared).await;
        let other = Subscribe { subscription: sub("u"), ..subscribe("a", KeyShared) };
        let other = topic.subscribe(other).await.unwrap();
        let mut other =
            Attached::new(broker.attach_consumer(other, Window::Unlimited).await.unwrap());
        for value in 0..100 {
            topic.publish(&batch(&value.to_string())).await.unwrap();
        }
        assert_eq!(one.offsets(100).await, (0..100).collect::<Vec<_>>());
        assert_eq!(other.offsets(100).await, (0..100).collect::<Vec<_>>());
        one.acknowledge(3).await;
        drop(one);
        world.sleep(Duration::from_secs(1)).await;
        for value in 100..103 {
            topic.publish(&batch(&value.to_string())).await.unwrap();
        }
        let mut back = attach(&topic, "a", Shared).await;
        topic.publish(&batch("103")).await.unwrap();
        assert_eq!(back.next().await.unwrap().value, "103");
        // Nobody takes what comes now: what finds no room is dropped.
        for value in 0..5_000 {
            topic.publish(&batch(&format!("{value}{}", "x".repeat(1000)))).await.unwrap();
        }
        let description = describe(&topic).await;
        assert!(description.dropped > 3_000, "{description:?}");
        assert_eq!(topic.append(batch("no")).await.unwrap_err().kind(), ErrorKind::Invalid);
        broker.delete_topic(&name("/default/n")).await.unwrap();
        assert_eq!(topic.publish(&batch("no")).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}
