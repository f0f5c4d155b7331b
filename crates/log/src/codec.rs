//! A small big-endian cursor for the headers, tables and footers of this crate.
//!
//! Reading never panics and never allocates by a length that it read: counts go through [`Cursor::count`].
//! Where all of it belongs to one file, [`DecodeError::at`] adds the path.

use std::path::Path;

use danube_model::{Epoch, Offset, TimeMs, TopicId};

use crate::Error;

/// What is wrong with bytes that were to be decoded. Positions count from the start of what was decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The version is not known; nothing else of the bytes was believed.
    #[error("version {found} of a {what}, known up to {known}")]
    UnknownVersion {
        /// The format's name.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// The bytes are not what the format allows.
    #[error("{what} at byte {position}")]
    Corrupt {
        /// Where.
        position: u64,
        /// What was found there.
        what: &'static str,
    },
}

impl DecodeError {
    /// Bytes that the format does not allow.
    pub(crate) fn corrupt(position: usize, what: &'static str) -> Self {
        Self::Corrupt { position: position as u64, what }
    }

    /// The same error, of bytes that begin at byte `position` of a whole.
    pub(crate) fn shifted(self, position: usize) -> Self {
        match self {
            Self::UnknownVersion { .. } => self,
            Self::Corrupt { position: within, what } => {
                Self::Corrupt { position: within + position as u64, what }
            }
        }
    }

    /// The error of the crate: these bytes begin at `position` of the file at `path`.
    pub(crate) fn at(self, path: &Path, position: u64) -> Error {
        match self {
            Self::UnknownVersion { what, found, known } => {
                Error::UnknownVersion { path: path.to_owned(), what, found, known }
            }
            Self::Corrupt { position: within, what } => {
                Error::corrupt(path, position + within, what)
            }
        }
    }
}

/// The result of decoding.
pub(crate) type Decoded<T> = Result<T, DecodeError>;

/// Reads big-endian fields one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Bytes left.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Decoded<&'a [u8]> {
        if len > self.remaining() {
            return Err(self.corrupt("cut short"));
        }
        let taken = &self.bytes[self.position..self.position + len];
        self.position += len;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub(crate) fn u16(&mut self) -> Decoded<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Four bytes.
    pub(crate) fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Eight bytes.
    pub(crate) fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A topic id.
    pub(crate) fn topic(&mut self) -> Decoded<TopicId> {
        Ok(TopicId::new(self.array()?))
    }

    /// An offset that a log can reach.
    pub(crate) fn offset(&mut self) -> Decoded<Offset> {
        let at = self.position;
        let offset = Offset::new(self.u64()?);
        if offset > Offset::MAX {
            return Err(DecodeError::corrupt(at, "an offset beyond 2^63 - 1"));
        }
        Ok(offset)
    }

    /// A time.
    pub(crate) fn time(&mut self) -> Decoded<TimeMs> {
        Ok(TimeMs::new(self.u64()?))
    }

    /// An epoch.
    pub(crate) fn epoch(&mut self) -> Decoded<Epoch> {
        let at = self.position;
        Epoch::new(self.u32()?).map_err(|_| DecodeError::corrupt(at, "an epoch beyond 2^31 - 1"))
    }

    /// A byte that is 0 or 1.
    pub(crate) fn flag(&mut self, what: &'static str) -> Decoded<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::corrupt(self.position - 1, what)),
        }
    }

    /// `len` bytes that are zero in this version.
    pub(crate) fn zero(&mut self, len: usize) -> Decoded<()> {
        let at = self.position;
        match self.take(len)?.iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(index) => Err(DecodeError::corrupt(
                at + index,
                "a reserved byte in use, as by a newer format",
            )),
        }
    }

    /// The magic of a format.
    pub(crate) fn magic(&mut self, magic: &[u8; 8], what: &'static str) -> Decoded<()> {
        let at = self.position;
        if self.array::<8>()? == *magic { Ok(()) } else { Err(DecodeError::corrupt(at, what)) }
    }

    /// A count of things that take at least `each` bytes: refused where they cannot be there, so that it is safe to
    /// allocate by it.
    pub(crate) fn count(&mut self, each: usize) -> Decoded<usize> {
        let at = self.position;
        let count = self.u32()? as usize;
        if count > self.remaining() / each {
            return Err(DecodeError::corrupt(at, "a count beyond what is there"));
        }
        Ok(count)
    }

    /// Nothing may be left.
    pub(crate) fn finish(&self) -> Decoded<()> {
        if self.remaining() == 0 { Ok(()) } else { Err(self.corrupt("bytes behind the end")) }
    }

    /// An error at the place that is read next.
    pub(crate) fn corrupt(&self, what: &'static str) -> DecodeError {
        DecodeError::corrupt(self.position, what)
    }
}

