//! Building batches.

use bytes::{BufMut, BytesMut};

use super::source::check_limit;
use super::{BATCH_HEADER_BYTES, Batch, BatchHeader, BatchLimits, BatchProducer, Record, header};
use crate::{Compression, Epoch, Error, Offset, Result, TimeMs, caps, varint};

/// Gathers records into a batch.
///
/// What [`BatchBuilder::append`] takes makes a batch that [`Batch::verify`] accepts under the same limits, but for the
/// rules of [`super::RecordContent::Message`], which [`crate::Message::to_record`] keeps.
#[derive(Debug)]
pub struct BatchBuilder {
    limits: BatchLimits,
    compression: Compression,
    /// Room for the header, then the records.
    buffer: BytesMut,
    records: u32,
    base_timestamp: TimeMs,
    max_timestamp: TimeMs,
}

impl BatchBuilder {
    /// An empty one. Records are compressed when it is finished, where that makes them smaller.
    pub fn new(compression: Compression, limits: BatchLimits) -> BatchBuilder {
        let mut buffer = BytesMut::new();
        buffer.put_bytes(0, BATCH_HEADER_BYTES);
        BatchBuilder {
            limits,
            compression,
            buffer,
            records: 0,
            base_timestamp: TimeMs::ZERO,
            max_timestamp: TimeMs::ZERO,
        }
    }

    /// Takes a record and returns the size of the batch so far, in bytes, uncompressed.
    ///
    /// # Errors
    /// [`Error::Limit`] or [`Error::OutOfRange`] if the record has no room in this batch, or in any. The builder is then
    /// as it was.
    pub fn append(&mut self, record: &Record) -> Result<usize> {
        self.check(record)?;
        let (records, records_max) = (self.records as usize + 1, self.limits.records_max as usize);
        check_limit("records of a batch", records, records_max)?;
        let batch_bytes = self.len_with(record);
        check_limit("bytes of a batch", batch_bytes, self.bytes_max())?;
        self.put(record, self.record_bytes(record));
        debug_assert_eq!(self.len(), batch_bytes);
        Ok(batch_bytes)
    }

    /// Takes any record, for tests of those who check.
    #[cfg(test)]
    pub(super) fn append_unchecked(&mut self, record: &Record) {
        self.put(record, self.record_bytes(record));
    }

