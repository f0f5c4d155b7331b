//! The bytes of a journal file's first block and of a round (`docs/format.md` section 5).
//!
//! ```text
//! round:  head = header (80) + directory (40 each)   payloads   zero   copy of head
//!         └─ block boundary                                                        └─ block boundary
//! ```

use bytes::{Buf, BufMut};
use danube_model::{DiskId, Durability, Epoch, Offset, TopicId};

use crate::codec::{DecodeError, header, seal_header};

/// Everything in a journal begins at a multiple of this.
pub(crate) const BLOCK: u64 = 4096;
/// Version of journal files and rounds.
pub(crate) const VERSION: u16 = 1;

pub(crate) const FILE_MAGIC: &[u8; 8] = b"DANUJNL1";
const FILE_HEADER: usize = 64;
const NEXT_MAGIC: &[u8; 8] = b"DANUNXT1";
const NEXT_FILE: usize = 48;
const ROUND_MAGIC: &[u8; 8] = b"DANURND1";
/// Begins the copy of a round's head, so that it can be searched for.
pub(crate) const COPY_MAGIC: &[u8; 8] = b"DANURNDC";
const ROUND_HEADER: usize = 80;
const ENTRY: usize = 40;
/// Records in one round; bounds what a damaged count can make a reader allocate.
pub(crate) const RECORDS_MAX: usize = 65_536;

/// Why bytes are not what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// There is nothing here that looks like it.
    Absent,
    /// It looks like it, but its checksum or a field is wrong.
    Damaged(&'static str),
    /// It is of a newer version.
    Version(u16),
}

/// Block 0 of a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) disk_id: DiskId,
    pub(crate) generation: u64,
    pub(crate) first_round: u64,
    pub(crate) file_bytes: u64,
    /// All rounds up to it were in a checkpoint when this use of the file began.
    pub(crate) held_round: u64,
}

impl FileHeader {
    /// One block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK as usize);
        block.put_slice(FILE_MAGIC);
        block.put_u16(VERSION);
        block.put_u16(0);
        block.put_u32(0);
        block.put_slice(self.disk_id.as_bytes());
        block.put_u64(self.generation);
        block.put_u64(self.first_round);
        block.put_u64(self.file_bytes);
        block.put_u64(self.held_round);
        seal_header(&mut block);
        block.resize(BLOCK as usize, 0);
        block
    }

    /// Reads the header from the first bytes of a file.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, Unreadable> {
        if block.len() < FILE_HEADER || block[..8] != *FILE_MAGIC {
            return Err(Unreadable::Absent);
        }
        let block = &block[..FILE_HEADER];
        header(block, FILE_MAGIC, "journal file", VERSION).map_err(|error| match error {
            DecodeError::UnknownVersion { found, .. } => {
                Unreadable::Version(u16::try_from(found).unwrap_or(u16::MAX))
            }
            DecodeError::Corrupt { what, .. } => Unreadable::Damaged(what),
        })?;
        let mut rest = &block[16..];
        let mut disk_id = [0; 16];
        rest.copy_to_slice(&mut disk_id);
        Ok(Self {
            disk_id: DiskId::new(disk_id),
            generation: rest.get_u64(),
            first_round: rest.get_u64(),
            file_bytes: rest.get_u64(),
            held_round: rest.get_u64(),
        })
    }
}

/// Stands where a file's rounds end, and says that they go on in another one: so that a lost last file is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextFile {
    pub(crate) disk_id: DiskId,
    /// Of the file that it stands in.
    pub(crate) generation: u64,
    /// Of the file in which the journal goes on.
    pub(crate) next_generation: u64,
}

impl NextFile {
    /// One block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK as usize);
        block.put_slice(NEXT_MAGIC);
        block.put_u16(VERSION);
        block.put_u16(0);
        block.put_u32(0);
        block.put_slice(self.disk_id.as_bytes());
        block.put_u64(self.generation);
        block.put_u64(self.next_generation);
        let checksum = checksum_without_field(&block, 12);
        block[12..16].copy_from_slice(&checksum.to_be_bytes());
        block.resize(BLOCK as usize, 0);
        block
    }

    /// Reads it from bytes that begin at a block boundary; None if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..NEXT_FILE)?;
        if bytes[..8] != *NEXT_MAGIC
            || checksum_without_field(bytes, 12) != (&bytes[12..16]).get_u32()
            || check_version((&bytes[8..10]).get_u16(), (&bytes[10..12]).get_u16()).is_err()
        {
            return None;
        }
        let mut rest = &bytes[16..];
        let disk_id = DiskId::new(take16(&mut rest));
        Some(Self { disk_id, generation: rest.get_u64(), next_generation: rest.get_u64() })
    }
}

/// What a record of a round says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A frame of the log.
    Frame,
    /// The log is open under this epoch from here on, and goes on at the entry's offset.
    Open,
    /// The log was closed under this epoch at the entry's offset.
    Close,
    /// The log is deleted.
    Delete,
    /// A sync of the log's segment reached the entry's offset.
    Synced,
    /// The log's segment ends at the entry's offset; the next frame begins another.
    Seal,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Frame => 1,
            Self::Open => 2,
            Self::Close => 3,
            Self::Delete => 4,
            Self::Synced => 5,
            Self::Seal => 6,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Frame,
            2 => Self::Open,
            3 => Self::Close,
            4 => Self::Delete,
            5 => Self::Synced,
            6 => Self::Seal,
            _ => return None,
        })
    }
}

/// One line of a round's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) topic: TopicId,
    pub(crate) epoch: Epoch,
    pub(crate) kind: Kind,
    pub(crate) level: Durability,
    /// Bytes of the payload; 0 for all but frames.
    pub(crate) payload: u32,
    pub(crate) offset: Offset,
}

