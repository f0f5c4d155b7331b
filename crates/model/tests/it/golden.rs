//! The bytes of `docs/format.md`, sections 1 and 2, written out.

use bytes::Bytes;
use danube_model::batch::BatchLimits;
use danube_model::{Batch, Compression, Epoch, Frame, GapReason, Offset};

use crate::{TOPIC, build, producer, read_all, records, stamp};

/// What a producer sends. Checksums here and below were computed by a program that shares nothing with this crate.
const BATCH: &str = "
    0000000000000000 0000006c 00000000 02 a06264c4
    0000 00000002 0000018bcfe56800 0000018bcfe5692c
    0123456789abcdef 0003 7fffffff 00000003

    56 00 00 00  02 6b  0a 68656c6c6f  04
       1e 64616e7562652e70726f6475636572  04 7031
       0c 636f6c6f7572  08 626c7565
    0c 00 09 02  01  01  00
    0e 00 d804 04  00  00  00";

/// The same batch at offset 100 under epoch 7.
const BATCH_FRAME: &str = "
    446e4672 000000a0 d8865bc8 01 01 0000
    0000018bcfe56b09 000000000000005a 0000000000000050

    0000000000000064 0000006c 00000007 02 a06264c4
    0000 00000002 0000018bcfe56800 0000018bcfe5692c
    0123456789abcdef 0003 7fffffff 00000003

    56 00 00 00  02 6b  0a 68656c6c6f  04
       1e 64616e7562652e70726f6475636572  04 7031
       0c 636f6c6f7572  08 626c7565
    0c 00 09 02  01  01  00
    0e 00 d804 04  00  00  00";

/// Offsets from 100 to 2^32 - 1 are missing: unproven end.
const GAP_FRAME: &str = "
    446e4672 00000040 ca3eb72f 01 02 0000
    0000018bcfe56b09 000000000000005a 0000000000000050

    0000000000000064 0000000100000000 00000007 0001 0000";

pub(crate) fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn batch() {
    let built = build(Compression::None, Some(producer()), &records());
    assert_eq!(built.bytes(), &bytes(BATCH));
    let verified = Batch::verify(bytes(BATCH), &BatchLimits::default()).unwrap();
    assert_eq!(read_all(&verified), records());
}

#[test]
fn batch_frame() {
    let batch = build(Compression::None, Some(producer()), &records());
    assert_eq!(Frame::batch(TOPIC, stamp(), &batch).bytes(), &bytes(BATCH_FRAME));

    let frame = Frame::decode(TOPIC, &bytes(BATCH_FRAME)).unwrap();
    assert_eq!((frame.base(), frame.next()), (Offset::new(100), Offset::new(103)));
    assert_eq!(frame.epoch(), Epoch::new(7).unwrap());
    assert_eq!(frame.receive_time(), stamp().receive_time);
    assert_eq!((frame.durable_end(), frame.synced_end()), (Offset::new(90), Offset::new(80)));
    assert_eq!(frame.producer(), Some(producer()));
    let offsets: Vec<u64> =
        frame.records(1 << 20).unwrap().unwrap().map(|item| item.unwrap().0.get()).collect();
    assert_eq!(offsets, [100, 101, 102]);
}

#[test]
fn gap_frame() {
    let next = Offset::new(1 << 32);
    let gap = Frame::gap(TOPIC, stamp(), next, GapReason::UnprovenEnd);
    assert_eq!(gap.bytes(), &bytes(GAP_FRAME));
    assert_eq!(Frame::decode(TOPIC, &bytes(GAP_FRAME)).unwrap(), gap);
}
