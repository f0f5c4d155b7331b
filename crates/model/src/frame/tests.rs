//! Properties of frames.

use proptest::prelude::*;

use super::*;
use crate::batch::tests::{any_compression, any_producer, any_record, build};

const TOPIC: TopicId = TopicId::new(*b"0123456789abcdef");

fn stamp(base: u64) -> Stamp {
    Stamp {
        base: Offset::new(base),
        epoch: Epoch::new(7).unwrap(),
        receive_time: TimeMs::new(1_700_000_000_000),
        durable_end: Offset::new(base),
        synced_end: Offset::new(base / 2),
    }
}

proptest! {
    #[test]
    fn a_framed_batch_is_decoded(
        compression in any_compression(),
        producer in any_producer(),
        records in prop::collection::vec(any_record(), 1..20),
        base in 0..1_u64 << 62,
        behind in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let batch = build(compression, producer, &records);
        let frame = Frame::batch(TOPIC, stamp(base), &batch);
        let mut bytes = frame.bytes().to_vec();
        bytes.extend(behind);
        let decoded = Frame::decode(TOPIC, &Bytes::from(bytes)).unwrap();
        prop_assert_eq!(&decoded, &frame);
        prop_assert_eq!(decoded.base().get(), base);
        prop_assert_eq!(decoded.next().get(), base + records.len() as u64);
        prop_assert_eq!(decoded.producer(), producer);
        let stamped = decoded.to_batch().unwrap();
        prop_assert_eq!(stamped.base_offset().get(), base);
        prop_assert_eq!(stamped.epoch(), frame.epoch());
        prop_assert_eq!(&stamped.bytes()[16..], &batch.bytes()[16..]);
    }
}

#[test]
fn a_gap_is_decoded() {
    let frame = Frame::gap(TOPIC, stamp(5), Offset::new(1 << 32), GapReason::UnprovenEnd);
    let decoded = Frame::decode(TOPIC, frame.bytes()).unwrap();
    assert_eq!(decoded, frame);
    assert_eq!((decoded.base().get(), decoded.next().get()), (5, 1 << 32));
}