/// A round without its payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) disk_id: DiskId,
    pub(crate) generation: u64,
    pub(crate) round: u64,
    pub(crate) synced_round: u64,
    pub(crate) written_ms: u64,
    pub(crate) entries: Vec<Entry>,
}

impl Head {
    /// Bytes of the head of a round of so many records.
    pub(crate) fn encoded_len(records: usize) -> u64 {
        (ROUND_HEADER + records * ENTRY) as u64
    }

    /// Bytes that a round takes in the file.
    pub(crate) fn round_len(records: usize, payload_bytes: u64) -> u64 {
        (2 * Self::encoded_len(records) + payload_bytes).next_multiple_of(BLOCK)
    }

    /// Bytes of all payloads.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.payload)).sum()
    }

    /// Bytes that this round takes in the file.
    pub(crate) fn len(&self) -> u64 {
        Self::round_len(self.entries.len(), self.payload_bytes())
    }

    /// The head and its copy.
    pub(crate) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        assert!(self.entries.len() <= RECORDS_MAX, "a round has too many records");
        let mut head = Vec::with_capacity(Self::encoded_len(self.entries.len()) as usize);
        head.put_slice(ROUND_MAGIC);
        head.put_u32(0);
        head.put_u16(VERSION);
        head.put_u16(0);
        head.put_slice(self.disk_id.as_bytes());
        head.put_u64(self.generation);
        head.put_u64(self.round);
        head.put_u64(self.synced_round);
        head.put_u64(self.written_ms);
        head.put_u32(self.entries.len() as u32);
        head.put_u32(u32::try_from(self.payload_bytes()).expect("a round is bounded by the file"));
        head.put_u64(0);
        for entry in &self.entries {
            head.put_slice(entry.topic.as_bytes());
            head.put_u32(entry.epoch.get());
            head.put_u8(entry.kind.code());
            head.put_u8(entry.level.code());
            head.put_u16(0);
            head.put_u32(entry.payload);
            head.put_u32(0);
            head.put_u64(entry.offset.get());
        }
        let mut copy = head.clone();
        copy[..8].copy_from_slice(COPY_MAGIC);
        for bytes in [&mut head, &mut copy] {
            let checksum = checksum_without_field(bytes, 8);
            bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
        }
        (head, copy)
    }

    /// Reads a head from bytes that begin at a block boundary.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        Self::decode_with(bytes, ROUND_MAGIC)
    }

    /// Reads the copy of a head.
    pub(crate) fn decode_copy(bytes: &[u8]) -> Result<Self, Unreadable> {
        Self::decode_with(bytes, COPY_MAGIC)
    }

    fn decode_with(bytes: &[u8], magic: &[u8; 8]) -> Result<Self, Unreadable> {
        if bytes.len() < ROUND_HEADER || bytes[..8] != *magic {
            return Err(Unreadable::Absent);
        }
        let records = (&bytes[64..68]).get_u32() as usize;
        let len = ROUND_HEADER + records.min(RECORDS_MAX) * ENTRY;
        if records > RECORDS_MAX || bytes.len() < len {
            return Err(Unreadable::Damaged("number of records"));
        }
        let bytes = &bytes[..len];
        if checksum_without_field(bytes, 8) != (&bytes[8..12]).get_u32() {
            return Err(Unreadable::Damaged("checksum of the round's directory"));
        }
        check_version((&bytes[12..14]).get_u16(), (&bytes[14..16]).get_u16())?;
        let mut rest = &bytes[16..];
        let disk_id = DiskId::new(take16(&mut rest));
        let (generation, round) = (rest.get_u64(), rest.get_u64());
        let (synced_round, written_ms) = (rest.get_u64(), rest.get_u64());
        rest.advance(4);
        let payload_bytes = rest.get_u32();
        rest.advance(8);
        let entries =
            (0..records).map(|_| decode_entry(&mut rest)).collect::<Result<Vec<_>, _>>()?;
        let head = Self { disk_id, generation, round, synced_round, written_ms, entries };
        if head.payload_bytes() != u64::from(payload_bytes) {
            return Err(Unreadable::Damaged("payload bytes"));
        }
        Ok(head)
    }
}

fn decode_entry(rest: &mut &[u8]) -> Result<Entry, Unreadable> {
    let topic = TopicId::new(take16(rest));
    let epoch = Epoch::new(rest.get_u32()).map_err(|_| Unreadable::Damaged("epoch of a record"))?;
    // Kinds and levels of later builds come with a later version of the round.
    let kind = Kind::from_code(rest.get_u8()).ok_or(Unreadable::Damaged("kind of a record"))?;
    let level =
        Durability::from_code(rest.get_u8()).ok_or(Unreadable::Damaged("level of a record"))?;
    rest.advance(2);
    let payload = rest.get_u32();
    rest.advance(4);
    let offset = Offset::new(rest.get_u64());
    Ok(Entry { topic, epoch, kind, level, payload, offset })
}

fn take16(rest: &mut &[u8]) -> [u8; 16] {
    let mut id = [0; 16];
    rest.copy_to_slice(&mut id);
    id
}

fn check_version(version: u16, zero: u16) -> Result<(), Unreadable> {
    if version != VERSION {
        return Err(Unreadable::Version(version));
    }
    if zero != 0 {
        return Err(Unreadable::Damaged("bytes that must be zero"));
    }
    Ok(())
}

/// CRC-32C over all but the four bytes of the checksum itself.
fn checksum_without_field(bytes: &[u8], field: usize) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..field]), &bytes[field + 4..])
}
