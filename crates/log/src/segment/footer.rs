//! What a segment says of its frames once it is sealed.
//!
//! | section | entry | |
//! |---|---|---|
//! | index | offset (8), receive time (8), position (8) | the first frame that begins in each 64 KiB of the file |
//! | epochs | epoch (4), first offset (8) | each epoch in the segment, rising |
//! | producers | as in the checkpoint | state of all known producers at the segment's end |
//! | summary | first offset (8), next offset (8), frames (8), records (8), gap offsets (8), first and last receive time (8 + 8), least and greatest timestamp (8 + 8), body checksum (4) | body = header and frames |
//!
//! Each section: entries (4), bytes (4), content. The four come in this order, then the trailer:
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 8 | position of the footer |
//! | 8 | 4 | bytes of the sections |
//! | 12 | 4 | checksum over the sections and trailer bytes 0 to 12 and 16 to 56 |
//! | 16 | 16 | topic id |
//! | 32 | 8 | seal, as in the header |
//! | 40 | 2 | version, 1 |
//! | 42 | 6 | zero |
//! | 48 | 8 | magic `DANUFTR1` |

use std::path::Path;

use danube_env::File;
use danube_model::{Epoch, Offset, TimeMs, TopicId};

use crate::codec::{Cursor, DecodeError, Decoded, Put, checksum, patch_u32};
use crate::producers::Producers;
use crate::segment::header::{HEADER_BYTES, SegmentHeader};
use crate::segment::index::{Index, IndexEntry};
use crate::{Error, Result};

/// Bytes of a trailer, the last of a sealed segment.
pub(crate) const TRAILER_BYTES: usize = 56;
/// Bytes of the sections at the most; no segment needs a tenth of it.
pub(crate) const SECTIONS_BYTES_MAX: usize = 256 * 1024 * 1024;

const MAGIC: &[u8; 8] = b"DANUFTR1";
const VERSION: u16 = 1;
const CHECKSUM_AT: usize = 12;
const SECTION_HEADER_BYTES: usize = 8;
const INDEX_BYTES: usize = 24;
const EPOCH_BYTES: usize = 12;
const SUMMARY_BYTES: usize = 76;

/// The first frame of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EpochStart {
    /// The epoch.
    pub(crate) epoch: Epoch,
    /// First offset under it in this segment.
    pub(crate) first: Offset,
}

/// Counts and limits of a segment's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// First offset.
    pub(crate) first: Offset,
    /// The offset behind the last.
    pub(crate) next: Offset,
    /// Frames, gaps among them.
    pub(crate) frames: u64,
    /// Records in the batches.
    pub(crate) records: u64,
    /// Offsets that are gaps.
    pub(crate) gap_offsets: u64,
    /// Receive time of the first frame.
    pub(crate) first_receive_time: TimeMs,
    /// Receive time of the last frame.
    pub(crate) last_receive_time: TimeMs,
    /// The least base timestamp of a batch; 2^63 - 1 if there is no batch.
    pub(crate) timestamp_least: TimeMs,
    /// The greatest max timestamp of a batch; 0 if there is no batch.
    pub(crate) timestamp_greatest: TimeMs,
    /// CRC-32C over header and frames.
    pub(crate) body_checksum: u32,
}

/// The end of a sealed segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Whose log the segment belongs to.
    pub(crate) topic: TopicId,
    /// As in the segment's header.
    pub(crate) seal: u64,
    /// Where the frames end and the footer begins.
    pub(crate) position: u64,
    /// Where to begin to look for an offset or a time.
    pub(crate) index: Index,
    /// The epochs in the segment, rising; the first has the segment's first offset.
    pub(crate) epochs: Vec<EpochStart>,
    /// The log's producers at the segment's end.
    pub(crate) producers: Producers,
    /// Counts and limits.
    pub(crate) summary: Summary,
}

impl Footer {
    /// The bytes, to be written at [`position`](Self::position).
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let entries = self.index.entries();
        section(&mut bytes, entries.len(), |out| {
            for entry in entries {
                out.u64(entry.offset.get()).u64(entry.receive_time.get()).u64(entry.position);
            }
        });
        section(&mut bytes, self.epochs.len(), |out| {
            for start in &self.epochs {
                out.u32(start.epoch.get()).u64(start.first.get());
            }
        });
        section(&mut bytes, self.producers.len(), |out| self.producers.encode(out));
        section(&mut bytes, 1, |out| self.summary.encode(out));

