//! One log as the commit loop has it.

use std::collections::VecDeque;
use std::sync::Arc;

use danube_model::{Epoch, Offset};

use crate::bodies::Body;
use crate::commit::Item;
use crate::config::Config;
use crate::segment::HEADER_BYTES;
use crate::shared::Shared;
use crate::state::LogState;

/// A log, open or not.
pub(crate) struct Live {
    /// As of what has entered a round.
    pub(crate) state: LogState,
    /// What the log's level has confirmed.
    pub(crate) durable_end: Offset,
    /// What this disk is known to hold after a power cut.
    pub(crate) synced_end: Offset,
    /// No offset at or above it is assigned.
    pub(crate) ceiling: Offset,
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: VecDeque<Item>,
    /// Its deletion has entered a round.
    pub(crate) deleted: bool,
    /// Bytes of the segment that the next frame goes to; 0 if it begins one.
    segment_bytes: u64,
    /// Receive time of the first frame of that segment, as far as this run of the broker knows it.
    segment_created_ms: u64,
}

impl Live {
    /// A log that has never been opened.
    pub(crate) fn empty(shared: Arc<Shared>) -> Self {
        Self {
            state: LogState::default(),
            durable_end: Offset::ZERO,
            synced_end: Offset::ZERO,
            ceiling: Offset::ZERO,
            shared,
            queue: VecDeque::new(),
            deleted: false,
            segment_bytes: 0,
            segment_created_ms: 0,
        }
    }

    /// A log as a recovery left it: all of it in segments and synced.
    pub(crate) fn recovered(body: &Body) -> Self {
        let end = body.state.end;
        body.shared.view().gaps = body.state.gaps.clone();
        Self {
            state: body.state.clone(),
            durable_end: end,
            synced_end: end,
            segment_bytes: body.active().map_or(0, |(_, position)| position),
            segment_created_ms: body.state.last_receive_time.get(),
            ..Self::empty(Arc::clone(&body.shared))
        }
    }

    pub(crate) fn is_open(&self, epoch: Epoch) -> bool {
        self.state.open && self.state.epoch == epoch
    }

    /// Whether a frame of so many bytes begins another segment although there is one.
    pub(crate) fn outgrows_segment(&self, frame_bytes: u64, config: &Config) -> bool {
        self.segment_bytes > HEADER_BYTES && self.segment_bytes + frame_bytes > config.segment_bytes
    }

    pub(crate) fn has_segment(&self) -> bool {
        self.segment_bytes > 0
    }

    /// The segment was sealed.
    pub(crate) fn sealed(&mut self) {
        self.segment_bytes = 0;
    }

    /// A frame was given to the segment.
    pub(crate) fn grew(&mut self, frame_bytes: u64, receive_time_ms: u64) {
        if self.segment_bytes == 0 {
            self.segment_bytes = HEADER_BYTES;
            self.segment_created_ms = receive_time_ms;
        }
        self.segment_bytes += frame_bytes;
    }

    /// Whether the segment is to be sealed for its age.
    pub(crate) fn is_old(&self, config: &Config, now_ms: u64) -> bool {
        let age = now_ms.saturating_sub(self.segment_created_ms);
        let limit = if self.segment_bytes >= config.segment_worth_bytes {
            config.segment_age.min(config.segment_age_max)
        } else {
            config.segment_age_max
        };
        self.state.open && self.has_segment() && u128::from(age) >= limit.as_millis()
    }
}
