//! How the records of a batch are compressed, and decompressing them within limits.
//!
//! What comes from a peer is decompressed only through [`Compression::reader`], which holds a window and a buffer
//! and nothing that grows with what the compressed bytes promise; its caller counts what comes out.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, caps};

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// lz4, frame format.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Every way, in the order of their codes.
    pub const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

    /// Its number in the attributes of a batch.
    pub const fn code(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => 3,
            Compression::Zstd => 4,
        }
    }

    /// The way of this number, or `None` for one that Danube does not have.
    pub fn from_code(code: u8) -> Option<Compression> {
        Compression::ALL.into_iter().find(|compression| compression.code() == code)
    }

    /// Its name, as in settings and commands.
    pub const fn as_str(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Compresses a whole block of records; without compression, returns them as they are.
    pub(crate) fn compress(self, records: &[u8]) -> Result<Vec<u8>> {
        let result = match self {
            Compression::None => Ok(records.to_vec()),
            Compression::Lz4 => compress_lz4(records),
            Compression::Zstd => zstd::bulk::compress(records, zstd::DEFAULT_COMPRESSION_LEVEL),
        };
        result.map_err(|source| self.failed(source))
    }

    /// A reader of what these bytes are compressed from. At its end all of them have been read: bytes behind the
    /// compressed records are an error, or more records.
    pub(crate) fn reader(self, compressed: &[u8]) -> Result<Box<dyn Read + '_>> {
        Ok(match self {
            Compression::None => Box::new(compressed),
            Compression::Lz4 => {
                Box::new(Lz4Reader::new(compressed).map_err(|source| self.failed(source))?)
            }
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed)
                    .map_err(|source| self.failed(source))?;
                decoder
                    .window_log_max(caps::ZSTD_WINDOW_LOG_MAX)
                    .map_err(|source| self.failed(source))?;
                Box::new(decoder)
            }
        })
    }

    pub(crate) fn failed(self, source: io::Error) -> Error {
        Error::Compression { compression: self, source: Arc::new(source) }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Compression> {
        Compression::ALL
            .into_iter()
            .find(|compression| compression.as_str() == text)
            .ok_or_else(|| Error::parse("compression", text, "expected none, lz4 or zstd"))
    }
}

/// One frame of independent blocks: what every Kafka client reads, some of them nothing else.
fn compress_lz4(records: &[u8]) -> io::Result<Vec<u8>> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let form = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(form, Vec::with_capacity(records.len() / 2));
    encoder.write_all(records)?;
    Ok(encoder.finish()?)
}

/// Reads exactly one lz4 frame.
///
/// The decoder under it takes an empty block for the end, goes on with a frame of another form where one follows, and
/// knows an obsolete format with larger blocks; none of that is let through.
struct Lz4Reader<'a> {
    decoder: lz4_flex::frame::FrameDecoder<&'a [u8]>,
}

/// Little-endian 0x184D2204.
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

impl<'a> Lz4Reader<'a> {
    fn new(compressed: &'a [u8]) -> io::Result<Lz4Reader<'a>> {
        if !compressed.starts_with(&LZ4_MAGIC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not an lz4 frame"));
        }
        Ok(Lz4Reader { decoder: lz4_flex::frame::FrameDecoder::new(compressed) })
    }
}

impl Read for Lz4Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        if read == 0 && !buffer.is_empty() && !self.decoder.get_ref().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes behind the lz4 frame"));
        }
        Ok(read)
    }
}
