//! The record batch: the one encoding of messages, on the wire, in frames, in every tier.
//!
//! The layout is that of Kafka's record batch, magic 2; integers are big-endian.
//!
//! ```text
//!   at bytes field
//!    0     8 base offset         stamped by the topic's owner       ┐
//!    8     4 batch length        bytes after this field             │ 21 bytes that the CRC
//!   12     4 epoch               stamped by the topic's owner       │ leaves out; a frame's
//!   16     1 magic               2                                  │ checksum covers them
//!   17     4 CRC-32C             over all that follows              ┘
//!   21     2 attributes          bits 0 to 2: compression
//!   23     4 last offset delta   the batch covers [base, base + delta + 1)
//!   27     8 base timestamp
//!   35     8 max timestamp
//!   43     8 producer id         -1: not idempotent, then so are the next two
//!   51     2 producer epoch
//!   53     4 base sequence
//!   57     4 records
//!   61       records             compressed as one block where the attributes say so
//! ```
//!
//! A record: length, attributes (one zero byte), timestamp delta, offset delta, key, value, headers; lengths and
//! deltas are zig-zag varints, length -1 means null.
//!
//! # Invariants
//! * A [`Batch`] has a header that was checked, and bytes that are exactly as long as it says.
//! * One made by [`Batch::verify`] or a [`BatchBuilder`] is non-empty and dense, its checksum fits, and every record
//!   in it can be read.
//!
//! Reading order: `header`, `walk` (what is checked on the append path), [`record`], [`builder`].

pub mod builder;
mod header;
pub mod record;
mod source;
mod split;
mod walk;

use bytes::Bytes;

pub use builder::BatchBuilder;
pub(crate) use header::{BATCH_HEADER_BYTES, BatchHeader, LENGTH_END, UNCOVERED_BYTES, stamp};
pub use record::{Record, RecordHeader, Records};
use source::check_limit;
pub use split::split;

use crate::{Compression, Epoch, Error, Offset, ProducerId, Result, Sequence, TimeMs, caps};

/// What a batch may hold where it is checked.
#[derive(Clone, Debug)]
pub struct BatchLimits {
    /// The value of one record, in bytes.
    pub message_bytes_max: usize,
    /// The whole batch, in bytes.
    pub batch_bytes_max: usize,
    /// Its records after decompression, in bytes.
    pub decompressed_bytes_max: usize,
    /// How many records.
    pub records_max: u32,
    /// What the records may be.
    pub content: RecordContent,
}

impl BatchLimits {
    /// Limits for a topic whose messages may have a payload of so many bytes, at most [`caps::MESSAGE_BYTES_MAX`]. One
    /// such message fits with everything around it at its limit, and many small ones into a batch as large as anywhere.
    pub fn for_message_bytes(message_bytes_max: usize) -> BatchLimits {
        let message_bytes_max = message_bytes_max.min(caps::MESSAGE_BYTES_MAX);
        let batch_bytes_max =
            message_bytes_max.max(caps::MESSAGE_BYTES_DEFAULT) + caps::BATCH_OVERHEAD_BYTES;
        BatchLimits {
            message_bytes_max,
            batch_bytes_max,
            decompressed_bytes_max: batch_bytes_max.max(caps::DECOMPRESSED_BYTES_DEFAULT),
            records_max: caps::RECORDS_PER_BATCH_MAX,
            content: RecordContent::Message,
        }
    }

    /// What a batch may have as it is stored; no setting goes beyond what readers accept.
    fn stored_bytes_max(&self) -> usize {
        self.batch_bytes_max.min(caps::BATCH_BYTES_MAX)
    }
}

impl Default for BatchLimits {
    fn default() -> BatchLimits {
        BatchLimits::for_message_bytes(caps::MESSAGE_BYTES_DEFAULT)
    }
}

/// What the records of a batch may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordContent {
    /// Danube messages: keys and attributes are UTF-8, and headers whose name begins with `danube.` are those that
    /// [`crate::message`] knows.
    Message,
    /// Any records with UTF-8 header names.
    Any,
}

/// What makes a batch idempotent: a broker that has it already does not store it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchProducer {
    /// Who produced it.
    pub id: ProducerId,
    /// How often the producer began anew, below 2^15.
    pub epoch: u16,
    /// The number of the batch's first record among the producer's.
    pub base_sequence: Sequence,
}

/// A checked, immutable record batch. Cloning it copies no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    header: BatchHeader,
    bytes: Bytes,
}

