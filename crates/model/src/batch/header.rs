//! The 61 bytes before the records.

use bytes::{Buf, BufMut};

use super::BatchProducer;
use crate::{Compression, Epoch, Error, Offset, ProducerId, Result, Sequence, TimeMs};

/// Bytes before the records.
pub(crate) const BATCH_HEADER_BYTES: usize = 61;
/// Bytes that the batch's CRC leaves out, the CRC itself among them.
pub(crate) const UNCOVERED_BYTES: usize = 21;
/// Base offset and length: what the length leaves out.
pub(crate) const LENGTH_END: usize = 12;
const MAGIC: u8 = 2;

const COMPRESSION_BITS: u16 = 0b111;
const LOG_APPEND_TIME_BIT: u16 = 1 << 3;
const TRANSACTIONAL_BIT: u16 = 1 << 4;
const CONTROL_BIT: u16 = 1 << 5;

/// The fields of a batch's header, in range and in agreement with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) base_offset: Offset,
    /// The whole batch.
    pub(crate) batch_bytes: usize,
    pub(crate) epoch: Epoch,
    pub(crate) checksum: u32,
    pub(crate) compression: Compression,
    pub(crate) last_offset_delta: u32,
    pub(crate) base_timestamp: TimeMs,
    pub(crate) max_timestamp: TimeMs,
    pub(crate) producer: Option<BatchProducer>,
    pub(crate) records: u32,
}

impl BatchHeader {
    /// Reads the header from the beginning of `bytes`, which may be longer or shorter than the batch.
    pub(crate) fn parse(bytes: &[u8]) -> Result<BatchHeader> {
        let Some(mut fields) = bytes.get(..BATCH_HEADER_BYTES) else {
            return malformed("shorter than its header", bytes.len());
        };
        let base_offset = fields.get_i64();
        let length = fields.get_i32();
        let epoch = fields.get_i32();
        let magic = fields.get_u8();
        if magic != MAGIC {
            return Err(Error::Unsupported { what: "magic", found: u64::from(magic) });
        }
        let checksum = fields.get_u32();
        let compression = parse_attributes(fields.get_u16())?;
        let last_offset_delta = fields.get_i32();
        let base_timestamp = fields.get_i64();
        let max_timestamp = fields.get_i64();
        let producer = parse_producer(fields.get_i64(), fields.get_i16(), fields.get_i32())?;
        let records = fields.get_i32();

        let header = BatchHeader {
            base_offset: Offset::new(unsigned(base_offset, "negative base offset", 0)?),
            batch_bytes: usize::try_from(length)
                .ok()
                .map(|length| length + LENGTH_END)
                .filter(|batch_bytes| *batch_bytes >= BATCH_HEADER_BYTES)
                .ok_or(Error::Malformed { what: "length shorter than a header", at: 8 })?,
            epoch: parse_epoch(epoch)?,
            checksum,
            compression,
            last_offset_delta: unsigned(last_offset_delta, "negative last offset delta", 23)?,
            base_timestamp: TimeMs::new(unsigned(base_timestamp, "negative timestamp", 27)?),
            max_timestamp: TimeMs::new(unsigned(max_timestamp, "negative timestamp", 35)?),
            producer,
            records: unsigned(records, "negative count of records", 57)?,
        };
        header.check_range()?;
        Ok(header)
    }

    fn check_range(&self) -> Result<()> {
        if u64::from(self.records) > u64::from(self.last_offset_delta) + 1 {
            return malformed("more records than offsets", 57);
        }
        if self.base_offset.checked_add(u64::from(self.last_offset_delta) + 1).is_none() {
            return malformed("offsets beyond 2^63 - 1", 0);
        }
        Ok(())
    }

