//! Properties and limits of batches.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::Text;

/// Small records of every shape.
pub(crate) fn any_record() -> impl Strategy<Value = Record> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let header = ("[a-zé]{0,8}", prop::option::of(bytes()))
        .prop_map(|(name, value)| RecordHeader { name: Text::from(name), value });
    (
        0..=i64::MAX as u64,
        prop::option::of(bytes()),
        prop::option::of(bytes()),
        prop::collection::vec(header, 0..4),
    )
        .prop_map(|(timestamp, key, value, headers)| Record {
            timestamp: TimeMs::new(timestamp),
            key,
            value,
            headers,
        })
}

pub(crate) fn any_producer() -> impl Strategy<Value = Option<BatchProducer>> {
    prop::option::of((0..=i64::MAX as u64, 0..=i16::MAX as u16, 0..=i32::MAX as u32).prop_map(
        |(id, epoch, base_sequence)| BatchProducer {
            id: ProducerId::new(id).unwrap(),
            epoch,
            base_sequence: Sequence::new(base_sequence).unwrap(),
        },
    ))
}

pub(crate) fn any_compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(&Compression::ALL[..])
}

pub(crate) fn limits() -> BatchLimits {
    BatchLimits { content: RecordContent::Any, ..BatchLimits::default() }
}

pub(crate) fn build(
    compression: Compression,
    producer: Option<BatchProducer>,
    records: &[Record],
) -> Batch {
    let mut builder = BatchBuilder::new(compression, limits());
    for record in records {
        builder.append(record).unwrap();
    }
    builder.finish(producer).unwrap()
}

pub(crate) fn records_of(batch: &Batch) -> Vec<(u64, Record)> {
    let records = batch.records(caps::DECOMPRESSED_BYTES_DEFAULT).unwrap();
    records.map(|item| item.unwrap()).map(|(offset, record)| (offset.get(), record)).collect()
}

proptest! {
    #[test]
    fn what_a_builder_makes_is_verified_and_read_back(
        compression in any_compression(),
        producer in any_producer(),
        records in prop::collection::vec(any_record(), 1..20),
    ) {
        let built = build(compression, producer, &records);
        let batch = Batch::verify(built.bytes().clone(), &limits()).unwrap();
        prop_assert_eq!(&batch, &built);
        prop_assert_eq!(batch.producer(), producer);
        prop_assert_eq!(batch.record_count() as usize, records.len());
        prop_assert_eq!(batch.offset_span() as usize, records.len());
        prop_assert_eq!(batch.base_timestamp(), records[0].timestamp);
        prop_assert_eq!(batch.max_timestamp(), records.iter().map(|r| r.timestamp).max().unwrap());
        let expected: Vec<_> = (0..).zip(records).collect();
        prop_assert_eq!(records_of(&batch), expected);
    }
}

/// Appends one record to an empty builder.
#[test]
fn another_number_changes_nothing_else() {
    let number = |epoch, sequence| BatchProducer {
        id: ProducerId::new(7).unwrap(),
        epoch,
        base_sequence: Sequence::new(sequence).unwrap(),
    };
    let build =
        |producer| build(Compression::None, Some(producer), &[with_value(10), with_value(20)]);
    let renumbered = build(number(0, 5)).with_producer(number(3, 9));
    assert_eq!(renumbered, build(number(3, 9)));
    Batch::verify(renumbered.bytes().clone(), &limits()).unwrap();
}

fn append(record: &Record, limits: BatchLimits) -> Result<usize> {
    BatchBuilder::new(Compression::None, limits).append(record)
}

fn with_value(bytes: usize) -> Record {
    Record { value: Some(Bytes::from(vec![b'v'; bytes])), ..Record::default() }
}

fn with_headers(count: usize, name_bytes: usize, value_bytes: usize) -> Record {
    let header = RecordHeader {
        name: Text::from("n".repeat(name_bytes)),
        value: Some(Bytes::from(vec![b'v'; value_bytes])),
    };
    Record { headers: vec![header; count], ..Record::default() }
}

