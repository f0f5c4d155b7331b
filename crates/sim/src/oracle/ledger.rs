//! What is known of one log by those who outlive the broker.
//!
//! ```text
//!  offsets   0 ──── must hold ────────────────┬── loose: may be gone, or there; nothing else ──┐
//!                                          must_end                                        known_end
//! ```
//!
//! Invariant: places do not overlap. A place that was lost stays in the ledger as loose until a gap takes its offsets, so
//! that nothing else can.

use std::collections::BTreeMap;
use std::time::Duration;

use danube_model::{Durability, Epoch, GapReason, Offset, TimeMs};

use super::{Loss, Rule};
use crate::batches::BatchId;

/// Which faults a place survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hold {
    /// It may be gone.
    Loose,
    /// Death of the process.
    Process,
    /// Loss of power.
    Power,
}

impl Hold {
    pub(super) fn of(level: Durability) -> Self {
        if level.waits_for_disk() { Self::Power } else { Self::Process }
    }
}

/// What lies at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Batch(BatchId),
    Gap(GapReason),
}

/// A frame that somebody knows of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) next: Offset,
    pub(super) what: What,
    pub(super) hold: Hold,
    /// Where it was read, or acknowledged as new.
    pub(super) epoch: Option<Epoch>,
    /// Where it was read.
    pub(super) received: Option<TimeMs>,
    /// When somebody first knew of it, while nothing but time secures it.
    pub(super) since: Option<Duration>,
}

/// Whether the log is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Creating,
    There,
    Deleting,
    Deleted,
}

/// An opening that was confirmed.
#[derive(Clone, Copy, Debug)]
struct Opening {
    epoch: Epoch,
    level: Durability,
    end: Offset,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) phase: Phase,
    places: BTreeMap<Offset, Place>,
    openings: Vec<Opening>,
    /// An opening that was not confirmed.
    pending: Option<(Epoch, Durability)>,
    /// The end of all that was ever acknowledged.
    pub(super) acked_end: Offset,
    /// The log may be open at a level that rests on the page cache.
    rests_on_page_cache: bool,
    /// Nobody may be able to prove where it ended.
    pub(super) may_be_unproven: bool,
    /// Something that was known is lost, as its level allows.
    pub(super) has_lost: bool,
    /// What lies before it may be gone.
    pub(super) trimmable: Offset,
    /// What lies before it was seen to be gone.
    pub(super) start: Offset,
    newest_epoch: Option<Epoch>,
    /// The newest epoch under which something was acknowledged.
    pub(super) acked_epoch: Option<Epoch>,
    /// The log is opened by somebody who tells nobody.
    is_opened_unheard: bool,
    /// There may be a gap where an end was not proven.
    pub(super) may_have_gap: bool,
}

impl Ledger {
    pub(super) fn opening(&mut self, epoch: Epoch, level: Durability) {
        self.pending = Some((epoch, level));
        self.newest_epoch = self.newest_epoch.max(Some(epoch));
        self.rests_on_page_cache |= !level.waits_for_disk();
    }

    /// An opening is synced, with all before it.
    pub(super) fn opened(&mut self, epoch: Epoch, level: Durability, end: Offset) {
        self.pending = None;
        self.openings.push(Opening { epoch, level, end });
        self.rests_on_page_cache = !level.waits_for_disk();
        self.may_be_unproven = false;
        self.secure(Offset::MAX);
    }

    /// A closing is synced, with all before it.
    pub(super) fn closed(&mut self) {
        self.closed_meanwhile(Offset::MAX);
    }

    /// A closing is synced, with all before it, `end` among it; the log may be open again.
    pub(super) fn closed_meanwhile(&mut self, end: Offset) {
        self.rests_on_page_cache = false;
        self.secure(end);
    }

    /// The log is opened whenever somebody needs it, at `level`.
    pub(super) fn opened_unheard(&mut self, level: Durability) {
        self.is_opened_unheard = true;
        self.rests_on_page_cache |= !level.waits_for_disk();
    }

    /// All that is there up to `end` is synced.
    pub(super) fn secure(&mut self, end: Offset) {
        let is_there = |place: &&mut Place| place.hold != Hold::Loose && place.next <= end;
        for place in self.places.values_mut().filter(is_there) {
            place.hold = Hold::Power;
        }
    }

    /// Everything from before `synced_at` was synced meanwhile; None: nobody knows.
    pub(super) fn crashed(
        &mut self,
        loss: Loss,
        is_cache_proven: bool,
        synced_at: Option<Duration>,
    ) {
        self.may_be_unproven |= self.rests_on_page_cache && !is_cache_proven;
        self.may_have_gap |= self.may_be_unproven;
        for place in self.places.values_mut().filter(|place| place.hold == Hold::Process) {
            if place.since.is_some_and(|since| synced_at.is_some_and(|synced| since < synced)) {
                place.hold = Hold::Power;
            } else if loss == Loss::PageCache {
                place.hold = Hold::Loose;
                self.has_lost = true;
            } else {
                // It waits for the next recovery, however long that takes.
                place.since = None;
            }
        }
    }

    /// The newest epoch whose opening was confirmed.
    pub(super) fn opened_epoch(&self) -> Epoch {
        self.openings.last().map_or(Epoch::ZERO, |opening| opening.epoch)
    }

