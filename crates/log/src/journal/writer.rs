//! Appends rounds to the journal's files.
//!
//! ```text
//!  used: synced, waiting for a checkpoint      current            free
//!  ┌────────────┐┌────────────┐               ┌──────┬─────┐     ┌────────────┐
//!  │ 17 … 95    ││ 96 … 140   │               │ 141… │     │     │            │
//!  └────────────┘└────────────┘               └──────┴─────┘     └────────────┘
//! ```
//!
//! Invariants: rounds are dense; everything before the current file is synced; a used file is not written again
//! before a checkpoint holds its last round.

use std::collections::VecDeque;
use std::sync::Arc;

use danube_env::disk::Open;
use danube_env::{Disk, File};
use danube_model::DiskId;

use crate::error::{Error, Result};
use crate::journal::round::{BLOCK, Entry, FileHeader, Head, NextFile};
use crate::layout::{self, Layout};
use crate::mutant;

/// Zeroes to fill a new file with, a piece at a time.
static ZEROES: [u8; 64 * 1024] = [0; 64 * 1024];
/// Follows what is written to a file, and is overwritten by what comes next: so the block in which a recovery finds the end
/// of the journal is in the page cache together with the rounds, also in a file that was used before.
const BLOCK_BEHIND: &[u8] = ZEROES.split_at(BLOCK as usize).0;
/// How often the same round is written again at the same place when the write fails. A failed write has made
/// nothing durable that was told to anybody, so unlike a sync it may be tried again.
const WRITE_TRIES: u32 = 3;

/// Where the journal goes on after a recovery.
pub(crate) struct Start {
    /// The generation that was begun.
    pub(crate) generation: u64,
    /// The next round, the first of that generation.
    pub(crate) round: u64,
    /// The file that was begun.
    pub(crate) current: u32,
    /// Other files of the right size.
    pub(crate) free: Vec<u32>,
}

/// The journal being written.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    layout: Layout,
    disk_id: DiskId,
    file_bytes: u64,
    files_max: usize,
    generation: u64,
    current: Current,
    used: VecDeque<Used>,
    free: VecDeque<u32>,
    next_index: u32,
    /// A file is being made.
    making: bool,
    next_round: u64,
    synced_round: u64,
    entered_round: u64,
    /// All rounds up to it are in a checkpoint.
    held_round: u64,
}

struct Current {
    index: u32,
    file: Arc<dyn File>,
    position: u64,
}

struct Used {
    index: u32,
    last_round: u64,
}

