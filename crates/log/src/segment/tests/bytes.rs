//! Golden bytes, and what happens when they are changed.

use super::*;
use crate::Error;
use crate::codec::{checksum, patch_u32};

fn hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(16)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

fn sample() -> Vec<Frame> {
    let mut plans = [plan(&[5]), plan(&[]), plan(&[1, 2])];
    plans[0].producer = true;
    plans[1].new_epoch = true;
    frames(&plans)
}

#[test]
fn a_header_has_the_bytes_of_the_format() {
    let header = header(&sample());
    let golden = "\
44 41 4e 55 53 45 47 31 00 01 00 00 b0 b1 c4 2d
74 6f 70 69 63 20 69 64 20 31 36 20 6c 6f 6e 67
00 00 00 00 00 00 03 e8 00 00 00 00 00 00 c3 51
00 00 00 05 5e a1 5e a1 5e a1 5e a1 00 00 00 00";
    assert_eq!(hex(&header.encode()), golden);
    assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
}

#[test]
fn a_footer_has_the_bytes_of_the_format() {
    let frames = sample();
    let (body, builder, _) = open_segment(&frames);
    assert_eq!(body.len(), 359);
    let golden = "\
00 00 00 01 00 00 00 18 00 00 00 00 00 00 03 e8
00 00 00 00 00 00 c3 51 00 00 00 00 00 00 00 40
00 00 00 02 00 00 00 18 00 00 00 05 00 00 00 00
00 00 03 e8 00 00 00 06 00 00 00 00 00 00 03 e9
00 00 00 01 00 00 00 1c 00 00 00 00 00 00 00 09
00 00 00 01 00 00 00 00 00 00 00 01 00 00 00 00
00 00 03 e8 00 00 00 01 00 00 00 4c 00 00 00 00
00 00 03 e8 00 00 00 00 00 00 03 ee 00 00 00 00
00 00 00 03 00 00 00 00 00 00 00 03 00 00 00 00
00 00 00 03 00 00 00 00 00 00 c3 51 00 00 00 00
00 00 c3 53 00 00 00 00 00 00 c3 47 00 00 00 00
00 00 c3 49 2b 87 a1 3c 00 00 00 00 00 00 01 67
00 00 00 b8 30 48 95 6b 74 6f 70 69 63 20 69 64
20 31 36 20 6c 6f 6e 67 5e a1 5e a1 5e a1 5e a1
00 01 00 00 00 00 00 00 44 41 4e 55 46 54 52 31";
    assert_eq!(hex(&builder.seal(&producers_of(&frames))), golden);
}

#[test]
fn no_changed_bit_of_a_header_goes_unseen() {
    let header = header(&sample());
    let bytes = header.encode();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(SegmentHeader::decode(&flipped).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(SegmentHeader::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn no_changed_bit_of_a_footer_goes_unseen() {
    let bytes = sealed_segment(&sample());
    let footer = footer_of(&bytes).unwrap().unwrap();
    let seal_at = bytes.len() - 24;
    for bit in footer.position as usize * 8..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match footer_of(&flipped) {
            Err(Error::Corrupt { .. } | Error::UnknownVersion { .. }) => {}
            // Without its seal it is no footer; the frames are still found by walking.
            Ok(None) => assert!((seal_at..seal_at + 8).contains(&(bit / 8)), "bit {bit}"),
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    for len in HEADER_BYTES as usize..bytes.len() {
        assert!(!matches!(footer_of(&bytes[..len]), Ok(Some(_))), "{len} bytes");
    }
}

#[test]
fn a_later_version_is_refused_by_name_whatever_else_it_holds() {
    let bytes = sealed_segment(&sample());
    let mut later = bytes.clone();
    later[9] = 2;
    let error = footer_of(&later).unwrap_err().to_string();
    assert_eq!(error, "x.seg: segment has version 2, this build knows versions up to 1");
    let mut later = bytes.clone();
    let trailer = bytes.len() - 56;
    let footer = u64::from_be_bytes(bytes[trailer..trailer + 8].try_into().unwrap()) as usize;
    later[trailer + 41] = 2;
    let sum = checksum(&[&later[footer..trailer + 12], &later[trailer + 16..]]);
    patch_u32(&mut later, trailer + 12, sum);
    let error = footer_of(&later).unwrap_err().to_string();
    assert_eq!(error, "x.seg: segment footer has version 2, this build knows versions up to 1");
}

#[test]
fn a_segment_under_another_name_is_refused() {
    let file = MemoryFile::new(sealed_segment(&sample()));
    let path = Path::new("x.seg");
    let read = |topic, first| SegmentHeader::read(&*file, path, topic, Offset::new(first));
    assert!(read(TOPIC, 1000).is_ok());
    assert!(matches!(read(TOPIC, 1001), Err(Error::Corrupt { position: 32, .. })));
    let error = read(TopicId::new([0; 16]), 1000);
    assert!(matches!(error, Err(Error::Corrupt { position: 16, .. })));
}

/// The last bytes of an open segment are chosen by who produced them.
#[test]
fn a_payload_that_ends_like_a_sealed_segment_does_not_seal_one() {
    let frames = frames(&[plan(&[5])]);
    let (body, builder, _) = open_segment(&frames);
    let mut guess = header(&frames);
    guess.seal = 0;
    let mut forged = SegmentBuilder::new(&guess);
    forged.add(&frames[0], HEADER_BYTES);
    assert_ne!(forged.seal(&Producers::default()), builder.seal(&Producers::default()));
    let bytes = [body, forged.seal(&Producers::default())].concat();
    assert_eq!(footer_of(&bytes).unwrap(), None);
}

#[test]
fn the_footer_of_another_segment_is_refused() {
    let frames = sample();
    let (body, builder, _) = open_segment(&frames);
    let (_, shorter, _) = open_segment(&frames[..2]);
    let footer = builder.seal(&Producers::default());
    let with_header = |header: SegmentHeader| {
        [&header.encode(), &body[HEADER_BYTES as usize..], &footer[..]].concat()
    };
    let header = header(&frames);
    assert!(matches!(footer_of(&with_header(header)), Ok(Some(_))));
    for other in [
        [&body[..], &shorter.seal(&Producers::default())].concat(),
        with_header(SegmentHeader { first: Offset::new(999), ..header }),
        with_header(SegmentHeader { topic: TopicId::new([7; 16]), ..header }),
    ] {
        assert!(matches!(footer_of(&other), Err(Error::Corrupt { .. })));
    }
}

proptest! {
    #[test]
    fn hostile_bytes_are_refused_and_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(Footer::decode(&bytes).is_err());
        prop_assert!(SegmentHeader::decode(&bytes).is_err());
    }

    /// Behind a checksum that fits, everything is still held against what can be.
    #[test]
    fn a_footer_with_other_content_is_refused_or_read_and_never_panics(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let bytes = sealed_segment(&sample());
        let footer = footer_of(&bytes).unwrap().unwrap();
        let mut changed = bytes[footer.position as usize..].to_vec();
        let sections = changed.len() - footer::TRAILER_BYTES;
        changed[at.index(sections)] = byte;
        let sum_at = sections + 12;
        let sum = checksum(&[&changed[..sum_at], &changed[sum_at + 4..]]);
        patch_u32(&mut changed, sum_at, sum);
        if let Ok(read) = Footer::decode(&changed) {
            prop_assert_eq!(read.encode(), changed);
        }
    }
}
