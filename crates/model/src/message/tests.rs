//! Messages to records and back.

use proptest::prelude::*;

use super::*;
use crate::batch::{BatchLimits, RecordContent};
use crate::{Batch, BatchBuilder, Compression};

fn any_message() -> impl Strategy<Value = Message> {
    let text = || "[^\0]{0,20}".prop_map(Text::from);
    let name = "[a-z.]{0,10}".prop_filter("not ours", |name| !is_reserved(name));
    let schema = (1..=i64::MAX as u64, prop::option::of(1..=u32::MAX));
    let sender = (any::<u64>(), any::<u64>(), text()).prop_map(
        |(producer_id, request_id, broker_address)| Sender {
            producer_id,
            request_id,
            broker_address,
        },
    );
    (
        prop::collection::vec(any::<u8>(), 0..50).prop_map(Bytes::from),
        prop::option::of(text()),
        0..=i64::MAX as u64,
        prop::collection::vec((name.prop_map(Text::from), text()), 0..4),
        prop::option::of(text()),
        prop::option::of(schema.prop_map(|(id, version)| SchemaRef { id, version })),
        prop::option::of(sender),
    )
        .prop_map(|(payload, key, publish_time, attributes, producer_name, schema, sender)| {
            let publish_time = TimeMs::new(publish_time);
            Message { payload, key, publish_time, attributes, producer_name, schema, sender }
        })
}

fn header(name: &str, value: &[u8]) -> RecordHeader {
    RecordHeader { name: Text::from(name), value: Some(Bytes::copy_from_slice(value)) }
}

/// Whether the broker lets a record in, as a message.
fn verify(record: &Record) -> Result<Batch> {
    let any = BatchLimits { content: RecordContent::Any, ..BatchLimits::default() };
    let mut builder = BatchBuilder::new(Compression::None, any);
    builder.append(record).unwrap();
    Batch::verify(builder.finish(None).unwrap().bytes().clone(), &BatchLimits::default())
}

proptest! {
    #[test]
    fn any_message_comes_back(message in any_message()) {
        let record = message.to_record().unwrap();
        verify(&record).unwrap();
        prop_assert_eq!(Message::from_record(&record).unwrap(), message);
    }
}

#[test]
fn a_message_spelt_out() {
    let message = Message {
        payload: Bytes::from_static(b"hello"),
        key: Some(Text::from_static("k")),
        publish_time: TimeMs::new(17),
        attributes: vec![(Text::from_static("a"), Text::from_static("b"))],
        producer_name: Some(Text::from_static("p1")),
        schema: Some(SchemaRef { id: 0x0102_0304_0506_0708, version: Some(9) }),
        sender: Some(Sender { producer_id: 2, request_id: 3, broker_address: "b".into() }),
    };
    let record = Record {
        timestamp: TimeMs::new(17),
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::from_static(b"hello")),
        headers: vec![
            header("a", b"b"),
            header("danube.producer", b"p1"),
            header("danube.schema", &[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9]),
            header("danube.sender", &[0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, b'b']),
        ],
    };
    assert_eq!(message.to_record().unwrap(), record);
}

/// What the broker refuses as a message can't be read as one either.
#[test]
fn records_that_are_no_messages() {
    let schema = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    let with_headers = |headers| Record { headers, ..Record::default() };
    for (what, record) in [
        (
            "a key that is no text",
            Record { key: Some(Bytes::from_static(&[0xff])), ..Record::default() },
        ),
        ("a value that is no text", with_headers(vec![header("a", &[0xff])])),
        ("no value", with_headers(vec![RecordHeader { name: Text::from("a"), value: None }])),
        ("a reserved name", with_headers(vec![header("danube.colour", b"blue")])),
        ("the bare prefix", with_headers(vec![header("danube.", b"blue")])),
        (
            "two producers",
            with_headers(vec![header(PRODUCER_HEADER, b"a"), header(PRODUCER_HEADER, b"a")]),
        ),
        (
            "two schemas",
            with_headers(vec![header(SCHEMA_HEADER, &schema), header(SCHEMA_HEADER, &schema)]),
        ),
        ("a producer that is no text", with_headers(vec![header(PRODUCER_HEADER, &[0xff])])),
        ("a short schema", with_headers(vec![header(SCHEMA_HEADER, &schema[1..])])),
        ("schema 0", with_headers(vec![header(SCHEMA_HEADER, &[0; 12])])),
        ("a negative schema", with_headers(vec![header(SCHEMA_HEADER, &[0xff; 12])])),
        (
            "two senders",
            with_headers(vec![header(SENDER_HEADER, &[0; 16]), header(SENDER_HEADER, &[0; 16])]),
        ),
        ("a short sender", with_headers(vec![header(SENDER_HEADER, &[0; 15])])),
        ("an address that is no text", with_headers(vec![header(SENDER_HEADER, &[0xff; 17])])),
    ] {
        assert!(Message::from_record(&record).is_err(), "{what}: read");
        assert!(verify(&record).is_err(), "{what}: let in");
    }
}

#[test]
fn a_null_value_is_an_empty_payload() {
    let message = Message::from_record(&Record::default()).unwrap();
    assert_eq!(message, Message::default());
}

#[test]
fn messages_that_can_not_be_sent() {
    let with_attribute = |name| Message {
        attributes: vec![(Text::from_static(name), Text::default())],
        ..Message::default()
    };
    for name in ["danube.producer", "danube.schema", "danube.sender", "danube.x", "danube."] {
        let result = with_attribute(name).to_record();
        assert!(matches!(result, Err(Error::ReservedHeader { .. })), "{name}: {result:?}");
    }
    for name in ["danube", "Danube.x", "x-danube.y", ""] {
        assert!(with_attribute(name).to_record().is_ok(), "{name}");
    }
    for (id, version) in [(0, None), (1 << 63, None), (1, Some(0))] {
        let message = Message { schema: Some(SchemaRef { id, version }), ..Message::default() };
        assert!(matches!(message.to_record(), Err(Error::OutOfRange { .. })));
    }
}
