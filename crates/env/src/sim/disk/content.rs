//! One file's content: what the page cache shows, and what the disk holds.
//!
//! ```text
//!            read, write                       power cut
//!                 │                                │
//!        ┌────────▼─────────┐   sync     ┌─────────▼────────┐
//!        │ cached           │ ─────────▶ │ durable          │   by sectors of 512 bytes
//!        │ pages that       │            │ pages of the     │
//!        │ differ, or may   │            │ disk             │
//!        └──────────────────┘            └──────────────────┘
//! ```
//!
//! A cached page shows all of its 4096 bytes; where there is none, the durable page shows through, up to the
//! *floor* of a pending cut. So a write, a sync and a crash cost what changed, not what the file holds.
//!
//! Invariants: a sector of a cached page that is neither dirty nor stale equals the durable one. Bytes behind the
//! length are zero in both images, except for durable ones that a pending cut hides or that a crash will trim.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use super::luck::Luck;
use super::page::{self, PAGE_BYTES, Page, Span, pages, sectors, spans};
use super::ranges::Ranges;

/// Pages that the kernel reads ahead of a read.
const READ_AHEAD_PAGES: u64 = 32;

/// A page that the page cache holds for itself.
#[derive(Clone, Debug, Default)]
struct Cached {
    data: Page,
    /// Sectors that the next sync writes.
    dirty: u8,
    /// Sectors that a failed sync left behind: marked clean, and not on the disk.
    stale: u8,
}

/// A shortening of the file that was not synced.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The shortest that the file has been.
    len: u64,
    /// From this page on the durable image is hidden.
    floor: u64,
}

