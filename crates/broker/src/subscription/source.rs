//! Where a subscription gets its records: the log, read ahead once, and again for what is delivered again; or, of a
//! non-reliable topic, the buffer that its producers fill.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use danube_log::{Bounds, Read, Reader, Start};
use danube_model::{Batch, Frame, Offset, TimeMs};

use super::consumer::MissingReason;
use crate::error::{Error, Result};
use crate::fan_out::Buffer;
use crate::topic::Topic;

/// Bytes of batches that are kept until all their records were handed out, as a multiple of what may lie in the outbox of one
/// consumer; more are read again when their time comes.
const KEPT_SHARES: usize = 2;

/// A read under way. It goes on where it was when somebody waits for it again.
type Reading = Pin<Box<dyn Future<Output = (Option<Box<Reader>>, Result<Found>)> + Send>>;

/// Log or buffer, and what of it is kept.
pub(super) struct Source {
    topic: Topic,
    feed: Feed,
    /// In the order of their offsets.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    /// The batch that was read last for what is handed out again: more of it may be.
    again: Option<Kept>,
}

enum Feed {
    Log {
        /// While nothing is being read.
        reader: Option<Box<Reader>>,
        reading: Option<Reading>,
        bounds: Option<Bounds>,
    },
    Memory(Arc<Buffer>),
}

/// A batch with the time at which the broker received it.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) batch: Batch,
    pub(super) receive_time: TimeMs,
}

/// What was read.
pub(super) enum Found {
    Batch(Kept),
    Missing(Range<Offset>, MissingReason),
    /// The log was closed; it is opened anew.
    Closed,
}

impl Kept {
    pub(super) fn range(&self) -> Range<Offset> {
        self.batch.base_offset()..self.batch.next_offset()
    }
}

impl Source {
    /// The log of a reliable topic.
    pub(super) fn log(topic: Topic) -> Source {
        Source::new(topic, Feed::Log { reader: None, reading: None, bounds: None })
    }

    /// What is published from now on, and the first offset of that.
    pub(super) fn memory(topic: Topic) -> (Source, Offset) {
        let (buffer, next) = topic.slot.fan_out.subscribe();
        (Source::new(topic, Feed::Memory(buffer)), next)
    }

    fn new(topic: Topic, feed: Feed) -> Source {
        Source { topic, feed, kept: VecDeque::new(), kept_bytes: 0, again: None }
    }

    /// Reads from `next` on from now on, as soon as something is asked for. Forgets what is kept.
    pub(super) fn restart(&mut self) {
        if let Feed::Log { reader, reading, .. } = &mut self.feed {
            (*reader, *reading) = (None, None);
        }
        (self.kept, self.kept_bytes) = (VecDeque::new(), 0);
    }

    /// What there is at `next`, once there is something. Cancel safe.
    pub(super) async fn more(&mut self, next: Offset) -> Result<Found> {
        match &mut self.feed {
            Feed::Memory(buffer) => {
                let (batch, receive_time) = buffer.take().await;
                Ok(Found::Batch(Kept { batch, receive_time }))
            }
            Feed::Log { reader, reading, bounds } => {
                let read = reading
                    .get_or_insert_with(|| Box::pin(read(self.topic.clone(), reader.take(), next)));
                let (at, found) = read.await;
                *reading = None;
                *bounds = at.as_ref().map(|reader| reader.bounds()).or(bounds.take());
                *reader = at;
                found
            }
        }
    }

    /// The first offset that the log still has, as far as that is known here.
    pub(super) fn log_start(&self) -> Offset {
        match &self.feed {
            Feed::Log { bounds: Some(bounds), .. } => bounds.start(),
            Feed::Log { bounds: None, .. } | Feed::Memory(_) => Offset::ZERO,
        }
    }

    /// Whether somebody is there.
    pub(super) fn set_open(&self, is_open: bool) {
        if let Feed::Memory(buffer) = &self.feed {
            buffer.set_open(is_open);
        }
    }

    /// Records that found no room.
    pub(super) fn dropped(&self) -> u64 {
        match &self.feed {
            Feed::Log { .. } => 0,
            Feed::Memory(buffer) => buffer.dropped(),
        }
    }

