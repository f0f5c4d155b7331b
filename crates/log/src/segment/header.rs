//! The first 64 bytes of a segment.
//!
//! | at | bytes | field | |
//! |---|---|---|---|
//! | 0 | 8 | magic | `DANUSEG1` |
//! | 8 | 2 | version | 1 |
//! | 10 | 2 | zero | |
//! | 12 | 4 | checksum | over bytes 0 to 12 and 16 to 64 |
//! | 16 | 16 | topic id | |
//! | 32 | 8 | first offset | the file's name says the same |
//! | 40 | 8 | created | receive time of the first frame |
//! | 48 | 4 | epoch | of the first frame |
//! | 52 | 8 | seal | a random number, which the trailer repeats |
//! | 60 | 4 | zero | |

use std::path::Path;

use danube_env::File;
use danube_model::{Epoch, Offset, TimeMs, TopicId};

use crate::codec::{Cursor, Decoded, Put, header, seal_header};
use crate::{Error, Result};

/// Bytes of a header; the first frame begins behind them.
pub(crate) const HEADER_BYTES: u64 = 64;

pub(crate) const MAGIC: &[u8; 8] = b"DANUSEG1";
const VERSION: u16 = 1;

/// What a segment says of itself before its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Whose log it belongs to.
    pub(crate) topic: TopicId,
    /// The offset at which it begins.
    pub(crate) first: Offset,
    /// Receive time of the first frame.
    pub(crate) created: TimeMs,
    /// Epoch of the first frame.
    pub(crate) epoch: Epoch,
    /// A random number that the trailer repeats. No producer knows it, so no payload at the end of an open segment
    /// can pass for a trailer.
    pub(crate) seal: u64,
}

impl SegmentHeader {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.bytes(MAGIC).u16(VERSION).zero(2).u32(0).bytes(self.topic.as_bytes());
        bytes.u64(self.first.get()).u64(self.created.get()).u32(self.epoch.get());
        bytes.u64(self.seal).zero(4);
        seal_header(&mut bytes);
        bytes
    }

    /// Reads a header from the first bytes of a segment.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<Self> {
        let bytes = Cursor::new(bytes).take(HEADER_BYTES as usize)?;
        let mut cursor = header(bytes, MAGIC, "segment", VERSION)?;
        let decoded = Self {
            topic: cursor.topic()?,
            first: cursor.offset()?,
            created: cursor.time()?,
            epoch: cursor.epoch()?,
            seal: cursor.u64()?,
        };
        cursor.zero(4)?;
        Ok(decoded)
    }

    /// Reads the header of the segment at `path`, which must be that of `topic` from `first` on.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::UnknownVersion`]; [`Error::Corrupt`] for damage, and for the header of another segment.
    pub(crate) fn read(
        file: &dyn File,
        path: &Path,
        topic: TopicId,
        first: Offset,
    ) -> Result<Self> {
        let header = Self::read_any(file, path)?;
        if header.topic != topic {
            let what = format!("a segment of topic {} instead of {topic}", header.topic);
            return Err(Error::corrupt(path, 16, what));
        }
        if header.first != first {
            let what = format!("a segment from offset {} instead of {first}", header.first);
            return Err(Error::corrupt(path, 32, what));
        }
        Ok(header)
    }

    /// Reads the header of the segment at `path`, whichever it is.
    pub(crate) fn read_any(file: &dyn File, path: &Path) -> Result<Self> {
        let mut bytes = [0; HEADER_BYTES as usize];
        let read = file.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
        Self::decode(&bytes[..read]).map_err(|error| error.at(path, 0))
    }
}
