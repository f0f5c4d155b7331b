//! Producing through failures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use danube_client::{
    Client, ClientSettings, Compression, Delivery, Error, ErrorKind, Message, Outcome, Producer,
    Receipt, Text,
};

use crate::broker::{FakeBroker, Fault};
use crate::network::Network;

const TOPIC: &str = "/default/t";

fn message(number: usize) -> Message {
    Message { payload: number.to_string().into(), ..Message::default() }
}

/// Small batches, so that there are many.
async fn open(client: &Client) -> Producer {
    client.producer(TOPIC).unwrap().batch_bytes(600).open().await.unwrap()
}

async fn send(producer: &Producer, count: usize) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    for number in 0..count {
        deliveries.push(producer.send(message(number)).await.unwrap());
    }
    deliveries
}

async fn confirmed(deliveries: Vec<Delivery>) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    for delivery in deliveries {
        receipts.push(delivery.await.unwrap());
    }
    receipts
}

/// All messages are stored once, in order, where their receipts say.
fn check(broker: &FakeBroker, receipts: &[Receipt]) {
    let stored = broker.stored(TOPIC);
    assert_eq!(stored.len(), receipts.len(), "lost or stored twice");
    for (number, ((offset, message), receipt)) in stored.iter().zip(receipts).enumerate() {
        assert_eq!(message.payload, number.to_string());
        assert_eq!(receipt.offset.get(), *offset);
        assert_eq!(receipt.topic.as_str(), TOPIC);
    }
}

/// A cheap sequence of random numbers.
fn dice(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

#[tokio::test]
async fn messages_arrive_as_they_were_sent_whatever_the_compression() {
    let broker = FakeBroker::start().await;
    let client = broker.client();
    for (number, compression) in Compression::ALL.into_iter().enumerate() {
        let builder = client.producer(TOPIC).unwrap().compression(compression).name("p");
        let producer = builder.open().await.unwrap();
        let sent = Message {
            payload: vec![7; 5_000].into(),
            key: Text::new("key".into()),
            attributes: vec![(Text::from_static("a"), Text::from_static("b"))],
            ..Message::default()
        };
        let receipt = producer.send(sent.clone()).await.unwrap().await.unwrap();
        assert_eq!(receipt.offset.get(), number as u64);
        let stored = broker.stored(TOPIC).pop().unwrap().1;
        assert!(stored.publish_time.get() > 0, "a publish time was added");
        assert_eq!(stored.producer_name, Text::new("p".into()));
        assert_eq!((&stored.payload, &stored.key), (&sent.payload, &sent.key));
        assert_eq!(stored.attributes, sent.attributes);
        producer.close().await.unwrap();
    }
}

/// What is sent again after an unknown outcome is stored once.
#[tokio::test]
async fn nothing_is_lost_doubled_or_reordered_by_broken_streams_lost_acks_and_refusals() {
    for seed in 0..8 {
        let broker = FakeBroker::start().await;
        let mut dice = dice(seed);
        broker.plan(move |_| match dice() % 20 {
            0 => Fault::CutBefore,
            1 => Fault::CutAfter,
            2 => Fault::Refuse { is_retryable: true },
            3 => Fault::StoreAndRefuse,
            _ => Fault::None,
        });
        let producer = open(&broker.client()).await;
        let deliveries = send(&producer, 1_000).await;
        producer.flush().await.unwrap();
        check(&broker, &confirmed(deliveries).await);
    }
}

#[tokio::test]
async fn nothing_is_lost_or_doubled_by_connections_that_break_anywhere() {
    let broker = FakeBroker::start().await;
    let network = Network::before(broker.address).await;
    let producer = open(&Client::connect(&network.url()).unwrap()).await;
    let mut arrived = broker.arrived.subscribe();
    let sending = send(&producer, 5_000);
    let cutting = async {
        for cut in 1..=10 {
            arrived.wait_for(|count| *count >= cut * 8).await.unwrap();
            network.cut();
        }
    };
    let (deliveries, ()) = tokio::join!(sending, cutting);
    check(&broker, &confirmed(deliveries).await);
}

/// A connection whose other end vanished without closing is noticed.
#[tokio::test]
async fn a_frozen_connection_is_given_up_and_the_messages_go_through_another() {
    let broker = FakeBroker::start().await;
    let network = Network::before(broker.address).await;
    let settings = ClientSettings {
        keepalive_interval: Duration::from_millis(100),
        keepalive_timeout: Duration::from_millis(100),
        ..ClientSettings::default()
    };
    let client = Client::connect_with(&network.url(), &settings).unwrap();
    let producer = open(&client).await;
    let mut deliveries = send(&producer, 1).await;
    producer.flush().await.unwrap();
    network.freeze(true);
    deliveries.push(producer.send(message(1)).await.unwrap());
    let second = deliveries.pop().unwrap();
    tokio::pin!(second);
    // Nothing passes; what was sent is stuck in the forwarder until the client has given it up.
    let short = Duration::from_millis(500);
    assert!(tokio::time::timeout(short, &mut second).await.is_err());
    network.cut();
    network.freeze(false);
    let mut receipts = confirmed(deliveries).await;
    receipts.push(second.await.unwrap());
    check(&broker, &receipts);
}

#[tokio::test]
async fn a_batch_that_is_refused_for_good_fails_alone() {
    let broker = FakeBroker::start().await;
    broker.plan(|number| match number {
        0 => Fault::Refuse { is_retryable: false },
        _ => Fault::None,
    });
    let producer = open(&broker.client()).await;
    let mut deliveries = send(&producer, 200).await;
    producer.flush().await.unwrap();
    let error = deliveries.remove(0).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Exhausted, Outcome::Definite));
    let stored = broker.stored(TOPIC);
    let mut expected = 0;
    for (number, delivery) in deliveries.into_iter().enumerate() {
        if let Ok(receipt) = delivery.await {
            assert_eq!(receipt.offset.get(), expected);
            assert_eq!(stored[expected as usize].1.payload, (number + 1).to_string());
            expected += 1;
        }
    }
    assert_eq!(stored.len() as u64, expected);
    assert!(expected > 100, "those behind it were stored");
}

