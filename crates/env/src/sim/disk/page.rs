//! Pages of 4096 bytes, shared until they are changed; a page of zeroes takes no memory.

use std::ops::Range;
use std::sync::Arc;

pub(super) const PAGE_BYTES: usize = 4096;
pub(super) const SECTOR_BYTES: usize = 512;

/// All sectors of a page.
pub(super) const ALL_SECTORS: u8 = 0xff;

/// A page's content; `None` is zeroes.
pub(super) type Page = Option<Arc<[u8; PAGE_BYTES]>>;

static ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// The part of a range that lies in one page.
pub(super) struct Span {
    /// Number of the page.
    pub(super) page: u64,
    /// Where in the page.
    pub(super) within: Range<usize>,
    /// Where in the whole range.
    pub(super) offset: usize,
}

/// Cuts `len` bytes from `position` on at the page boundaries.
pub(super) fn spans(position: u64, len: usize) -> impl Iterator<Item = Span> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        if offset == len {
            return None;
        }
        let at = position + offset as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let end = PAGE_BYTES.min(start + (len - offset));
        let span = Span { page: at / PAGE_BYTES as u64, within: start..end, offset };
        offset += end - start;
        Some(span)
    })
}

/// How many pages `len` bytes take.
pub(super) fn pages(len: u64) -> u64 {
    len.div_ceil(PAGE_BYTES as u64)
}

/// The bytes of a page.
pub(super) fn bytes(page: &Page) -> &[u8; PAGE_BYTES] {
    page.as_deref().unwrap_or(&ZEROES)
}

/// Overwrites a part of a page.
pub(super) fn put(page: &mut Page, at: usize, bytes: &[u8]) {
    if let Ok(whole) = <&[u8; PAGE_BYTES]>::try_from(bytes) {
        *page = (*whole != ZEROES).then(|| Arc::new(*whole));
    } else if page.is_some() || *bytes != ZEROES[..bytes.len()] {
        let page = page.get_or_insert_with(|| Arc::new(ZEROES));
        Arc::make_mut(page)[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// The sectors that a part of a page touches, one bit each.
pub(super) fn sectors(within: &Range<usize>) -> u8 {
    if within.is_empty() {
        return 0;
    }
    let first = within.start / SECTOR_BYTES;
    let end = within.end.div_ceil(SECTOR_BYTES);
    (((1_u16 << end) - (1 << first)) & 0xff) as u8
}

/// Copies the sectors in `mask` from one page to another.
pub(super) fn copy_sectors(to: &mut Page, from: &Page, mask: u8) {
    if mask == ALL_SECTORS {
        to.clone_from(from);
        return;
    }
    for sector in (0..8).filter(|sector| mask & (1 << sector) != 0) {
        let at = sector * SECTOR_BYTES;
        put(to, at, &bytes(from)[at..at + SECTOR_BYTES]);
    }
}
