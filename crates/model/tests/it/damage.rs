//! Bytes that are not what was written: refused, and never a panic.

use bytes::Bytes;
use danube_model::frame::{FRAME_HEADER_BYTES, GAP_FRAME_BYTES};
use danube_model::{
    Batch, BatchLimits, Compression, Frame, FrameError, FrameHeader, GapReason, Offset, TopicId,
};
use proptest::prelude::*;

use crate::{TOPIC, any_content, build, producer, read_all, records, stamp};

/// Bytes of a batch that its owner stamps: base offset, and epoch.
fn is_stamped(at: usize) -> bool {
    at < 8 || (12..16).contains(&at)
}

fn frames() -> Vec<Frame> {
    let batches = Compression::ALL.map(|compression| {
        // Enough that each compression makes it smaller.
        let records = vec![records(); 8].concat();
        let batch = build(compression, Some(producer()), &records);
        assert_eq!(batch.compression(), compression);
        Frame::batch(TOPIC, stamp(), &batch)
    });
    let gap = Frame::gap(TOPIC, stamp(), Offset::new(1 << 32), GapReason::LostDisk);
    batches.into_iter().chain([gap]).collect()
}

/// All bytes that differ from `bytes` in one byte, with the position.
fn mutations(bytes: &Bytes) -> impl Iterator<Item = (usize, Bytes)> + '_ {
    (0..bytes.len()).flat_map(move |at| {
        (1..=255_u8).map(move |difference| {
            let mut mutated = bytes.to_vec();
            mutated[at] ^= difference;
            (at, Bytes::from(mutated))
        })
    })
}

#[test]
fn a_batch_with_any_byte_changed_is_refused_or_has_the_same_records() {
    for frame in frames() {
        let Some(batch) = frame.to_batch() else { continue };
        for (at, mutated) in mutations(batch.bytes()) {
            match Batch::verify(mutated, &BatchLimits::default()) {
                Err(_) => {}
                Ok(accepted) => {
                    assert!(is_stamped(at), "byte {at} is not the owner's to stamp");
                    assert_eq!(read_all(&accepted), read_all(&batch));
                }
            }
        }
    }
}

#[test]
fn a_frame_with_any_byte_changed_is_refused() {
    for frame in frames() {
        for (at, mutated) in mutations(frame.bytes()) {
            let result = Frame::decode(TOPIC, &mutated);
            assert!(result.is_err(), "byte {at} of a {:?} frame", frame.kind());
            // With the header undamaged, the way behind the frame is known.
            if at >= GAP_FRAME_BYTES {
                let Err(FrameError::Batch { frame_bytes, base, .. }) = result else {
                    panic!("byte {at}: {result:?}");
                };
                assert_eq!((frame_bytes, base), (frame.bytes().len(), frame.base()));
            }
        }
    }
}

