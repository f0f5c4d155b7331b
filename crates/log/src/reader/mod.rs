//! Reads one log from any place to its durable end, and goes on as it grows.
//!
//! A reader plans one piece at a time from present facts: memory, else a file; then it plans again. So boundaries
//! may move while it is open and it does not notice: a file that retention removes is read to its end by who has it open. It
//! yields frames, and says where there is none: a gap, offsets that retention removed, or damage. What lies behind these is read all the same. A log whose end is damaged ends in damage,
//! up to its ceiling.
//!
//! ```text
//!  offset ─▶ in the tail? ─ yes ─▶ frames from memory
//!               │ no
//!               └─▶ segment that holds it ─▶ `chunk`: a piece of the file, checked ─▶ frames
//! ```

mod chunk;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use danube_env::blocking;
use danube_model::{Frame, Offset, TimeMs};

use self::chunk::Cursor;
use crate::error::{Error, Result};
use crate::shared::{Ends, Segment, SegmentKind, Shared};
use crate::store::Store;

/// Bytes that are taken from memory or a file at once, about, where the reader does not say less.
const PIECE_BYTES: usize = 256 * 1024;

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first offset still held.
    Earliest,
    /// At the durable end.
    Latest,
    /// At an offset. Below the start, what is gone is told first.
    Offset(Offset),
    /// At the first batch received at or after a time.
    Time(TimeMs),
}

/// What a reader yields.
#[derive(Clone, Debug)]
pub enum Read {
    /// A batch or a gap. The first one may begin below the offset asked for: batches are not cut.
    Frame(Frame),
    /// Offsets `from..to` were removed by retention.
    Trimmed {
        /// First offset that is gone.
        from: Offset,
        /// First offset that is there.
        to: Offset,
    },
    /// Offsets `from..to` can't be read.
    Damage(Damage),
    /// There is no more below the durable end, which is this.
    CaughtUp(Offset),
}

/// A range that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// First offset that is lost.
    pub from: Offset,
    /// First offset behind it that can be read, or the end.
    pub to: Offset,
    /// The file that should have it.
    pub path: PathBuf,
    /// Where in it.
    pub position: u64,
    /// What is wrong.
    pub why: String,
}

impl From<&Damage> for Error {
    fn from(damage: &Damage) -> Self {
        let Damage { path, position, why, .. } = damage.clone();
        Self::corrupt(path, position, why)
    }
}

/// Reads a log in order.
pub struct Reader {
    store: Store,
    shared: Arc<Shared>,
    /// What is yielded next begins here.
    offset: Offset,
    ready: VecDeque<Read>,
    piece_bytes: usize,
    /// Where the last piece of a file ended.
    cursor: Option<Cursor>,
    /// What may be lost behind the end.
    lost_end: Option<Damage>,
}

/// How far a log goes, for those who have no reader at hand. Cheap to clone.
#[derive(Clone)]
pub struct Bounds(Arc<Shared>);

impl Bounds {
    /// The first offset still held.
    pub fn start(&self) -> Offset {
        self.0.view().start
    }

    /// Where it ends now.
    pub fn ends(&self) -> Ends {
        *self.0.ends.borrow()
    }
}

impl Reader {
    pub(crate) async fn open(
        store: Store,
        shared: Arc<Shared>,
        start: Start,
        lost_end: Option<Damage>,
    ) -> Result<Self> {
        let durable = shared.ends.borrow().durable;
        let end = lost_end.as_ref().map_or(durable, |lost| lost.to.max(durable));
        let offset = match start {
            Start::Earliest => shared.view().start,
            Start::Latest => durable,
            Start::Offset(offset) if offset > end => {
                let (topic, start) = (shared.topic, shared.view().start);
                return Err(Error::OutOfRange { topic, offset, start, end });
            }
            Start::Offset(offset) => offset,
            Start::Time(time) => find_time(&store, &shared, time).await?.min(durable),
        };
        let (ready, piece_bytes, cursor) = (VecDeque::new(), PIECE_BYTES, None);
        Ok(Self { store, shared, offset, ready, piece_bytes, cursor, lost_end })
    }

    /// From now on holds about so many bytes at once, or one batch if that is larger. Never more than 256 KiB.
    pub fn hold(&mut self, bytes: usize) {
        self.piece_bytes = bytes.min(PIECE_BYTES);
    }

    /// The next offset that is not yielded yet.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// How far the log goes now.
    pub fn ends(&self) -> Ends {
        *self.shared.ends.borrow()
    }

    /// How far the log goes, now and later.
    pub fn bounds(&self) -> Bounds {
        Bounds(Arc::clone(&self.shared))
    }

