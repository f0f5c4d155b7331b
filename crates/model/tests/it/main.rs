//! The crate's promises, seen from outside: its bytes, and what it does with bytes that are not its own.

#![expect(clippy::unwrap_used, reason = "a test that finds no value fails, helpers included")]

mod damage;
mod golden;
mod kafka;
mod memory;

use bytes::Bytes;
use danube_model::batch::{BatchLimits, RecordContent};
use danube_model::{
    Batch, BatchBuilder, BatchProducer, Compression, Epoch, Offset, ProducerId, Record,
    RecordHeader, Sequence, Stamp, Text, TimeMs, TopicId,
};

const TOPIC: TopicId = TopicId::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

fn stamp() -> Stamp {
    Stamp {
        base: Offset::new(100),
        epoch: Epoch::new(7).unwrap(),
        receive_time: TimeMs::new(1_700_000_000_777),
        durable_end: Offset::new(90),
        synced_end: Offset::new(80),
    }
}

fn any_content() -> BatchLimits {
    BatchLimits { content: RecordContent::Any, ..BatchLimits::default() }
}

fn producer() -> BatchProducer {
    BatchProducer {
        id: ProducerId::new(0x0123_4567_89ab_cdef).unwrap(),
        epoch: 3,
        base_sequence: Sequence::MAX,
    }
}

/// Three records that show every field: the ones that the golden bytes spell out.
fn records() -> Vec<Record> {
    let header = |name, value: &'static str| RecordHeader {
        name: Text::from_static(name),
        value: Some(Bytes::from_static(value.as_bytes())),
    };
    vec![
        Record {
            timestamp: TimeMs::new(1_700_000_000_000),
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::from_static(b"hello")),
            headers: vec![header("danube.producer", "p1"), header("colour", "blue")],
        },
        Record { timestamp: TimeMs::new(1_699_999_999_995), ..Record::default() },
        Record {
            timestamp: TimeMs::new(1_700_000_000_300),
            key: Some(Bytes::new()),
            value: Some(Bytes::new()),
            headers: Vec::new(),
        },
    ]
}

fn build(compression: Compression, producer: Option<BatchProducer>, records: &[Record]) -> Batch {
    let mut builder = BatchBuilder::new(compression, any_content());
    for record in records {
        builder.append(record).unwrap();
    }
    builder.finish(producer).unwrap()
}

fn read_all(batch: &Batch) -> Vec<Record> {
    let records = batch.records(1 << 24).unwrap();
    records.map(|item| item.unwrap().1).collect()
}