    /// How many records it has.
    pub fn record_count(&self) -> u32 {
        self.records
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The size of the batch so far, in bytes, uncompressed.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// What its size would be with one more record, in bytes, uncompressed.
    pub fn len_with(&self, record: &Record) -> usize {
        let record_bytes = self.record_bytes(record);
        self.len() + varint::len(record_bytes as i64) + record_bytes
    }

    /// Makes the batch, with base offset and epoch 0.
    ///
    /// # Panics
    /// If it is empty: there are no empty batches. If the producer's epoch is not below 2^15.
    pub fn finish(self, producer: Option<BatchProducer>) -> Result<Batch> {
        assert!(!self.is_empty(), "a batch has at least one record");
        if let Some(BatchProducer { epoch, .. }) = producer {
            assert!(epoch <= i16::MAX as u16, "producer epoch {epoch} is not below 2^15");
        }
        let mut buffer = self.buffer;
        let mut compression = self.compression;
        if compression != Compression::None {
            let compressed = compression.compress(&buffer[BATCH_HEADER_BYTES..])?;
            if compressed.len() < buffer.len() - BATCH_HEADER_BYTES {
                // Not in place: a batch may be held for long, and would hold the room of the uncompressed bytes.
                buffer = BytesMut::with_capacity(BATCH_HEADER_BYTES + compressed.len());
                buffer.put_bytes(0, BATCH_HEADER_BYTES);
                buffer.put_slice(&compressed);
            } else {
                compression = Compression::None;
            }
        }
        let mut header = BatchHeader {
            base_offset: Offset::ZERO,
            batch_bytes: buffer.len(),
            epoch: Epoch::ZERO,
            checksum: 0,
            compression,
            last_offset_delta: self.records - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer,
            records: self.records,
        };
        header.put(&mut &mut buffer[..BATCH_HEADER_BYTES]);
        header.checksum = header::checksum(&buffer);
        header.put(&mut &mut buffer[..BATCH_HEADER_BYTES]);
        Ok(Batch::from_parts(header, buffer.freeze()))
    }

    /// Whether a batch may hold this record at all, size of the batch apart.
    fn check(&self, record: &Record) -> Result<()> {
        if record.timestamp > TimeMs::MAX {
            let (found, limit) = (record.timestamp.get(), TimeMs::MAX.get());
            return Err(Error::OutOfRange { what: "timestamp", found, limit });
        }
        let value_bytes = record.value.as_ref().map_or(0, |value| value.len());
        check_limit("bytes of a message", value_bytes, self.limits.message_bytes_max)?;
        let key_bytes = record.key.as_ref().map_or(0, |key| key.len());
        check_limit("bytes of a key", key_bytes, caps::KEY_BYTES_MAX)?;
        check_limit("headers of a record", record.headers.len(), caps::HEADERS_PER_RECORD_MAX)?;
        let mut headers_bytes = 0;
        for header in &record.headers {
            let name_bytes = header.name.bytes().len();
            check_limit("bytes of a header's name", name_bytes, caps::HEADER_NAME_BYTES_MAX)?;
            headers_bytes += name_bytes + header.value.as_ref().map_or(0, |value| value.len());
        }
        check_limit("bytes of a record's headers", headers_bytes, caps::HEADERS_BYTES_MAX)
    }

    /// What a batch may have before compression. It must pass both limits, because it is sent uncompressed where
    /// compression doesn't make it smaller.
    fn bytes_max(&self) -> usize {
        self.limits.stored_bytes_max().min(self.limits.decompressed_bytes_max)
    }

    fn timestamp_delta(&self, record: &Record) -> i64 {
        let base = if self.records == 0 { record.timestamp } else { self.base_timestamp };
        // Both are at most 2^63 - 1, so the difference has a place in 64 bits with its sign.
        record.timestamp.get().wrapping_sub(base.get()) as i64
    }

    /// Bytes of a record behind its length.
    fn record_bytes(&self, record: &Record) -> usize {
        let headers: usize = record
            .headers
            .iter()
            .map(|header| {
                field_bytes(Some(header.name.bytes())) + field_bytes(header.value.as_ref())
            })
            .sum();
        1 + varint::len(self.timestamp_delta(record))
            + varint::len(i64::from(self.records))
            + field_bytes(record.key.as_ref())
            + field_bytes(record.value.as_ref())
            + varint::len(record.headers.len() as i64)
            + headers
    }

    fn put(&mut self, record: &Record, record_bytes: usize) {
        if self.records == 0 {
            self.base_timestamp = record.timestamp;
        }
        let timestamp_delta = self.timestamp_delta(record);
        let buffer = &mut self.buffer;
        buffer.reserve(varint::BYTES_MAX_32 + record_bytes);
        varint::put(buffer, record_bytes as i64);
        buffer.put_u8(0);
        varint::put(buffer, timestamp_delta);
        varint::put(buffer, i64::from(self.records));
        put_field(buffer, record.key.as_deref());
        put_field(buffer, record.value.as_deref());
        varint::put(buffer, record.headers.len() as i64);
        for header in &record.headers {
            put_field(buffer, Some(header.name.bytes()));
            put_field(buffer, header.value.as_deref());
        }
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.records += 1;
    }
}

fn field_bytes(field: Option<&bytes::Bytes>) -> usize {
    field.map_or(1, |field| varint::len(field.len() as i64) + field.len())
}

fn put_field(buffer: &mut BytesMut, field: Option<&[u8]>) {
    match field {
        None => varint::put(buffer, -1),
        Some(field) => {
            varint::put(buffer, field.len() as i64);
            buffer.put_slice(field);
        }
    }
}
