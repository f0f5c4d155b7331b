//! Records, and reading them out of a batch.

use std::io::Read;

use bytes::{Buf, Bytes};

use super::{BATCH_HEADER_BYTES, Batch};
use crate::{Compression, Error, Offset, Result, Text, TimeMs, caps, varint};

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
    pub headers: Vec<Header>,
}

/// A named value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: Text,
    /// Its value.
    pub value: Option<Bytes>,
}

/// The records of a batch with their offsets, in order. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Records {
    rest: Bytes,
    /// Bytes of all records, to say where an error is.
    whole_bytes: usize,
    /// Where the records begin in what errors count in.
    begin: usize,
    remaining: u32,
    base_offset: Offset,
    /// The least offset delta that the next record may have.
    least_delta: u32,
    last_delta: u32,
    base_timestamp: TimeMs,
}

impl Records {
    pub(super) fn new(batch: &Batch, decompressed_bytes_max: usize) -> Result<Records> {
        let stored = batch.stored_records();
        let (rest, begin) = match batch.compression() {
            Compression::None => (stored, BATCH_HEADER_BYTES),
            compression => (decompress(compression, &stored, decompressed_bytes_max)?, 0),
        };
        Ok(Records {
            whole_bytes: rest.len(),
            rest,
            begin,
            remaining: batch.record_count(),
            base_offset: batch.base_offset(),
            least_delta: 0,
            last_delta: batch.header().last_offset_delta,
            base_timestamp: batch.base_timestamp(),
        })
    }

    fn read_next(&mut self) -> Result<(Offset, Record)> {
        let mut fields = self.rest.clone();
        let at = self.begin + self.whole_bytes - self.rest.len();
        let malformed = |what| Error::Malformed { what, at };
        let length = read_length(&mut fields).ok_or(malformed("record cut short"))?;
        let mut fields = match length {
            Some(length) if length <= fields.len() => {
                self.rest = fields.split_off(length);
                fields
            }
            _ => return Err(malformed("record longer than its batch")),
        };
        let (delta, record) = read_record(&mut fields, self.base_timestamp).map_err(malformed)?;
        if delta < self.least_delta || delta > self.last_delta {
            return Err(malformed("offset deltas do not rise, or exceed the last"));
        }
        self.least_delta = delta + 1;
        Ok((self.base_offset + u64::from(delta), record))
    }
}

impl Iterator for Records {
    type Item = Result<(Offset, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let mut item = self.read_next();
        if item.is_ok() && self.remaining == 0 && !self.rest.is_empty() {
            let at = self.begin + self.whole_bytes - self.rest.len();
            item = Err(Error::Malformed { what: "bytes behind the last record", at });
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

/// Reads the fields behind a record's length, which must be all of `fields`. An error says what is wrong.
fn read_record(fields: &mut Bytes, base_timestamp: TimeMs) -> Result<(u32, Record), &'static str> {
    const CUT_SHORT: &str = "record cut short";
    if fields.is_empty() {
        return Err(CUT_SHORT);
    }
    if fields.get_u8() != 0 {
        return Err("attributes of a record are not zero");
    }
    let timestamp = read_number(fields, 64)
        .and_then(|delta| base_timestamp.get().checked_add_signed(delta))
        .filter(|timestamp| *timestamp <= TimeMs::MAX.get())
        .ok_or("timestamp out of range")?;
    let delta = read_number(fields, 32)
        .and_then(|delta| u32::try_from(delta).ok())
        .ok_or("offset delta out of range")?;
    let key = read_field(fields).ok_or(CUT_SHORT)?;
    let value = read_field(fields).ok_or(CUT_SHORT)?;
    let count = read_number(fields, 32)
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| *count <= caps::HEADERS_PER_RECORD_MAX)
        .ok_or("count of headers out of range")?;
    let mut headers = Vec::with_capacity(count);
    for _ in 0..count {
        let name = read_field(fields).ok_or(CUT_SHORT)?.ok_or("header without a name")?;
        let name = Text::new(name).ok_or("header name is not UTF-8")?;
        headers.push(Header { name, value: read_field(fields).ok_or(CUT_SHORT)? });
    }
    if !fields.is_empty() {
        return Err("record longer than its fields");
    }
    Ok((delta, Record { timestamp: TimeMs::new(timestamp), key, value, headers }))
}

fn read_number(fields: &mut Bytes, bits: u32) -> Option<i64> {
    let next = || if fields.is_empty() { Err(()) } else { Ok(fields.get_u8()) };
    varint::read(bits, next).ok().flatten()
}

/// A length: `Some(None)` is null, `None` that it can't be read.
fn read_length(fields: &mut Bytes) -> Option<Option<usize>> {
    match read_number(fields, 32)? {
        -1 => Some(None),
        length => usize::try_from(length).ok().map(Some),
    }
}

/// Length and so many bytes: `Some(None)` is null, `None` that it can't be read.
fn read_field(fields: &mut Bytes) -> Option<Option<Bytes>> {
    match read_length(fields)? {
        None => Some(None),
        Some(length) if length <= fields.len() => Some(Some(fields.split_to(length))),
        Some(_) => None,
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
            records.resize((filled * 2).min(room_max), 0);
        }
        match reader.read(&mut records[filled..]).map_err(|source| compression.failed(source))? {
            0 => break,
            read => filled += read,
        }
    }
    records.truncate(filled);
    Ok(Bytes::from(records))
}
