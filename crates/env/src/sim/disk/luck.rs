//! What a crash leaves of that which was not synced.

use super::super::generator::Generator;
use super::page::SECTOR_BYTES;

/// How much survives a power cut of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Each sector, length and name by chance.
    Chance,
    /// Nothing: the disk holds what syncs have covered.
    Nothing,
    /// All of it: the cut came after the write-back.
    Everything,
}

/// Decides for one crash what is kept.
pub(super) struct Luck<'a> {
    generator: &'a Generator,
    kept_of_8: u64,
}

impl<'a> Luck<'a> {
    pub(super) fn new(survival: Survival, generator: &'a Generator) -> Self {
        let kept_of_8 = match survival {
            Survival::Nothing => 0,
            Survival::Everything => 8,
            // Mostly lost, mostly kept, or anything: an even chance alone would never keep all of many sectors.
            Survival::Chance => [1, 4, 4, 7][generator.below(4) as usize],
        };
        Self { generator, kept_of_8 }
    }

    pub(super) fn keeps(&self) -> bool {
        self.generator.below(8) < self.kept_of_8
    }

    /// Of the sectors in `mask` those that are kept.
    pub(super) fn sectors(&self, mask: u8) -> u8 {
        (0..8).map(|bit| 1 << bit).filter(|bit| mask & bit != 0 && self.keeps()).sum()
    }

    /// The length that a file is left with that was growing: the old one, the new one, or a sector's end between.
    pub(super) fn length(&self, old: u64, new: u64) -> u64 {
        if self.keeps() {
            new
        } else if self.keeps() {
            let sector = SECTOR_BYTES as u64;
            let first = old / sector + 1;
            let ends = new.div_ceil(sector).saturating_sub(first);
            if ends == 0 { old } else { (first + self.generator.below(ends)) * sector }
        } else {
            old
        }
    }
}
