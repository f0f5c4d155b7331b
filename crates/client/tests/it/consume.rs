//! Consuming through failures.

use std::time::Duration;

use danube_client::{
    Client, ClientSettings, Consumed, Consumer, ConsumerBuilder, Delivered, Error, ErrorKind,
    Failure, Outcome,
};
use danube_proto::stream::consume_request::Request as Consume;
use danube_proto::stream::consume_response::item::Item;
use danube_proto::stream::consume_response::{Delivery, Opened};
use danube_proto::stream::{ConsumeResponse, Gap, Range};
use tonic::Status;

use crate::broker::{FakeBroker, items};
use crate::network::Network;
use crate::read::batch;

const TOPIC: &str = "/default/t";

type Response = Result<ConsumeResponse, Status>;

fn opened() -> Response {
    Ok(items([Item::Opened(Opened { topic_id: vec![7; 16].into(), consumer_id: 1 })]))
}

/// Those of `payloads` that are in `from..to`.
fn delivery(base_offset: u64, payloads: &[&'static str], from: u64, to: u64) -> Item {
    let batch = match payloads {
        [] => bytes::Bytes::new(),
        payloads => batch(base_offset, payloads).bytes().clone(),
    };
    let incarnation = 1;
    Item::Delivery(Delivery { batch, from, to, delivery_count: 1, receive_time_ms: 5, incarnation })
}

fn all(payloads: &[&'static str]) -> Response {
    Ok(items([delivery(0, payloads, 0, payloads.len() as u64)]))
}

fn cut() -> Response {
    Err(Status::unavailable("cut"))
}

fn consumer(client: &Client) -> ConsumerBuilder {
    client.consumer(TOPIC, "s").unwrap()
}

async fn start(streams: Vec<Vec<Response>>) -> (FakeBroker, Consumer) {
    let broker = FakeBroker::start().await;
    broker.answer_consumes(streams);
    let consumer = consumer(&broker.client()).open().await.unwrap();
    (broker, consumer)
}

async fn message(consumer: &mut Consumer) -> Delivered {
    match consumer.next().await.unwrap().unwrap() {
        Consumed::Message(delivered) => delivered,
        other => panic!("{other:?}"),
    }
}

fn word(delivered: &Delivered) -> String {
    let received = &delivered.received;
    format!("{}={}", received.offset, std::str::from_utf8(&received.message.payload).unwrap())
}

/// What was acknowledged on a stream.
fn acknowledged(broker: &FakeBroker, stream: usize) -> Vec<Range> {
    let requests = broker.consume_requests.borrow();
    let of_stream = requests.iter().filter(|(of, _)| *of == stream);
    let ranges = of_stream.filter_map(|(_, request)| match request {
        Consume::Settle(settle) => Some(settle.acknowledged.clone()),
        _ => None,
    });
    ranges.flatten().collect()
}

#[tokio::test]
async fn pieces_of_a_batch_become_messages_without_being_sent_again() {
    let pieces = items([
        delivery(10, &["a", "b", "c", "d"], 11, 12),
        Item::Gap(Gap { from: 5, to: 9, why: "retention".to_owned() }),
        delivery(0, &[], 12, 14),
        // Backwards, as something delivered again.
        delivery(0, &[], 10, 11),
    ]);
    let (_broker, mut consumer) = start(vec![vec![opened(), Ok(pieces)]]).await;
    assert_eq!(word(&message(&mut consumer).await), "11=b");
    assert!(
        matches!(consumer.next().await.unwrap(), Some(Consumed::Gap { why, .. }) if why == "retention")
    );
    for expected in ["12=c", "13=d", "10=a"] {
        assert_eq!(word(&message(&mut consumer).await), expected);
    }
}

#[tokio::test]
async fn acknowledgements_are_gathered_and_sent_before_a_consumer_has_closed() {
    let (broker, mut consumer) = start(vec![vec![opened(), all(&["a", "b", "c", "d"])]]).await;
    let mut places = Vec::new();
    for _ in 0..4 {
        places.push(message(&mut consumer).await.place);
    }
    for at in [0, 1, 3] {
        consumer.ack(places[at]);
    }
    consumer.nack(places[2], Duration::from_millis(7), "busy");
    consumer.close().await.unwrap();
    let requests = broker.consume_requests.borrow();
    let settled: Vec<_> =
        requests.iter().filter(|(_, r)| matches!(r, Consume::Settle(_))).collect();
    let [(1, Consume::Settle(settle))] = settled[..] else { panic!("{settled:?}") };
    assert_eq!(settle.acknowledged, [Range { from: 0, to: 2 }, Range { from: 3, to: 4 }]);
    let refused = &settle.refused[0];
    assert_eq!((refused.offset, refused.delay_ms, refused.reason.as_str()), (2, 7, "busy"));
}

/// They could undo a seek that came between.
#[tokio::test]
async fn acknowledgements_of_a_stream_that_broke_are_void_and_their_messages_come_again() {
    let streams = vec![vec![opened(), all(&["a", "b"]), cut()], vec![opened(), all(&["a", "b"])]];
    let (broker, mut consumer) = start(streams).await;
    let before = message(&mut consumer).await;
    broker.asked(|requests| requests.iter().any(|(stream, _)| *stream == 2)).await;
    let again = message(&mut consumer).await;
    assert_eq!((word(&before), word(&again)), ("0=a".to_owned(), "0=a".to_owned()));
    consumer.ack(before.place);
    let last = message(&mut consumer).await;
    consumer.ack(last.place);
    consumer.close().await.unwrap();
    assert_eq!(acknowledged(&broker, 1), []);
    assert_eq!(acknowledged(&broker, 2), [Range { from: 1, to: 2 }]);
}

#[tokio::test(start_paused = true)]
async fn a_close_that_nobody_confirms_is_an_error() {
    let (broker, mut consumer) = start(vec![vec![opened(), all(&["a"])]]).await;
    broker.answer_settlements(false);
    let last = message(&mut consumer).await;
    consumer.ack(last.place);
    assert!(consumer.close().await.is_err());
}

#[tokio::test]
async fn credit_is_given_for_what_was_taken_and_never_beyond_the_limit() {
    let broker = FakeBroker::start().await;
    let payloads = ["a", "b", "c", "d", "e"];
    let first = Ok(items([delivery(0, &payloads, 0, 4)]));
    broker.answer_consumes(vec![vec![opened(), first, Ok(items([delivery(0, &payloads, 4, 5)]))]]);
    let consumer = consumer(&broker.client()).prefetch(4).limit(Some(5));
    let mut consumer = consumer.open().await.unwrap();
    for _ in 0..5 {
        message(&mut consumer).await;
    }
    assert_eq!(consumer.next().await.unwrap(), None);
    consumer.close().await.unwrap();
    let requests = broker.consume_requests.borrow();
    let credit: u64 = requests
        .iter()
        .map(|(_, request)| match request {
            Consume::Open(open) => open.credit.unwrap().messages,
            Consume::Credit(credit) => credit.messages,
            _ => 0,
        })
        .sum();
    assert_eq!(credit, 5);
}

#[tokio::test]
async fn a_consumer_whose_name_was_taken_ends_and_does_not_take_it_back() {
    let failure = Failure {
        kind: ErrorKind::Fenced,
        outcome: Outcome::Definite,
        is_retryable: false,
        message: "another one".to_owned(),
        hint: None,
    };
    let streams = vec![vec![opened(), all(&["a"]), Err(failure.into())], vec![opened()]];
    let (broker, mut consumer) = start(streams).await;
    let error = loop {
        if let Err(error) = consumer.next().await {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert_eq!(consumer.next().await.unwrap_err().kind(), ErrorKind::Fenced);
    assert!(broker.consume_requests.borrow().iter().all(|(stream, _)| *stream == 1));
}

#[tokio::test]
async fn a_batch_that_was_damaged_on_the_way_is_not_delivered_and_fetched_again() {
    let mut bytes = batch(0, &["a"]).bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    let mut damaged = delivery(0, &["a"], 0, 1);
    if let Item::Delivery(delivery) = &mut damaged {
        delivery.batch = bytes.into();
    }
    let damaged = Ok(items([damaged]));
    let (_broker, mut consumer) =
        start(vec![vec![opened(), damaged], vec![opened(), all(&["a"])]]).await;
    assert_eq!(word(&message(&mut consumer).await), "0=a");
}

/// What was delivered before a seek is not handled any more, and gives back its credit.
#[tokio::test]
async fn a_seek_replaces_what_waits_in_the_consumer() {
    let before = delivery(0, &["a", "b", "c"], 0, 3);
    let mut behind = delivery(0, &[], 1, 3);
    if let Item::Delivery(delivery) = &mut behind {
        delivery.incarnation = 2;
    }
    let broker = FakeBroker::start().await;
    broker.answer_consumes(vec![vec![opened(), Ok(items([before, behind]))]]);
    let mut consumer = consumer(&broker.client()).prefetch(5).open().await.unwrap();
    for expected in ["1=b", "2=c"] {
        let delivered = message(&mut consumer).await;
        assert_eq!(word(&delivered), expected);
        consumer.ack(delivered.place);
    }
    consumer.close().await.unwrap();
    let requests = broker.consume_requests.borrow();
    let mut granted = 0;
    for (_, request) in requests.iter() {
        match request {
            Consume::Credit(credit) => granted += credit.messages,
            Consume::Settle(settle) => assert_eq!(settle.incarnation, 2),
            _ => {}
        }
    }
    assert!(granted >= 3, "{granted} more were asked for");
}

#[tokio::test]
async fn a_connection_on_which_nothing_passes_is_given_up() {
    let broker = FakeBroker::start().await;
    let network = Network::before(broker.address).await;
    broker.answer_consumes(vec![vec![opened()], vec![opened(), all(&["a"])]]);
    let settings = ClientSettings {
        keepalive_interval: Duration::from_millis(50),
        keepalive_timeout: Duration::from_millis(50),
        ..ClientSettings::default()
    };
    let client = Client::connect_with(&network.url(), &settings).unwrap();
    let mut consumer = consumer(&client).open().await.unwrap();
    network.freeze(true);
    let lost = tokio::time::timeout(Duration::from_secs(1), consumer.next());
    assert!(lost.await.is_err(), "it waits, and tries again");
    network.freeze(false);
    assert_eq!(word(&message(&mut consumer).await), "0=a");
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn a_consumer_tells_when_its_connection_is_lost_and_back() {
    let broker = FakeBroker::start().await;
    let network = Network::before(broker.address).await;
    broker.partition(TOPIC, 2);
    broker.answer_consumes((0..6).map(|_| vec![opened()]).collect());
    let client = Client::connect(&network.url()).unwrap();
    let consumer = consumer(&client).open().await.unwrap();
    let mut connection = consumer.connection();
    for _ in 0..2 {
        assert!(connection.lost().is_none());
        network.freeze(true);
        network.cut();
        let lost = connection.changed().await.expect("it is lost first");
        assert!(matches!(lost, Error::Connection { .. }), "{lost}");
        assert!(connection.lost().is_some());
        network.freeze(false);
        assert!(connection.changed().await.is_none());
    }
}

#[tokio::test]
async fn all_partitions_are_consumed_and_each_gets_its_acknowledgements() {
    let broker = FakeBroker::start().await;
    broker.partition(TOPIC, 2);
    broker.answer_consumes(vec![vec![opened(), all(&["a"])], vec![opened(), all(&["a"])]]);
    let mut consumer = consumer(&broker.client()).open().await.unwrap();
    let mut topics = Vec::new();
    for _ in 0..2 {
        let delivered = message(&mut consumer).await;
        topics.push(delivered.received.topic.to_string());
        consumer.ack(delivered.place);
    }
    topics.sort();
    assert_eq!(topics, ["/default/t-part-0", "/default/t-part-1"]);
    consumer.close().await.unwrap();
    for stream in [1, 2] {
        assert_eq!(acknowledged(&broker, stream), [Range { from: 0, to: 1 }]);
    }
}