    /// The newest epoch that was ever asked for.
    pub(super) fn newest_epoch(&self) -> Epoch {
        let heard = self.newest_epoch.unwrap_or(Epoch::ZERO);
        if self.is_opened_unheard { Epoch::MAX } else { heard }
    }

    /// The level of an opening, if it was confirmed.
    pub(super) fn level_of(&self, epoch: Epoch) -> Option<Durability> {
        self.openings.iter().rev().find(|opening| opening.epoch == epoch).map(|found| found.level)
    }

    /// The least epoch that what lies at `offset` may have.
    pub(super) fn epoch_at_least(&self, offset: Offset) -> Epoch {
        let before = self.openings.iter().rev().find(|opening| opening.end <= offset);
        before.map_or(Epoch::ZERO, |opening| opening.epoch)
    }

    /// What holds a frame that was seen and ends at `next`.
    pub(super) fn hold_of_seen(&self, next: Offset) -> Hold {
        let Some(opening) = self.openings.last() else { return Hold::Process };
        if next <= opening.end {
            // All that a log has when it is opened was synced before it is served.
            return Hold::Power;
        }
        let pending = self.pending.map_or(opening.level, |(_, level)| level);
        Hold::of(opening.level).min(Hold::of(pending))
    }

    /// The end of what must be there.
    pub(super) fn must_end(&self) -> Offset {
        let held = self.places.values().rev().find(|place| place.hold != Hold::Loose);
        held.map_or(Offset::ZERO, |place| place.next)
    }

    /// The end of all that was ever known, lost or not.
    pub(super) fn known_end(&self) -> Offset {
        self.places.last_key_value().map_or(Offset::ZERO, |(_, place)| place.next)
    }

    /// Whether a batch must be at `base`.
    pub(super) fn holds(&self, batch: BatchId, base: Offset) -> bool {
        let place = self.places.get(&base);
        place.is_some_and(|place| place.hold != Hold::Loose && place.what == What::Batch(batch))
    }

    /// A place that must be there, was received at `time` or later, and ends at or before `end`.
    pub(super) fn received_since(&self, time: TimeMs, end: Offset) -> Option<(Offset, TimeMs)> {
        let found = self.places.range(self.trimmable..).find(|(_, place)| {
            place.hold != Hold::Loose && place.received.is_some_and(|received| received >= time)
        });
        let (base, place) = found.filter(|(_, place)| place.next <= end)?;
        Some((*base, place.received?))
    }

    /// Enters what lies at `base`.
    pub(super) fn put(
        &mut self,
        base: Offset,
        place: Place,
        is_rotten: bool,
    ) -> Result<(), (Rule, String)> {
        let found = self.overlapping(base, place.next);
        if let [(known_base, known)] = found[..]
            && (known_base, known.next, known.what) == (base, place.next, place.what)
        {
            let known = self.places.get_mut(&base).expect("it was just found");
            return known.merge(base, &place);
        }
        for (known_base, known) in found {
            let gives_way = match place.what {
                What::Batch(_) => false,
                What::Gap(reason) => {
                    // With damage may go an opening, and the gap that came with it; the next one is longer.
                    let is_wider = matches!(known.what, What::Gap(_))
                        && base <= known_base
                        && known.next <= place.next;
                    known.hold == Hold::Loose
                        || (is_rotten && (reason == GapReason::Corrupt || is_wider))
                }
            };
            if !gives_way {
                let rule = if known.hold == Hold::Loose { Rule::Offsets } else { Rule::Durable };
                let what = format!(
                    "{} at {base}..{}, but {} was at {known_base}..{}",
                    place.what, place.next, known.what, known.next
                );
                return Err((rule, what));
            }
            self.places.remove(&known_base);
        }
        self.places.insert(base, place);
        Ok(())
    }

    /// Offsets `from..to` are damaged: what was there may be lost.
    pub(super) fn damaged(&mut self, from: Offset, to: Offset) {
        for (base, _) in self.overlapping(from, to) {
            if let Some(place) = self.places.get_mut(&base) {
                place.hold = Hold::Loose;
            }
        }
    }

    fn overlapping(&self, base: Offset, next: Offset) -> Vec<(Offset, Place)> {
        let before = self.places.range(..next).rev();
        before
            .take_while(|(_, place)| place.next > base)
            .map(|(base, place)| (*base, *place))
            .collect()
    }
}

impl Place {
    /// The same frame was met again.
    fn merge(&mut self, base: Offset, seen: &Self) -> Result<(), (Rule, String)> {
        let differs =
            |known, seen| matches!((known, seen), (Some(known), Some(seen)) if known != seen);
        if differs(self.epoch.map(Epoch::get), seen.epoch.map(Epoch::get)) {
            let what = format!(
                "{} at {base} has epoch {:?}, it had {:?}",
                self.what, seen.epoch, self.epoch
            );
            return Err((Rule::Epochs, what));
        }
        if let (Some(known), Some(found)) = (self.received, seen.received)
            && known != found
        {
            let what =
                format!("{} at {base} was received at {found}, before at {known}", self.what);
            return Err((Rule::Times, what));
        }
        self.hold = self.hold.max(seen.hold);
        self.epoch = self.epoch.or(seen.epoch);
        self.received = self.received.or(seen.received);
        self.since = self.since.or(seen.since);
        Ok(())
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Batch(batch) => write!(f, "{batch}"),
            Self::Gap(reason) => write!(f, "gap ({reason})"),
        }
    }
}
