//! Whether the page cache is still the one that the last broker wrote to.
//!
//! A process that dies leaves its writes in the page cache; a power cut, or an unmount after the file system was shut
//! down, does not. The boot id tells the first; only the pages themselves tell the second. They must be asked before
//! anything is read, because reading makes them resident. Even a look at a block that is missing may bring it in, and a
//! process may die before it has said so. Hence the file `residency` says before each few blocks that they are looked
//! at, and after that which of them were missing: a process that dies leaves doubt about a few blocks and no more.
//!
//! The file, in lines, each written at once; only ever added to, until a recovery is complete:
//!
//! ```text
//! danube residency 1 <boot id>
//! look                                           another look begins
//! at <journal index> <first block> <blocks>      these are looked at next; those before are done
//! missing <journal index> <first block> <blocks> of these
//! done                                           the look is complete
//! ```
//!
//! It is synced once the look is complete and not before: what takes unsynced lines away takes the pages of the journal
//! away too, and the next look finds that.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use danube_env::disk::{File, Open};
use danube_env::{Disk, Reserve};

use crate::error::{Error, Result};
use crate::journal::round::BLOCK;
use crate::layout::{self, Layout};

/// Longer than the lines of many looks at whole journals; more is not ours.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Blocks that are looked at between two lines: few, because they are in doubt if the process dies there.
const BLOCKS_AT_ONCE: u64 = 32;

/// What was resident before anything was read.
pub(crate) struct Residency {
    same_boot: bool,
    seen: Seen,
    indexes: BTreeMap<PathBuf, u32>,
}

/// What looks have found, as the file says it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Blocks that were not resident.
    missing: Vec<Blocks>,
    /// Blocks at which a look was broken off.
    doubtful: Vec<Blocks>,
}

/// Blocks of a journal file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Blocks {
    index: u32,
    range: Range<u64>,
}

impl Residency {
    /// Looks at the journal without reading it, and keeps what it found in a file.
    pub(crate) fn look(
        disk: &dyn Disk,
        layout: &Layout,
        boot_id: [u8; 16],
        same_boot: bool,
        reserve: &mut Reserve,
    ) -> Result<Self> {
        let nothing = Self { same_boot: false, seen: Seen::default(), indexes: BTreeMap::new() };
        if !same_boot {
            return Ok(nothing);
        }
        let earlier = layout::read_whole(disk, &layout.residency(), FILE_BYTES_MAX)?;
        // A file that can't be read, or of another boot, says that somebody has looked, and goes on saying so.
        let Some((seen, len)) = parse(&earlier.unwrap_or_default(), boot_id) else {
            return Ok(nothing);
        };
        let mut notes = Notes::open(disk, layout, len, reserve)?;
        if len == 0 {
            notes.line(&head(boot_id))?;
        }
        notes.line("look")?;
        let mut found = Self { same_boot, seen, indexes: BTreeMap::new() };
        for entry in layout::list(disk, &layout.journal_dir())? {
            let Some(index) = layout::parse_journal(&entry.name) else { continue };
            let path = layout.journal_file(index);
            let file = disk.open(&path, Open::Read).map_err(Error::io("open", &path))?;
            let blocks = file.len().map_err(Error::io("read", &path))?.div_ceil(BLOCK);
            found.seen.missing.extend(look_at(&*file, index, blocks, &mut notes)?);
            found.indexes.insert(path, index);
        }
        notes.line("done")?;
        notes.sync(disk, layout)?;
        Ok(found)
    }

    /// Whether everything that was written without a sync is in the page cache: from `unsynced`, where the first round
    /// begins that nothing vouches for, to the block at which the journal ends, itself included.
    pub(crate) fn proves(
        &self,
        unsynced: Option<&(PathBuf, u64)>,
        end: Option<&(PathBuf, u64)>,
    ) -> bool {
        let Some((path, end)) = end else { return false };
        let Some(index) = self.indexes.get(path).filter(|_| self.same_boot) else { return false };
        // Files before the last one are synced; the unsynced rounds can only begin in it.
        let first = match unsynced {
            Some((first_path, position)) if first_path == path => *position,
            Some(_) => 0,
            None => *end,
        };
        let (last, next) = (end.saturating_sub(BLOCK), end / BLOCK + 1);
        let touches = |found: &[Blocks], first: u64| {
            let touches = |range: &Range<u64>| range.start < next && first / BLOCK < range.end;
            found.iter().any(|blocks| blocks.index == *index && touches(&blocks.range))
        };
        // The rounds before the end are as they were written, which their checksums say. Only of the end nothing but the
        // look says that no round was there; so doubt matters there, and what was missing anywhere.
        !touches(&self.seen.missing, first.min(last)) && !touches(&self.seen.doubtful, last)
    }

    /// The recovery is refused: the directory is left as it was, unless the next look has to be told what this one found
    /// missing.
    pub(crate) fn take_back(&self, disk: &dyn Disk, layout: &Layout) -> Result<()> {
        let hides_nothing = self.same_boot && self.seen == Seen::default();
        if hides_nothing { self.forget(disk, layout) } else { Ok(()) }
    }

    /// The recovery is complete.
    pub(crate) fn forget(&self, disk: &dyn Disk, layout: &Layout) -> Result<()> {
        let path = layout.residency();
        if !disk.exists(&path).map_err(Error::io("look for", &path))? {
            return Ok(());
        }
        disk.remove_file(&path).map_err(Error::io("remove", &path))?;
        disk.sync_dir(layout.root()).map_err(Error::io("sync", layout.root()))
    }
}

