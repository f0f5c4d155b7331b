//! The frame: how a batch, or a gap, is stored, in a round of the journal, in a segment, in Valkey, in an object.
//!
//! ```text
//!   at bytes field
//!    0     4 magic `DnFr`
//!    4     4 frame length        of the whole frame
//!    8     4 checksum            CRC-32C over topic id, bytes 0 to 8 and 12 to 40, and of the
//!                                body the first 21 bytes of a batch, all of a gap
//!   12     1 version             1
//!   13     1 kind                1 batch, 2 gap
//!   14     2 zero
//!   16     8 receive time        the broker's clock, never smaller than the frame's before it
//!   24     8 durable end         of the log when this frame was written
//!   32     8 synced end          likewise
//!   40       body
//! ```
//!
//! Body of a batch frame: one record batch. Body of a gap frame, 24 bytes: first offset (8), next offset (8), epoch (4),
//! reason (2), zero (2).
//!
//! The frame's checksum covers the batch's CRC and all that this CRC leaves out, so the two together cover every byte.
//! It can be checked from the first 64 bytes on, so that no length is believed, and nothing read by it, before it is.
//! The topic id in it makes a frame fail in any other topic's file.
//!
//! # Invariants
//! * A [`Frame`] was verified, both checksums, or made here.
//! * Its durable end and synced end do not exceed its base offset, which was the log's end when it was written.

mod error;
mod header;

use bytes::{BufMut, Bytes};

use crate::batch::{self, BatchHeader, BatchProducer, Records};
use crate::{Batch, Epoch, Offset, TimeMs, TopicId};

pub use error::FrameError;
use header::MAGIC;
pub use header::{FRAME_HEADER_BYTES, FrameHeader, GAP_FRAME_BYTES};

/// What the log knows when it writes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The first offset of the frame: the log's end when it is written.
    pub base: Offset,
    /// The epoch that the log is open under.
    pub epoch: Epoch,
    /// The broker's clock, never smaller than the frame's before it in the same log.
    pub receive_time: TimeMs,
    /// What the topic's level has confirmed, exclusive.
    pub durable_end: Offset,
    /// What this disk is known to hold after a power cut, exclusive.
    pub synced_end: Offset,
}

/// Why offsets will never be readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapReason {
    /// The owner could not prove where the log ended and went on at the ceiling.
    UnprovenEnd,
    /// Damage that an operator accepted.
    Corrupt,
    /// A log opened without its disk, accepted by an operator.
    LostDisk,
}

impl GapReason {
    const ALL: [GapReason; 3] = [GapReason::UnprovenEnd, GapReason::Corrupt, GapReason::LostDisk];

    /// Its number in stored formats.
    pub const fn code(self) -> u16 {
        match self {
            GapReason::UnprovenEnd => 1,
            GapReason::Corrupt => 2,
            GapReason::LostDisk => 3,
        }
    }

    /// The reason of this number, or `None` for a number that is none.
    pub fn from_code(code: u16) -> Option<GapReason> {
        GapReason::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// Its name, as in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            GapReason::UnprovenEnd => "unproven_end",
            GapReason::Corrupt => "corrupt",
            GapReason::LostDisk => "lost_disk",
        }
    }
}

impl std::fmt::Display for GapReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A record batch.
    Batch,
    /// No records: the offsets up to `next` will never be readable.
    Gap {
        /// The offset behind the last that is missing.
        next: Offset,
        /// Why they are.
        reason: GapReason,
    },
}

/// A verified frame in contiguous bytes. Cloning it copies no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    header: FrameHeader,
    /// Of a batch frame.
    batch: Option<BatchHeader>,
    bytes: Bytes,
}

impl Frame {
    /// Frames a batch: copies it once, behind a header, and stamps base offset and epoch into the copy.
    ///
    /// # Panics
    /// If the stamp's durable end or synced end lies past its base, or the batch is larger than
    /// [`crate::caps::BATCH_BYTES_MAX`], which no verified one is.
    pub fn batch(topic: TopicId, stamp: Stamp, batch: &Batch) -> Frame {
        let header = FrameHeader {
            kind: FrameKind::Batch,
            frame_bytes: FRAME_HEADER_BYTES + batch.bytes().len(),
            receive_time: stamp.receive_time,
            durable_end: stamp.durable_end,
            synced_end: stamp.synced_end,
            base: stamp.base,
            epoch: stamp.epoch,
        };
        let mut batch_header = *batch.header();
        batch_header.base_offset = stamp.base;
        batch_header.epoch = stamp.epoch;
        let mut buffer = header.begin();
        buffer.extend_from_slice(batch.bytes());
        batch::stamp(&mut buffer[FRAME_HEADER_BYTES..], stamp.base, stamp.epoch);
        Frame { header, batch: Some(batch_header), bytes: header.finish(topic, buffer) }
    }

