//! Moves the start of logs: whole segments that take no more go from their front.
//!
//! Each step rests on the one before: [`Bodies::trims`] says what is to go; a checkpoint with it becomes durable
//! ([`enter`]); [`Bodies::trimmed`] shows it to readers; then the files are removed. So a crash leaves the files, or a
//! start behind them, and what lies below a start is removed when the files of the log are listed (`files`).

use std::collections::BTreeMap;

use danube_model::{Offset, TopicId};

use super::{Bodies, Body};
use crate::checkpoint::Checkpoint;
use crate::shared::SegmentKind;

/// What goes from the front of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trim {
    /// The first offset that stays.
    pub(crate) start: Offset,
    /// First offsets of the segments that go, rising.
    pub(crate) gone: Vec<Offset>,
}

/// What goes, of each log of which something does.
pub(crate) type Trims = BTreeMap<TopicId, Trim>;

/// Enters the starts of `trims` in a checkpoint that is to become durable.
pub(crate) fn enter(trims: &Trims, checkpoint: &mut Checkpoint) {
    for log in &mut checkpoint.logs {
        if let Some(trim) = trims.get(&log.topic_id) {
            log.state.trim(trim.start);
            log.segments = left(log.segments, trim);
        }
    }
}

/// The segments that go.
pub(crate) fn gone(trims: &Trims) -> Vec<(TopicId, Offset)> {
    let of = |(topic, trim): (&TopicId, &Trim)| {
        let topic = *topic;
        trim.gone.clone().into_iter().map(move |first| (topic, first))
    };
    trims.iter().flat_map(of).collect()
}

/// How many files are counted then. Some that are counted may be missing.
fn left(segments: u32, trim: &Trim) -> u32 {
    segments.saturating_sub(trim.gone.len() as u32)
}

impl Body {
    /// The segments from the front on that take no more and hold nothing at or above `before`.
    fn trim(&self, before: Offset) -> Option<Trim> {
        let view = self.shared.view();
        let nexts = view.segments.iter().skip(1).map(|segment| segment.first);
        let ranges = view.segments.iter().zip(nexts.chain([view.filled]));
        let gone = ranges
            .take_while(|(segment, next)| segment.kind == SegmentKind::Finished && *next <= before);
        let (gone, nexts): (Vec<_>, Vec<_>) =
            gone.map(|(segment, next)| (segment.first, next)).unzip();
        Some(Trim { start: *nexts.last()?, gone })
    }
}

impl Bodies {
    /// What goes of these logs if each keeps all at or above an offset.
    pub(crate) fn trims(&self, before: &BTreeMap<TopicId, Offset>) -> Trims {
        let trim = |(topic, before): (&TopicId, &Offset)| {
            Some((*topic, self.bodies.get(topic)?.trim(*before)?))
        };
        before.iter().filter_map(trim).collect()
    }

    /// The starts are durable: readers are told of them, and look for nothing below them any more.
    pub(crate) fn trimmed(&mut self, trims: &Trims) {
        for (topic, trim) in trims {
            let body = self.bodies.get_mut(topic).expect("only the caller removes it");
            body.state.trim(trim.start);
            body.segments = left(body.segments, trim);
            let mut view = body.shared.view();
            view.start = trim.start;
            view.segments.retain(|segment| segment.first >= trim.start);
        }
    }
}
