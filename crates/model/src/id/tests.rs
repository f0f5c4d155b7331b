//! Numbers and identities at their edges.

use super::*;

#[test]
fn offsets_end_at_the_greatest() {
    assert_eq!(Offset::MAX.checked_add(0), Some(Offset::MAX));
    assert_eq!(Offset::MAX.checked_add(1), None);
    assert_eq!(Offset::ZERO.checked_add(u64::MAX), None);
    assert_eq!(Offset::try_from(i64::MAX as u64).unwrap(), Offset::MAX);
    assert!(Offset::try_from(i64::MAX as u64 + 1).is_err());
    assert_eq!(Offset::new(3) + 4, Offset::new(7));
    assert_eq!(Offset::new(3).distance(Offset::new(7)), 4);
    assert_eq!(Offset::new(3).distance(Offset::new(3)), 0);
}

#[test]
#[should_panic(expected = "distance from offset 7 back to 3")]
fn a_distance_does_not_go_back() {
    Offset::new(7).distance(Offset::new(3));
}

#[test]
fn numbers_are_held_to_their_bits() {
    assert_eq!(Epoch::new(i32::MAX as u32).unwrap(), Epoch::MAX);
    assert_eq!(
        Epoch::new(1 << 31).unwrap_err().to_string(),
        "epoch 2147483648 is out of range, the greatest is 2147483647"
    );
    assert_eq!(Epoch::ZERO.next().unwrap().get(), 1);
    assert!(Epoch::MAX.next().is_err());
    assert!(ProducerId::new(1 << 63).is_err());
    assert!(Sequence::try_from(1_u64 << 32).is_err(), "not cut to 32 bits");
    assert!(serde_json::from_str::<Epoch>("2147483648").is_err());
    assert_eq!(serde_json::from_str::<Epoch>("2147483647").unwrap(), Epoch::MAX);
    assert_eq!(serde_json::to_string(&Epoch::MAX).unwrap(), "2147483647");
}

#[test]
fn sequences_wrap_to_zero() {
    let last = Sequence::MAX;
    assert_eq!(last.plus(1), Sequence::ZERO);
    assert_eq!(last.plus(3).get(), 2);
    assert_eq!(Sequence::ZERO.plus(u32::MAX), last, "2^32 - 1 steps are two rounds less one");
    assert_eq!(last.distance(Sequence::ZERO), 1);
    assert_eq!(Sequence::ZERO.distance(last), i32::MAX as u32);
    assert_eq!(last.distance(last), 0);
}

#[test]
fn identities_are_written_in_hex() {
    let id = TopicId::new([0, 1, 0x0a, 0xff, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x9c]);
    let text = "00010aff0405060708090a0b0c0d0e9c";
    assert_eq!(id.to_string(), text);
    assert_eq!(format!("{id:?}"), format!("TopicId({text})"));
    assert_eq!(text.parse::<TopicId>().unwrap(), id);
    assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<TopicId>(&format!("\"{text}\"")).unwrap(), id);
    for wrong in [
        "",
        "00010aff0405060708090a0b0c0d0e9",
        "00010aff0405060708090a0b0c0d0e9c0",
        "00010AFF0405060708090A0B0C0D0E9C",
        "00010aff0405060708090a0b0c0d0e9g",
        "+0010aff0405060708090a0b0c0d0e9c",
        "é0010aff0405060708090a0b0c0d0e9",
    ] {
        assert!(wrong.parse::<DiskId>().is_err(), "{wrong:?}");
    }
}