    /// A frame that says `[stamp.base, next)` will never be readable.
    ///
    /// # Panics
    /// If `next` is not past the base, or the stamp's durable end or synced end is.
    pub fn gap(topic: TopicId, stamp: Stamp, next: Offset, reason: GapReason) -> Frame {
        assert!(stamp.base < next, "gap of no offsets: [{}, {next})", stamp.base);
        let header = FrameHeader {
            kind: FrameKind::Gap { next, reason },
            frame_bytes: GAP_FRAME_BYTES,
            receive_time: stamp.receive_time,
            durable_end: stamp.durable_end,
            synced_end: stamp.synced_end,
            base: stamp.base,
            epoch: stamp.epoch,
        };
        let mut buffer = header.begin();
        buffer.put_u64(stamp.base.get());
        buffer.put_u64(next.get());
        buffer.put_u32(stamp.epoch.get());
        buffer.put_u16(reason.code());
        buffer.put_u16(0);
        Frame { header, batch: None, bytes: header.finish(topic, buffer) }
    }

    /// Takes the frame that `bytes` begin with, sharing them, and checks all of it: its own checksum, and the CRC of a
    /// batch. What stands behind the frame is not looked at.
    pub fn decode(topic: TopicId, bytes: &Bytes) -> Result<Frame, FrameError> {
        let header = FrameHeader::peek(topic, bytes)?;
        if bytes.len() < header.frame_bytes {
            let (bytes, available) = (header.frame_bytes, bytes.len());
            return Err(FrameError::NeedMore { bytes, available });
        }
        let bytes = bytes.slice(..header.frame_bytes);
        let batch = match header.kind {
            FrameKind::Gap { .. } => None,
            FrameKind::Batch => {
                let damaged = |source| FrameError::Batch {
                    base: header.base,
                    frame_bytes: header.frame_bytes,
                    source,
                };
                let batch = Batch::checksummed(bytes.slice(FRAME_HEADER_BYTES..));
                Some(*batch.map_err(damaged)?.header())
            }
        };
        Ok(Frame { header, batch, bytes })
    }

    /// The position of the next thing in `bytes` that begins as a frame of this topic and whose header's checksum fits, a
    /// later format among them; [`Frame::decode`] tells what it is. For going on behind damage.
    ///
    /// A payload can hold the bytes of a frame. So what is found may lie inside a damaged one, and is to be taken only
    /// if it continues what is known of the log: base offset, epoch and receive time not below those before the damage,
    /// and not above those of the frames behind it. A frame of which less than [`GAP_FRAME_BYTES`] are in `bytes` is not
    /// found; pieces of a file must overlap by one byte less than that.
    pub fn find_next(topic: TopicId, bytes: &[u8]) -> Option<usize> {
        let mut from = 0;
        loop {
            from += find_magic(&bytes[from..])?;
            match FrameHeader::peek(topic, &bytes[from..]) {
                Ok(_) | Err(FrameError::Unknown { .. } | FrameError::Malformed { .. }) => {
                    return Some(from);
                }
                Err(_) => {}
            }
            from += 1;
        }
    }

    /// All header fields.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// What it holds.
    pub fn kind(&self) -> FrameKind {
        self.header.kind
    }

    /// Its first offset.
    pub fn base(&self) -> Offset {
        self.header.base
    }

    /// The offset behind its last.
    pub fn next(&self) -> Offset {
        match (self.header.kind, self.batch) {
            (FrameKind::Gap { next, .. }, _) => next,
            (FrameKind::Batch, batch) => batch.expect("a batch frame has one").next_offset(),
        }
    }

    /// The epoch that it was written under.
    pub fn epoch(&self) -> Epoch {
        self.header.epoch
    }

    /// When the broker received it.
    pub fn receive_time(&self) -> TimeMs {
        self.header.receive_time
    }

    /// The log's durable end when it was written.
    pub fn durable_end(&self) -> Offset {
        self.header.durable_end
    }

    /// The log's synced end when it was written.
    pub fn synced_end(&self) -> Offset {
        self.header.synced_end
    }

    /// The whole frame.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its batch, sharing its bytes; `None` for a gap.
    pub fn to_batch(&self) -> Option<Batch> {
        Some(Batch::from_parts(self.batch?, self.bytes.slice(FRAME_HEADER_BYTES..)))
    }

    /// The bytes of its batch, shared; `None` for a gap.
    pub fn batch_bytes(&self) -> Option<Bytes> {
        self.batch.map(|_| self.bytes.slice(FRAME_HEADER_BYTES..))
    }

    /// How many records it holds; none in a gap.
    pub fn record_count(&self) -> u32 {
        self.batch.map_or(0, |batch| batch.records)
    }

    /// What makes its batch idempotent, if it is.
    pub fn producer(&self) -> Option<BatchProducer> {
        self.batch?.producer
    }

    /// The latest of its records' times; `None` for a gap.
    pub fn max_timestamp(&self) -> Option<TimeMs> {
        self.batch.map(|batch| batch.max_timestamp)
    }

    /// Its records with their offsets, as [`Batch::records`] gives them; `None` for a gap.
    pub fn records(&self, decompressed_bytes_max: usize) -> Option<crate::Result<Records>> {
        self.to_batch().map(|batch| batch.records(decompressed_bytes_max))
    }
}

/// Where the magic first stands.
fn find_magic(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MAGIC.len()).position(|window| window == MAGIC)
}

#[cfg(test)]
mod tests;
