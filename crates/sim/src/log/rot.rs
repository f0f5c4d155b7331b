//! Bits that change on the disk while nobody writes.

use std::path::PathBuf;
use std::sync::Arc;

use danube_env::sim::{Generator, SimDisk};

use super::Scene;
use crate::faults::Rot;

const SECTOR_BYTES: u64 = 512;
/// Where a journal file's header has its generation (`docs/format.md` section 5).
const GENERATION: std::ops::Range<usize> = 32..40;

/// Where every file has its version. A version that is not known stops the start, whatever made it so.
const VERSION: std::ops::Range<usize> = 8..12;

/// Where a sealed segment has the version of its footer, from its end.
const FOOTER_VERSION: std::ops::RangeInclusive<usize> = 15..=16;

/// Changes bits of one file that is synced. The machine is down.
pub(super) fn rot(scene: &Arc<Scene>, life: u64, rot: Rot) {
    let random = scene.stage.random("rot", life);
    let disk = scene.stage.machine.disk();
    let Some((path, content)) = choose(disk, &random) else { return };
    let from = random.below(content.len() as u64) as usize;
    let mut places = (from..content.len()).chain(0..from);
    let is_version = |at: usize| {
        VERSION.contains(&at) || FOOTER_VERSION.contains(&content.len().wrapping_sub(at))
    };
    let Some(at) = places.find(|at| content[*at] != 0 && !is_version(*at)) else { return };
    let at = at as u64;
    let changed = match rot {
        Rot::Byte => disk.flip(&path, at, 1 << random.below(8)),
        Rot::Sector => {
            let noise: Vec<u8> = match random.below(2) {
                0 => vec![0; SECTOR_BYTES as usize],
                _ => (0..SECTOR_BYTES).map(|_| random.next() as u8).collect(),
            };
            disk.overwrite(&path, at / SECTOR_BYTES * SECTOR_BYTES, &noise)
        }
    };
    if changed.is_ok() {
        scene.stage.note(format_args!("{rot:?} at {at} of {} rots", path.display()));
        scene.stage.oracle(|oracle| oracle.rotten());
    }
}

/// A file to damage: more often than not the part of the journal that no checkpoint holds.
fn choose(disk: &SimDisk, random: &Generator) -> Option<(PathBuf, Vec<u8>)> {
    let files = disk.files();
    let with_content =
        |path: &PathBuf| disk.content(path).ok().map(|content| (path.clone(), content));
    let of = |part: &str| {
        let found = files.iter().filter(|path| path.to_string_lossy().ends_with(part));
        found
            .filter_map(with_content)
            .filter(|(_, content)| !content.is_empty())
            .collect::<Vec<_>>()
    };
    let generation = |content: &[u8]| content.get(GENERATION).map(<[u8]>::to_vec);
    match random.below(4) {
        0 => {
            let mut segments = of(".seg");
            let at = random.below(segments.len() as u64) as usize;
            (at < segments.len()).then(|| segments.swap_remove(at))
        }
        1 => of(["checkpoint.a", "checkpoint.b"][random.below(2) as usize]).pop(),
        _ => of(".jnl").into_iter().max_by_key(|(_, content)| generation(content)),
    }
}
