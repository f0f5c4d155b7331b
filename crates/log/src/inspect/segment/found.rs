//! What is found in a segment.

use danube_model::{Compression, Epoch, Offset, ProducerId, Sequence, TimeMs, TopicId};
use serde::Serialize;

/// What is found in a segment, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum Found {
    /// The header, if it is whole.
    Header(FoundHeader),
    /// A batch.
    Batch(FoundBatch),
    /// A gap.
    Gap(FoundGap),
    /// Something is wrong.
    Problem(Problem),
    /// The footer, if there is one and it is whole.
    Footer(FoundFooter),
}

/// What a segment says of itself at its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundHeader {
    /// Whose log it belongs to.
    pub topic_id: TopicId,
    /// The offset at which it begins.
    pub first_offset: Offset,
    /// Receive time of its first frame.
    pub created: TimeMs,
    /// Epoch of its first frame.
    pub epoch: Epoch,
}

/// A frame, of either kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundFrame {
    /// Where it begins in the file.
    pub position: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its first offset.
    pub base: Offset,
    /// The offset behind its last.
    pub next: Offset,
    /// The epoch that it was written under.
    pub epoch: Epoch,
    /// When the broker received it.
    pub receive_time: TimeMs,
    /// The log's durable end when it was written.
    pub durable_end: Offset,
    /// The log's synced end when it was written.
    pub synced_end: Offset,
}

/// A batch of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundBatch {
    /// The frame around it.
    #[serde(flatten)]
    pub frame: FoundFrame,
    /// How many records.
    pub records: u32,
    /// How they are compressed.
    pub compression: Compression,
    /// The latest of their times, by the producer's clock.
    pub max_timestamp: TimeMs,
    /// Who produced it, where it is idempotent.
    pub producer: Option<FoundProducer>,
}

/// What makes a batch idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FoundProducer {
    /// Who produced it.
    pub id: ProducerId,
    /// How often the producer began anew.
    pub epoch: u16,
    /// Number of the batch's first record among the producer's.
    pub base_sequence: Sequence,
}

/// Offsets that will never be readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundGap {
    /// The frame that says so.
    #[serde(flatten)]
    pub frame: FoundFrame,
    /// Why, as in JSON output of gaps.
    pub reason: &'static str,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where in the file.
    pub position: u64,
    /// Where the range ends, if it is one: bytes that are no frame, although there should be frames.
    pub end: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// What a segment says of itself at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundFooter {
    /// Where it begins in the file.
    pub position: u64,
    /// Entries of its index.
    pub index_entries: u64,
    /// Epochs in the segment.
    pub epochs: u64,
    /// Idempotent producers that the log knew at the segment's end.
    pub producers: u64,
}

/// The sum of what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Bytes of the file.
    pub bytes: u64,
    /// It has a footer; an open segment has none.
    pub sealed: bool,
    /// First offset of the first frame.
    pub first_offset: Option<Offset>,
    /// The offset behind the last frame.
    pub next_offset: Option<Offset>,
    /// Whole frames.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Offsets that are gaps.
    pub gap_offsets: u64,
    /// Bytes that should be frames and are not.
    pub damaged_bytes: u64,
    /// Problems that were found.
    pub problems: u64,
    /// Everything was looked at; false if the visitor broke off.
    pub complete: bool,
}
