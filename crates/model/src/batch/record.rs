//! Records, and reading them out of a batch.

use std::io::Read;

use bytes::Bytes;

use super::source::{Slice, Source, check_limit};
use super::{BATCH_HEADER_BYTES, Batch};
use crate::{Compression, Error, Offset, Result, Text, TimeMs, caps};

/// One record. What it carries shares the bytes that it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was published, by the producer's clock.
    pub timestamp: TimeMs,
    /// Its routing key.
    pub key: Option<Bytes>,
    /// Its payload.
    pub value: Option<Bytes>,
    /// Its headers, in their order; names may repeat.
    pub headers: Vec<RecordHeader>,
}

/// A named value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Its name.
    pub name: Text,
    /// Its value.
    pub value: Option<Bytes>,
}

/// The records of a batch with their offsets, in order. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Records {
    /// The whole batch, or its records decompressed.
    bytes: Bytes,
    /// Where the next record begins in them.
    at: usize,
    remaining: u32,
    base_offset: Offset,
    /// The least offset delta that the next record may have.
    least_delta: u32,
    last_delta: u32,
    base_timestamp: TimeMs,
}

impl Records {
    pub(super) fn new(batch: &Batch, decompressed_bytes_max: usize) -> Result<Records> {
        let (bytes, at) = match batch.compression() {
            Compression::None => (batch.bytes().clone(), BATCH_HEADER_BYTES),
            compression => {
                let stored = &batch.bytes()[BATCH_HEADER_BYTES..];
                (decompress(compression, stored, decompressed_bytes_max)?, 0)
            }
        };
        Ok(Records {
            bytes,
            at,
            remaining: batch.record_count(),
            base_offset: batch.base_offset(),
            least_delta: 0,
            last_delta: batch.header().last_offset_delta,
            base_timestamp: batch.base_timestamp(),
        })
    }

    fn read_next(&mut self) -> Result<(Offset, Record)> {
        let begin = self.at;
        let malformed = |what| Err(Error::Malformed { what, at: begin });
        let mut source = Slice::new(&self.bytes, begin);
        let length = source.count("negative length of a record")?;
        let end = source.at() + length;
        if source.byte()? != 0 {
            return malformed("attributes of a record are not zero");
        }
        let timestamp = self.base_timestamp.get().checked_add_signed(source.number(64)?);
        let Some(timestamp) = timestamp.filter(|timestamp| *timestamp <= TimeMs::MAX.get()) else {
            return malformed("timestamp out of range");
        };
        let delta = source.count("negative offset delta")?;
        if delta < self.least_delta as usize || delta > self.last_delta as usize {
            return malformed("offset deltas do not rise, or exceed the last");
        }
        let key = self.field(&mut source)?;
        let value = self.field(&mut source)?;
        let headers = self.headers(&mut source)?;
        if source.at() != end {
            return malformed("length of a record is not that of its fields");
        }
        self.at = end;
        self.least_delta = delta as u32 + 1;
        let record = Record { timestamp: TimeMs::new(timestamp), key, value, headers };
        Ok((self.base_offset + delta as u64, record))
    }

    fn headers(&self, source: &mut Slice<'_>) -> Result<Vec<RecordHeader>> {
        let at = source.at();
        let malformed = |what| Error::Malformed { what, at };
        let count = source.count("negative count of headers")?;
        check_limit("headers of a record", count, caps::HEADERS_PER_RECORD_MAX)?;
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let name = self.field(source)?.ok_or(malformed("header without a name"))?;
            let name = Text::new(name).ok_or(malformed("header name is not UTF-8"))?;
            headers.push(RecordHeader { name, value: self.field(source)? });
        }
        Ok(headers)
    }

    /// A field with its length before it, sharing the bytes it stands in.
    fn field(&self, source: &mut Slice<'_>) -> Result<Option<Bytes>> {
        let Some(length) = source.length()? else { return Ok(None) };
        source.skip(length)?;
        Ok(Some(self.bytes.slice(source.at() - length..source.at())))
    }
}

impl Iterator for Records {
    type Item = Result<(Offset, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let mut item = self.read_next();
        if item.is_ok() && self.remaining == 0 && self.at != self.bytes.len() {
            item = Err(Error::Malformed { what: "bytes behind the last record", at: self.at });
        }
        if item.is_err() {
            self.remaining = 0;
        }
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.remaining as usize))
    }
}

/// Decompresses all records, at most `bytes_max`. Takes memory as bytes come, whatever the compressed ones promise.
fn decompress(compression: Compression, compressed: &[u8], bytes_max: usize) -> Result<Bytes> {
    const FIRST_GUESS: usize = 4 * 1024;
    // One byte more than allowed tells "at the limit" from "beyond it".
    let room_max = bytes_max.saturating_add(1);
    let mut reader = compression.reader(compressed)?;
    let mut records = vec![0; compressed.len().max(FIRST_GUESS).saturating_mul(2).min(room_max)];
    let mut filled = 0;
    loop {
        if filled > bytes_max {
            let (found, limit) = (filled as u64, bytes_max as u64);
            return Err(Error::Limit { what: "decompressed bytes of a batch", found, limit });
        }
        if filled == records.len() {
            let grown = (filled * 2).min(room_max);
            records.reserve_exact(grown - filled);
            records.resize(grown, 0);
        }
        match reader.read(&mut records[filled..]).map_err(|source| compression.failed(source))? {
            0 => break,
            read => filled += read,
        }
    }
    records.truncate(filled);
    Ok(Bytes::from(records))
}
