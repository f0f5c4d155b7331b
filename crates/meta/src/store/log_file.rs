//! One file of the Raft log.
//!
//! Header sector, 512 bytes:
//!
//! | at | bytes | field | |
//! |---|---|---|---|
//! | 0 | 8 | magic | `DANURLG1` |
//! | 8 | 2 | version | 1 |
//! | 10 | 2 | zero | |
//! | 12 | 4 | checksum | over bytes 0 to 12 and 16 to 512 |
//! | 16 | 16 | file id | random |
//! | 32 | 8 | first index | the file's name says the same |
//! | 40 | 8 + 8 | term and node of the entry before | zero if there is none |
//! | 56 | 456 | zero | |
//!
//! Mark sector, 512 bytes, written in place after each sync:
//!
//! | at | bytes | field | |
//! |---|---|---|---|
//! | 512 | 8 | magic | `DANUMRK1` |
//! | 520 | 4 | checksum | over the file id, and the mark's bytes before and after this field |
//! | 524 | 1 | state | 1 open, 2 ended |
//! | 525 | 3 | zero | |
//! | 528 | 8 | synced | all bytes of the file before this position are known to be synced |
//! | 536 | 488 | zero | |
//!
//! Then entries ([`super::entry`]) without holes between them.
//!
//! The mark has no sync of its own. That is enough: it tells rot from a torn write, and rot takes its time, while
//! the operating system writes a mark back within seconds. A mark that was lost in a power cut leaves the last
//! group's fate to the checksums alone, and in that power cut the group itself was already synced.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use danube_env::File;

use crate::store::entry::{self, Entry, EntryId, FileId};
use crate::store::fields::{self, Fields, Flaw};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"DANURLG1";
const VERSION: u16 = 1;
const SECTOR: usize = 512;
const MARK_MAGIC: &[u8; 8] = b"DANUMRK1";
const MARK_AT: u64 = SECTOR as u64;

/// Where the first entry is.
pub(crate) const ENTRIES_AT: u64 = 2 * SECTOR as u64;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Goes into the checksums of everything else.
    pub(crate) id: FileId,
    /// Index of the first entry.
    pub(crate) first: u64,
    /// Term and node of the entry before `first`.
    pub(crate) before: (u64, u64),
}

/// What the mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Whether the next entry is in another file.
    pub(crate) ended: bool,
    /// All bytes before this position are known to be synced.
    pub(crate) synced: u64,
}

impl Header {
    /// The entry before the file's first, or `None` at the log's very beginning.
    pub(crate) fn entry_before(&self) -> Option<EntryId> {
        let index = self.first.checked_sub(1)?;
        Some(EntryId { term: self.before.0, node: self.before.1, index })
    }

    /// Header and mark of a file without entries.
    pub(crate) fn encode_empty_file(&self) -> Vec<u8> {
        let mut out = fields::begin(MAGIC, VERSION, ENTRIES_AT as usize);
        out.extend_from_slice(&self.id);
        for number in [self.first, self.before.0, self.before.1] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.resize(SECTOR, 0);
        fields::seal(&mut out);
        out.extend_from_slice(&Mark { ended: false, synced: ENTRIES_AT }.encode(&self.id));
        out
    }

    fn decode(file: &[u8]) -> Result<Header, Flaw> {
        let fields = Fields(&file[..SECTOR]);
        fields.header(MAGIC, "log file", VERSION)?;
        fields.zero(56, SECTOR - 56)?;
        Ok(Header {
            id: fields.array(16),
            first: fields.u64(32),
            before: (fields.u64(40), fields.u64(48)),
        })
    }
}

impl Mark {
    fn encode(&self, id: &FileId) -> Vec<u8> {
        let mut out = Vec::with_capacity(SECTOR);
        out.extend_from_slice(MARK_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[1 + u8::from(self.ended), 0, 0, 0]);
        out.extend_from_slice(&self.synced.to_be_bytes());
        out.resize(SECTOR, 0);
        let checksum = Mark::checksum(&out, id);
        out[8..12].copy_from_slice(&checksum.to_be_bytes());
        out
    }