        let trailer = bytes.len();
        bytes.u64(self.position).u32(trailer as u32).u32(0).bytes(self.topic.as_bytes());
        bytes.u64(self.seal).u16(VERSION).zero(6).bytes(MAGIC);
        let sum_at = trailer + CHECKSUM_AT;
        let sum = checksum(&[&bytes[..sum_at], &bytes[sum_at + 4..]]);
        patch_u32(&mut bytes, sum_at, sum);
        bytes
    }

    /// Reads a footer from all its bytes, trailer included; what it says fits together.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<Self> {
        let Some(sections) = bytes.len().checked_sub(TRAILER_BYTES) else {
            return Err(DecodeError::corrupt(0, "a footer cut short"));
        };
        let trailer =
            Trailer::decode(&bytes[sections..]).map_err(|error| error.shifted(sections))?;
        if trailer.sections_bytes != sections {
            return Err(DecodeError::corrupt(sections + 8, "a footer of another length"));
        }
        let sum_at = sections + CHECKSUM_AT;
        if trailer.checksum != checksum(&[&bytes[..sum_at], &bytes[sum_at + 4..]]) {
            return Err(DecodeError::corrupt(sum_at, "wrong checksum of a segment's footer"));
        }
        if trailer.version != VERSION {
            let (found, known) = (trailer.version.into(), VERSION.into());
            return Err(DecodeError::UnknownVersion { what: "segment footer", found, known });
        }

        let mut cursor = Cursor::new(&bytes[..sections]);
        let index = decode_section(&mut cursor, INDEX_BYTES, decode_index)?;
        let epochs = decode_section(&mut cursor, EPOCH_BYTES, decode_epochs)?;
        let producers =
            decode_section(&mut cursor, Producers::ENCODED_BYTES_MIN, Producers::decode)?;
        let summary = decode_section(&mut cursor, SUMMARY_BYTES, Summary::decode)?;
        cursor.finish()?;
        let Trailer { topic, seal, position, .. } = trailer;
        let footer = Self { topic, seal, position, index, epochs, producers, summary };
        footer.fits_together()?;
        Ok(footer)
    }

    fn fits_together(&self) -> Decoded<()> {
        let summary = &self.summary;
        let offsets = summary.first..summary.next;
        let entries = self.index.entries();
        let index_fits = entries
            .first()
            .is_some_and(|entry| entry.offset == summary.first && entry.position == HEADER_BYTES)
            && entries
                .iter()
                .all(|entry| offsets.contains(&entry.offset) && entry.position < self.position);
        let epochs_fit = self.epochs.first().is_some_and(|start| start.first == summary.first)
            && self.epochs.iter().all(|start| offsets.contains(&start.first));
        if index_fits && epochs_fit {
            Ok(())
        } else {
            Err(DecodeError::corrupt(0, "a footer whose sections contradict each other"))
        }
    }
}

/// Reads the footer of the segment at `path`, which is `len` bytes long. `None` if it is open.
///
/// # Errors
///
/// [`Error::Io`]; [`Error::UnknownVersion`]; [`Error::Corrupt`] if it is sealed and the footer is damaged, or that of
/// another segment.
pub(crate) fn read_footer(
    file: &dyn File,
    path: &Path,
    len: u64,
    header: &SegmentHeader,
) -> Result<Option<Footer>> {
    let Some(trailer_at) = len.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut bytes = vec![0; TRAILER_BYTES];
    read_exactly(file, path, &mut bytes, trailer_at)?;
    if Trailer::seal_of(&bytes) != header.seal {
        return Ok(None);
    }
    let trailer = Trailer::decode(&bytes).map_err(|error| error.at(path, trailer_at))?;
    let sections = trailer.sections_bytes as u64;
    if trailer.position < HEADER_BYTES || trailer.position.checked_add(sections) != Some(trailer_at)
    {
        return Err(Error::corrupt(path, trailer_at, "a footer that does not end at its trailer"));
    }
    if sections > SECTIONS_BYTES_MAX as u64 {
        return Err(Error::corrupt(path, trailer_at + 8, "a footer larger than any"));
    }
    let mut bytes = vec![0; trailer.sections_bytes + TRAILER_BYTES];
    read_exactly(file, path, &mut bytes, trailer.position)?;
    let footer = Footer::decode(&bytes).map_err(|error| error.at(path, trailer.position))?;
    if footer.topic != header.topic || footer.summary.first != header.first {
        return Err(Error::corrupt(path, trailer_at, "the footer of another segment"));
    }
    Ok(Some(footer))
}

/// The last bytes of a sealed segment.
struct Trailer {
    position: u64,
    sections_bytes: usize,
    checksum: u32,
    topic: TopicId,
    seal: u64,
    version: u16,
}