    /// Whether it is as a producer must send it: at least one record, and no offset without one.
    pub(crate) fn check_dense(&self, records_max: u32) -> Result<()> {
        if self.records == 0 {
            return malformed("without records", 57);
        }
        if self.records > records_max {
            let (found, limit) = (u64::from(self.records), u64::from(records_max));
            return Err(Error::Limit { what: "records of a batch", found, limit });
        }
        if self.last_offset_delta != self.records - 1 {
            return malformed("last offset delta is not the count of records less one", 23);
        }
        Ok(())
    }

    pub(crate) fn next_offset(&self) -> Offset {
        self.base_offset + (u64::from(self.last_offset_delta) + 1)
    }

    /// Writes the header, the checksum as it stands in `self`.
    pub(crate) fn put(&self, buffer: &mut impl BufMut) {
        buffer.put_u64(self.base_offset.get());
        buffer.put_u32((self.batch_bytes - LENGTH_END) as u32);
        buffer.put_u32(self.epoch.get());
        buffer.put_u8(MAGIC);
        buffer.put_u32(self.checksum);
        buffer.put_u16(u16::from(self.compression.code()));
        buffer.put_u32(self.last_offset_delta);
        buffer.put_u64(self.base_timestamp.get());
        buffer.put_u64(self.max_timestamp.get());
        match self.producer {
            Some(producer) => {
                buffer.put_u64(producer.id.get());
                buffer.put_u16(producer.epoch);
                buffer.put_u32(producer.base_sequence.get());
            }
            None => {
                buffer.put_i64(-1);
                buffer.put_i16(-1);
                buffer.put_i32(-1);
            }
        }
        buffer.put_u32(self.records);
    }
}

/// The checksum that a batch's bytes should carry.
pub(crate) fn checksum(batch: &[u8]) -> u32 {
    crc32c::crc32c(&batch[UNCOVERED_BYTES..])
}

/// Writes base offset and epoch over what a batch begins with.
pub(crate) fn stamp(batch: &mut [u8], base: Offset, epoch: Epoch) {
    batch[..8].copy_from_slice(&base.get().to_be_bytes());
    batch[LENGTH_END..16].copy_from_slice(&epoch.get().to_be_bytes());
}

fn parse_attributes(attributes: u16) -> Result<Compression> {
    let unsupported = |what| Err(Error::Unsupported { what, found: u64::from(attributes) });
    if attributes & LOG_APPEND_TIME_BIT != 0 {
        return unsupported("log-append time, attributes");
    }
    if attributes & TRANSACTIONAL_BIT != 0 {
        return unsupported("transaction, attributes");
    }
    if attributes & CONTROL_BIT != 0 {
        return unsupported("control batch, attributes");
    }
    if attributes > COMPRESSION_BITS {
        return unsupported("attributes");
    }
    Compression::from_code(attributes as u8)
        .ok_or(Error::Unsupported { what: "compression", found: u64::from(attributes) })
}

/// Epoch -1 is what some producers send for "none yet".
fn parse_epoch(epoch: i32) -> Result<Epoch> {
    match epoch {
        -1 => Ok(Epoch::ZERO),
        _ => Epoch::new(unsigned(epoch, "negative epoch", LENGTH_END)?),
    }
}

fn parse_producer(id: i64, epoch: i16, base_sequence: i32) -> Result<Option<BatchProducer>> {
    if (id, epoch, base_sequence) == (-1, -1, -1) {
        return Ok(None);
    }
    Ok(Some(BatchProducer {
        id: ProducerId::new(unsigned(id, "negative producer id", 43)?)?,
        epoch: unsigned(epoch, "negative producer epoch", 51)?,
        base_sequence: Sequence::new(unsigned(base_sequence, "negative base sequence", 53)?)?,
    }))
}

fn unsigned<N, U: TryFrom<N>>(number: N, what: &'static str, at: usize) -> Result<U> {
    U::try_from(number).map_err(|_| Error::Malformed { what, at })
}

fn malformed<T>(what: &'static str, at: usize) -> Result<T> {
    Err(Error::Malformed { what, at })
}