/// Each limit holds at the builder and where a batch is checked, and lets through what is just within.
#[test]
fn limits_are_the_same_for_those_who_build_and_those_who_check() {
    let key = |bytes| Record { key: Some(Bytes::from(vec![b'k'; bytes])), ..Record::default() };
    let half = caps::HEADERS_BYTES_MAX / 2;
    let cases = [
        ("bytes of a key", key(caps::KEY_BYTES_MAX), key(caps::KEY_BYTES_MAX + 1)),
        (
            "headers of a record",
            with_headers(caps::HEADERS_PER_RECORD_MAX, 1, 1),
            with_headers(caps::HEADERS_PER_RECORD_MAX + 1, 1, 1),
        ),
        (
            "bytes of a header's name",
            with_headers(1, caps::HEADER_NAME_BYTES_MAX, 0),
            with_headers(1, caps::HEADER_NAME_BYTES_MAX + 1, 0),
        ),
        ("bytes of a record's headers", with_headers(2, 1, half - 1), with_headers(2, 1, half)),
        ("bytes of a message", with_value(1000), with_value(1001)),
    ];
    let limits = BatchLimits { message_bytes_max: 1000, ..limits() };
    let wide = BatchLimits { message_bytes_max: 1001, ..limits.clone() };
    for (name, within, beyond) in cases {
        append(&within, limits.clone()).unwrap();
        Batch::verify(build(Compression::None, None, &[within]).bytes().clone(), &limits).unwrap();
        let result = append(&beyond, limits.clone());
        assert!(matches!(result, Err(Error::Limit { what, .. }) if what == name), "{result:?}");
        for compression in Compression::ALL {
            let Ok(batch) = unchecked(compression, &beyond, &wide) else { continue };
            let result = Batch::verify(batch, &limits);
            assert!(matches!(result, Err(Error::Limit { what, .. }) if what == name), "{result:?}");
        }
    }
}

/// A batch of one record as a producer without limits would write it.
fn unchecked(compression: Compression, record: &Record, limits: &BatchLimits) -> Result<Bytes> {
    let mut builder = BatchBuilder::new(compression, limits.clone());
    builder.append_unchecked(record);
    builder.finish(None).map(|batch| batch.bytes().clone())
}

#[test]
fn the_size_of_a_batch_is_limited() {
    let batch = build(Compression::None, None, &[with_value(1000)]);
    let exact = BatchLimits { batch_bytes_max: batch.bytes().len(), ..limits() };
    Batch::verify(batch.bytes().clone(), &exact).unwrap();
    assert_eq!(append(&with_value(1000), exact.clone()).unwrap(), batch.bytes().len());

    let less = BatchLimits { batch_bytes_max: batch.bytes().len() - 1, ..exact };
    let is_limit = |result: &Result<_>| {
        matches!(result, Err(Error::Limit { what: "bytes of a batch", found: 1070, limit: 1069 }))
    };
    assert!(is_limit(&append(&with_value(1000), less.clone())));
    assert!(is_limit(&Batch::verify(batch.bytes().clone(), &less).map(|_| 0)));
}

#[test]
fn no_setting_lets_in_what_readers_refuse() {
    let boundless = BatchLimits { batch_bytes_max: usize::MAX, ..limits() };
    let bytes = Bytes::from(vec![0; caps::BATCH_BYTES_MAX + 1]);
    let result = Batch::verify(bytes, &boundless);
    assert!(matches!(result, Err(Error::Limit { what: "bytes of a batch", .. })), "{result:?}");
}

#[test]
fn the_count_of_records_is_limited_and_a_builder_that_refused_goes_on() {
    let two = BatchLimits { records_max: 2, ..limits() };
    let mut builder = BatchBuilder::new(Compression::None, two.clone());
    builder.append(&with_value(1)).unwrap();
    let bytes = builder.append(&with_value(2)).unwrap();
    let refused = builder.append(&with_value(3));
    assert!(matches!(refused, Err(Error::Limit { what: "records of a batch", limit: 2, .. })));
    assert_eq!((builder.len(), builder.record_count()), (bytes, 2));
    let batch = builder.finish(None).unwrap();
    Batch::verify(batch.bytes().clone(), &two).unwrap();
    let one = BatchLimits { records_max: 1, ..two };
    assert!(Batch::verify(batch.bytes().clone(), &one).is_err());
}