#[tokio::test]
async fn what_the_broker_never_answers_fails_as_unknown_in_time() {
    let broker = FakeBroker::start().await;
    broker.plan(|_| Fault::Silence);
    let builder = broker.client().producer(TOPIC).unwrap().timeout(Duration::from_millis(300));
    let producer = builder.open().await.unwrap();
    let error = producer.send(message(0)).await.unwrap().await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { outcome: Outcome::Unknown, .. }), "{error:?}");
}

#[tokio::test]
async fn what_never_reached_a_broker_fails_for_certain() {
    let broker = FakeBroker::start().await;
    let network = Network::before(broker.address).await;
    let client = Client::connect(&network.url()).unwrap();
    let builder = client.producer(TOPIC).unwrap().timeout(Duration::from_millis(300));
    let producer = builder.open().await.unwrap();
    broker.plan(|_| Fault::CutBefore);
    network.freeze(true);
    network.cut();
    // The new stream never comes up.
    let delivery = loop {
        let delivery = producer.send(message(0)).await.unwrap();
        match delivery.await {
            Err(Error::TimedOut { outcome: Outcome::Unknown, .. }) => {}
            other => break other,
        }
    };
    let error = delivery.unwrap_err();
    assert!(matches!(error, Error::TimedOut { outcome: Outcome::Definite, .. }), "{error:?}");
    assert!(broker.stored(TOPIC).is_empty());
}

#[tokio::test]
async fn a_port_that_never_answers_is_given_up_in_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::connect(&format!("http://{}", silent.local_addr().unwrap())).unwrap();
    let producer = client.producer(TOPIC).unwrap().timeout(Duration::from_millis(50));
    let opened = tokio::time::timeout(Duration::from_secs(8), producer.open()).await;
    let error = opened.expect("it should have been given up").unwrap_err();
    let Error::TimedOut { last: Some(last), outcome, .. } = &error else { panic!("{error}") };
    assert_eq!(*outcome, Outcome::Definite);
    assert!(matches!(**last, Error::Connection { .. }), "{last}");
}

#[tokio::test]
async fn a_missing_topic_is_an_error_where_it_may_not_be_created() {
    let broker = FakeBroker::start().await;
    let builder = broker.client().producer(TOPIC).unwrap().create(None);
    let error = builder.open().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::NotFound, Outcome::Definite));
    assert_eq!(error.hint(), Some("create it"));
}

#[tokio::test]
async fn keys_choose_the_partition_and_the_rest_take_turns() {
    let broker = FakeBroker::start().await;
    broker.partition(TOPIC, 3);
    let producer = broker.client().producer(TOPIC).unwrap().open().await.unwrap();
    let mut partitions = BTreeMap::new();
    let mut turns = Vec::new();
    for number in 0..30 {
        let key = Text::new(format!("key-{}", number % 5).into());
        let sent = Message { key: key.clone(), ..message(number) };
        let receipt = producer.send(sent).await.unwrap().await.unwrap();
        let before = partitions.insert(key.unwrap().as_str().to_owned(), receipt.topic.clone());
        assert!(before.is_none_or(|before| before == receipt.topic));
        let receipt = producer.send(message(number)).await.unwrap().await.unwrap();
        turns.push(receipt.topic);
    }
    let names = (0..3).map(|number| format!("{TOPIC}-part-{number}"));
    assert_eq!(
        turns[..3].iter().map(|topic| topic.as_str().to_owned()).collect::<BTreeSet<_>>(),
        names.collect()
    );
    assert!(turns.iter().skip(3).zip(&turns).all(|(topic, before)| topic == before), "{turns:?}");
}

#[tokio::test]
async fn sending_waits_while_too_much_is_unconfirmed() {
    let broker = FakeBroker::start().await;
    broker.plan(|_| Fault::Silence);
    let builder = broker.client().producer(TOPIC).unwrap().unconfirmed_messages(3);
    let producer = builder.open().await.unwrap();
    let deliveries = send(&producer, 3).await;
    let short = Duration::from_millis(50);
    assert!(tokio::time::timeout(short, producer.send(message(3))).await.is_err());
    drop(producer);
    for delivery in deliveries {
        let error = delivery.await.unwrap_err();
        assert!(matches!(error, Error::Closed { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_before_it_is_sent() {
    let broker = FakeBroker::start().await;
    let producer = open(&broker.client()).await;
    let large = Message { payload: vec![0; (1 << 20) + 1].into(), ..Message::default() };
    let error = producer.send(large).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::Definite));
    let largest = Message { payload: vec![0; 1 << 20].into(), ..Message::default() };
    producer.send(largest).await.unwrap().await.unwrap();
}

#[tokio::test]
async fn a_closed_producer_takes_no_more() {
    let broker = FakeBroker::start().await;
    let producer = open(&broker.client()).await;
    let clone = producer.clone();
    let delivery = producer.send(message(0)).await.unwrap();
    producer.close().await.unwrap();
    delivery.await.unwrap();
    let error = clone.send(message(1)).await.unwrap_err();
    assert!(matches!(error, Error::Closed { outcome: Outcome::Definite, .. }));
    assert!(clone.flush().await.is_err());
}
