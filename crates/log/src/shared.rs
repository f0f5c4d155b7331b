//! What the two loops show to readers: where a log ends, its newest frames, and its files.
//!
//! ```text
//!  offsets   start                    filled                    durable     end
//!            ├────── segments ────────────┤
//!                                 ├────── tail (frames in memory) ────────────┤
//! ```
//!
//! Invariant: every frame below the log's end is in the tail or in a segment. A frame leaves the tail only when it
//! is in a segment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use danube_model::metric::Counter;
use danube_model::{Frame, Offset, TopicId};

use tokio::sync::watch;

use crate::checkpoint::{EndDamage, Gap};
use crate::reader::Damage;
use crate::segment::{Index, IndexEntry};

/// How far a log goes, for those who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// What the log's level has confirmed; readers stop here.
    pub durable: Offset,
    /// No more will come through this handle: the log was closed, deleted, or its disk failed.
    pub closed: bool,
}

/// One log, shared between the loops and its readers.
pub(crate) struct Shared {
    pub(crate) topic: TopicId,
    pub(crate) ends: watch::Sender<Ends>,
    /// Messages that were given offsets since the start of the broker, and bytes of their batches.
    messages: Counter,
    bytes: Counter,
    view: Mutex<View>,
}

/// Where frames can be found.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) start: Offset,
    /// Every frame before it is in a segment.
    pub(crate) filled: Offset,
    /// In order. Offsets between one's end and the next one's first are damaged.
    pub(crate) segments: Vec<Segment>,
    /// Of the last segment while it is filled, as far as this run of the broker filled it.
    pub(crate) index: Index,
    pub(crate) tail: VecDeque<Frame>,
    /// Offsets that can't be read; the newest ones if there are many.
    pub(crate) gaps: Vec<Gap>,
    /// What may have taken more behind the end, until a gap is accepted.
    pub(crate) end_damage: Option<EndDamage>,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) first: Offset,
    pub(crate) kind: SegmentKind,
}

/// What is known of a file's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// Ends with a footer, or ended in damage: the file itself tells.
    Finished,
    /// Being filled: frames up to `end` lie before `position`.
    Filling { end: Offset, position: u64 },
}

impl Shared {
    pub(crate) fn new(topic: TopicId, start: Offset, end: Offset) -> Arc<Self> {
        let ends = watch::Sender::new(Ends { durable: end, closed: true });
        let view = Mutex::new(View { start, filled: end, ..View::default() });
        let (messages, bytes) = Default::default();
        Arc::new(Self { topic, ends, messages, bytes, view })
    }

    /// A batch was given its offsets.
    pub(crate) fn count(&self, messages: u64, bytes: u64) {
        self.messages.add(messages);
        self.bytes.add(bytes);
    }

    /// Messages and bytes that were counted.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.messages.get(), self.bytes.get())
    }

    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().expect("nothing panics while it holds the view")
    }

    /// What may be lost behind the end, up to `ceiling`. None if the end is not damaged.
    pub(crate) fn lost_end(&self, ceiling: Offset) -> Option<Damage> {
        let EndDamage { path, position, what } = self.view().end_damage.clone()?;
        let from = self.ends.borrow().durable;
        Some(Damage { from, to: ceiling.max(from), path, position, why: what })
    }

    /// Moves the durable end, never back.
    pub(crate) fn durable(&self, end: Offset) {
        self.ends.send_if_modified(|ends| {
            let moved = ends.durable < end;
            ends.durable = ends.durable.max(end);
            moved
        });
    }

    pub(crate) fn set_closed(&self, closed: bool) {
        self.ends.send_if_modified(|ends| std::mem::replace(&mut ends.closed, closed) != closed);
    }
}

impl View {
    /// Frames up to `end` are in `segment`, which is the last one.
    pub(crate) fn show_filled(&mut self, segment: Segment, end: Offset, entries: Vec<IndexEntry>) {
        match self.segments.last_mut() {
            Some(last) if last.first == segment.first => *last = segment,
            _ => self.segments.push(segment),
        }
        entries.into_iter().for_each(|entry| self.index.add(entry));
        self.filled = end;
    }

    /// The frames in memory from the one that holds `offset` on, up to `durable` and about `bytes_max`; at least one.
    /// None: `offset` is not in memory.
    pub(crate) fn frames(
        &self,
        offset: Offset,
        durable: Offset,
        bytes_max: usize,
    ) -> Option<Vec<Frame>> {
        if self.tail.front().is_none_or(|first| offset < first.base()) {
            return None;
        }
        let at = self.tail.partition_point(|frame| frame.next() <= offset);
        let mut bytes = 0;
        let take = self.tail.range(at..).take_while(|frame| {
            let fits = bytes == 0 || bytes + frame.bytes().len() <= bytes_max;
            bytes += frame.bytes().len();
            fits && frame.next() <= durable
        });
        Some(take.cloned().collect())
    }

    /// The frame in memory that holds `offset`.
    pub(crate) fn frame_at(&self, offset: Offset) -> Option<&Frame> {
        let at = self.tail.partition_point(|frame| frame.next() <= offset);
        self.tail.get(at).filter(|frame| frame.base() <= offset)
    }

    /// Bytes of the frames that are in no segment.
    pub(crate) fn unfilled_bytes(&self) -> u64 {
        let unfilled = self.tail.iter().rev().take_while(|frame| frame.base() >= self.filled);
        unfilled.map(|frame| frame.bytes().len() as u64).sum()
    }
}

/// The newest frames of all logs, in the order in which they came, under one budget of bytes.
pub(crate) struct Tail {
    frames: VecDeque<Kept>,
    bytes: u64,
    bytes_max: u64,
}

struct Kept {
    shared: Arc<Shared>,
    next: Offset,
    bytes: u64,
}

impl Tail {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { frames: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Bytes of all frames.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a log's newest frame.
    pub(crate) fn push(&mut self, shared: &Arc<Shared>, frame: Frame) {
        let (next, bytes) = (frame.next(), frame.bytes().len() as u64);
        shared.view().tail.push_back(frame);
        self.bytes += bytes;
        self.frames.push_back(Kept { shared: Arc::clone(shared), next, bytes });
    }

    /// Lets go of the oldest frames until the budget is kept, or until one is not in a segment.
    pub(crate) fn evict(&mut self) {
        while self.bytes > self.bytes_max {
            let Some(kept) = self.frames.front() else { return };
            let mut view = kept.shared.view();
            if view.filled < kept.next && !view.tail.is_empty() {
                return;
            }
            // A deleted log has let go of its frames already.
            view.tail.pop_front_if(|frame| frame.next() <= kept.next);
            drop(view);
            self.bytes -= kept.bytes;
            self.frames.pop_front();
        }
    }
}
