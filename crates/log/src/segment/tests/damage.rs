//! Walking over damaged files.

use danube_model::caps::FRAME_BYTES_MAX;

use super::*;
use crate::Error;

/// The frames that were found, and the damaged ranges.
fn found(bytes: &[u8]) -> (Vec<Frame>, Vec<(u64, u64)>) {
    let mut frames = Vec::new();
    let mut damaged = Vec::new();
    let mut position = HEADER_BYTES;
    for step in steps(walk_over(bytes, HEADER_BYTES)) {
        let begin = match step {
            Step::Frame { position, frame } => {
                frames.push(frame);
                position..position + frames[frames.len() - 1].bytes().len() as u64
            }
            Step::Damage(Damage { from, to, why }) => {
                assert!(!why.is_empty());
                damaged.push((from, to));
                from..to
            }
            Step::End => unreachable!("steps end before it"),
        };
        assert_eq!(begin.start, position, "no byte is passed over in silence");
        assert!(begin.end > begin.start);
        position = begin.end;
    }
    assert_eq!(position, bytes.len() as u64);
    (frames, damaged)
}

fn frame_checksum(frame: &[u8]) -> u32 {
    crate::codec::checksum(&[TOPIC.as_bytes(), &frame[..8], &frame[12..61]])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Promise P6: records outside the damaged range are still served.
    #[test]
    fn every_frame_that_is_whole_is_found_and_no_other(
        plans in plans(),
        hits in vec((any::<prop::sample::Index>(), 1..600_usize, any::<u8>()), 0..4),
    ) {
        let frames = frames(&plans);
        let (mut bytes, _, positions) = open_segment(&frames);
        let whole = bytes.clone();
        for (at, len, value) in hits {
            let begin = HEADER_BYTES as usize + at.index(bytes.len() - HEADER_BYTES as usize);
            let end = (begin + len).min(bytes.len());
            bytes[begin..end].fill(value);
        }
        let intact: Vec<Frame> = frames
            .iter()
            .zip(&positions)
            .filter(|(frame, position)| {
                let range = **position as usize..**position as usize + frame.bytes().len();
                bytes[range.clone()] == whole[range]
            })
            .map(|(frame, _)| frame.clone())
            .collect();
        let (served, damaged) = found(&bytes);
        prop_assert_eq!(damaged.is_empty(), intact.len() == frames.len());
        prop_assert_eq!(served, intact);
    }

    #[test]
    fn any_bytes_are_walked_to_their_end(bytes in vec(any::<u8>(), 64..500)) {
        let (frames, _) = found(&bytes);
        prop_assert!(frames.is_empty());
    }
}

#[test]
fn a_torn_end_is_damage_up_to_the_end() {
    let frames = frames(&[plan(&[100]), plan(&[100]), plan(&[300_000])]);
    let (bytes, _, positions) = open_segment(&frames);
    for torn in [
        positions[2] + 1,
        positions[2] + 63,
        positions[2] + 64,
        positions[2] + 100,
        bytes.len() as u64 - 1,
    ] {
        let (served, damaged) = found(&bytes[..torn as usize]);
        assert_eq!(served, frames[..2]);
        assert_eq!(damaged, [(positions[2], torn)]);
    }
}

/// What is cut short may hold anything, too.
#[test]
fn a_frame_in_the_payload_of_a_torn_one_is_not_taken_for_one() {
    let inner = frames(&[plan(&[100]), plan(&[100])]);
    let stamp = Stamp {
        base: Offset::new(1001),
        epoch: Epoch::new(5).unwrap(),
        receive_time: TimeMs::new(50_002),
        durable_end: Offset::ZERO,
        synced_end: Offset::ZERO,
    };
    let outer = batch(40_000, vec![[inner[1].bytes(), &[0; 100][..]].concat()], None);
    let torn = [inner[0].clone(), Frame::batch(TOPIC, stamp, &outer)];
    let (bytes, _, positions) = open_segment(&torn);
    let bytes = &bytes[..bytes.len() - 50];
    let (served, damaged) = found(bytes);
    assert_eq!(served, torn[..1]);
    assert_eq!(damaged, [(positions[1], bytes.len() as u64)]);
}

/// Files are searched chunk by chunk.
#[test]
fn a_frame_behind_damage_is_found_wherever_it_begins() {
    let frames = frames(&[plan(&[100]), plan(&[100])]);
    let (whole, _, positions) = open_segment(&frames);
    let (before, behind) = whole.split_at(positions[1] as usize);
    for begin in 256 * 1024..256 * 1024 + 130 {
        let mut bytes = before.to_vec();
        bytes.resize(begin, 0);
        bytes.extend_from_slice(behind);
        let (served, damaged) = found(&bytes);
        assert_eq!(served, frames, "at {begin}");
        assert_eq!(damaged, [(positions[1], begin as u64)]);
    }
}

/// A power cut can leave `good, zeros, good`.
#[test]
fn zeros_between_frames_are_damage_and_what_follows_is_found() {
    let frames = frames(&[plan(&[100]), plan(&[400_000]), plan(&[100])]);
    let (mut bytes, _, positions) = open_segment(&frames);
    bytes[positions[1] as usize..positions[2] as usize].fill(0);
    let (served, damaged) = found(&bytes);
    assert_eq!(served, [frames[0].clone(), frames[2].clone()]);
    assert_eq!(damaged, [(positions[1], positions[2])]);
}

