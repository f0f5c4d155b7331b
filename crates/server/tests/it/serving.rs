//! What a server does for its clients.

use std::time::Duration;

use danube_client::admin::{TopicDefaults, TopicSettings};
use danube_client::{
    Compression, Creation, Durability, ErrorKind, Item, Outcome, Reliability, Start, TopicName,
};

use crate::fixture::{Directory, TOPIC, client, message, payloads, producer};

fn topic() -> TopicName {
    TOPIC.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_stored_in_order_and_read_back_after_a_restart() {
    let directory = Directory::new();
    let server = directory.start().await;
    let producer = producer(&server).await;
    let mut deliveries = Vec::new();
    for number in 0..5_000 {
        deliveries.push(producer.send(message(number.to_string())).await.unwrap());
    }
    for (number, delivery) in deliveries.into_iter().enumerate() {
        let receipt = delivery.await.unwrap();
        assert_eq!(receipt.offset.get(), number as u64);
        assert_eq!(receipt.durability, Some(Durability::Disk));
    }
    let expected: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
    assert_eq!(payloads(&server).await, expected);
    let first = client(&server).admin().describe_topic(&topic()).await.unwrap();
    producer.close().await.unwrap();
    server.stop().await.unwrap();

    let server = directory.start().await;
    assert_eq!(payloads(&server).await, expected);
    let second = client(&server).admin().describe_topic(&topic()).await.unwrap();
    assert_eq!(second.topic_id, first.topic_id);
    assert!(second.epoch > first.epoch, "each opening takes a new epoch");
    assert_eq!(second.durable_end.get(), 5_000);
    assert!(second.ceiling > second.durable_end);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_compression_and_the_largest_message_come_back() {
    let directory = Directory::new();
    let server = directory.start_with("policies: {max_message_size: 2MiB}").await;
    let largest = "x".repeat(2 << 20);
    for compression in Compression::ALL {
        let builder = client(&server).producer(TOPIC).unwrap().compression(compression);
        let producer = builder.open().await.unwrap();
        producer.send(message(largest.clone())).await.unwrap().await.unwrap();
        producer.send(message("")).await.unwrap().await.unwrap();
        let error = producer.send(message(format!("{largest}x"))).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::Definite));
    }
    let expected = [largest.as_str(), ""].repeat(3);
    assert!(payloads(&server).await == expected);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_following_reader_gets_what_comes_and_starts_where_it_is_told() {
    let directory = Directory::new();
    let server = directory.start().await;
    let producer = producer(&server).await;
    for number in 0..10 {
        producer.send(message(number.to_string())).await.unwrap().await.unwrap();
    }
    let open = async |start| {
        let reader = client(&server).reader(TOPIC).unwrap().start(start).follow(true);
        reader.open().await.unwrap()
    };
    let mut latest = open(Start::Latest).await;
    assert!(matches!(latest.next().await.unwrap(), Some(Item::CaughtUp { .. })));
    let mut offset = open(Start::Offset(danube_client::Offset::new(8))).await;
    producer.send(message("10")).await.unwrap().await.unwrap();
    for (reader, expected) in [(&mut latest, vec![10]), (&mut offset, vec![8, 9, 10])] {
        for expected in expected {
            let received = loop {
                match reader.next().await.unwrap().unwrap() {
                    Item::Message(received) => break received,
                    Item::CaughtUp { .. } => {}
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(received.offset.get(), expected);
            assert_eq!(received.message.payload, expected.to_string());
        }
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_created_listed_described_changed_and_deleted() {
    let directory = Directory::new();
    let server = directory.start().await;
    let admin = client(&server).admin();
    let settings = TopicSettings {
        durability: Some(Durability::PageCache),
        retention_time: Some(Duration::from_secs(60)),
        ..TopicSettings::default()
    };
    let created = admin.create_topic(&topic(), Some(3), &settings).await.unwrap();
    assert_eq!(created.len(), 3);
    let error = admin.create_topic(&topic(), None, &settings).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Definite));

    let listed = admin.list_topics(None).await.unwrap();
    assert_eq!((listed.len(), listed[0].partitions), (1, 3));
    let described = admin.describe_topic(&topic()).await.unwrap();
    assert_eq!(described.partitions, created);
    let part = admin.describe_topic(&created[1]).await.unwrap();
    assert_eq!(part.settings.durability, Some(Durability::PageCache));
    assert_eq!(part.settings.retention_time, Some(Duration::from_secs(60)));
    assert_eq!(part.settings.reliability, Some(Reliability::Reliable));
    assert_eq!((part.state.as_str(), part.blocked), ("serving", None));

    let change = TopicSettings { durability: Some(Durability::Disk), ..TopicSettings::default() };
    let keep = TopicDefaults::default();
    admin.update_topic(&topic(), &change, keep, None).await.unwrap();
    let part = admin.describe_topic(&created[1]).await.unwrap();
    assert_eq!(part.settings.durability, Some(Durability::Disk));
    assert_eq!(part.settings.retention_time, Some(Duration::from_secs(60)));

    let defaults = TopicDefaults { retention_time: true, retention_size: false };
    admin.update_topic(&topic(), &TopicSettings::default(), defaults, None).await.unwrap();
    let part = admin.describe_topic(&created[1]).await.unwrap();
    assert_eq!(part.settings.retention_time, None);

    admin.delete_topic(&topic()).await.unwrap();
    assert!(admin.list_topics(None).await.unwrap().is_empty());
    assert!(client(&server).partitions(&topic()).await.unwrap().is_empty());
    let error = admin.delete_topic(&topic()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_created_listed_and_deleted_when_empty() {
    let directory = Directory::new();
    let server = directory.start_with("bootstrap_namespaces: [orders]").await;
    let admin = client(&server).admin();
    let names = async || {
        let names = admin.list_namespaces().await.unwrap();
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["default", "orders", "system"]);
    let orders = "orders".parse().unwrap();
    let topic = "/orders/t".parse().unwrap();
    admin.create_topic(&topic, None, &TopicSettings::default()).await.unwrap();
    assert!(admin.delete_namespace(&orders).await.is_err());
    admin.delete_topic(&topic).await.unwrap();
    admin.delete_namespace(&orders).await.unwrap();
    assert_eq!(names().await, ["default", "system"]);
    let error = admin.create_topic(&topic, None, &TopicSettings::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_s_expectations_of_a_topic_are_kept() {
    let directory = Directory::new();
    let server = directory.start().await;
    let open = async |create| {
        let producer = client(&server).producer(TOPIC).unwrap().create(create);
        producer.open().await.map(drop)
    };
    let durable = |level| Some(Creation { durability: Some(level), ..Creation::default() });
    assert_eq!(open(None).await.unwrap_err().kind(), ErrorKind::NotFound);
    open(durable(Durability::PageCache)).await.unwrap();
    open(durable(Durability::PageCache)).await.unwrap();
    open(Some(Creation::default())).await.unwrap();
    open(None).await.unwrap();
    let error = open(durable(Durability::Disk)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Definite));
    assert!(error.to_string().contains("page_cache"), "{error}");
    let error = open(Some(Creation { partitions: Some(2), ..Creation::default() })).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_not_created_where_that_is_switched_off() {
    let directory = Directory::new();
    let server = directory.start_with("auto_create_topics: false").await;
    let error = client(&server).producer(TOPIC).unwrap().open().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::NotFound, Outcome::Definite));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_deleted_and_made_anew_takes_the_producer_s_messages() {
    let directory = Directory::new();
    let server = directory.start().await;
    let producer = producer(&server).await;
    producer.send(message("old")).await.unwrap().await.unwrap();
    client(&server).admin().delete_topic(&topic()).await.unwrap();
    // The first to come finds out that the topic is gone.
    let error = producer.send(message("lost")).await.unwrap().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let receipt = producer.send(message("new")).await.unwrap().await.unwrap();
    assert_eq!(receipt.offset.get(), 0);
    assert_eq!(payloads(&server).await, ["new"]);
    server.stop().await.unwrap();
}

/// No answer waits for the delayed acknowledgements of TCP, 40 ms each.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_message_is_confirmed_at_once() {
    let directory = Directory::new();
    let server = directory.start_with("storage: {durability: page_cache}").await;
    let producer = producer(&server).await;
    producer.send(message("first")).await.unwrap().await.unwrap();
    let clock = danube_env::Env::real().clock;
    let before = clock.monotonic();
    for _ in 0..100 {
        producer.send(message("x")).await.unwrap().await.unwrap();
    }
    let each = (clock.monotonic() - before) / 100;
    assert!(each < Duration::from_millis(20), "{each:?} for each");
    server.stop().await.unwrap();
}