/// Reads the beginning that headers share, in every version: magic (8 bytes), version (2), zero (2), and a checksum (4)
/// over all other bytes. The cursor stands behind it.
///
/// A version is believed if the checksum is right. So a bit that rots in it is damage, and not a later format. It is
/// believed as well where nothing but the version is wrong and more than a bit of it: that is an edit, and a refusal harms
/// least.
pub(crate) fn header<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
    known: u16,
) -> Decoded<Cursor<'a>> {
    let mut cursor = Cursor::new(bytes);
    cursor.magic(magic, "another magic number")?;
    let found = cursor.u16()?;
    let zero = cursor.clone();
    cursor.take(2)?;
    let stored = cursor.u32()?;
    let sum = |version: u16| {
        checksum(&[&bytes[..8], &version.to_be_bytes(), &bytes[10..12], &bytes[cursor.position..]])
    };
    let is_edited = || (found ^ known).count_ones() > 1 && stored == sum(known);
    if found != known && (stored == sum(found) || is_edited()) {
        return Err(DecodeError::UnknownVersion { what, found: found.into(), known: known.into() });
    }
    if stored != sum(found) {
        return Err(DecodeError::corrupt(HEADER_CHECKSUM_AT, "wrong checksum"));
    }
    zero.clone().zero(2)?;
    Ok(cursor)
}

/// Enters the checksum that [`header`] checks.
pub(crate) fn seal_header(bytes: &mut [u8]) {
    let at = HEADER_CHECKSUM_AT;
    let sum = checksum(&[&bytes[..at], &bytes[at + 4..]]);
    patch_u32(bytes, at, sum);
}

const HEADER_CHECKSUM_AT: usize = 12;

/// Writes big-endian fields one after the other.
pub(crate) trait Put {
    /// Bytes as they are.
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self;

    /// One byte.
    fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    /// Two bytes.
    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Four bytes.
    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Eight bytes.
    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// `len` zero bytes.
    fn zero(&mut self, len: usize) -> &mut Self {
        for _ in 0..len {
            self.u8(0);
        }
        self
    }
}

impl Put for Vec<u8> {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.extend_from_slice(bytes);
        self
    }
}

/// CRC-32C over several ranges, one after the other.
pub(crate) fn checksum(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part))
}

/// Writes `value` over the four bytes at `at`: a checksum that is known when the rest is written.
pub(crate) fn patch_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_written() {
        let mut bytes = Vec::new();
        bytes.u8(1).u16(2).u32(3).u64(4).zero(2).bytes(b"tail");
        assert_eq!(bytes.len(), 1 + 2 + 4 + 8 + 2 + 4);
        assert_eq!(bytes[1..3], [0, 2], "big-endian");

        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.u8(), Ok(1));
        assert_eq!(cursor.u16(), Ok(2));
        assert_eq!(cursor.u32(), Ok(3));
        assert_eq!(cursor.u64(), Ok(4));
        assert_eq!(cursor.zero(2), Ok(()));
        assert_eq!(cursor.finish(), Err(DecodeError::corrupt(17, "bytes behind the end")));
        assert_eq!(cursor.take(4), Ok(&b"tail"[..]));
        assert_eq!(cursor.finish(), Ok(()));
        assert_eq!(cursor.u8(), Err(DecodeError::corrupt(21, "cut short")));
    }

    #[test]
    fn a_hostile_count_is_refused_before_anything_is_allocated() {
        let mut bytes = Vec::new();
        bytes.u32(u32::MAX).zero(16);
        let refused = Err(DecodeError::corrupt(0, "a count beyond what is there"));
        assert_eq!(Cursor::new(&bytes).count(8), refused);
        bytes[..4].copy_from_slice(&[0, 0, 0, 2]);
        assert_eq!(Cursor::new(&bytes).count(8), Ok(2));
        assert_eq!(Cursor::new(&bytes).count(9), refused);
    }

    #[test]
    fn reserved_bytes_and_flags_are_refused_where_they_stand() {
        assert_eq!(
            Cursor::new(&[0, 0, 7]).zero(3),
            Err(DecodeError::corrupt(2, "a reserved byte in use, as by a newer format"))
        );
        assert_eq!(Cursor::new(&[2]).flag("open"), Err(DecodeError::corrupt(0, "open")));
        assert_eq!(Cursor::new(&[1]).flag("open"), Ok(true));
    }

    #[test]
    fn a_version_is_believed_with_its_checksum_or_if_it_was_edited() {
        const MAGIC: &[u8; 8] = b"DANUTST1";
        let file = |version: u16| {
            let mut bytes = Vec::new();
            bytes.bytes(MAGIC).u16(version).zero(2).u32(0).u64(7);
            seal_header(&mut bytes);
            bytes
        };
        let read = |bytes: &[u8]| header(bytes, MAGIC, "test", 1).map(|cursor| cursor.position());
        assert_eq!(read(&file(1)), Ok(16));
        let later = |found| Err(DecodeError::UnknownVersion { what: "test", found, known: 1 });
        assert_eq!(read(&file(3)), later(3));
        for bit in 0..16 {
            let mut rotten = file(1);
            rotten[8 + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&rotten), Err(DecodeError::corrupt(12, "wrong checksum")));
        }
        let mut edited = file(1);
        edited[9] = 2;
        assert_eq!(read(&edited), later(2));
        // What is wrong elsewhere, too, is damage.
        edited[20] = 1;
        assert_eq!(read(&edited), Err(DecodeError::corrupt(12, "wrong checksum")));
    }

    #[test]
    fn a_checksum_in_parts_is_that_of_the_whole() {
        assert_eq!(checksum(&[b"123", b"", b"456789"]), 0xe306_9283, "the check value of CRC-32C");
    }
}