/// Whoever stores a segment as a message must not have it unpacked when the message is damaged.
#[test]
fn a_frame_in_the_payload_of_a_damaged_one_is_not_taken_for_one() {
    let inner = frames(&[plan(&[100]), plan(&[100])]);
    let mut later = frames(&[plan(&[100]), plan(&[100]), plan(&[100])]);
    let stamp = Stamp {
        base: Offset::new(1001),
        epoch: Epoch::new(5).unwrap(),
        receive_time: TimeMs::new(50_002),
        durable_end: Offset::ZERO,
        synced_end: Offset::ZERO,
    };
    // The same offset and time as the frame that carries it: nothing in it gives it away.
    let payload = [&[0; 100][..], inner[1].bytes()].concat();
    later[1] = Frame::batch(TOPIC, stamp, &batch(40_000, vec![payload], None));
    let (mut bytes, _, positions) = open_segment(&later);
    let (served, damaged) = found(&bytes);
    assert_eq!((served, damaged), (later.clone(), vec![]));

    let records_at = positions[1] as usize + 40 + 61;
    bytes[records_at + 20] ^= 1;
    let (served, damaged) = found(&bytes);
    assert_eq!(served, [later[0].clone(), later[2].clone()]);
    assert_eq!(damaged, [(positions[1], positions[2])]);

    // With its header gone, only what contradicts the frames before is known not to be one.
    let payload = [&[0; 100][..], inner[0].bytes()].concat();
    later[1] = Frame::batch(TOPIC, stamp, &batch(40_000, vec![payload], None));
    let (mut bytes, _, positions) = open_segment(&later);
    bytes[positions[1] as usize + 20] ^= 1;
    let (served, damaged) = found(&bytes);
    assert_eq!(served, [later[0].clone(), later[2].clone()]);
    assert_eq!(damaged, [(positions[1], positions[2])]);
}

#[test]
fn no_length_is_believed_before_its_checksum() {
    let frames = frames(&[plan(&[100]), plan(&[100])]);
    let (mut bytes, _, positions) = open_segment(&frames);
    let at = positions[0] as usize;
    bytes[at + 4..at + 8].copy_from_slice(&(FRAME_BYTES_MAX as u32).to_be_bytes());
    let file = MemoryFile::new(bytes.clone());
    let until = 1 << 40;
    let mut walk = Walk::new(
        Arc::clone(&file) as Arc<dyn File>,
        Path::new("x.seg"),
        TOPIC,
        HEADER_BYTES,
        until,
    );
    assert!(matches!(walk.step().unwrap(), Step::Damage(_)));
    assert!(
        matches!(walk.step().unwrap(), Step::Frame { position, .. } if position == positions[1])
    );
    assert_eq!(walk.step().unwrap(), Step::End);
    assert_eq!(walk.place().position, bytes.len() as u64);
    assert!(file.largest_read() <= 256 * 1024);
}

#[test]
fn a_whole_frame_of_a_later_version_is_refused_and_not_cut() {
    let frames = frames(&[plan(&[100]), plan(&[100]), plan(&[100])]);
    let (mut bytes, _, positions) = open_segment(&frames);
    let at = positions[1] as usize;
    bytes[at + 12] = 2;
    let sum = frame_checksum(&bytes[at..]);
    bytes[at + 8..at + 12].copy_from_slice(&sum.to_be_bytes());
    let mut walk = walk_over(&bytes, HEADER_BYTES);
    assert!(matches!(walk.step().unwrap(), Step::Frame { .. }));
    for _ in 0..2 {
        let error = walk.step().unwrap_err();
        assert!(matches!(error, Error::UnknownVersion { found: 2, known: 1, .. }), "{error}");
    }
    // Behind damage it is as little a part of it.
    bytes[HEADER_BYTES as usize] ^= 1;
    let error = walk_over(&bytes, HEADER_BYTES).step().unwrap_err();
    assert!(matches!(error, Error::UnknownVersion { found: 2, known: 1, .. }), "{error}");
}

#[test]
fn another_topics_frames_are_damage() {
    let frames = frames(&[plan(&[100])]);
    let (bytes, _, _) = open_segment(&frames);
    let file = MemoryFile::new(bytes.clone());
    let other = TopicId::new([7; 16]);
    let mut walk = Walk::new(file, Path::new("x.seg"), other, HEADER_BYTES, bytes.len() as u64);
    assert!(matches!(walk.step().unwrap(), Step::Damage(_)));
    assert_eq!(walk.step().unwrap(), Step::End);
}

/// A damaged payload may be full of what looks like the headers of large frames.
#[test]
fn a_payload_of_headers_is_passed_in_reasonable_time() {
    let victim = frames(&[plan(&[3_000_000])]);
    let large = victim[0].bytes();
    let headers: Vec<u8> = large[..64].repeat(30_000);
    let mut log = frames(&[plan(&[10]), plan(&[10]), plan(&[3_000_000])]);
    let stamp = Stamp {
        base: Offset::new(1001),
        epoch: Epoch::new(5).unwrap(),
        receive_time: TimeMs::new(50_002),
        durable_end: Offset::ZERO,
        synced_end: Offset::ZERO,
    };
    log[1] = Frame::batch(TOPIC, stamp, &batch(40_000, vec![headers], None));
    let (mut bytes, _, positions) = open_segment(&log);
    bytes[positions[1] as usize + 8] ^= 1;
    let (served, _) = found(&bytes);
    assert_eq!(served[0], log[0]);
}