    /// The mark, or `None` if its checksum is wrong.
    fn decode(sector: &[u8], id: &FileId) -> Result<Option<Mark>, Flaw> {
        let fields = Fields(sector);
        if sector[..8] != MARK_MAGIC[..] || fields.u32(8) != Mark::checksum(sector, id) {
            return Ok(None);
        }
        fields.zero(13, 3)?;
        fields.zero(24, SECTOR - 24)?;
        let ended = match sector[12] {
            1 => false,
            2 => true,
            other => {
                return Err(Flaw::Unknown { what: "state of a mark", found: other.to_string() });
            }
        };
        Ok(Some(Mark { ended, synced: fields.u64(16) }))
    }

    fn checksum(sector: &[u8], id: &FileId) -> u32 {
        let crc = crc32c::crc32c_append(crc32c::crc32c(id), &sector[..8]);
        crc32c::crc32c_append(crc, &sector[12..])
    }
}

/// What a file holds, as far as it can be told from this file alone.
pub(crate) struct Walk {
    /// What its header says.
    pub(crate) header: Header,
    /// What its mark says, unless that is damaged.
    pub(crate) mark: Option<Mark>,
    /// Its entries, and where each begins.
    pub(crate) entries: Vec<(u64, Entry)>,
    /// Position behind the last valid entry.
    pub(crate) end: u64,
    /// Everything before this position is known to be synced.
    pub(crate) synced: u64,
    /// Why the walk ended before the file did.
    pub(crate) damage: Option<Flaw>,
    /// The file's bytes.
    pub(crate) bytes: Bytes,
}

impl Walk {
    /// Reads all entries of a file. Damage that no later write explains is an error; other damage is in `damage`.
    pub(crate) fn new(path: &Path, bytes: Bytes) -> Result<Walk> {
        if (bytes.len() as u64) < ENTRIES_AT {
            return Err(Flaw::Damaged("the file is too short").at(path, bytes.len() as u64));
        }
        let header = Header::decode(&bytes).map_err(|flaw| flaw.at(path, 0))?;
        let mark = Mark::decode(&bytes[SECTOR..2 * SECTOR], &header.id)
            .map_err(|flaw| flaw.at(path, MARK_AT))?;
        let synced = mark.map_or(ENTRIES_AT, |mark| mark.synced);
        let mut walk = Walk {
            header,
            mark,
            entries: Vec::new(),
            end: ENTRIES_AT,
            synced,
            damage: None,
            bytes,
        };
        walk.read_entries(path)?;
        walk.refuse_damage_below_synced_end(path)?;
        Ok(walk)
    }

    /// Index that the entry behind the last one has.
    pub(crate) fn next_index(&self) -> u64 {
        self.header.first + self.entries.len() as u64
    }

    fn read_entries(&mut self, path: &Path) -> Result<()> {
        while self.end < self.bytes.len() as u64 {
            match entry::decode(&self.bytes, &self.header.id, self.end) {
                Ok(found)
                    if found.entry.id.index != self.next_index() || found.group > self.end =>
                {
                    return Err(Flaw::Damaged("the entry is out of order").at(path, self.end));
                }
                Ok(found) => {
                    self.entries.push((self.end, found.entry));
                    self.synced = self.synced.max(found.group);
                    self.end = found.end;
                }
                Err(Flaw::Damaged(what)) => {
                    self.damage = Some(Flaw::Damaged(what));
                    return Ok(());
                }
                Err(later_version) => return Err(later_version.at(path, self.end)),
            }
        }
        Ok(())
    }

    fn refuse_damage_below_synced_end(&mut self, path: &Path) -> Result<()> {
        if let Some(damage) = &self.damage
            && let Some(group) =
                entry::greatest_group_behind(&self.bytes, &self.header.id, self.end)
            && group > self.end
        {
            return Err(damage.clone().at(path, self.end));
        }
        if self.synced > self.end {
            let damage = self.damage.clone();
            return Err(damage
                .unwrap_or(Flaw::Damaged("the end of the file is missing"))
                .at(path, self.end));
        }
        Ok(())
    }
}

/// A log file that can be written.
pub(crate) struct LogFile {
    path: PathBuf,
    file: Arc<dyn File>,
    header: Header,
    places: Vec<Place>,
    end: u64,
}

/// Where an entry begins, and who made it.
struct Place {
    position: u64,
    term: u64,
    node: u64,
}

