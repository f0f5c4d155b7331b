//! Batches that the `kafka-protocol` crate writes are read here, and the other way round.

use bytes::{Bytes, BytesMut};
use danube_model::{Batch, Compression, Record, RecordHeader, Text, TimeMs};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    self as kafka, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;

use crate::{any_content, build, producer, read_all};

/// Records with distinct header names, which is all that the other side can hold, and times that it can subtract.
fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    let headers = prop::collection::btree_map("[a-zé]{1,8}", prop::option::of(bytes()), 0..4);
    let record = (0..1_u64 << 60, prop::option::of(bytes()), prop::option::of(bytes()), headers);
    let record = record.prop_map(|(timestamp, key, value, headers)| Record {
        timestamp: TimeMs::new(timestamp),
        key,
        value,
        headers: headers
            .into_iter()
            .map(|(name, value)| RecordHeader { name: Text::from(name), value })
            .collect(),
    });
    prop::collection::vec(record, 1..20)
}

/// The records as the other side knows them, the first with the given sequence.
fn to_kafka(records: &[Record], base_sequence: i32) -> Vec<kafka::Record> {
    let record = |(index, record): (i32, &Record)| kafka::Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 0,
        producer_id: producer().id.get() as i64,
        producer_epoch: producer().epoch as i16,
        timestamp_type: TimestampType::Creation,
        offset: i64::from(index),
        sequence: base_sequence.wrapping_add(index),
        timestamp: record.timestamp.get() as i64,
        key: record.key.clone(),
        value: record.value.clone(),
        headers: record
            .headers
            .iter()
            .map(|header| (StrBytes::from_string(header.name.to_string()), header.value.clone()))
            .collect::<IndexMap<_, _>>(),
    };
    (0..).zip(records).map(record).collect()
}

fn pairs() -> [(Compression, kafka::Compression); 3] {
    [
        (Compression::None, kafka::Compression::None),
        (Compression::Lz4, kafka::Compression::Lz4),
        (Compression::Zstd, kafka::Compression::Zstd),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn theirs_is_read_here(records in any_records(), base_sequence in 0..i32::MAX - 100) {
        for (compression, theirs) in pairs() {
            let mut buffer = BytesMut::new();
            let options = RecordEncodeOptions { version: 2, compression: theirs };
            RecordBatchEncoder::encode(&mut buffer, &to_kafka(&records, base_sequence), &options)
                .unwrap();
            let batch = Batch::verify(buffer.freeze(), &any_content()).unwrap();
            prop_assert_eq!(batch.compression(), compression);
            prop_assert_eq!(batch.record_count() as usize, records.len());
            let found = batch.producer().unwrap();
            prop_assert_eq!(found.id, producer().id);
            prop_assert_eq!(found.epoch, producer().epoch);
            prop_assert_eq!(found.base_sequence.get(), base_sequence as u32);
            prop_assert_eq!(&read_all(&batch), &records);
        }
    }

    #[test]
    fn ours_is_read_there(records in any_records()) {
        for (compression, _) in pairs() {
            let batch = build(compression, Some(producer()), &records);
            let set = RecordBatchDecoder::decode(&mut batch.bytes().clone()).unwrap();
            let expected = to_kafka(&records, producer().base_sequence.get() as i32);
            prop_assert_eq!(set.records, expected);
        }
    }

    /// Without compression there is one way to write a batch whose first record is the oldest, so both sides write the
    /// same bytes.
    #[test]
    fn both_write_the_same_bytes(mut records in any_records(), base_sequence in 0..i32::MAX - 100) {
        records.sort_by_key(|record| record.timestamp);
        let mut theirs = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: kafka::Compression::None };
        RecordBatchEncoder::encode(&mut theirs, &to_kafka(&records, base_sequence), &options)
            .unwrap();
        let base_sequence = u64::from(base_sequence as u32).try_into().unwrap();
        let producer = danube_model::BatchProducer { base_sequence, ..producer() };
        let ours = build(Compression::None, Some(producer), &records);
        prop_assert_eq!(ours.bytes(), &theirs.freeze());
    }
}