impl Trailer {
    /// The eight bytes that make a trailer one.
    fn seal_of(bytes: &[u8]) -> u64 {
        let mut seal = [0; 8];
        seal.copy_from_slice(&bytes[32..40]);
        u64::from_be_bytes(seal)
    }

    fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut cursor = Cursor::new(bytes);
        let trailer = Self {
            position: cursor.u64()?,
            sections_bytes: cursor.u32()? as usize,
            checksum: cursor.u32()?,
            topic: cursor.topic()?,
            seal: cursor.u64()?,
            version: cursor.u16()?,
        };
        cursor.zero(6)?;
        cursor.magic(MAGIC, "not the end of a segment")?;
        Ok(trailer)
    }
}

impl Summary {
    fn encode(&self, out: &mut Vec<u8>) {
        out.u64(self.first.get()).u64(self.next.get());
        out.u64(self.frames).u64(self.records).u64(self.gap_offsets);
        out.u64(self.first_receive_time.get()).u64(self.last_receive_time.get());
        out.u64(self.timestamp_least.get()).u64(self.timestamp_greatest.get());
        out.u32(self.body_checksum);
    }

    fn decode(cursor: &mut Cursor<'_>, count: usize) -> Decoded<Self> {
        let at = cursor.clone();
        let summary = Self {
            first: cursor.offset()?,
            next: cursor.offset()?,
            frames: cursor.u64()?,
            records: cursor.u64()?,
            gap_offsets: cursor.u64()?,
            first_receive_time: cursor.time()?,
            last_receive_time: cursor.time()?,
            timestamp_least: cursor.time()?,
            timestamp_greatest: cursor.time()?,
            body_checksum: cursor.u32()?,
        };
        let times = summary.first_receive_time <= summary.last_receive_time;
        if count != 1 || summary.frames == 0 || summary.first >= summary.next || !times {
            return Err(at.corrupt("an impossible summary of a segment"));
        }
        Ok(summary)
    }
}

/// Appends a section whose content `write` writes.
fn section(out: &mut Vec<u8>, entries: usize, write: impl FnOnce(&mut Vec<u8>)) {
    let header = out.len();
    out.u32(entries as u32).u32(0);
    write(out);
    let bytes = out.len() - header - SECTION_HEADER_BYTES;
    patch_u32(out, header + 4, bytes as u32);
}

/// Reads a section whose entries take at least `each` bytes.
fn decode_section<T>(
    cursor: &mut Cursor<'_>,
    each: usize,
    decode: impl FnOnce(&mut Cursor<'_>, usize) -> Decoded<T>,
) -> Decoded<T> {
    let entries = cursor.u32()? as usize;
    let bytes = cursor.u32()? as usize;
    let at = cursor.position();
    let mut content = Cursor::new(cursor.take(bytes)?);
    if entries > bytes / each {
        return Err(DecodeError::corrupt(at, "more entries than their section has room for"));
    }
    let decoded = decode(&mut content, entries).map_err(|error| error.shifted(at))?;
    content.finish().map_err(|error| error.shifted(at))?;
    Ok(decoded)
}

fn decode_index(cursor: &mut Cursor<'_>, count: usize) -> Decoded<Index> {
    let mut index = Index::default();
    let mut last: Option<IndexEntry> = None;
    for _ in 0..count {
        let at = cursor.clone();
        let entry = IndexEntry {
            offset: cursor.offset()?,
            receive_time: cursor.time()?,
            position: cursor.u64()?,
        };
        index.add(entry);
        let rises = last.is_none_or(|last| {
            last.offset < entry.offset && last.receive_time <= entry.receive_time
        });
        if !rises || index.entries().last() != Some(&entry) {
            return Err(at.corrupt("an index that does not rise"));
        }
        last = Some(entry);
    }
    Ok(index)
}

fn decode_epochs(cursor: &mut Cursor<'_>, count: usize) -> Decoded<Vec<EpochStart>> {
    let mut epochs: Vec<EpochStart> = Vec::with_capacity(count);
    for _ in 0..count {
        let at = cursor.clone();
        let start = EpochStart { epoch: cursor.epoch()?, first: cursor.offset()? };
        if epochs.last().is_some_and(|last| last.epoch >= start.epoch || last.first >= start.first)
        {
            return Err(at.corrupt("epochs that do not rise"));
        }
        epochs.push(start);
    }
    Ok(epochs)
}

fn read_exactly(file: &dyn File, path: &Path, buf: &mut [u8], position: u64) -> Result<()> {
    let read = file.read_at(buf, position).map_err(Error::io("read", path))?;
    if read < buf.len() {
        return Err(Error::corrupt(path, position + read as u64, "the file ends here"));
    }
    Ok(())
}
