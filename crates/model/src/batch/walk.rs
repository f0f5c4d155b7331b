//! The walk over a batch's records on the append path: everything agrees, nothing is copied.
//!
//! The same walk goes over the batch's own bytes, and over what a decompressor gives piece by piece.

use std::io::{BufRead, BufReader, Read};

use super::{BATCH_HEADER_BYTES, Batch, BatchHeader, BatchLimits, RecordContent};
use crate::{Compression, Error, Result, caps, message, varint};

/// Checks every record against the header and the limits.
pub(super) fn walk(batch: &Batch, limits: &BatchLimits) -> Result<()> {
    let stored = &batch.bytes()[BATCH_HEADER_BYTES..];
    match batch.compression() {
        Compression::None => walk_records(
            &mut Slice { bytes: batch.bytes(), at: BATCH_HEADER_BYTES },
            batch.header(),
            limits,
        ),
        compression => {
            let mut stream = Stream {
                reader: BufReader::with_capacity(STREAM_BUFFER_BYTES, compression.reader(stored)?),
                compression,
                at: 0,
                bytes_max: limits.decompressed_bytes_max,
                field: Vec::new(),
            };
            walk_records(&mut stream, batch.header(), limits)
        }
    }
}

const STREAM_BUFFER_BYTES: usize = 16 * 1024;

/// Where records come from, read once from front to back.
trait Source {
    /// How many bytes were read, in what errors count in.
    fn at(&self) -> usize;

    /// The next byte.
    fn byte(&mut self) -> Result<u8>;

    /// Passes over `count` bytes, all of which must be there.
    fn skip(&mut self, count: usize) -> Result<()>;

    /// The next `count` bytes, which the caller has held against a limit.
    fn field(&mut self, count: usize) -> Result<&[u8]>;

    /// Whether nothing is left.
    fn is_at_end(&mut self) -> Result<bool>;

    /// A varint of at most `bits` bits.
    fn number(&mut self, bits: u32) -> Result<i64> {
        let at = self.at();
        let number = varint::read(bits, || self.byte())?;
        number.ok_or(Error::Malformed { what: "varint too long", at })
    }

    /// A length that is 0 at least.
    fn count(&mut self, what: &'static str) -> Result<usize> {
        let at = self.at();
        usize::try_from(self.number(32)?).map_err(|_| Error::Malformed { what, at })
    }

    /// A length, or `None` for null.
    fn length(&mut self) -> Result<Option<usize>> {
        let at = self.at();
        match self.number(32)? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => Err(Error::Malformed { what: "negative length", at }),
            },
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

fn check_limit(what: &'static str, found: usize, limit: usize) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::Limit { what, found: found as u64, limit: limit as u64 })
}

/// The batch's own bytes.
struct Slice<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Slice<'_> {
    fn cut_short(&self) -> Error {
        Error::Malformed { what: "records cut short", at: self.at }
    }
}

impl Source for Slice<'_> {
    fn at(&self) -> usize {
        self.at
    }

    #[inline]
    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.cut_short())?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Result<()> {
        if count > self.bytes.len() - self.at {
            return Err(self.cut_short());
        }
        self.at += count;
        Ok(())
    }

    #[inline]
    fn field(&mut self, count: usize) -> Result<&[u8]> {
        let begin = self.at;
        self.skip(count)?;
        Ok(&self.bytes[begin..self.at])
    }

    fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.at == self.bytes.len())
    }
}

/// What comes out of a decompressor, counted against the limit.
struct Stream<R> {
    reader: BufReader<R>,
    compression: Compression,
    at: usize,
    bytes_max: usize,
    /// The last field that was asked for.
    field: Vec<u8>,
}

impl<R: Read> Stream<R> {
    /// What is buffered, at least one byte unless the end is reached.
    fn buffered(&mut self) -> Result<&[u8]> {
        let compression = self.compression;
        self.reader.fill_buf().map_err(|source| compression.failed(source))
    }

    fn advance(&mut self, count: usize) -> Result<()> {
        self.reader.consume(count);
        self.at += count;
        check_limit("decompressed bytes of a batch", self.at, self.bytes_max)
    }

    fn cut_short(&self) -> Error {
        Error::Malformed { what: "records cut short", at: self.at }
    }

    /// Gives `count` bytes to `take`, in as many pieces as they come in.
    fn pieces(&mut self, count: usize, mut take: impl FnMut(&[u8])) -> Result<()> {
        // Before anything is decompressed for it: a length beyond the limit is refused at once.
        check_limit(
            "decompressed bytes of a batch",
            self.at.saturating_add(count),
            self.bytes_max,
        )?;
        let mut missing = count;
        while missing > 0 {
            let buffered = self.buffered()?;
            let piece = &buffered[..buffered.len().min(missing)];
            let piece_bytes = piece.len();
            take(piece);
            if piece_bytes == 0 {
                return Err(self.cut_short());
            }
            self.advance(piece_bytes)?;
            missing -= piece_bytes;
        }
        Ok(())
    }
}

impl<R: Read> Source for Stream<R> {
    fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8> {
        match self.buffered()?.first().copied() {
            Some(byte) => self.advance(1).map(|()| byte),
            None => Err(self.cut_short()),
        }
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        self.pieces(count, |_| {})
    }

    fn field(&mut self, count: usize) -> Result<&[u8]> {
        let mut field = std::mem::take(&mut self.field);
        field.clear();
        let result = self.pieces(count, |piece| field.extend_from_slice(piece));
        self.field = field;
        result?;
        Ok(&self.field)
    }

    fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.buffered()?.is_empty())
    }
}
