//! What a log holds in files, and letting go of the oldest of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use danube_env::Disk;
use danube_env::blocking;
use danube_env::disk::Open;
use danube_model::{Offset, TimeMs, TopicId};

use super::Store;
use crate::bodies;
use crate::commit::Command;
use crate::error::{Error, Result};
use crate::files;
use crate::layout::Layout;
use crate::segment::{SegmentHeader, read_footer};
use crate::shared::{Segment, SegmentKind};
use tokio::sync::oneshot;

/// Files that are removed, or looked at, in one piece of blocking work.
const FILES_AT_ONCE: usize = 64;

/// A file of a log that takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedSegment {
    /// Its first offset.
    pub first: Offset,
    /// The first offset that is not in it: where the next file begins, or the log goes on.
    pub next: Offset,
    /// Its length.
    pub bytes: u64,
    /// Receive time of its newest frame; None if its footer does not say.
    pub newest: Option<TimeMs>,
}

/// What a log has on the disk, from an offset on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// First offset still held.
    pub start: Offset,
    /// Files that take no more, rising.
    pub sealed: Vec<SealedSegment>,
    /// Bytes of frames that are in no such file.
    pub unsealed_bytes: u64,
    /// Where the log ends.
    pub end: Offset,
}

impl Store {
    /// What a log holds, open or not; of the files that take no more, those that begin at or behind `from`.
    ///
    /// # Errors
    ///
    /// [`Error::NoLog`] if this disk has none.
    pub async fn holding(&self, topic: TopicId, from: Offset) -> Result<Holding> {
        let shared = self.find_files(topic).await?;
        let (mut holding, segments) = {
            let view = shared.view();
            let filling = |segment: &Segment| match segment.kind {
                SegmentKind::Filling { position, .. } => position,
                SegmentKind::Finished => 0,
            };
            let unsealed = view.segments.iter().map(filling).sum::<u64>() + view.unfilled_bytes();
            let nexts = view.segments.iter().skip(1).map(|segment| segment.first);
            let ranges = view.segments.iter().zip(nexts.chain([view.filled]));
            let sealed = ranges.filter(|(segment, _)| segment.kind == SegmentKind::Finished);
            let sealed = sealed.filter(|(segment, _)| segment.first >= from);
            let segments: Vec<_> = sealed.map(|(segment, next)| (segment.first, next)).collect();
            let (start, end) = (view.start, shared.ends.borrow().durable);
            (Holding { start, sealed: Vec::new(), unsealed_bytes: unsealed, end }, segments)
        };
        for segments in segments.chunks(FILES_AT_ONCE) {
            let segments = segments.to_vec();
            let (disk, layout) = (Arc::clone(&self.inner.env.disk), self.inner.layout.clone());
            let look = move || {
                let look = |(first, next)| look_at(&*disk, &layout, topic, first, next);
                segments.into_iter().map(look).collect::<Vec<_>>()
            };
            holding.sealed.extend(blocking(&*self.inner.env.spawn, look).await);
        }
        Ok(holding)
    }

    /// Lets go of all files of logs that take no more and hold nothing at or above an offset. The new starts are durable
    /// before the first file is removed. Returns how many files went.
    ///
    /// Dropping the future leaves files that no log counts any more; the next start removes them.
    ///
    /// # Errors
    ///
    /// [`Error::NoLog`] if this disk has no such log; what is in the way of a checkpoint: then nothing was let go of.
    pub async fn trim(&self, before: BTreeMap<TopicId, Offset>) -> Result<usize> {
        for topic in before.keys() {
            self.find_files(*topic).await?;
        }
        let (done, answer) = oneshot::channel();
        self.command(Command::Trim { before, done }).await?;
        let gone = bodies::gone(&self.answered(answer).await?);
        let mut failed = Ok(());
        for segments in gone.chunks(FILES_AT_ONCE) {
            let segments = segments.to_vec();
            let (disk, layout) = (Arc::clone(&self.inner.env.disk), self.inner.layout.clone());
            let remove = move || files::remove_segments(&*disk, &layout, &segments);
            failed = failed.and(blocking(&*self.inner.env.spawn, remove).await);
        }
        failed.map(|()| gone.len())
    }
}

/// What a file says of itself. One that can't be read has no bytes and no time: reading it tells what is wrong with it.
fn look_at(
    disk: &dyn Disk,
    layout: &Layout,
    topic: TopicId,
    first: Offset,
    next: Offset,
) -> SealedSegment {
    let path = layout.segment(topic, first);
    let look = || {
        let file = disk.open(&path, Open::Read).map_err(Error::io("open", &path))?;
        let bytes = file.len().map_err(Error::io("read", &path))?;
        let header = SegmentHeader::read(&*file, &path, topic, first);
        let footer = header.and_then(|header| read_footer(&*file, &path, bytes, &header));
        let newest = footer.ok().flatten().map(|footer| footer.summary.last_receive_time);
        Ok::<_, Error>((bytes, newest))
    };
    let (bytes, newest) = look().unwrap_or_default();
    SealedSegment { first, next, bytes, newest }
}