impl Journal {
    /// Goes on after a recovery; the checkpoint holds every round before `start.round`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        layout: Layout,
        disk_id: DiskId,
        file_bytes: u64,
        files_max: usize,
        start: Start,
    ) -> Result<Self> {
        assert!(start.round > 0, "rounds begin at 1");
        let path = layout.journal_file(start.current);
        let file = disk.open(&path, Open::Write).map_err(Error::io("open", &path))?;
        let last_index = start.free.iter().fold(start.current, |last, index| last.max(*index));
        Ok(Self {
            disk,
            layout,
            disk_id,
            file_bytes,
            files_max,
            generation: start.generation,
            current: Current { index: start.current, file, position: BLOCK },
            used: VecDeque::new(),
            next_index: last_index + 1,
            free: start.free.into(),
            making: false,
            next_round: start.round,
            synced_round: start.round - 1,
            entered_round: start.round - 1,
            held_round: start.round - 1,
        })
    }

    /// Bytes of a round that a file can hold.
    pub(crate) fn round_bytes_max(&self) -> u64 {
        round_bytes_max(self.file_bytes)
    }

    /// Bytes of all its files.
    pub(crate) fn bytes(&self) -> u64 {
        (self.used.len() + self.free.len() + 1) as u64 * self.file_bytes
    }

    /// Generation of the current file.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The last round written, 0 if none ever was.
    pub(crate) fn last_round(&self) -> u64 {
        self.next_round - 1
    }

    /// Whether rounds were written that no sync covers.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.synced_round < self.last_round()
    }

    /// Whether a round is synced that no later round names as such.
    pub(crate) fn is_unentered(&self) -> bool {
        self.entered_round < self.synced_round
    }

    /// Bytes of the largest round that can be written without a further file.
    pub(crate) fn room(&self) -> u64 {
        if self.free.is_empty() { self.room_in_current() } else { self.round_bytes_max() }
    }

    /// The last block is for [`NextFile`].
    fn room_in_current(&self) -> u64 {
        self.file_bytes - BLOCK - self.current.position
    }

    /// Whether a round of so many bytes can be written without beginning another file.
    pub(crate) fn is_in_current(&self, bytes: u64) -> bool {
        bytes <= self.room_in_current()
    }

    /// Whether a checkpoint is needed to go on: no file is free, none can be made, and the current one is half full.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.free.is_empty()
            && self.used.len() + 1 >= self.files_max
            && self.current.position > self.file_bytes / 2
    }

    /// Whether there are files that a checkpoint would free.
    pub(crate) fn has_used(&self) -> bool {
        !self.used.is_empty()
    }

    /// The index of a file to make ahead of need, if one is wanted; [`Journal::file_made`] answers it.
    pub(crate) fn file_to_make(&mut self) -> Option<u32> {
        let files = self.used.len() + self.free.len() + 1;
        if self.making || !self.free.is_empty() || files >= self.files_max {
            return None;
        }
        self.making = true;
        let index = self.next_index;
        self.next_index += 1;
        Some(index)
    }

    /// A file that was asked for is there, or could not be made.
    pub(crate) fn file_made(&mut self, index: Option<u32>) {
        self.making = false;
        self.free.extend(index);
    }

    /// A checkpoint holds everything up to `round`: files that end there are free again.
    pub(crate) fn release(&mut self, round: u64) {
        self.held_round = self.held_round.max(round);
        while let Some(used) = self.used.pop_front_if(|used| used.last_round <= round) {
            self.free.push_back(used.index);
        }
    }

    /// Writes one round and returns its number. Needs [`Journal::room`] for it.
    ///
    /// An error means that the disk can't be used any more: the caller stops.
    pub(crate) fn write(
        &mut self,
        entries: Vec<Entry>,
        payloads: &[&[u8]],
        wall_ms: u64,
    ) -> Result<u64> {
        let records = entries.len();
        let mut head = Head {
            disk_id: self.disk_id,
            generation: self.generation,
            round: self.next_round,
            synced_round: self.synced_round,
            written_ms: wall_ms,
            entries,
        };
        let len = head.len();
        if !self.is_in_current(len) {
            self.next_file()?;
            head.generation = self.generation;
            head.synced_round = self.synced_round;
        }
        let current = &mut self.current;
        let (bytes, copy) = head.encode();
        let used = 2 * Head::encoded_len(records) + head.payload_bytes();
        let mut parts = Vec::with_capacity(payloads.len() + 4);
        parts.push(bytes.as_slice());
        parts.extend_from_slice(payloads);
        parts.push(&ZEROES[..(len - used) as usize]);
        parts.push(copy.as_slice());
        parts.push(BLOCK_BEHIND);
        write_again(&*current.file, &parts, current.position)
            .map_err(Error::io("write", self.layout.journal_file(current.index)))?;
        current.position += len;
        self.next_round += 1;
        self.entered_round = self.entered_round.max(head.synced_round);
        Ok(head.round)
    }

    /// Makes every round written so far durable. An error is final: see promise P7 in `docs/guarantees.md`.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let path = self.layout.journal_file(self.current.index);
        let synced = self.current.file.sync_data();
        let synced = synced.or_else(|error| {
            if mutant::is("sync_retried") { self.current.file.sync_data() } else { Err(error) }
        });
        synced.map_err(Error::io("sync", path))?;
        self.synced_round = self.last_round();
        Ok(())
    }

    /// Goes on in another file. At each step what is on the disk can be told from a loss: the rounds before are synced,
    /// then the new file has its header, then the old one says so, then come rounds.
    fn next_file(&mut self) -> Result<()> {
        if self.is_unsynced() {
            self.sync()?;
        }
        let index = self.free.pop_front().expect("the caller made sure of room");
        let next_generation = self.generation + 1;
        let (disk, layout) = (&*self.disk, &self.layout);
        let header = FileHeader {
            disk_id: self.disk_id,
            generation: next_generation,
            first_round: self.next_round,
            file_bytes: self.file_bytes,
            held_round: self.held_round,
        };
        let file = begin_file(disk, layout, index, &header)?;
        let next = NextFile { disk_id: self.disk_id, generation: self.generation, next_generation };
        let path = layout.journal_file(self.current.index);
        write_again(&*self.current.file, &[&next.encode()], self.current.position)
            .map_err(Error::io("write", &path))?;
        self.current.file.sync_data().map_err(Error::io("sync", &path))?;
        self.used.push_back(Used { index: self.current.index, last_round: self.last_round() });
        self.generation = next_generation;
        self.current = Current { index, file, position: BLOCK };
        Ok(())
    }
}

/// Bytes of a round that a file of `file_bytes` can hold, between its header and what says where it goes on.
fn round_bytes_max(file_bytes: u64) -> u64 {
    file_bytes - 2 * BLOCK
}

/// Begins a generation in a free file: its header, synced before any round, so that no later start can take the same
/// generation for other rounds.
pub(crate) fn begin_file(
    disk: &dyn Disk,
    layout: &Layout,
    index: u32,
    header: &FileHeader,
) -> Result<Arc<dyn File>> {
    let path = layout.journal_file(index);
    let file = disk.open(&path, Open::Write).map_err(Error::io("open", &path))?;
    write_again(&*file, &[&header.encode(), BLOCK_BEHIND], 0).map_err(Error::io("write", &path))?;
    file.sync_data().map_err(Error::io("sync", &path))?;
    Ok(file)
}

fn write_again(file: &dyn File, parts: &[&[u8]], position: u64) -> std::io::Result<()> {
    let mut tries = 1;
    loop {
        match file.write_at(parts, position) {
            Err(_) if tries < WRITE_TRIES => tries += 1,
            result => return result,
        }
    }
}

/// Makes one file of zeroes, synced before it gets its name: a file of another size is a damaged one.
pub(crate) fn make_file(disk: &dyn Disk, layout: &Layout, index: u32, bytes: u64) -> Result<()> {
    let path = layout.journal_file(index);
    let unfinished = layout::temporary(&path);
    let fill = || {
        let file = disk.open(&unfinished, Open::Replace)?;
        let mut position = 0;
        while position < bytes {
            let piece = (bytes - position).min(ZEROES.len() as u64);
            file.write_at(&[&ZEROES[..piece as usize]], position)?;
            position += piece;
        }
        Ok(file)
    };
    let file = fill().map_err(|error| {
        // It may be for want of room: what there is of it is given back.
        let _ = disk.remove_file(&unfinished);
        Error::io("make", &path)(error)
    })?;
    file.sync_data().map_err(Error::io("sync", &unfinished))?;
    disk.rename(&unfinished, &path).map_err(Error::io("name", &path))?;
    let dir = layout.journal_dir();
    disk.sync_dir(&dir).map_err(Error::io("sync", &dir))
}
