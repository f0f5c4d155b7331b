//! Batches that say which they are, so that one can be told from any other wherever it turns up.
//!
//! A batch's name travels as the time of its records, which the log keeps as it is. The values are pieces of one pool of
//! noise, other ones for each record.

use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use danube_env::sim::Generator;
use danube_model::batch::{BatchBuilder, BatchLimits};
use danube_model::{Batch, BatchProducer, Compression, Record, TimeMs};

/// The largest value of a record.
pub const VALUE_BYTES_MAX: usize = 96 * 1024;

/// What the values are cut from.
static NOISE: LazyLock<Bytes> = LazyLock::new(|| {
    let generator = Generator::derive(0, "noise");
    let words = (0..2 * VALUE_BYTES_MAX / 8).flat_map(|_| generator.next().to_le_bytes());
    words.collect::<Vec<u8>>().into()
});

/// The name of a batch in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId(pub u64);

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

/// A batch of one record for each of `value_bytes`.
///
/// # Panics
///
/// If there is none, or one is longer than [`VALUE_BYTES_MAX`].
pub fn build(id: BatchId, value_bytes: &[usize], producer: Option<BatchProducer>) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None, BatchLimits::default());
    for (at, bytes) in value_bytes.iter().enumerate() {
        let from = (id.0 as usize).wrapping_mul(97).wrapping_add(at * 13) % VALUE_BYTES_MAX;
        let record = Record {
            timestamp: TimeMs::new(id.0),
            value: Some(NOISE.slice(from..from + bytes)),
            ..Record::default()
        };
        builder.append(&record).expect("it is within all limits");
    }
    builder.finish(producer).expect("nothing is compressed")
}

/// The name of a batch.
pub fn id(batch: &Batch) -> BatchId {
    BatchId(batch.base_timestamp().get())
}

/// Whether a batch that was read is the one that was sent: all bytes but those that the log stamps, base offset and epoch.
pub fn is_same(sent: &Batch, read: &Batch) -> bool {
    let (sent, read) = (sent.bytes(), read.bytes());
    sent.len() == read.len() && sent[8..12] == read[8..12] && sent[16..] == read[16..]
}
