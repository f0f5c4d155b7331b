//! What follows from the records of one log, in their order. Pure; the commit loop, the filler and the recovery
//! all go by it, so that they can't disagree.

use danube_model::frame::FrameKind;
use danube_model::{Durability, Epoch, Frame, Offset, TimeMs};

use crate::checkpoint::{EndDamage, EndProof, Gap};
use crate::producers::Producers;

/// One log as its records have made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogState {
    /// Whether it is open under `epoch`.
    pub(crate) open: bool,
    /// Of the last opening.
    pub(crate) level: Durability,
    /// Whether `end` is where the log ended.
    pub(crate) end_proof: EndProof,
    /// Where that was found out, if the end is damaged and it is known.
    pub(crate) end_damage: Option<EndDamage>,
    /// Of the last opening; zero if there was none.
    pub(crate) epoch: Epoch,
    /// First offset still held.
    pub(crate) start: Offset,
    /// Next offset to assign.
    pub(crate) end: Offset,
    /// Of the last frame.
    pub(crate) last_receive_time: TimeMs,
    /// At `end`.
    pub(crate) producers: Producers,
    /// Offsets that can't be read; the newest ones if there are many.
    pub(crate) gaps: Vec<Gap>,
}

/// Gaps that are remembered of a log; all of them are in its segments.
const GAPS_MAX: usize = 1024;

impl Default for LogState {
    fn default() -> Self {
        Self {
            open: false,
            level: Durability::Disk,
            end_proof: EndProof::Proven,
            end_damage: None,
            epoch: Epoch::ZERO,
            start: Offset::ZERO,
            end: Offset::ZERO,
            last_receive_time: TimeMs::ZERO,
            producers: Producers::default(),
            gaps: Vec::new(),
        }
    }
}

impl LogState {
    /// The log is open under `epoch` from here on. Whoever opens a log whose end is not proven goes on at its ceiling.
    pub(crate) fn open(&mut self, epoch: Epoch, level: Durability) {
        self.open = true;
        self.end_proof = EndProof::Proven;
        self.end_damage = None;
        self.epoch = epoch;
        self.level = level;
    }

    /// The log was closed under its epoch.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Whether it is open under this epoch.
    pub(crate) fn is_open(&self, epoch: Epoch) -> bool {
        self.open && self.epoch == epoch
    }

    /// Whether `frame` is the next one of this log.
    pub(crate) fn follows(&self, frame: &Frame) -> bool {
        self.is_open(frame.epoch()) && frame.base() == self.end
    }

    /// Takes the next frame.
    pub(crate) fn append(&mut self, frame: &Frame) {
        assert_eq!(frame.base(), self.end, "a log is dense");
        if let Some(producer) = frame.producer() {
            self.producers.record(&producer, frame.record_count(), frame.base());
        }
        if let FrameKind::Gap { next, reason } = frame.kind() {
            self.add_gap(Gap { from: frame.base(), to: next, reason: Some(reason) });
        }
        self.end = frame.next();
        self.last_receive_time = self.last_receive_time.max(frame.receive_time());
    }

    /// What lies before `to` is damaged; the log goes on there.
    pub(crate) fn skip(&mut self, to: Offset) {
        self.add_gap(Gap { from: self.end, to, reason: None });
        self.end = to;
    }

    /// Damage became gaps.
    pub(crate) fn accept(&mut self, gaps: &[Gap]) {
        for gap in gaps {
            self.gaps.retain(|known| known.to <= gap.from || gap.to <= known.from);
            self.add_gap(*gap);
        }
        self.gaps.sort_by_key(|gap| gap.from);
    }

    /// Offsets below `start` are not held any more.
    pub(crate) fn trim(&mut self, start: Offset) {
        assert!(self.start <= start && start <= self.end, "a start moves on, within its log");
        self.start = start;
        self.gaps.retain(|gap| gap.to > start);
    }

    fn add_gap(&mut self, gap: Gap) {
        if self.gaps.len() == GAPS_MAX {
            self.gaps.remove(0);
        }
        self.gaps.push(gap);
    }
}