/// The blocks of a file that are missing. Backwards: should the look at a block make those behind it resident, they have been
/// seen already.
fn look_at(file: &dyn File, index: u32, blocks: u64, notes: &mut Notes<'_>) -> Result<Vec<Blocks>> {
    let mut all = Vec::new();
    let mut next = blocks;
    while next > 0 {
        let first = next.saturating_sub(BLOCKS_AT_ONCE);
        notes.blocks("at", &Blocks { index, range: first..next })?;
        let mut missing: Vec<Blocks> = Vec::new();
        for block in (first..next).rev() {
            if !file.is_resident(block * BLOCK, BLOCK) {
                match missing.last_mut() {
                    Some(last) if last.range.start == block + 1 => last.range.start = block,
                    _ => missing.push(Blocks { index, range: block..block + 1 }),
                }
            }
        }
        for blocks in &missing {
            notes.blocks("missing", blocks)?;
        }
        all.append(&mut missing);
        next = first;
    }
    Ok(all)
}

/// The file, open to be added to.
struct Notes<'a> {
    file: Arc<dyn File>,
    path: PathBuf,
    position: u64,
    reserve: &'a mut Reserve,
}

impl<'a> Notes<'a> {
    /// Goes on behind the first `len` bytes.
    fn open(disk: &dyn Disk, layout: &Layout, len: u64, reserve: &'a mut Reserve) -> Result<Self> {
        let path = layout.residency();
        let open = || {
            let how = if len == 0 { Open::Replace } else { Open::Write };
            disk.open(&path, how).map_err(Error::io("open", &path))
        };
        let file = reserve.retry(open, Error::is_full)?;
        file.set_len(len).map_err(Error::io("cut", &path))?;
        Ok(Self { file, path, position: len, reserve })
    }

    fn blocks(&mut self, word: &str, Blocks { index, range }: &Blocks) -> Result<()> {
        self.line(&format!("{word} {index} {} {}", range.start, range.end - range.start))
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let write = || {
            let parts = [line.as_bytes(), b"\n"];
            self.file.write_at(&parts, self.position).map_err(Error::io("write", &self.path))
        };
        self.reserve.retry(write, Error::is_full)?;
        self.position += line.len() as u64 + 1;
        Ok(())
    }

    fn sync(self, disk: &dyn Disk, layout: &Layout) -> Result<()> {
        self.file.sync_data().map_err(Error::io("sync", &self.path))?;
        disk.sync_dir(layout.root()).map_err(Error::io("sync", layout.root()))
    }
}

fn head(boot_id: [u8; 16]) -> String {
    let boot_id: String = boot_id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("danube residency 1 {boot_id}")
}

/// What the file says, and how many bytes of it count: a line without its end was not finished, and nothing was looked at
/// because of it. `None` if it is not a file of this boot.
fn parse(bytes: &[u8], boot_id: [u8; 16]) -> Option<(Seen, u64)> {
    let len = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut lines = std::str::from_utf8(&bytes[..len]).ok()?.lines();
    let head = head(boot_id);
    match lines.next() {
        None if head.as_bytes().starts_with(bytes) => {}
        Some(line) if line == head => {}
        _ => return None,
    }
    let mut seen = Seen::default();
    let mut at = None;
    let mut is_done = true;
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["look"] => {
                seen.doubtful.extend(at.take().filter(|_| !is_done));
                is_done = false;
            }
            ["done"] => is_done = true,
            ["at", index, first, count] => at = Some(parse_blocks(index, first, count)?),
            ["missing", index, first, count] => {
                seen.missing.push(parse_blocks(index, first, count)?);
            }
            _ => return None,
        }
    }
    seen.doubtful.extend(at.filter(|_| !is_done));
    Some((seen, len as u64))
}

fn parse_blocks(index: &str, first: &str, count: &str) -> Option<Blocks> {
    let (first, count) = (first.parse::<u64>().ok()?, count.parse().ok()?);
    Some(Blocks { index: index.parse().ok()?, range: first..first.checked_add(count)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(index: u32, range: Range<u64>) -> Blocks {
        Blocks { index, range }
    }

    #[test]
    fn a_look_that_was_broken_off_leaves_doubt_where_it_was() {
        let file = head([7; 16])
            + "\nlook\nat 1 32 32\nmissing 1 40 2\nat 1 0 32\nlook\nat 1 32 32\nat 1 0 32\ndone\nlook\nat 2 0 8\ndo";
        let (seen, len) = parse(file.as_bytes(), [7; 16]).expect("a file of this boot");
        assert_eq!(len, file.len() as u64 - 2);
        assert_eq!(seen.missing, [blocks(1, 40..42)]);
        assert_eq!(seen.doubtful, [blocks(1, 0..32), blocks(2, 0..8)]);
    }

    #[test]
    fn only_a_file_of_this_boot_says_anything() {
        let nothing = Some((Seen::default(), 0));
        assert_eq!(parse(b"", [7; 16]), nothing);
        assert_eq!(parse(b"danube resid", [7; 16]), nothing, "its first line was not finished");
        let file = head([7; 16]) + "\nlook\n";
        assert_eq!(parse(file.as_bytes(), [8; 16]), None);
        assert_eq!(parse((file + "at 1 2\n").as_bytes(), [7; 16]), None);
        assert_eq!(parse(&[0; 512], [7; 16]), None);
    }
}