#[test]
fn a_frame_cut_short_says_how_much_is_missing_and_never_more() {
    for frame in frames() {
        for available in 0..frame.bytes().len() {
            let expected =
                if available < GAP_FRAME_BYTES { GAP_FRAME_BYTES } else { frame.bytes().len() };
            match Frame::decode(TOPIC, &frame.bytes().slice(..available)) {
                Err(FrameError::NeedMore { bytes, .. }) => assert_eq!(bytes, expected),
                other => panic!("cut to {available}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_frame_of_another_topic_fails_its_check() {
    let other = TopicId::new([7; 16]);
    for frame in frames() {
        let result = Frame::decode(other, frame.bytes());
        assert!(matches!(result, Err(FrameError::Checksum { .. })), "{result:?}");
    }
}

/// Enters the checksum that fits, as the writer of a later version would.
fn with_checksum(mut frame: Vec<u8>) -> Bytes {
    let body_bytes = if frame[13] == 2 { 24 } else { 21 };
    let covered =
        [TOPIC.as_bytes(), &frame[..8], &frame[12..FRAME_HEADER_BYTES + body_bytes]].concat();
    frame[8..12].copy_from_slice(&crc32c::crc32c(&covered).to_be_bytes());
    Bytes::from(frame)
}

#[test]
fn a_later_format_is_told_from_damage() {
    let gap = frames().pop().unwrap();
    for (at, what) in [
        (12, "version"),
        (13, "kind"),
        (14, "reserved bytes"),
        (GAP_FRAME_BYTES - 3, "reason of a gap"),
        (GAP_FRAME_BYTES - 1, "reserved bytes of a gap"),
    ] {
        let mut frame = gap.bytes().to_vec();
        frame[at] = 9;
        let frame = with_checksum(frame);
        let behind_damage = [&[0; 100], &frame[..]].concat();
        assert_eq!(Frame::find_next(TOPIC, &behind_damage), Some(100), "{what}: not skipped");
        match Frame::decode(TOPIC, &frame) {
            Err(FrameError::Unknown { what: found, found: 9 | 0x900, .. }) => {
                assert_eq!(found, what)
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn a_header_that_contradicts_itself_is_refused() {
    let batch = frames().remove(0);
    let gap = frames().pop().unwrap();
    let changed = |frame: &Frame, at: usize, byte: u8| {
        let mut bytes = frame.bytes().to_vec();
        bytes[at] = byte;
        Frame::decode(TOPIC, &with_checksum(bytes))
    };
    for (what, result) in [
        ("a gap of another length", changed(&gap, 7, 65)),
        ("a gap that ends before it begins", changed(&gap, 40 + 8 + 3, 0)),
        ("a durable end past the base", changed(&gap, 31, 101)),
        ("a synced end past the base", changed(&gap, 39, 101)),
        ("a base that is no offset", changed(&gap, 40, 0x80)),
        ("an epoch of 32 bits", changed(&gap, 56, 0x80)),
        ("a batch shorter than its header", changed(&batch, 7, 100).and(changed(&batch, 6, 0))),
        ("a batch of another length", changed(&batch, 40 + 11, 0)),
        ("a batch beyond all limits", changed(&batch, 4, 0x7f)),
    ] {
        assert!(matches!(result, Err(FrameError::Malformed { .. })), "{what}: {result:?}");
    }
}

#[test]
fn the_next_frame_is_found_behind_damage() {
    let frames = frames();
    for damaged_byte in 0..frames[0].bytes().len() {
        let mut log: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
        log[damaged_byte] ^= 0x40;
        let header_is_damaged = damaged_byte < FRAME_HEADER_BYTES + 21;
        let from = usize::from(!header_is_damaged);
        let found = Frame::find_next(TOPIC, &log[from..]).unwrap() + from;
        assert_eq!(found, frames[0].bytes().len());
        assert!(Frame::decode(TOPIC, &Bytes::from(log).slice(found..)).is_ok());
    }
    let other = TopicId::new([7; 16]);
    assert_eq!(Frame::find_next(other, frames[0].bytes()), None);
    assert_eq!(Frame::find_next(TOPIC, &frames[0].bytes()[..GAP_FRAME_BYTES - 1]), None);
    assert_eq!(Frame::find_next(TOPIC, b"DnFrDnFDnFr"), None);
    assert_eq!(Frame::find_next(TOPIC, b""), None);
}

/// Bytes that look like a batch up to a point, so that more of the code sees them than of random ones.
fn batch_like() -> impl Strategy<Value = Vec<u8>> {
    let splice = (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..24));
    (0..3_usize, prop::collection::vec(splice, 0..4), any::<bool>()).prop_map(
        |(which, splices, fit_checksum)| {
            let mut bytes = frames()[which].batch_bytes().unwrap().to_vec();
            for (at, splice) in splices {
                let at = at.index(bytes.len());
                let end = (at + splice.len()).min(bytes.len());
                bytes.splice(at..end, splice);
            }
            let length = (bytes.len() - 12) as u32;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            if fit_checksum {
                let checksum = crc32c::crc32c(&bytes[21..]);
                bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Whatever passes the check can be read; whatever does not is refused without a panic.
    #[test]
    fn no_batch_makes_it_panic(bytes in batch_like()) {
        let bytes = Bytes::from(bytes);
        for limits in [any_content(), BatchLimits::default()] {
            if let Ok(batch) = Batch::verify(bytes.clone(), &limits) {
                let items: Result<Vec<_>, _> = batch.records(limits.decompressed_bytes_max).unwrap().collect();
                prop_assert_eq!(items.unwrap().len(), batch.record_count() as usize);
            }
        }
        if let Ok(batch) = Batch::trusted(bytes)
            && let Ok(records) = batch.records(1 << 20)
        {
            let _ = records.take(1 << 16).count();
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        magic in any::<bool>(),
    ) {
        let bytes = if magic { [b"DnFr", &bytes[..]].concat() } else { bytes };
        let bytes = Bytes::from(bytes);
        prop_assert!(Batch::verify(bytes.clone(), &any_content()).is_err());
        prop_assert!(Frame::decode(TOPIC, &bytes).is_err());
        prop_assert!(FrameHeader::peek(TOPIC, &bytes).is_err());
        prop_assert_eq!(Frame::find_next(TOPIC, &bytes), None);
    }
}
