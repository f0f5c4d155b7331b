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
