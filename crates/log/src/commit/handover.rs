//! Rounds on their way to the filler. It does nothing before much has come: to wake it for each small round would only cost time.

use danube_model::TopicId;
use tokio::sync::OwnedSemaphorePermit;

use crate::bodies::Record;
use crate::fill::Fill;
use crate::store::kib;

/// Records that are told at once, at most, whatever their size.
const RECORDS_MAX: usize = 16 * 1024;

/// What the filler was not told yet.
pub(super) struct Handover {
    records: Vec<(TopicId, Record)>,
    /// For their frames.
    room: Option<OwnedSemaphorePermit>,
    /// Room that is worth telling, in KiB.
    much_kib: usize,
}

impl Handover {
    /// For a tail of so many bytes: a small part of what the filler gathers itself before it writes.
    pub(super) fn new(tail_bytes: u64) -> Self {
        Self { records: Vec::new(), room: None, much_kib: kib(tail_bytes / 64) as usize }
    }

    /// Adds a round that is in the journal, and the room for its frames.
    pub(super) fn add(
        &mut self,
        records: Vec<(TopicId, Record)>,
        room: Option<OwnedSemaphorePermit>,
    ) {
        self.records.extend(records);
        match (&mut self.room, room) {
            (Some(held), Some(room)) => held.merge(room),
            (None, room) => self.room = room,
            (Some(_), None) => {}
        }
    }

    /// All of it, if there is something.
    pub(super) fn take(&mut self) -> Option<Fill> {
        if self.records.is_empty() {
            return None;
        }
        Some(Fill::Round { records: std::mem::take(&mut self.records), room: self.room.take() })
    }

    /// All of it, if that is worth the filler's while.
    pub(super) fn take_if_much(&mut self) -> Option<Fill> {
        let held = self.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let is_much = held >= self.much_kib || self.records.len() >= RECORDS_MAX;
        is_much.then(|| self.take()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    const MUCH_KIB: u32 = 100;

    fn handover() -> Handover {
        Handover::new(u64::from(MUCH_KIB) * 1024 * 64)
    }

    fn round(records: usize) -> Vec<(TopicId, Record)> {
        vec![(TopicId::new([7; 16]), Record::Close); records]
    }

    /// How many records the filler would be told, and for how many KiB of frames.
    fn told(fill: Option<Fill>) -> Option<(usize, usize)> {
        fill.map(|fill| match fill {
            Fill::Round { records, room } => {
                (records.len(), room.map_or(0, |room| room.num_permits()))
            }
            _ => panic!("rounds are told"),
        })
    }

    #[test]
    fn rounds_are_told_as_soon_as_their_frames_are_a_part_of_the_tail() {
        let tail = Arc::new(Semaphore::new(1_000));
        let room = |kib| Some(Arc::clone(&tail).try_acquire_many_owned(kib).unwrap());
        let mut handover = handover();
        for _ in 0..3 {
            handover.add(round(1), room(MUCH_KIB / 2));
            assert_eq!(told(handover.take_if_much()), None);
            handover.add(round(1), None);
            handover.add(round(1), room(MUCH_KIB / 2 - 1));
            assert_eq!(told(handover.take_if_much()), None, "a KiB is lacking");
            handover.add(round(1), room(1));
            assert_eq!(told(handover.take_if_much()), Some((4, MUCH_KIB as usize)));
            assert_eq!(told(handover.take()), None);
        }
    }

    #[test]
    fn records_without_frames_are_told_before_there_are_too_many() {
        let mut handover = handover();
        handover.add(round(RECORDS_MAX - 1), None);
        assert_eq!(told(handover.take_if_much()), None);
        handover.add(round(1), None);
        assert_eq!(told(handover.take_if_much()), Some((RECORDS_MAX, 0)));
    }
}
