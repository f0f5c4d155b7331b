//! What hostile bytes can make the process allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use danube_model::{Batch, BatchLimits, Compression, Error, Frame, Record, TimeMs, caps};

use crate::{TOPIC, any_content, build};

/// Counts what each thread holds, and the most that it held.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    HELD.set(HELD.get() + change);
    MOST.set(MOST.get().max(HELD.get()));
}

#[expect(unsafe_code, reason = "an allocator can't be had without; it only counts, and forwards")]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that `run` held beyond what was held before.
fn most_held<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = run();
    (result, (MOST.get() - before) as usize)
}

const MIB: usize = 1024 * 1024;

/// A batch with one record of zeros, as large as can be, in a few KiB.
fn bomb(compression: Compression) -> Batch {
    let limits = BatchLimits::for_message_bytes(caps::MESSAGE_BYTES_MAX);
    let mut builder = danube_model::BatchBuilder::new(compression, limits);
    let value = Some(Bytes::from(vec![0; caps::MESSAGE_BYTES_MAX]));
    builder.append(&Record { timestamp: TimeMs::new(1), value, ..Record::default() }).unwrap();
    let batch = builder.finish(None).unwrap();
    assert!(batch.bytes().len() < MIB);
    batch
}

#[test]
fn a_decompression_bomb_is_refused_within_the_limit() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        let batch = bomb(compression);
        let limits = BatchLimits {
            decompressed_bytes_max: MIB,
            ..BatchLimits::for_message_bytes(caps::MESSAGE_BYTES_MAX)
        };
        let (result, most) = most_held(|| Batch::verify(batch.bytes().clone(), &limits));
        assert!(matches!(result, Err(Error::Limit { limit: 1_048_576, .. })), "{result:?}");
        assert!(most < MIB, "{compression}: {most} bytes to find out");

        let (result, most) = most_held(|| batch.records(MIB));
        assert!(matches!(result, Err(Error::Limit { limit: 1_048_576, .. })), "{result:?}");
        // While it grows, the old bytes and the new ones.
        assert!(most < 2 * MIB + 128 * 1024, "{compression}: {most} bytes to find out");
    }
}

#[test]
fn verifying_a_compressed_batch_takes_memory_for_a_window_only() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        let batch = bomb(compression);
        let limits = BatchLimits::for_message_bytes(caps::MESSAGE_BYTES_MAX);
        let (result, most) = most_held(|| Batch::verify(batch.bytes().clone(), &limits));
        result.unwrap();
        assert!(most < MIB, "{compression}: {most} bytes for the largest of records");
    }
}

/// The records of a batch, replaced; the header fits them.
fn with_records(compression: Compression, records: &[u8]) -> Bytes {
    let mut bytes = build(Compression::None, None, &[Record::default()]).bytes()[..61].to_vec();
    bytes.extend_from_slice(records);
    let length = (bytes.len() - 12) as u32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[22] = compression.code();
    let checksum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    Bytes::from(bytes)
}

/// zstd's own memory is not seen by the counting allocator; so this holds it to the window that it may take.
#[test]
fn a_zstd_window_beyond_the_limit_is_refused() {
    // Magic; a header with neither size nor checksum; the window, 2^(10 + 14) bytes; one raw block with a record.
    let record = [0x0c, 0, 0, 0, 1, 1, 0];
    let frame = |window_log: u8| {
        let begin = [0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3];
        let block_header = ((record.len() as u32) << 3 | 1).to_le_bytes();
        [&begin[..], &block_header[..3], &record].concat()
    };
    let verify = |window_log| {
        Batch::verify(with_records(Compression::Zstd, &frame(window_log)), &any_content())
    };
    let most = caps::ZSTD_WINDOW_LOG_MAX as u8;
    verify(most).unwrap();
    let refused = verify(most + 1);
    assert!(matches!(refused, Err(Error::Compression { .. })), "{refused:?}");
}

/// A few bytes that promise much: lengths are held against what is there before anything is allocated for them.
#[test]
fn a_length_that_lies_allocates_nothing() {
    let huge = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let record = |fields: &[&[u8]]| [&[0x40, 0, 0, 0][..], &fields.concat()].concat();
    for (what, records) in [
        ("record", huge.to_vec()),
        ("key", record(&[&huge])),
        ("value", record(&[&[1], &huge])),
        ("headers", record(&[&[1], &[1], &huge])),
        ("header name", record(&[&[1], &[1], &[2], &huge])),
        ("header value", record(&[&[1], &[1], &[2], &[2, b'a'], &huge])),
    ] {
        for compression in [Compression::None, Compression::Zstd] {
            let stored = match compression {
                Compression::None => records.clone(),
                _ => zstd::bulk::compress(&records, 1).unwrap(),
            };
            let bytes = with_records(compression, &stored);
            let (result, most) = most_held(|| Batch::verify(bytes.clone(), &any_content()));
            assert!(result.is_err(), "{what}");
            assert!(most < 64 * 1024, "{what}: verify held {most} bytes");
            let (items, most) = most_held(|| {
                let mut records = Batch::trusted(bytes).unwrap().records(MIB).unwrap();
                records.next().unwrap()
            });
            assert!(items.is_err(), "{what}");
            assert!(most < 64 * 1024, "{what}: reading held {most} bytes");
        }
    }
}

#[test]
fn decoding_a_frame_shares_its_bytes() {
    let value = Some(Bytes::from(vec![7; MIB]));
    let batch = build(Compression::None, None, &[Record { value, ..Record::default() }]);
    let frame = Frame::batch(TOPIC, crate::stamp(), &batch);
    let (record, most) = most_held(|| {
        let decoded = Frame::decode(TOPIC, frame.bytes()).unwrap();
        let mut records = decoded.records(MIB).unwrap().unwrap();
        records.next().unwrap().unwrap().1
    });
    assert_eq!(record.value.unwrap().len(), MIB);
    assert!(most < 1024, "{most} bytes for one record");
}