/// A message of the greatest size with everything else at its limit fits, on any topic.
#[test]
fn the_largest_message_fits() {
    for message_bytes_max in [1, caps::MESSAGE_BYTES_DEFAULT] {
        let limits = BatchLimits {
            content: RecordContent::Any,
            ..BatchLimits::for_message_bytes(message_bytes_max)
        };
        let headers_bytes = caps::HEADERS_BYTES_MAX / caps::HEADERS_PER_RECORD_MAX;
        let record = Record {
            timestamp: TimeMs::MAX,
            key: Some(Bytes::from(vec![b'k'; caps::KEY_BYTES_MAX])),
            value: with_value(message_bytes_max).value,
            ..with_headers(caps::HEADERS_PER_RECORD_MAX, headers_bytes, 0)
        };
        let mut builder = BatchBuilder::new(Compression::Lz4, limits.clone());
        builder.append(&record).unwrap();
        Batch::verify(builder.finish(None).unwrap().bytes().clone(), &limits).unwrap();
    }
}

#[test]
fn what_does_not_compress_is_sent_as_it_is() {
    let tiny = build(Compression::Zstd, None, &[with_value(1)]);
    assert_eq!(tiny.compression(), Compression::None);
    let long = build(Compression::Zstd, None, &[with_value(1000)]);
    assert_eq!(long.compression(), Compression::Zstd);
    assert!(long.bytes().len() < 200);
}

/// Bytes of a batch with the checksum made to fit.
fn with_checksum(mut bytes: Vec<u8>) -> Bytes {
    let checksum = header::checksum(&bytes);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    Bytes::from(bytes)
}