    /// The next frame, or what there is in its place. Cancel safe: what was read and not yielded comes again.
    pub async fn next(&mut self) -> Result<Read> {
        loop {
            if let Some(read) = self.ready.pop_front() {
                if let Read::Damage(damage) = &read {
                    self.store.counters().is_damaged(self.shared.topic, damage);
                }
                self.offset = self.offset.max(read.next());
                return Ok(read);
            }
            let durable = self.ends().durable;
            if self.offset >= durable {
                // Once a gap is accepted, the log goes on behind it, and it is read as every other gap.
                let Some(lost) = self.lost_end.take_if(|lost| lost.to > self.offset) else {
                    return Ok(Read::CaughtUp(durable));
                };
                let from = std::mem::replace(&mut self.offset, lost.to);
                return Ok(Read::Damage(Damage { from, ..lost }));
            }
            match self.plan(durable) {
                Plan::Ready(reads) => {
                    // Who has come to what is in memory most likely stays there.
                    self.cursor = None;
                    self.ready.extend(reads);
                }
                Plan::Trimmed { to } => {
                    if let Some(cursor) = self.cursor.take() {
                        self.read_held(cursor).await?;
                    }
                    if self.ready.is_empty() {
                        self.ready.push_back(Read::Trimmed { from: self.offset, to });
                    }
                }
                Plan::File { segment, limit, hint } => {
                    let (store, shared) = (self.store.clone(), Arc::clone(&self.shared));
                    let (from, bytes) = (self.offset, self.piece_bytes);
                    let cursor = self.cursor.take();
                    let (cursor, reads) = blocking(&*self.store.env().spawn, move || {
                        let mut cursor =
                            Cursor::at(cursor, &store, shared.topic, &segment, from, hint)?;
                        let reads = cursor.piece(&store, from, limit, bytes)?;
                        // The start moves before a file is removed.
                        if cursor.is_missing() && from < shared.view().start {
                            return Ok((None, Vec::new()));
                        }
                        Ok::<_, Error>((Some(cursor), reads))
                    })
                    .await?;
                    self.cursor = cursor;
                    self.ready.extend(reads);
                }
            }
        }
    }

    /// Reads on in a file that was removed meanwhile, and keeps it as long as there is more.
    async fn read_held(&mut self, mut cursor: Cursor) -> Result<()> {
        let (store, from) = (self.store.clone(), self.offset);
        let (cursor, frames) = blocking(&*self.store.env().spawn, move || {
            let frames = cursor.rest(&store, from, PIECE_BYTES)?;
            Ok::<_, Error>((cursor, frames))
        })
        .await?;
        if !frames.is_empty() {
            self.cursor = Some(cursor);
        }
        self.ready.extend(frames.into_iter().map(Read::Frame));
        Ok(())
    }

    /// Waits until there is more than was yielded, or the log is closed. Cancel safe.
    pub async fn more(&mut self) -> Ends {
        let mut seen = self.shared.ends.subscribe();
        let offset = self.offset;
        match seen.wait_for(|ends| ends.durable > offset || ends.closed).await {
            Ok(ends) => *ends,
            Err(_) => Ends { durable: offset, closed: true },
        }
    }

    fn plan(&self, durable: Offset) -> Plan {
        let view = self.shared.view();
        if self.offset < view.start {
            return Plan::Trimmed { to: view.start };
        }
        if let Some(frames) = view.frames(self.offset, durable, self.piece_bytes) {
            assert!(!frames.is_empty(), "frames below the durable end are in memory up to it");
            return Plan::Ready(frames.into_iter().map(Read::Frame).collect());
        }
        let behind = view.segments.partition_point(|segment| segment.first <= self.offset);
        let next = view.segments.get(behind).map(|segment| segment.first);
        let limit = next.unwrap_or(view.filled).min(durable);
        match view.segments[..behind].last() {
            Some(segment) => {
                let hint = match segment.kind {
                    SegmentKind::Filling { .. } => view.index.position_for_offset(self.offset),
                    SegmentKind::Finished => None,
                };
                Plan::File { segment: segment.clone(), limit, hint }
            }
            None => Plan::Ready(vec![Read::Damage(Damage {
                from: self.offset,
                to: limit,
                path: self.store.layout().segment(self.shared.topic, self.offset),
                position: 0,
                why: "the segment is missing".to_owned(),
            })]),
        }
    }
}

enum Plan {
    Ready(Vec<Read>),
    /// What is wanted was removed; the log begins at `to`.
    Trimmed {
        to: Offset,
    },
    /// A piece of this file; offsets at or above `limit` are elsewhere.
    File {
        segment: Segment,
        limit: Offset,
        /// A place in the file before the one wanted.
        hint: Option<u64>,
    },
}

impl Read {
    /// The offset behind it.
    pub fn next(&self) -> Offset {
        match self {
            Self::Frame(frame) => frame.next(),
            Self::Trimmed { to, .. } => *to,
            Self::Damage(damage) => damage.to,
            Self::CaughtUp(end) => *end,
        }
    }
}

/// The offset of the first frame received at `time` or later; where there is none, the end of what is in memory or files.
async fn find_time(store: &Store, shared: &Arc<Shared>, time: TimeMs) -> Result<Offset> {
    loop {
        let start = shared.view().start;
        let found = find_time_in_what_is_there(store, shared, time).await?;
        // A file that retention removed meanwhile was not looked at.
        if shared.view().start == start {
            return Ok(found);
        }
    }
}

async fn find_time_in_what_is_there(
    store: &Store,
    shared: &Arc<Shared>,
    time: TimeMs,
) -> Result<Offset> {
    let (segments, filled) = {
        let view = shared.view();
        if view.tail.front().is_some_and(|first| first.receive_time() < time) {
            let at = view.tail.partition_point(|frame| frame.receive_time() < time);
            return Ok(view.tail.get(at).map_or(Offset::MAX, |frame| frame.base()));
        }
        // Together: what is written to files meanwhile was not looked at.
        (view.segments.clone(), view.filled)
    };
    let (store, topic) = (store.clone(), shared.topic);
    let found = blocking(&*store.clone().env().spawn, move || {
        chunk::find_time(&store, topic, &segments, time)
    })
    .await?;
    // Not in a file: the first frame in memory, if there is one, was received later.
    Ok(found.unwrap_or(filled))
}