    /// Keeps a batch that was read until its records were handed out.
    pub(super) fn keep(&mut self, kept: Kept) {
        self.kept_bytes += kept.batch.bytes().len();
        self.kept.push_back(kept);
        let kept_max = KEPT_SHARES * self.topic.broker.inner.subscriptions.share();
        while self.kept_bytes > kept_max && self.kept.len() > 1 {
            self.drop_first();
        }
    }

    /// All that can go is handed out: lets go of batches that lie before an offset.
    pub(super) fn forget_below(&mut self, offset: Offset) {
        self.again = None;
        while self.kept.front().is_some_and(|kept| kept.batch.next_offset() <= offset) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(kept) = self.kept.pop_front() {
            self.kept_bytes -= kept.batch.bytes().len();
        }
    }

    /// What stands at the beginning of `range`: its batch, from memory or the log, or that it is gone. `range` was read
    /// before.
    pub(super) async fn fetch(&mut self, range: &Range<Offset>) -> Result<Found> {
        let at = self.kept.partition_point(|kept| kept.batch.next_offset() <= range.start);
        let is_it = |kept: &&Kept| kept.range().contains(&range.start);
        let known = self.kept.get(at).filter(is_it);
        if let Some(kept) = known.or(self.again.as_ref().filter(is_it)) {
            return Ok(Found::Batch(kept.clone()));
        }
        if let Feed::Memory(_) = &self.feed {
            return Ok(Found::Closed);
        }
        let mut reader = self.topic.read(Start::Offset(range.start)).await?;
        let found = found(reader.next().await?).unwrap_or(Found::Closed);
        if let Found::Batch(kept) = &found {
            self.again = Some(kept.clone());
        }
        Ok(found)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Feed::Memory(buffer) = &self.feed {
            self.topic.slot.fan_out.unsubscribe(buffer);
        }
    }
}

/// The next thing that the log has at `next`, and the reader where it goes on.
async fn read(
    topic: Topic,
    reader: Option<Box<Reader>>,
    next: Offset,
) -> (Option<Box<Reader>>, Result<Found>) {
    let mut reader = match reader {
        Some(reader) => reader,
        None => match topic.read(Start::Offset(next)).await {
            Ok(reader) => Box::new(reader),
            Err(error) => return (None, Err(error)),
        },
    };
    reader.hold(topic.broker.inner.subscriptions.share());
    loop {
        match reader.next().await {
            Err(error) => return (None, Err(error.into())),
            // What may be behind the end is not passed over before an operator accepts it as a gap.
            Ok(Read::Damage(damage)) if damage.from >= reader.ends().durable => {
                let (topic, end) = (topic.name().clone(), reader.ends().durable);
                return (None, Err(Error::DamagedEnd { topic, end }));
            }
            Ok(read) => {
                if let Some(found) = found(read) {
                    return (Some(reader), Ok(found));
                }
            }
        }
        let ends = reader.more().await;
        if ends.closed && ends.durable <= reader.offset() {
            return (None, Ok(Found::Closed));
        }
    }
}

/// What a reader says, unless it says that there is no more.
fn found(read: Read) -> Option<Found> {
    match read {
        Read::Frame(frame) => Some(batch_or_gap(&frame)),
        Read::Trimmed { from, to } => Some(Found::Missing(from..to, MissingReason::Trimmed)),
        Read::Damage(damage) => {
            Some(Found::Missing(damage.from..damage.to, MissingReason::Damage(damage)))
        }
        Read::CaughtUp(_) => None,
    }
}

fn batch_or_gap(frame: &Frame) -> Found {
    match (frame.to_batch(), frame.kind()) {
        (Some(batch), _) => Found::Batch(Kept { batch, receive_time: frame.receive_time() }),
        (None, danube_model::frame::FrameKind::Gap { next, reason }) => {
            Found::Missing(frame.base()..next, MissingReason::Gap(reason))
        }
        (None, danube_model::frame::FrameKind::Batch) => unreachable!("a batch frame has a batch"),
    }
}
