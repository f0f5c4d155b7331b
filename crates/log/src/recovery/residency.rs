//! Whether the page cache is still the one that the last broker wrote to.
//!
//! A process that dies leaves its writes in the page cache; a power cut, or an unmount after the file system was shut
//! down, does not. The boot id tells the first; only the pages themselves tell the second. They must be asked before
//! anything is read, because reading makes them resident. So what was found goes to a file first, and a recovery that
//! begins again believes a page only if both looks found it.
//!
//! The file `residency`: JSON, `{"version":1,"boot_id":"…","missing":{"<journal index>":[[first block, blocks], …]}}`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use danube_env::disk::Open;
use danube_env::{Disk, Reserve};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::journal::round::BLOCK;
use crate::layout::{self, Layout};

/// A file of `[first block, blocks]` pairs for a whole journal; more is not ours.
const FILE_BYTES_MAX: u64 = 64 << 20;
const VERSION: u32 = 1;
/// No look is to be believed after this one.
const LOOKING: &[u8] = b"looking";

/// What was resident before anything was read.
pub(crate) struct Residency {
    same_boot: bool,
    /// Nobody has looked before, as far as a file says so.
    is_first: bool,
    /// Blocks of each journal file that were not resident, as ranges.
    missing: BTreeMap<u32, Vec<(u64, u64)>>,
    indexes: BTreeMap<PathBuf, u32>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    boot_id: String,
    missing: BTreeMap<u32, Vec<(u64, u64)>>,
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
        let (missing, indexes) = (BTreeMap::new(), BTreeMap::new());
        let mut found = Self { same_boot, is_first: false, missing, indexes };
        if !same_boot {
            return Ok(found);
        }
        let boot_id = hex(boot_id);
        let earlier = read(disk, layout)?;
        // A look can itself bring a page in. Until what it found is stored, the file says that somebody has looked.
        let mut note = |bytes: &[u8]| {
            let write = || layout::write_atomically(disk, &layout.residency(), bytes);
            reserve.retry(write, Error::is_full)
        };
        note(LOOKING)?;
        found.is_first = earlier.is_none();
        let dir = layout.journal_dir();
        for entry in layout::list(disk, &dir)? {
            let Some(index) = layout::parse_journal(&entry.name) else { continue };
            let path = layout.journal_file(index);
            let missing = missing_blocks(disk, &path)?;
            if !missing.is_empty() {
                found.missing.insert(index, missing);
            }
            found.indexes.insert(path, index);
        }
        // A file that can't be read, or of another boot, says that this is not the first look.
        found.same_boot = earlier.is_none_or(|earlier| match earlier {
            Some(earlier) if earlier.boot_id == boot_id && earlier.version == VERSION => {
                for (index, missing) in earlier.missing {
                    found.missing.entry(index).or_default().extend(missing);
                }
                true
            }
            _ => false,
        });
        if !found.same_boot {
            // The file goes on saying that somebody has looked: doubt is not forgotten by the next look.
            return Ok(found);
        }
        let stored = Stored { version: VERSION, boot_id, missing: found.missing.clone() };
        let bytes = serde_json::to_vec(&stored).expect("numbers and text are JSON");
        note(&bytes)?;
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
        let (first, next) = (first.min(end.saturating_sub(BLOCK)) / BLOCK, end / BLOCK + 1);
        let missing = self.missing.get(index).map_or(&[][..], Vec::as_slice);
        !missing.iter().any(|(block, count)| *block < next && first < block + count)
    }

    /// The recovery is refused: the directory is left as it was, unless the next look has to be told what this one found
    /// missing.
    pub(crate) fn take_back(&self, disk: &dyn Disk, layout: &Layout) -> Result<()> {
        let hides_nothing = self.is_first && self.missing.is_empty();
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

fn missing_blocks(disk: &dyn Disk, path: &Path) -> Result<Vec<(u64, u64)>> {
    let file = disk.open(path, Open::Read).map_err(Error::io("open", path))?;
    let blocks = file.len().map_err(Error::io("read", path))?.div_ceil(BLOCK);
    let mut missing: Vec<(u64, u64)> = Vec::new();
    // Backwards: should the look at a block make those behind it resident, they have been seen already.
    for block in (0..blocks).rev() {
        if !file.is_resident(block * BLOCK, BLOCK) {
            match missing.last_mut() {
                Some((first, count)) if *first == block + 1 => {
                    *first = block;
                    *count += 1;
                }
                _ => missing.push((block, 1)),
            }
        }
    }
    Ok(missing)
}

/// None: there is no file. Some(None): there is one that says nothing.
fn read(disk: &dyn Disk, layout: &Layout) -> Result<Option<Option<Stored>>> {
    let bytes = layout::read_whole(disk, &layout.residency(), FILE_BYTES_MAX)?;
    Ok(bytes.map(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn hex(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