impl LogFile {
    /// The file that `walk` read.
    pub(crate) fn new(path: PathBuf, file: Arc<dyn File>, walk: &Walk) -> LogFile {
        let places =
            walk.entries.iter().map(|(position, entry)| Place::new(*position, entry)).collect();
        LogFile { path, file, header: walk.header, places, end: walk.end }
    }

    /// A file that was just created with [`Header::encode_empty_file`].
    pub(crate) fn empty(path: PathBuf, file: Arc<dyn File>, header: Header) -> LogFile {
        LogFile { path, file, header, places: Vec::new(), end: ENTRIES_AT }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Index of its first entry.
    pub(crate) fn first_index(&self) -> u64 {
        self.header.first
    }

    /// Index that the next entry will have.
    pub(crate) fn next_index(&self) -> u64 {
        self.header.first + self.places.len() as u64
    }

    /// Its last entry, or the one before its first.
    pub(crate) fn last_entry(&self) -> Option<EntryId> {
        let last = self.places.last();
        let (term, node) = last.map_or(self.header.before, |place| (place.term, place.node));
        Some(EntryId { term, node, index: self.next_index().checked_sub(1)? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.end
    }

    /// Writes entries behind the last one, as one group, and syncs them. `entries` must follow on in order. After an error it
    /// can be done again: they count only once all is done.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<()> {
        let group = self.end;
        let bytes = entries.iter().map(|entry| entry::HEADER_BYTES + entry.payload.len()).sum();
        let mut out = Vec::with_capacity(bytes);
        let mut places = Vec::with_capacity(entries.len());
        for (index, entry) in (self.next_index()..).zip(entries) {
            assert_eq!(entry.id.index, index, "entries of the log are dense");
            let position = group + out.len() as u64;
            places.push(Place::new(position, entry));
            entry::encode(&mut out, entry, &self.header.id, position, group);
        }
        self.write(&out, group)?;
        self.sync()?;
        let end = group + out.len() as u64;
        self.write_mark(Mark { ended: false, synced: end })?;
        self.places.append(&mut places);
        self.end = end;
        Ok(())
    }

    /// Writes everything from the known synced end on again, cuts what lies behind the last entry, and syncs.
    pub(crate) fn settle(&mut self, walk: &Walk) -> Result<()> {
        let again = &walk.bytes[walk.synced as usize..walk.end as usize];
        if again.is_empty() && walk.bytes.len() as u64 == walk.end && walk.mark.is_some() {
            return Ok(());
        }
        self.write(again, walk.synced)?;
        self.file.set_len(walk.end).map_err(Error::io("cut", &self.path))?;
        self.sync()?;
        self.write_mark(Mark { ended: false, synced: walk.end })
    }

    /// Enters that the next entry is in another file, which must exist.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.write_mark(Mark { ended: true, synced: self.end })?;
        self.sync()
    }

    /// Makes this the last file again, from which entries from index `from` on are about to be cut: lowers the mark
    /// durably, so that the cut will not look like damage.
    pub(crate) fn reopen_at(&mut self, from: u64) -> Result<()> {
        let synced = self.places.get(self.kept(from)).map_or(self.end, |place| place.position);
        self.write_mark(Mark { ended: false, synced })?;
        self.sync()
    }

    /// Removes entries from index `from` on, after [`LogFile::reopen_at`].
    pub(crate) fn cut(&mut self, from: u64) -> Result<()> {
        let kept = self.kept(from);
        self.end = self.places.get(kept).map_or(self.end, |place| place.position);
        self.places.truncate(kept);
        self.file.set_len(self.end).map_err(Error::io("cut", &self.path))?;
        self.sync()
    }

    /// How many entries come before index `from`.
    fn kept(&self, from: u64) -> usize {
        from.saturating_sub(self.header.first) as usize
    }

    fn write_mark(&self, mark: Mark) -> Result<()> {
        self.write(&mark.encode(&self.header.id), MARK_AT)
    }

    fn write(&self, bytes: &[u8], position: u64) -> Result<()> {
        self.file.write_at(&[bytes], position).map_err(Error::io("write", &self.path))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("sync", &self.path))
    }
}

impl Place {
    fn new(position: u64, entry: &Entry) -> Place {
        Place { position, term: entry.id.term, node: entry.id.node }
    }
}