/// Every rule of the header, each broken with a checksum that fits.
#[test]
fn a_header_that_breaks_a_rule_is_refused() {
    let producer = BatchProducer { id: ProducerId::ZERO, epoch: 0, base_sequence: Sequence::ZERO };
    let batch = build(Compression::None, Some(producer), &[with_value(1), with_value(2)]);
    let too_long = [&batch.bytes()[..], &[0]].concat();
    let verify = |bytes: Vec<u8>| Batch::verify(with_checksum(bytes), &limits());
    for (what, at, bytes) in [
        ("negative base offset", 0, &[0x80][..]),
        ("offsets beyond 2^63 - 1", 0, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("length shorter than a header", 8, &[0, 0, 0, 48]),
        ("length shorter than a header", 8, &[0xff, 0xff, 0xff, 0xff]),
        ("its length is not that of its bytes", 11, &[90]),
        ("negative epoch", 12, &[0xff, 0xff, 0xff, 0xfe]),
        ("magic", 16, &[1]),
        ("attributes", 21, &[0x80]),
        ("compression", 22, &[1]),
        ("compression", 22, &[2]),
        ("compression", 22, &[5]),
        ("log-append time, attributes", 22, &[8]),
        ("transaction, attributes", 22, &[16]),
        ("control batch, attributes", 22, &[32]),
        ("attributes", 22, &[64]),
        ("negative last offset delta", 23, &[0x80]),
        ("last offset delta is not the count of records less one", 26, &[2]),
        ("more records than offsets", 26, &[0]),
        ("negative timestamp", 27, &[0xff]),
        ("negative timestamp", 35, &[0xff]),
        ("max timestamp is not that of its records", 42, &[1]),
        ("negative producer id", 43, &[0xff]),
        ("negative producer epoch", 51, &[0xff]),
        ("negative base sequence", 53, &[0xff]),
        ("negative count of records", 57, &[0xff]),
        ("without records", 57, &[0, 0, 0, 0]),
    ] {
        let mut changed = batch.bytes().to_vec();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        match verify(changed) {
            Err(Error::Malformed { what: found, .. } | Error::Unsupported { what: found, .. }) => {
                assert_eq!(found, what);
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    assert!(verify(too_long).is_err(), "bytes behind it");
    assert!(verify(batch.bytes()[..60].to_vec()).is_err(), "shorter than its header");
    let mut without_epoch = batch.bytes().to_vec();
    without_epoch[12..16].copy_from_slice(&[0xff; 4]);
    assert_eq!(verify(without_epoch).unwrap().epoch(), Epoch::ZERO);
}

/// Every rule of the records, each broken in a batch whose header and checksum fit, compressed and not.
#[test]
fn records_that_break_a_rule_are_refused() {
    // Length, attributes, timestamp delta, offset delta, key, value, count of headers.
    let good = [0x10, 0, 0, 0, 2, b'k', 2, b'v', 0];
    let message = RecordContent::Message;
    for (what, content, records) in [
        ("", message, &good[..]),
        ("records cut short", message, &[]),
        ("records cut short", message, &good[..8]),
        ("negative length of a record", message, &[1]),
        (
            "length of a record is not that of its fields",
            message,
            &[0x0e, 0, 0, 0, 2, b'k', 2, b'v', 0],
        ),
        (
            "length of a record is not that of its fields",
            message,
            &[0x12, 0, 0, 0, 2, b'k', 2, b'v', 0, 0],
        ),
        ("attributes of a record are not zero", message, &[0x10, 1, 0, 0, 2, b'k', 2, b'v', 0]),
        ("timestamp out of range", message, &[0x10, 0, 1, 0, 2, b'k', 2, b'v', 0]),
        (
            "max timestamp is not that of its records",
            message,
            &[0x10, 0, 2, 0, 2, b'k', 2, b'v', 0],
        ),
        ("offset deltas are not 0, 1, 2, …", message, &[0x10, 0, 0, 2, 2, b'k', 2, b'v', 0]),
        ("negative length", message, &[0x10, 0, 0, 0, 3, b'k', 2, b'v', 0]),
        ("key is not UTF-8", message, &[0x10, 0, 0, 0, 2, 0xff, 2, b'v', 0]),
        ("", RecordContent::Any, &[0x10, 0, 0, 0, 2, 0xff, 2, b'v', 0]),
        ("negative count of headers", message, &[0x10, 0, 0, 0, 2, b'k', 2, b'v', 1]),
        ("header without a name", message, &[0x10, 0, 0, 0, 1, 1, 2, 1, 0]),
        ("header without a value", message, &[0x12, 0, 0, 0, 1, 1, 2, 2, b'n', 1]),
        ("", RecordContent::Any, &[0x12, 0, 0, 0, 1, 1, 2, 2, b'n', 1]),
        ("header name is not UTF-8", RecordContent::Any, &[0x12, 0, 0, 0, 1, 1, 2, 2, 0xff, 0]),
        ("header value is not UTF-8", message, &[0x14, 0, 0, 0, 1, 1, 2, 2, b'n', 2, 0xff]),
        ("bytes behind the last record", message, &[0x10, 0, 0, 0, 2, b'k', 2, b'v', 0, 0]),
        ("varint too long", message, &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
    ] {
        for compression in Compression::ALL {
            let limits = BatchLimits { content, ..limits() };
            match (Batch::verify(with_records(compression, records), &limits), what) {
                (Ok(_), "") => {}
                (Err(Error::Malformed { what: found, .. }), _) => {
                    assert_eq!(found, what, "{compression}")
                }
                (other, _) => panic!("{what}, {compression}: {other:?}"),
            }
        }
    }
}

/// A batch of one record at time 0, its bytes as given.
fn with_records(compression: Compression, records: &[u8]) -> Bytes {
    let batch = build(Compression::None, None, &[Record::default()]);
    let mut bytes = batch.bytes()[..BATCH_HEADER_BYTES].to_vec();
    bytes.extend(compression.compress(records).unwrap());
    let length = (bytes.len() - LENGTH_END) as u32;
    bytes[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
    bytes[22] = compression.code();
    with_checksum(bytes)
}

/// What a later compaction leaves: fewer records than offsets.
#[test]
fn a_stored_batch_may_have_left_records_out() {
    let batch = build(Compression::None, None, &vec![with_value(1); 3]);
    let record_bytes = (batch.bytes().len() - BATCH_HEADER_BYTES) / 3;
    let mut bytes = batch.bytes().to_vec();
    bytes.drain(BATCH_HEADER_BYTES + record_bytes..BATCH_HEADER_BYTES + 2 * record_bytes);
    let length = (bytes.len() - LENGTH_END) as u32;
    bytes[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
    bytes[60] = 2;
    let bytes = with_checksum(bytes);
    let kept = Batch::checksummed(bytes.clone()).unwrap();
    assert_eq!((kept.record_count(), kept.offset_span()), (2, 3));
    let offsets: Vec<u64> = records_of(&kept).into_iter().map(|(offset, _)| offset).collect();
    assert_eq!(offsets, [0, 2]);
    assert!(Batch::verify(bytes, &limits()).is_err(), "a producer may not");
}

#[test]
fn bytes_behind_an_lz4_frame_are_refused() {
    let records = [0x10, 0, 0, 0, 2, b'k', 2, b'v', 0];
    let frame = Compression::Lz4.compress(&records).unwrap();
    let empty_frame = Compression::Lz4.compress(&[]).unwrap();
    for behind in [&[0][..], &[1; 40], &frame, &empty_frame] {
        let mut bytes = with_records(Compression::Lz4, &records).to_vec();
        bytes.extend(behind);
        let length = (bytes.len() - LENGTH_END) as u32;
        bytes[8..LENGTH_END].copy_from_slice(&length.to_be_bytes());
        let result = Batch::verify(with_checksum(bytes), &limits());
        assert!(matches!(result, Err(Error::Compression { .. })), "{result:?}");
    }
}

proptest! {
    #[test]
    fn the_parts_of_a_split_batch_are_the_batch(
        compression in any_compression(),
        producer in any_producer(),
        records in prop::collection::vec(any_record(), 1..20),
        batch_bytes_max in 500..2000_usize,
    ) {
        let batch = build(compression, producer, &records);
        let narrow = BatchLimits { batch_bytes_max, ..limits() };
        let parts = split(&batch, &narrow, caps::DECOMPRESSED_BYTES_DEFAULT).unwrap();
        let mut taken = 0;
        let mut found = Vec::new();
        for part in &parts {
            Batch::verify(part.bytes().clone(), &narrow).unwrap();
            let expected = producer.map(|producer| BatchProducer {
                base_sequence: producer.base_sequence.plus(taken),
                ..producer
            });
            prop_assert_eq!(part.producer(), expected);
            taken += part.record_count();
            found.extend(records_of(part).into_iter().map(|(_, record)| record));
        }
        prop_assert_eq!(found, records);
    }
}

#[test]
fn a_record_too_large_for_a_batch_of_its_own_is_not_split() {
    let batch = build(Compression::None, None, &[with_value(1), with_value(1000)]);
    let narrow = BatchLimits { batch_bytes_max: 1000, ..limits() };
    let result = split(&batch, &narrow, caps::DECOMPRESSED_BYTES_DEFAULT);
    assert!(matches!(result, Err(Error::Limit { what: "bytes of a batch", .. })), "{result:?}");
}

/// Reading checks again what it builds on: a batch may come from a disk, under a checksum that was made to fit.
#[test]
fn stored_records_that_break_a_rule_end_the_reading() {
    let record = |delta| [0x0c, 0, 0, delta, 1, 1, 0];
    for (what, deltas, behind) in [
        ("", [0, 2], &[][..]),
        ("offset deltas do not rise, or exceed the last", [0, 0], &[]),
        ("offset deltas do not rise, or exceed the last", [2, 0], &[]),
        ("offset deltas do not rise, or exceed the last", [0, 4], &[]),
        ("bytes behind the last record", [0, 2], &[0]),
        ("bytes behind the last record", [0, 2], &record(2)),
    ] {
        let records = [&record(deltas[0])[..], &record(deltas[1]), behind].concat();
        let mut bytes = with_records(Compression::None, &records).to_vec();
        (bytes[26], bytes[60]) = (1, 2);
        let batch = Batch::checksummed(with_checksum(bytes)).unwrap();
        let mut records = batch.records(caps::DECOMPRESSED_BYTES_DEFAULT).unwrap();
        assert!(records.next().unwrap().is_ok());
        match (records.next().unwrap(), what) {
            (Ok(_), "") => {}
            (Err(Error::Malformed { what: found, .. }), _) => assert_eq!(found, what),
            (other, _) => panic!("{what}: {other:?}"),
        }
        assert!(records.next().is_none());
    }
}

#[test]
fn decompressed_bytes_are_counted_in_records_of_any_size() {
    for records in [vec![Record::default(); 1000], vec![with_value(7000)]] {
        let batch = build(Compression::Zstd, None, &records);
        let decompressed: usize = 8 * 1000;
        let wide = BatchLimits { decompressed_bytes_max: decompressed, ..limits() };
        Batch::verify(batch.bytes().clone(), &wide).unwrap();
        let narrow = BatchLimits { decompressed_bytes_max: 6999, ..limits() };
        for result in [
            Batch::verify(batch.bytes().clone(), &narrow).err(),
            batch.records(narrow.decompressed_bytes_max).err(),
        ] {
            assert!(matches!(result, Some(Error::Limit { limit: 6999, .. })), "{result:?}");
        }
    }
}
