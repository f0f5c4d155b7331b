//! All limits of names, records, batches and frames.
//!
//! `_MAX` is what the formats allow and every reader relies on; `_DEFAULT` is what a setting begins with. Sizes are
//! in bytes, limits are inclusive.

/// A topic's full name, `/namespace/topic`, with `-part-<i>` where it is a partition.
pub const TOPIC_NAME_BYTES_MAX: usize = 255;
/// A namespace's name.
pub const NAMESPACE_BYTES_MAX: usize = 127;
/// A subscription's name, and a consumer's.
pub const SUBSCRIPTION_NAME_BYTES_MAX: usize = 255;
/// Partitions of a topic: the greatest index is one less.
pub const PARTITIONS_MAX: u32 = 10_000;

/// The payload of one message, unless a policy says otherwise.
pub const MESSAGE_BYTES_DEFAULT: usize = 10 * MIB;
/// The largest that a policy may allow: with all that is around it, it fits into a file of a journal of the default size.
pub const MESSAGE_BYTES_MAX: usize = 31 * MIB;
/// What a batch may have beyond the payload of one message: key, headers, and the batch's own fields.
pub const BATCH_OVERHEAD_BYTES: usize = 512 * KIB;
/// A whole batch, as it is sent and stored, unless a policy says otherwise.
pub const BATCH_BYTES_DEFAULT: usize = MESSAGE_BYTES_DEFAULT + BATCH_OVERHEAD_BYTES;
/// The largest batch that any reader accepts.
pub const BATCH_BYTES_MAX: usize = MESSAGE_BYTES_MAX + BATCH_OVERHEAD_BYTES;
/// A frame: its header and the largest batch.
pub const FRAME_BYTES_MAX: usize = 40 + BATCH_BYTES_MAX;

/// The records of a batch after decompression, unless a policy says otherwise.
pub const DECOMPRESSED_BYTES_DEFAULT: usize = 16 * MIB;
/// The most that any reader decompresses of one batch.
pub const DECOMPRESSED_BYTES_MAX: usize = BATCH_BYTES_MAX;
/// Base-two logarithm of zstd's window: what a decoder keeps in memory. 8 MiB, which levels up to 19 stay within.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Records in a batch.
pub const RECORDS_PER_BATCH_MAX: u32 = 65_536;
/// Batches of a topic that a producer may have in flight. As many ranges of its sequence the log remembers at least, so that
/// each can be told apart from others after a reconnect.
pub const BATCHES_IN_FLIGHT_MAX: usize = 64;
/// A record's key.
pub const KEY_BYTES_MAX: usize = 64 * KIB;
/// Headers of a record.
pub const HEADERS_PER_RECORD_MAX: usize = 1_000;
/// A header's name.
pub const HEADER_NAME_BYTES_MAX: usize = KIB;
/// Names and values of all headers of a record together.
pub const HEADERS_BYTES_MAX: usize = 256 * KIB;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

// A message of the greatest size must fit into a batch with everything around it at its limit.
const _: () = assert!(
    KEY_BYTES_MAX + HEADERS_BYTES_MAX + HEADERS_PER_RECORD_MAX * 10 + KIB <= BATCH_OVERHEAD_BYTES
);
// The batch's length field, and lengths in records, are 31 bits.
const _: () = assert!(FRAME_BYTES_MAX < i32::MAX as usize);
