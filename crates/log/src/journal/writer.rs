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
use crate::journal::round::{BLOCK, Entry, FileHeader, Head};
use crate::layout::Layout;

/// Zeroes to fill a new file with, a piece at a time.
static ZEROES: [u8; 64 * 1024] = [0; 64 * 1024];
/// How often the same round is written again at the same place when the write fails. A failed write has made
/// nothing durable that was told to anybody, so unlike a sync it may be tried again.
const WRITE_TRIES: u32 = 3;

/// Where the journal goes on after a recovery.
pub(crate) struct Start {
    /// The first generation that no file has had yet.
    pub(crate) generation: u64,
    /// The next round.
    pub(crate) round: u64,
    /// Files of the right size, all of them free.
    pub(crate) files: Vec<u32>,
}

/// The journal being written.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    layout: Layout,
    disk_id: DiskId,
    file_bytes: u64,
    files_max: usize,
    generation: u64,
    current: Option<Current>,
    used: VecDeque<Used>,
    free: VecDeque<u32>,
    next_index: u32,
    /// A file is being made.
    making: bool,
    next_round: u64,
    synced_round: u64,
    entered_round: u64,
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
    ) -> Self {
        assert!(start.round > 0, "rounds begin at 1");
        Self {
            disk,
            layout,
            disk_id,
            file_bytes,
            files_max,
            generation: start.generation,
            current: None,
            used: VecDeque::new(),
            next_index: start.files.iter().max().map_or(1, |last| last + 1),
            free: start.files.into(),
            making: false,
            next_round: start.round,
            synced_round: start.round - 1,
            entered_round: start.round - 1,
        }
    }

    /// Bytes of a round that a file can hold.
    pub(crate) fn round_bytes_max(&self) -> u64 {
        self.file_bytes - BLOCK
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
        match &self.current {
            _ if !self.free.is_empty() => self.round_bytes_max(),
            Some(current) => self.file_bytes - current.position,
            None => 0,
        }
    }

    /// Whether a checkpoint is needed to go on: no file is free, none can be made, and the current one is half full.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.free.is_empty()
            && self.used.len() + 1 >= self.files_max
            && self.current.as_ref().is_some_and(|current| current.position > self.file_bytes / 2)
    }

    fn fits(&self, bytes: u64) -> bool {
        self.current.as_ref().is_some_and(|current| current.position + bytes <= self.file_bytes)
    }

    /// The index of a file to make ahead of need, if one is wanted; [`Journal::file_made`] answers it.
    pub(crate) fn file_to_make(&mut self) -> Option<u32> {
        let files = self.used.len() + self.free.len() + usize::from(self.current.is_some());
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
        if !self.fits(len) {
            self.next_file()?;
            head.generation = self.generation;
            head.synced_round = self.synced_round;
        }
        let current = self.current.as_mut().expect("a file was just opened");
        let (bytes, copy) = head.encode();
        let used = 2 * Head::encoded_len(records) + head.payload_bytes();
        let mut parts = Vec::with_capacity(payloads.len() + 3);
        parts.push(bytes.as_slice());
        parts.extend_from_slice(payloads);
        parts.push(copy.as_slice());
        parts.push(&ZEROES[..(len - used) as usize]);
        write_again(&*current.file, &parts, current.position)
            .map_err(Error::io("write", self.layout.journal_file(current.index)))?;
        current.position += len;
        self.next_round += 1;
        self.entered_round = self.entered_round.max(head.synced_round);
        Ok(head.round)
    }

    /// Makes every round written so far durable. An error is final: see promise P7 in `docs/guarantees.md`.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if let Some(current) = &self.current {
            current
                .file
                .sync_data()
                .map_err(Error::io("sync", self.layout.journal_file(current.index)))?;
        }
        self.synced_round = self.last_round();
        Ok(())
    }

    fn next_file(&mut self) -> Result<()> {
        if self.is_unsynced() {
            self.sync()?;
        }
        let index = self.free.pop_front().expect("the caller made sure of room");
        if let Some(current) = self.current.take() {
            self.used.push_back(Used { index: current.index, last_round: self.last_round() });
            self.generation += 1;
        }
        let path = self.layout.journal_file(index);
        let file = self.disk.open(&path, Open::Write).map_err(Error::io("open", &path))?;
        let header = FileHeader {
            disk_id: self.disk_id,
            generation: self.generation,
            first_round: self.next_round,
            file_bytes: self.file_bytes,
        };
        write_again(&*file, &[&header.encode()], 0).map_err(Error::io("write", &path))?;
        // Durable before any round of it, so that no later start can take the same generation for other rounds.
        file.sync_data().map_err(Error::io("sync", &path))?;
        self.current = Some(Current { index, file, position: BLOCK });
        Ok(())
    }
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

/// Makes one file of zeroes, synced together with its name.
pub(crate) fn make_file(disk: &dyn Disk, layout: &Layout, index: u32, bytes: u64) -> Result<()> {
    let path = layout.journal_file(index);
    let fill = || {
        let file = disk.open(&path, Open::Replace)?;
        let mut position = 0;
        while position < bytes {
            let piece = (bytes - position).min(ZEROES.len() as u64);
            file.write_at(&[&ZEROES[..piece as usize]], position)?;
            position += piece;
        }
        file.sync_data()?;
        disk.sync_dir(&layout.journal_dir())
    };
    fill().map_err(Error::io("make", &path))
}
