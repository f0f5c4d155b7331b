//! Where a subscription gets its records: the log, read ahead once, and again for what is delivered again.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;

use danube_log::{Bounds, Read, Reader, Start};
use danube_model::{Batch, Frame, Offset, TimeMs};

use super::consumer::MissingReason;
use crate::error::Result;
use crate::topic::Topic;

/// Bytes of batches that are kept until all their records were handed out; more are read again when their time comes.
const KEPT_BYTES: usize = 2 << 20;

/// A read under way. It goes on where it was when somebody waits for it again.
type Reading = Pin<Box<dyn Future<Output = (Option<Reader>, Result<Found>)> + Send>>;

/// The log, and what of it is kept.
pub(super) struct Source {
    topic: Topic,
    /// While nothing is being read.
    reader: Option<Reader>,
    reading: Option<Reading>,
    bounds: Option<Bounds>,
    /// In the order of their offsets.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
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
    pub(super) fn new(topic: Topic) -> Source {
        let (reader, reading, bounds) = (None, None, None);
        Source { topic, reader, reading, bounds, kept: VecDeque::new(), kept_bytes: 0 }
    }

    /// Reads from `next` on from now on, as soon as something is asked for. Forgets what is kept.
    pub(super) fn restart(&mut self) {
        (self.reader, self.reading) = (None, None);
        (self.kept, self.kept_bytes) = (VecDeque::new(), 0);
    }

    /// What there is at `next`, once there is something. Cancel safe.
    pub(super) async fn more(&mut self, next: Offset) -> Result<Found> {
        let reading = self
            .reading
            .get_or_insert_with(|| Box::pin(read(self.topic.clone(), self.reader.take(), next)));
        let (reader, found) = reading.await;
        self.reading = None;
        if let Some(reader) = &reader {
            self.bounds = Some(reader.bounds());
        }
        self.reader = reader;
        found
    }

    /// The first offset that the log still has, as far as that is known here.
    pub(super) fn log_start(&self) -> Offset {
        self.bounds.as_ref().map_or(Offset::ZERO, Bounds::start)
    }

    /// How far the log goes, as far as that is known here.
    pub(super) fn log_end(&self) -> Option<Offset> {
        Some(self.bounds.as_ref()?.ends().durable)
    }

    /// Keeps a batch that was read until its records were handed out.
    pub(super) fn keep(&mut self, kept: Kept) {
        self.kept_bytes += kept.batch.bytes().len();
        self.kept.push_back(kept);
        while self.kept_bytes > KEPT_BYTES && self.kept.len() > 1 {
            self.drop_first();
        }
    }

    /// Lets go of batches that lie before an offset.
    pub(super) fn forget_below(&mut self, offset: Offset) {
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
        if let Some(kept) = self.kept.get(at)
            && kept.batch.base_offset() <= range.start
        {
            return Ok(Found::Batch(kept.clone()));
        }
        let mut reader = self.topic.read(Start::Offset(range.start)).await?;
        Ok(found(reader.next().await?).unwrap_or(Found::Closed))
    }
}

/// The next thing that the log has at `next`, and the reader where it goes on.
async fn read(
    topic: Topic,
    reader: Option<Reader>,
    next: Offset,
) -> (Option<Reader>, Result<Found>) {
    let mut reader = match reader {
        Some(reader) => reader,
        None => match topic.read(Start::Offset(next)).await {
            Ok(reader) => reader,
            Err(error) => return (None, Err(error)),
        },
    };
    loop {
        match reader.next().await {
            Err(error) => return (None, Err(error.into())),
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