impl Batch {
    /// Checks all of a batch that comes from a producer: header, checksum, that it is non-empty and dense, and by a walk
    /// over the records without copying them that counts, lengths and times agree and `limits` are kept. Compressed
    /// records are decompressed piece by piece. Memory beyond `bytes` is bounded by the window of the compression and
    /// [`caps::HEADERS_BYTES_MAX`].
    ///
    /// `bytes` must be the batch and nothing else. Base offset and epoch are the topic's owner's to stamp and are not
    /// looked at beyond their range.
    ///
    /// # Errors
    /// Every one is definite and stays: the same bytes never pass.
    pub fn verify(bytes: Bytes, limits: &BatchLimits) -> Result<Batch> {
        check_limit("bytes of a batch", bytes.len(), limits.stored_bytes_max())?;
        let batch = Batch::checksummed(bytes)?;
        batch.header.check_dense(limits.records_max)?;
        walk::walk(&batch, limits)?;
        Ok(batch)
    }

    /// A batch whose checksum was verified before in this process: only the header is checked. Its records, when read,
    /// are still checked one by one.
    pub fn trusted(bytes: Bytes) -> Result<Batch> {
        let header = BatchHeader::parse(&bytes)?;
        if header.batch_bytes != bytes.len() {
            return Err(Error::Malformed { what: "its length is not that of its bytes", at: 8 });
        }
        Ok(Batch { header, bytes })
    }

    /// A batch of which header and checksum are verified: what is enough for bytes that passed [`Batch::verify`] before
    /// they were stored.
    pub fn checksummed(bytes: Bytes) -> Result<Batch> {
        let batch = Batch::trusted(bytes)?;
        let computed = header::checksum(&batch.bytes);
        if computed != batch.header.checksum {
            return Err(Error::Checksum { stored: batch.header.checksum, computed });
        }
        Ok(batch)
    }

    /// Takes a header and bytes that are known to fit each other.
    pub(crate) fn from_parts(header: BatchHeader, bytes: Bytes) -> Batch {
        debug_assert_eq!(header.batch_bytes, bytes.len());
        Batch { header, bytes }
    }

    /// The offset of its first record. 0 until the topic's owner has stamped it.
    pub fn base_offset(&self) -> Offset {
        self.header.base_offset
    }

    /// The offset behind the last that it covers.
    pub fn next_offset(&self) -> Offset {
        self.header.next_offset()
    }

    /// The epoch that it was appended under. 0 until the topic's owner has stamped it.
    pub fn epoch(&self) -> Epoch {
        self.header.epoch
    }

    /// How many records it holds.
    pub fn record_count(&self) -> u32 {
        self.header.records
    }

    /// How many offsets it covers; more than it holds records where some were left out.
    pub fn offset_span(&self) -> u32 {
        self.header.last_offset_delta + 1
    }

    /// How its records are compressed.
    pub fn compression(&self) -> Compression {
        self.header.compression
    }

    /// The time that its records' times are relative to; the first record's, as a rule.
    pub fn base_timestamp(&self) -> TimeMs {
        self.header.base_timestamp
    }

    /// The latest of its records' times.
    pub fn max_timestamp(&self) -> TimeMs {
        self.header.max_timestamp
    }

    /// What makes it idempotent, if it is.
    pub fn producer(&self) -> Option<BatchProducer> {
        self.header.producer
    }

    /// The same records under another number of their producer, as a copy.
    ///
    /// # Panics
    /// If the producer's epoch is not below 2^15.
    pub fn with_producer(&self, producer: BatchProducer) -> Batch {
        assert!(
            producer.epoch <= i16::MAX as u16,
            "producer epoch {} is not below 2^15",
            producer.epoch
        );
        let mut header = BatchHeader { producer: Some(producer), ..self.header };
        let mut bytes = bytes::BytesMut::from(&self.bytes[..]);
        header.put(&mut &mut bytes[..BATCH_HEADER_BYTES]);
        header.checksum = header::checksum(&bytes);
        header.put(&mut &mut bytes[..BATCH_HEADER_BYTES]);
        Batch { header, bytes: bytes.freeze() }
    }

    /// The whole batch.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its records with their offsets. Without compression they share the batch's bytes; else they are decompressed here,
    /// into memory of their own, or refused if they are more than `decompressed_bytes_max`.
    pub fn records(&self, decompressed_bytes_max: usize) -> Result<Records> {
        Records::new(self, decompressed_bytes_max)
    }

    pub(crate) fn header(&self) -> &BatchHeader {
        &self.header
    }
}

#[cfg(test)]
pub(crate) mod tests;
