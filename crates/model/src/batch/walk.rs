//! The walk over a batch's records on the append path: everything agrees, nothing is copied.
//!
//! The same walk goes over the batch's own bytes, and over what a decompressor gives piece by piece.

use super::source::{Slice, Source, Stream, check_limit};
use super::{BATCH_HEADER_BYTES, Batch, BatchHeader, BatchLimits, RecordContent};
use crate::{Compression, Error, Result, caps, message};

/// Checks every record against the header and the limits.
pub(super) fn walk(batch: &Batch, limits: &BatchLimits) -> Result<()> {
    let stored = &batch.bytes()[BATCH_HEADER_BYTES..];
    match batch.compression() {
        Compression::None => {
            walk_records(&mut Slice::new(batch.bytes(), BATCH_HEADER_BYTES), batch.header(), limits)
        }
        compression => {
            let reader = compression.reader(stored)?;
            let mut stream = Stream::new(reader, compression, limits.decompressed_bytes_max);
            walk_records(&mut stream, batch.header(), limits)
        }
    }
}

fn walk_records(
    source: &mut impl Source,
    header: &BatchHeader,
    limits: &BatchLimits,
) -> Result<()> {
    let mut max_timestamp = 0;
    for offset_delta in 0..header.records {
        let at = source.at();
        let malformed = |what| Err(Error::Malformed { what, at });
        let length = source.count("negative length of a record")?;
        let end = source.at() + length;
        if source.byte()? != 0 {
            return malformed("attributes of a record are not zero");
        }
        let timestamp_delta = source.number(64)?;
        match header.base_timestamp.get().checked_add_signed(timestamp_delta) {
            Some(timestamp) => max_timestamp = timestamp.max(max_timestamp),
            None => return malformed("timestamp out of range"),
        }
        if source.number(32)? != i64::from(offset_delta) {
            return malformed("offset deltas are not 0, 1, 2, …");
        }
        walk_key(source, limits.content)?;
        if let Some(value_bytes) = source.length()? {
            check_limit("bytes of a message", value_bytes, limits.message_bytes_max)?;
            source.skip(value_bytes)?;
        }
        walk_headers(source, limits.content)?;
        if source.at() != end {
            return malformed("length of a record is not that of its fields");
        }
    }
    if !source.is_at_end()? {
        return Err(Error::Malformed { what: "bytes behind the last record", at: source.at() });
    }
    if max_timestamp != header.max_timestamp.get() {
        return Err(Error::Malformed { what: "max timestamp is not that of its records", at: 35 });
    }
    Ok(())
}

fn walk_key(source: &mut impl Source, content: RecordContent) -> Result<()> {
    let at = source.at();
    let Some(key_bytes) = source.length()? else { return Ok(()) };
    check_limit("bytes of a key", key_bytes, caps::KEY_BYTES_MAX)?;
    match content {
        RecordContent::Any => source.skip(key_bytes),
        RecordContent::Message => match std::str::from_utf8(source.field(key_bytes)?) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Malformed { what: "key is not UTF-8", at }),
        },
    }
}

fn walk_headers(source: &mut impl Source, content: RecordContent) -> Result<()> {
    let count = source.count("negative count of headers")?;
    check_limit("headers of a record", count, caps::HEADERS_PER_RECORD_MAX)?;
    let mut reserved = message::ReservedHeaders::default();
    let mut headers_bytes = 0;
    for _ in 0..count {
        let at = source.at();
        let malformed = |what| Error::Malformed { what, at };
        let name_bytes = source.length()?.ok_or(malformed("header without a name"))?;
        check_limit("bytes of a header's name", name_bytes, caps::HEADER_NAME_BYTES_MAX)?;
        let name = std::str::from_utf8(source.field(name_bytes)?)
            .map_err(|_| malformed("header name is not UTF-8"))?;
        let reserved_name = match content {
            RecordContent::Message => message::ReservedName::of(name)?,
            RecordContent::Any => None,
        };
        let value_bytes = source.length()?;
        headers_bytes += name_bytes + value_bytes.unwrap_or(0);
        check_limit("bytes of a record's headers", headers_bytes, caps::HEADERS_BYTES_MAX)?;
        match (content, value_bytes) {
            (RecordContent::Any, Some(value_bytes)) => source.skip(value_bytes)?,
            (RecordContent::Any, None) => {}
            (RecordContent::Message, None) => return Err(malformed("header without a value")),
            (RecordContent::Message, Some(value_bytes)) => {
                let value = source.field(value_bytes)?;
                match reserved_name {
                    Some(reserved_name) => reserved.take(reserved_name, value)?,
                    None if std::str::from_utf8(value).is_ok() => {}
                    None => return Err(malformed("header value is not UTF-8")),
                }
            }
        }
    }
    Ok(())
}
