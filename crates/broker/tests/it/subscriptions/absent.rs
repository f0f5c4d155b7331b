//! Key-shared consumers that are not there for a while, and what is kept for them.

use SubscriptionType::KeyShared;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

async fn register(topic: &Topic, consumer: &str, filter: &str) -> ConsumerId {
    let filters = vec![filter.to_owned()];
    let subscribe = Subscribe { filters, ..subscribe(consumer, KeyShared) };
    topic.subscribe(subscribe).await.expect("it works")
}

async fn attach_id(topic: &Topic, id: ConsumerId) -> Attached {
    Attached::new(topic.broker().attach_consumer(id, Window::Unlimited).await.expect("it works"))
}

async fn join(topic: &Topic, consumer: &str, filter: &str) -> Attached {
    attach_id(topic, register(topic, consumer, filter).await).await
}

/// One that loses its connection, one that leaves, and one that has registered and not attached yet.
#[test]
fn a_consumer_that_is_briefly_gone_misses_nothing() {
    sim::run(30, |world| async move {
        let (_broker, topic) = with_topic(&world).await;
        let mut stays = join(&topic, "stays", "s*").await;
        let mut blinks = join(&topic, "blinks", "b*").await;
        topic.append(keyed(&["b", "s"])).await.unwrap();
        assert_eq!((blinks.offsets(1).await, stays.offsets(1).await), (vec![0], vec![1]));
        stays.acknowledge(1).await;
        drop(blinks);
        topic.append(keyed(&["b", "s", "nobody's"])).await.unwrap();
        assert_eq!(stays.offsets(1).await, [3]);
        stays.acknowledge(3).await;
        let mut blinks = join(&topic, "blinks", "b*").await;
        assert_eq!(blinks.offsets(2).await, [0, 2]);

        blinks.consumer.leave().await;
        let registered = register(&topic, "late", "l*").await;
        topic.append(keyed(&["b", "l", "s"])).await.unwrap();
        assert_eq!(stays.offsets(1).await, [7]);
        assert_eq!(attach_id(&topic, registered).await.offsets(1).await, [6]);
        // The newest filters of a name count.
        let mut blinks = join(&topic, "blinks", "x*").await;
        assert!(within(&world, SECOND, blinks.next()).await.is_none());
        stays.acknowledge(7).await;
        let description = describe(&topic).await;
        assert_eq!(description.settled, [Offset::new(7)..Offset::new(8)]);
        assert_eq!(description.floor, Offset::new(6));
    });
}

/// All registered consumers are waited for after a kill, from when the first of them is back.
#[test]
fn consumers_come_back_one_by_one_after_a_kill_and_miss_nothing() {
    sim::run(31, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/t")).await.unwrap();
        let topic = broker.topic(&name("/default/t")).unwrap();
        let ids = [register(&topic, "a", "a").await, register(&topic, "b", "b").await];
        let mut consumers = [attach_id(&topic, ids[0]).await, attach_id(&topic, ids[1]).await];
        topic.append(keyed(&["a", "b"])).await.unwrap();
        assert_eq!(consumers[1].offsets(1).await, [1]);
        machine.crash(Crash::Kill);

        let broker = open(&machine.restart().await).await;
        let topic = broker.topic(&name("/default/t")).unwrap();
        world.sleep(SECOND * 300).await;
        let mut first = attach_id(&topic, ids[0]).await;
        topic.append(keyed(&["b", "a"])).await.unwrap();
        assert_eq!(first.offsets(2).await, [0, 3]);
        world.sleep(SECOND * 59).await;
        assert_eq!(attach_id(&topic, ids[1]).await.offsets(2).await, [1, 2]);
    });
}

/// It holds up the others only until as much is known ahead as may be, and then only until its time is over.
#[test]
fn what_is_kept_for_a_consumer_is_skipped_when_its_time_is_over() {
    sim::run(32, |world| async move {
        let mut config = config();
        config.subscriptions.max_unacked_messages = 10;
        config.subscriptions.consumer_absence = SECOND * 7;
        let env = world.machine("broker").env();
        let broker = Broker::open(config, env).await.unwrap().0;
        broker.create_topic(new_topic("/default/t")).await.unwrap();
        let topic = broker.topic(&name("/default/t")).unwrap();
        let mut stays = join(&topic, "stays", "s").await;
        drop(join(&topic, "gone", "g").await);
        for _ in 0..20 {
            topic.append(keyed(&["g"; 10])).await.unwrap();
        }
        topic.append(keyed(&["s"])).await.unwrap();
        assert!(within(&world, SECOND * 6, stays.next()).await.is_none());
        assert_eq!(describe(&topic).await.floor, Offset::ZERO);
        let next = within(&world, SECOND * 2, stays.next()).await;
        assert_eq!(next.expect("it goes on").unwrap().offset, 200);
        assert_eq!(describe(&topic).await.floor, Offset::new(200));
        let mut gone = join(&topic, "gone", "g").await;
        topic.append(keyed(&["g"])).await.unwrap();
        assert_eq!(gone.offsets(1).await, [201]);
    });
}

/// One that runs for a short while again and again waits once for those that never come back, not each time.
#[test]
fn the_time_of_an_absent_consumer_goes_on_where_it_was_when_its_subscription_has_rested() {
    sim::run(33, |world| async move {
        let (_broker, topic) = with_topic(&world).await;
        let first = join(&topic, "again", "a").await;
        drop(join(&topic, "gone", "g").await);
        topic.append(keyed(&["g"])).await.unwrap();
        world.sleep(SECOND * 30).await;
        assert_eq!(describe(&topic).await.floor, Offset::ZERO);
        first.consumer.leave().await;
        // A task that nobody uses ends within this time.
        world.sleep(SECOND * 600).await;
        let second = join(&topic, "again", "a").await;
        // It has its whole time.
        register(&topic, "late", "l").await;
        topic.append(keyed(&["g", "l"])).await.unwrap();
        world.sleep(SECOND * 28).await;
        assert_eq!(describe(&topic).await.floor, Offset::ZERO);
        world.sleep(SECOND * 4).await;
        assert_eq!(describe(&topic).await.floor, Offset::new(2));
        second.consumer.leave().await;
        world.sleep(SECOND * 600).await;
        let third = join(&topic, "again", "a").await;
        topic.append(keyed(&["g"])).await.unwrap();
        world.sleep(SECOND).await;
        assert_eq!(describe(&topic).await.settled, [Offset::new(3)..Offset::new(4)]);
        world.sleep(SECOND * 29).await;
        assert_eq!(describe(&topic).await.floor, Offset::new(4));
        drop(third);
        world.sleep(SECOND * 600).await;
        // It comes back, after all.
        let mut gone = join(&topic, "gone", "g").await;
        topic.append(keyed(&["g"])).await.unwrap();
        assert_eq!(gone.offsets(1).await, [4]);
    });
}
