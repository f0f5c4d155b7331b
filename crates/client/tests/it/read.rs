//! Reading through failures.

use danube_client::{Error, ErrorKind, Item, Offset, Reader, Start};
use danube_model::{Batch, BatchBuilder, BatchLimits, Compression, Message};
use danube_proto::convert::wire_start;
use danube_proto::stream::read_response::{self, item};
use danube_proto::stream::{Damage, Gap, ReadResponse};
use tonic::Status;

use crate::broker::{FakeBroker, stamped};

const TOPIC: &str = "/default/t";

pub(crate) fn batch(base_offset: u64, payloads: &[&'static str]) -> Batch {
    let mut builder = BatchBuilder::new(Compression::Lz4, BatchLimits::default());
    for payload in payloads {
        let message = Message { payload: (*payload).into(), ..Message::default() };
        builder.append(&message.to_record().unwrap()).unwrap();
    }
    stamped(&builder.finish(None).unwrap(), base_offset)
}

fn response(item: item::Item) -> Result<ReadResponse, Status> {
    Ok(ReadResponse { items: vec![read_response::Item { item: Some(item) }] })
}

fn started(offset: u64) -> Result<ReadResponse, Status> {
    let topic_id = vec![7; 16].into();
    response(item::Item::Started(read_response::Started { topic_id, offset, durable_end: 9 }))
}

fn records(base_offset: u64, payloads: &[&'static str]) -> Result<ReadResponse, Status> {
    let batch = batch(base_offset, payloads).bytes().clone();
    response(item::Item::Batch(read_response::Batch { batch, receive_time_ms: 5 }))
}

fn gap(from: u64, to: u64) -> Result<ReadResponse, Status> {
    response(item::Item::Gap(Gap { from, to, why: "corrupt".to_owned() }))
}

fn damage(from: u64, to: u64) -> Result<ReadResponse, Status> {
    let (file, message) = ("f".to_owned(), "m".to_owned());
    response(item::Item::Damage(Damage { from, to, file, message }))
}

async fn reader(
    streams: Vec<Vec<Result<ReadResponse, Status>>>,
    start: Start,
    end: Option<u64>,
) -> (FakeBroker, Reader) {
    let broker = FakeBroker::start().await;
    broker.answer_reads(TOPIC, streams);
    let builder = broker.client().reader(TOPIC).unwrap();
    let reader = builder.start(start).end(end.map(Offset::new)).open().await.unwrap();
    (broker, reader)
}

/// Everything up to the end, one word each.
async fn words(reader: &mut Reader) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(item) = reader.next().await.unwrap() {
        words.push(match item {
            Item::Message(received) => {
                let payload = String::from_utf8(received.message.payload.to_vec()).unwrap();
                format!("{}={payload}", received.offset)
            }
            Item::Gap { from, to, why, .. } => format!("gap {from}-{to} {why}"),
            Item::Damage { from, to, file, .. } => format!("damage {from}-{to} {file}"),
            Item::CaughtUp { durable_end, .. } => format!("caught up {durable_end}"),
        });
    }
    words
}

#[tokio::test]
async fn messages_gaps_and_damage_come_in_order_and_cut_to_what_was_asked_for() {
    let stream = vec![
        started(1),
        records(0, &["a", "b", "c"]),
        gap(3, 6),
        damage(6, 7),
        records(7, &["d", "e", "f"]),
    ];
    let (broker, mut reader) = reader(vec![stream], Start::Offset(Offset::new(1)), Some(9)).await;
    let expected = ["1=b", "2=c", "gap 3-6 corrupt", "damage 6-7 f", "7=d", "8=e"];
    assert_eq!(words(&mut reader).await, expected);
    let request = &broker.read_requests()[0];
    assert_eq!(
        (&request.start, request.end),
        (&Some(wire_start(Start::Offset(Offset::new(1)))), Some(9))
    );
    assert_eq!(reader.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_broken_stream_is_resumed_at_the_next_message() {
    let cut = || Err(Status::unavailable("cut"));
    let streams = vec![
        vec![started(0), records(0, &["a", "b"]), cut()],
        vec![started(2), cut()],
        vec![started(2), records(1, &["b", "c"])],
    ];
    let (broker, mut reader) = reader(streams, Start::Earliest, None).await;
    assert_eq!(words(&mut reader).await, ["0=a", "1=b", "2=c"]);
    let starts: Vec<_> = broker.read_requests().into_iter().map(|request| request.start).collect();
    let resumed = Some(wire_start(Start::Offset(Offset::new(2))));
    assert_eq!(starts, [Some(wire_start(Start::Earliest)), resumed, resumed]);
}

#[tokio::test]
async fn latest_is_not_asked_for_again_after_a_reconnect() {
    let streams = vec![
        vec![started(5), Err(Status::unavailable("cut"))],
        vec![started(5), records(5, &["a"])],
    ];
    let (broker, mut reader) = reader(streams, Start::Latest, None).await;
    assert_eq!(words(&mut reader).await, ["5=a"]);
    assert_eq!(broker.read_requests()[1].start, Some(wire_start(Start::Offset(Offset::new(5)))));
}

#[tokio::test]
async fn a_hole_is_an_error_and_never_passed_over() {
    let hole = || vec![started(0), records(0, &["a"]), records(2, &["c"])];
    let (_broker, mut reader) = reader(vec![hole(), hole()], Start::Earliest, None).await;
    assert!(matches!(reader.next().await.unwrap(), Some(Item::Message(_))));
    for _ in 0..2 {
        let error = reader.next().await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_batch_that_was_damaged_on_the_way_is_not_delivered_and_fetched_again() {
    let mut bytes = batch(0, &["a"]).bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    let damaged =
        item::Item::Batch(read_response::Batch { batch: bytes.into(), receive_time_ms: 5 });
    let streams = vec![vec![started(0), response(damaged)], vec![started(0), records(0, &["a"])]];
    let (_broker, mut reader) = reader(streams, Start::Earliest, None).await;
    assert_eq!(reader.next().await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(words(&mut reader).await, ["0=a"]);
}

#[tokio::test]
async fn a_topic_that_was_made_anew_is_not_taken_for_the_old_one() {
    let other = read_response::Started { topic_id: vec![8; 16].into(), offset: 0, durable_end: 0 };
    let streams = vec![
        vec![started(0), records(0, &["a"]), Err(Status::unavailable("cut"))],
        vec![response(item::Item::Started(other)), records(0, &["x"])],
    ];
    let (_broker, mut reader) = reader(streams, Start::Earliest, None).await;
    assert!(matches!(reader.next().await.unwrap(), Some(Item::Message(_))));
    assert!(reader.next().await.is_err());
}

#[tokio::test]
async fn all_partitions_are_read() {
    let broker = FakeBroker::start().await;
    broker.partition(TOPIC, 2);
    broker.answer_reads(&format!("{TOPIC}-part-0"), vec![vec![started(0), records(0, &["a"])]]);
    broker.answer_reads(&format!("{TOPIC}-part-1"), vec![vec![started(0), records(0, &["b"])]]);
    let mut reader = broker.client().reader(TOPIC).unwrap().open().await.unwrap();
    let mut words = words(&mut reader).await;
    words.sort();
    assert_eq!(words, ["0=a", "0=b"]);
}