/// A file's two images.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    durable: BTreeMap<u64, Page>,
    durable_len: u64,
    cached: BTreeMap<u64, Cached>,
    len: u64,
    cut: Option<Cut>,
    /// A length that a failed sync left behind.
    stale_len: Option<u64>,
    /// Pages in the page cache.
    resident: Ranges,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether a power cut now could change what the file shows.
    pub(super) fn is_settled(&self) -> bool {
        self.cached.is_empty() && self.cut.is_none() && self.len == self.durable_len
    }

    /// Reads as a process does: it makes pages resident.
    pub(super) fn read(&mut self, buf: &mut [u8], position: u64) -> usize {
        let count = self.peek(buf, position);
        if count > 0 {
            let end = pages(position + count as u64) + READ_AHEAD_PAGES;
            self.resident.insert(position / PAGE_BYTES as u64..end.min(pages(self.len)));
        }
        count
    }

    /// Reads without a trace.
    pub(super) fn peek(&self, buf: &mut [u8], position: u64) -> usize {
        let count = self.len.saturating_sub(position).min(buf.len() as u64) as usize;
        for Span { page, within, offset } in spans(position, count) {
            let to = &mut buf[offset..offset + within.len()];
            to.copy_from_slice(&page::bytes(self.shown(page))[within]);
        }
        count
    }

    /// Overwrites and extends.
    pub(super) fn write(&mut self, bytes: &[u8], position: u64) {
        if bytes.is_empty() {
            return;
        }
        for Span { page, within, offset } in spans(position, bytes.len()) {
            let mask = sectors(&within);
            let cached = self.cached_mut(page);
            page::put(&mut cached.data, within.start, &bytes[offset..offset + within.len()]);
            cached.dirty |= mask;
            cached.stale &= !mask;
        }
        let end = position + bytes.len() as u64;
        self.len = self.len.max(end);
        self.resident.insert(position / PAGE_BYTES as u64..pages(end));
    }

    /// Lets the kernel write back some dirty sectors of a range by itself, as it may before they are overwritten:
    /// a crash can then leave the older content.
    pub(super) fn write_back_some(&mut self, range: Range<u64>, luck: &Luck<'_>) {
        let floor = self.floor();
        let first = range.start / PAGE_BYTES as u64;
        for (&page, cached) in self.cached.range_mut(first..pages(range.end).max(first)) {
            if page < floor && cached.dirty != 0 {
                let written = luck.sectors(cached.dirty);
                store(&mut self.durable, page, written, &cached.data);
                cached.dirty &= !written;
            }
        }
    }

    /// Cuts or extends.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.shorten(len);
        }
        self.len = len;
    }

    /// Settles the lengths that are pending, as a commit of the file system's journal does at any time.
    pub(super) fn commit_len(&mut self) {
        self.apply_cut();
        self.durable_len = self.len;
        self.stale_len = None;
    }

    /// A sync that does what it says.
    pub(super) fn sync(&mut self) {
        self.apply_cut();
        let mut wrote = false;
        for (page, mut cached) in std::mem::take(&mut self.cached) {
            wrote |= cached.dirty != 0;
            if cached.stale == 0 {
                // The whole page is what the disk then holds.
                store(&mut self.durable, page, page::ALL_SECTORS, &cached.data);
            } else {
                store(&mut self.durable, page, cached.dirty, &cached.data);
                cached.dirty = 0;
                self.cached.insert(page, cached);
            }
        }
        if wrote || self.stale_len != Some(self.len) {
            self.durable_len = self.len;
            self.stale_len = None;
        }
    }

    /// A sync that fails: some of it is on the disk, the rest is marked clean all the same, so that a later sync
    /// does not write it.
    pub(super) fn sync_failing(&mut self, luck: &Luck<'_>) {
        let floor = self.floor();
        let mut must_lose = true;
        for (&page, cached) in &mut self.cached {
            let mut written = if page < floor { luck.sectors(cached.dirty) } else { 0 };
            if must_lose && cached.dirty != 0 {
                written &= !(1 << cached.dirty.trailing_zeros());
                must_lose = false;
            }
            store(&mut self.durable, page, written, &cached.data);
            cached.stale |= cached.dirty & !written;
            cached.dirty = 0;
        }
        // A cut stays pending: the disk would otherwise show what only a crash can bring back.
        if self.cut.is_none() && self.len != self.durable_len {
            if luck.keeps() {
                self.durable_len = self.len;
            } else {
                self.stale_len = Some(self.len);
            }
        }
    }

    /// A power cut: what was not synced is kept or lost.
    pub(super) fn lose_power(&mut self, luck: &Luck<'_>) {
        self.resident.clear();
        if self.is_settled() {
            return;
        }
        let floor = self.floor();
        let cut_lost = self.cut.is_some() && !luck.keeps();
        if cut_lost {
            self.cut = None;
        } else {
            self.apply_cut();
            if self.durable_len < self.len && self.stale_len != Some(self.len) {
                self.durable_len = luck.length(self.durable_len, self.len);
            }
        }
        for (page, cached) in std::mem::take(&mut self.cached) {
            // What was written behind a cut went to other blocks, which only the cut makes part of the file.
            if page < floor || !cut_lost {
                store(&mut self.durable, page, luck.sectors(cached.dirty), &cached.data);
            }
        }
        self.len = self.durable_len;
        self.stale_len = None;
        self.trim();
    }

    /// Whether a range is in the page cache. A probe that finds a page missing makes the kernel read it.
    pub(super) fn probe(&mut self, position: u64, len: u64) -> bool {
        let Some(end) = position.checked_add(len) else { return false };
        if len == 0 {
            return true;
        }
        if end > self.len {
            return false;
        }
        match self.resident.last_missing(position / PAGE_BYTES as u64..pages(end)) {
            Some(missing) => {
                self.resident.insert(missing..missing + 1);
                false
            }
            None => true,
        }
    }

    /// Drops clean pages from the page cache; what a failed sync left behind shows its true content then.
    pub(super) fn forget(&mut self) {
        self.resident.clear();
        let floor = self.floor();
        for (&page, cached) in &mut self.cached {
            if cached.dirty != 0 {
                self.resident.insert(page..page + 1);
            } else if cached.stale != 0 && page < floor {
                cached.data = self.durable.get(&page).cloned().flatten();
                cached.stale = 0;
            }
        }
        self.cached.retain(|_, cached| cached.dirty | cached.stale != 0);
    }

    /// Changes bytes on the disk behind everybody's back. Bytes past the end are left out.
    pub(super) fn damage(&mut self, position: u64, bytes: &[u8]) {
        let count = self.len.saturating_sub(position).min(bytes.len() as u64) as usize;
        for Span { page, within, offset } in spans(position, count) {
            let bytes = &bytes[offset..offset + within.len()];
            page::put(self.durable.entry(page).or_default(), within.start, bytes);
            if let Some(cached) = self.cached.get_mut(&page) {
                page::put(&mut cached.data, within.start, bytes);
            }
        }
    }

    /// What a page shows.
    fn shown(&self, page: u64) -> &Page {
        match (self.cached.get(&page), self.durable.get(&page)) {
            (Some(cached), _) => &cached.data,
            (None, Some(durable)) if page < self.floor() => durable,
            _ => &None,
        }
    }

    fn cached_mut(&mut self, page: u64) -> &mut Cached {
        let floor = self.floor();
        self.cached.entry(page).or_insert_with(|| {
            let durable = if page < floor { self.durable.get(&page) } else { None };
            Cached { data: durable.cloned().flatten(), dirty: 0, stale: 0 }
        })
    }

    fn floor(&self) -> u64 {
        self.cut.map_or(u64::MAX, |cut| cut.floor)
    }

    fn shorten(&mut self, len: u64) {
        let floor = pages(len);
        let tail = (len % PAGE_BYTES as u64) as usize;
        if tail != 0 && self.shown(floor - 1).is_some() {
            // The kernel zeroes the rest of the last page and writes it back as any other data.
            let cached = self.cached_mut(floor - 1);
            page::put(&mut cached.data, tail, &[0; PAGE_BYTES][tail..]);
            let mask = sectors(&(tail..PAGE_BYTES));
            cached.dirty |= mask;
            cached.stale &= !mask;
        }
        self.cached.split_off(&floor);
        self.resident.cut(floor);
        let durable_pages = self.durable.last_key_value().map_or(0, |(page, _)| page + 1);
        if self.cut.is_some() || len < self.durable_len || floor < durable_pages {
            let (len, floor) = match self.cut {
                Some(cut) => (cut.len.min(len), cut.floor.min(floor)),
                None => (len, floor),
            };
            self.cut = Some(Cut { len, floor });
        }
    }

    /// Makes a pending cut durable.
    fn apply_cut(&mut self) {
        if let Some(cut) = self.cut.take() {
            self.durable.split_off(&cut.floor);
            self.durable_len = self.durable_len.min(cut.len);
        }
    }

    /// Takes away what the disk holds behind the length.
    fn trim(&mut self) {
        let end = pages(self.durable_len);
        self.durable.split_off(&end);
        let tail = (self.durable_len % PAGE_BYTES as u64) as usize;
        if tail != 0
            && let Some(last) = self.durable.get_mut(&(end - 1))
        {
            page::put(last, tail, &[0; PAGE_BYTES][tail..]);
        }
    }
}

/// Writes sectors to the disk.
fn store(durable: &mut BTreeMap<u64, Page>, page: u64, sectors: u8, data: &Page) {
    if sectors == 0 {
        return;
    }
    match durable.entry(page) {
        Entry::Occupied(mut target) => {
            page::copy_sectors(target.get_mut(), data, sectors);
            if target.get().is_none() {
                target.remove();
            }
        }
        Entry::Vacant(place) => {
            let mut target = None;
            page::copy_sectors(&mut target, data, sectors);
            if target.is_some() {
                place.insert(target);
            }
        }
    }
}
