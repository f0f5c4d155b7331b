//! Where records are read from: a batch's own bytes, or a decompressor.

use std::io::{BufRead, BufReader, Read};

use crate::{Compression, Error, Result, varint};

/// Where records come from, read once from front to back.
pub(super) trait Source {
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

/// The batch's own bytes.
pub(super) struct Slice<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Slice<'a> {
    /// Reads from `at` on.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Slice<'a> {
        Slice { bytes, at }
    }

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

const BUFFER_BYTES: usize = 16 * 1024;

/// What comes out of a decompressor, counted against the limit.
pub(super) struct Stream<R> {
    reader: BufReader<R>,
    compression: Compression,
    at: usize,
    bytes_max: usize,
    /// The last field that was asked for.
    field: Vec<u8>,
}

impl<R: Read> Stream<R> {
    /// Reads at most `bytes_max` of what a decompressor gives.
    pub(super) fn new(decompressor: R, compression: Compression, bytes_max: usize) -> Stream<R> {
        let reader = BufReader::with_capacity(BUFFER_BYTES, decompressor);
        Stream { reader, compression, at: 0, bytes_max, field: Vec::new() }
    }

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

/// Refuses what exceeds an inclusive limit.
pub(super) fn check_limit(what: &'static str, found: usize, limit: usize) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::Limit { what, found: found as u64, limit: limit as u64 })
}
