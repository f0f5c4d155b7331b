//! The bytes of a Raft entry in a log file.
//!
//! | at | bytes | field | |
//! |---|---|---|---|
//! | 0 | 4 | magic | `DnRe` |
//! | 4 | 4 | length | of the whole entry, at most 8 MiB |
//! | 8 | 4 | checksum | over the file id, the entry's position in the file (8 bytes), bytes 0 to 8, and 12 to the end |
//! | 12 | 2 | version | of the payload, 1 |
//! | 14 | 1 | kind | 1 blank, 2 commands, 3 members |
//! | 15 | 1 | zero | |
//! | 16 | 8 | index | dense |
//! | 24 | 8 + 8 | term and node | of the leader that made it |
//! | 40 | 8 | group | position of the first entry written together with this one |
//! | 48 | | payload | |
//!
//! File id and position go into the checksum so that neither a copy of an entry elsewhere, nor something in a payload
//! that looks like one, is ever taken for an entry.

use bytes::Bytes;

use crate::caps;
use crate::store::fields::{Fields, Flaw};

/// First bytes of every entry.
pub(crate) const MAGIC: [u8; 4] = *b"DnRe";
/// Version of the payloads that are written, and the newest that is read.
pub(crate) const VERSION: u16 = 1;
/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 48;

/// Identity of a log file, random.
pub(crate) type FileId = [u8; 16];

/// Which entry: its place in the log, and who made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId {
    /// Term of the leader.
    pub(crate) term: u64,
    /// The leader.
    pub(crate) node: u64,
    /// Place in the log, from 0.
    pub(crate) index: u64,
}

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Nothing: a leader's first entry.
    Blank,
    /// Commands of the cluster.
    Commands,
    /// Who votes.
    Members,
}

/// An entry whose payload is still encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Which.
    pub(crate) id: EntryId,
    /// What the payload is.
    pub(crate) kind: EntryKind,
    /// The payload, CBOR.
    pub(crate) payload: Bytes,
}

/// An entry found in a file.
pub(crate) struct Found {
    /// The entry.
    pub(crate) entry: Entry,
    /// Position of the group it was written with.
    pub(crate) group: u64,
    /// Position behind it.
    pub(crate) end: u64,
}

/// Appends an entry that will stand at `position` of the file `file_id` to `out`.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    entry: &Entry,
    file_id: &FileId,
    position: u64,
    group: u64,
) {
    let length = HEADER_BYTES + entry.payload.len();
    assert!(
        length <= caps::ENTRY_BYTES_MAX,
        "an entry of {length} bytes passed the limits of commands"
    );
    let kind = match entry.kind {
        EntryKind::Blank => 1,
        EntryKind::Commands => 2,
        EntryKind::Members => 3,
    };
    let begin = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&(length as u32).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&[kind, 0]);
    for number in [entry.id.index, entry.id.term, entry.id.node, group] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&entry.payload);
    let checksum = checksum(&out[begin..], file_id, position);
    out[begin + 8..begin + 12].copy_from_slice(&checksum.to_be_bytes());
}

/// Decodes the entry at `position` of a file that is `file`.
///
/// # Errors
/// [`Flaw::Damaged`] if there is no whole entry with a right checksum; the others if there is one, of a later version.
pub(crate) fn decode(file: &Bytes, file_id: &FileId, position: u64) -> Result<Found, Flaw> {
    let rest = file.slice(position as usize..);
    let entry = whole(&rest, file_id, position)?;
    let fields = Fields(&entry);
    let version = fields.u16(12);
    if version != VERSION {
        return Err(Flaw::Version { what: "entry", found: version, supported: VERSION });
    }
    fields.zero(15, 1)?;
    let kind = match entry[14] {
        1 => EntryKind::Blank,
        2 => EntryKind::Commands,
        3 => EntryKind::Members,
        other => return Err(Flaw::Unknown { what: "kind of entry", found: other.to_string() }),
    };
    let id = EntryId { index: fields.u64(16), term: fields.u64(24), node: fields.u64(32) };
    Ok(Found {
        entry: Entry { id, kind, payload: entry.slice(HEADER_BYTES..) },
        group: fields.u64(40),
        end: position + entry.len() as u64,
    })
}

/// The greatest `group` of a valid entry anywhere behind `position`, whatever lies between.
pub(crate) fn greatest_group_behind(file: &Bytes, file_id: &FileId, position: u64) -> Option<u64> {
    let candidates = (position as usize + 1)..file.len().saturating_sub(HEADER_BYTES - 1);
    candidates
        .filter(|at| file[*at..].starts_with(&MAGIC))
        .filter_map(|at| whole(&file.slice(at..), file_id, at as u64).ok())
        .map(|entry| Fields(&entry).u64(40))
        .max()
}

/// The bytes of the entry that `rest` begins with, checksum verified.
fn whole(rest: &Bytes, file_id: &FileId, position: u64) -> Result<Bytes, Flaw> {
    if rest.len() < HEADER_BYTES {
        return Err(Flaw::Damaged("the file ends within an entry"));
    }
    if rest[..4] != MAGIC {
        return Err(Flaw::Damaged("no entry begins here"));
    }
    let fields = Fields(rest);
    let length = fields.u32(4) as usize;
    if !(HEADER_BYTES..=caps::ENTRY_BYTES_MAX).contains(&length) {
        return Err(Flaw::Damaged("the entry's length is impossible"));
    }
    if rest.len() < length {
        return Err(Flaw::Damaged("the file ends within an entry"));
    }
    let entry = rest.slice(..length);
    if fields.u32(8) != checksum(&entry, file_id, position) {
        return Err(Flaw::Damaged("the entry's checksum is wrong"));
    }
    Ok(entry)
}

fn checksum(entry: &[u8], file_id: &FileId, position: u64) -> u32 {
    let crc = crc32c::crc32c(file_id);
    let crc = crc32c::crc32c_append(crc, &position.to_be_bytes());
    let crc = crc32c::crc32c_append(crc, &entry[..8]);
    crc32c::crc32c_append(crc, &entry[12..])
}
