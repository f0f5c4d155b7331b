//! Pieces of segment files.

use std::path::PathBuf;
use std::sync::Arc;

use danube_env::File;
use danube_env::disk::Open;
use danube_model::{ErrorKind, Frame, Offset, TimeMs, TopicId};

use crate::error::{Error, Result};
use crate::pool::Kept;
use crate::reader::{Damage, Read};
use crate::segment::{self, Footer, HEADER_BYTES, Place, SegmentHeader, Step, Walk, read_footer};
use crate::shared::{Segment, SegmentKind};
use crate::store::Store;

/// A place in a segment file.
pub(super) struct Cursor {
    first: Offset,
    path: PathBuf,
    topic: TopicId,
    /// None: it is not there.
    file: Option<Kept>,
    /// Where it goes on. None: there is no more in this file.
    place: Option<Place>,
    /// Where the frames end.
    until: u64,
    /// A finished file does not grow.
    finished: bool,
    /// Damage that was passed, until it is known which offsets it took.
    passed: Option<segment::Damage>,
}

impl Cursor {
    /// Goes on at `from` in `segment`: where `before` stood if that is the same file, else by `hint`, a place before it in a
    /// segment that is still filled, or by the footer's index.
    pub(super) fn at(
        before: Option<Self>,
        store: &Store,
        topic: TopicId,
        segment: &Segment,
        from: Offset,
        hint: Option<u64>,
    ) -> Result<Self> {
        let mut cursor = match before {
            Some(before) if before.first == segment.first && before.place.is_some() => before,
            _ => Self::open(store, topic, segment, from, hint)?,
        };
        match segment.kind {
            SegmentKind::Filling { position, .. }
                if position > cursor.until && !cursor.finished =>
            {
                cursor.until = position;
            }
            SegmentKind::Finished if !cursor.finished => cursor.finish(store)?,
            _ => {}
        }
        Ok(cursor)
    }

    fn open(
        store: &Store,
        topic: TopicId,
        segment: &Segment,
        from: Offset,
        hint: Option<u64>,
    ) -> Result<Self> {
        let mut cursor = Self {
            first: segment.first,
            path: store.layout().segment(topic, segment.first),
            topic,
            file: None,
            place: None,
            until: 0,
            finished: false,
            passed: None,
        };
        let Some(file) = cursor.file(store)? else { return Ok(cursor) };
        let mut start = hint.unwrap_or(HEADER_BYTES);
        match segment.kind {
            SegmentKind::Filling { position, .. } => cursor.until = position,
            SegmentKind::Finished => {
                if let Some(position) = cursor.find_end(&*file, from)? {
                    start = position;
                }
            }
        }
        cursor.place = Some(start.into());
        Ok(cursor)
    }

    /// The open file; None if there is none any more, and then there is nothing to go on with.
    fn file(&mut self, store: &Store) -> Result<Option<Arc<dyn File>>> {
        if let Some(file) = self.file.as_mut().and_then(Kept::file) {
            return Ok(Some(file));
        }
        match store.env().disk.open(&self.path, Open::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let why = "the segment is missing".to_owned();
                self.passed = Some(segment::Damage { from: 0, to: 0, why });
                self.finished = true;
                (self.file, self.place) = (None, None);
                Ok(None)
            }
            file => {
                let file = file.map_err(Error::io("open", &self.path))?;
                self.file = Some(store.pool().keep(Arc::clone(&file)));
                Ok(Some(file))
            }
        }
    }

    /// The file takes no more: finds where its frames end, and a place to begin for `from`.
    fn find_end(&mut self, file: &dyn File, from: Offset) -> Result<Option<u64>> {
        let len = file.len().map_err(Error::io("read", &self.path))?;
        let footer = self.footer(file, len);
        self.finished = true;
        self.until = len;
        match footer {
            Ok(Some(footer)) => {
                self.until = footer.position;
                Ok(footer.index.position_for_offset(from))
            }
            Ok(None) => Ok(None),
            // The frames have checksums of their own: without header or footer they are found by walking.
            Err(error @ Error::Corrupt { .. }) => {
                tracing::error!(%error, "a segment is read without its index");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn footer(&self, file: &dyn File, len: u64) -> Result<Option<Footer>> {
        let header = SegmentHeader::read(file, &self.path, self.topic, self.first)?;
        read_footer(file, &self.path, len, &header)
    }

    fn finish(&mut self, store: &Store) -> Result<()> {
        if let Some(file) = self.file(store)? {
            self.find_end(&*file, self.first)?;
        }
        Ok(())
    }

    /// The walk from where it stands, as long as something is read: it holds the file open, and memory.
    fn walk(&mut self, store: &Store) -> Result<Option<Walk>> {
        let Some(file) = self.file(store)? else { return Ok(None) };
        let walk = |place| Walk::new(file, &self.path, self.topic, place, self.until);
        Ok(self.place.map(walk))
    }

    /// The file is not there.
    pub(super) fn is_missing(&self) -> bool {
        self.file.is_none()
    }

    /// Reads on in a file that may be removed by now: about `bytes` of the frames that follow each other from `offset` on.
    pub(super) fn rest(
        &mut self,
        store: &Store,
        mut offset: Offset,
        bytes: usize,
    ) -> Result<Vec<Frame>> {
        let mut frames: Vec<Frame> = Vec::new();
        if !self.finished {
            self.finish(store)?;
        }
        let Some(mut walk) = self.walk(store)? else { return Ok(frames) };
        let mut taken = 0;
        while taken < bytes {
            match walk.step()? {
                Step::Frame { frame, .. } if frame.next() <= offset => {}
                Step::Frame { frame, .. } if frame.base() <= offset => {
                    offset = frame.next();
                    taken += frame.bytes().len();
                    frames.push(frame);
                }
                Step::Frame { .. } | Step::Damage(_) | Step::End => {
                    self.place = None;
                    return Ok(frames);
                }
            }
        }
        self.place = Some(walk.place());
        Ok(frames)
    }

    /// Reads on from `offset`: about `bytes` of frames below `limit`, and what is missing between them. It ends early where
    /// more would have to be read from the file than was read for what it has.
    pub(super) fn piece(
        &mut self,
        store: &Store,
        mut offset: Offset,
        limit: Offset,
        bytes: usize,
    ) -> Result<Vec<Read>> {
        let mut reads = Vec::new();
        let mut taken = 0;
        let mut walk = self.walk(store)?.map(|walk| walk.reading(bytes as u64));
        let mut is_read = false;
        while offset < limit && taken < bytes && !is_read {
            let step = match &mut walk {
                Some(walk) => walk.step()?,
                None => Step::End,
            };
            match step {
                Step::Frame { frame, .. } if frame.next() <= offset => {}
                Step::Frame { position, frame } if frame.next() > limit => {
                    // Frames of another life of this file, behind what counts of it.
                    reads.push(self.missing(offset, limit, position));
                    self.place = None;
                    return Ok(reads);
                }
                Step::Frame { position, frame } => {
                    if frame.base() > offset {
                        reads.push(self.missing(offset, frame.base(), position));
                    }
                    self.passed = None;
                    offset = frame.next();
                    let len = frame.bytes().len();
                    taken += len;
                    reads.push(Read::Frame(frame));
                    // The next frame is most likely as long as this one.
                    is_read = walk.as_ref().is_some_and(|walk| walk.has_to_read(len as u64));
                }
                Step::Damage(damage) => self.passed = Some(damage),
                Step::End => {
                    reads.push(self.missing(offset, limit, self.until));
                    break;
                }
            }
        }
        self.place = walk.map(|walk| walk.place());
        Ok(reads)
    }

    fn missing(&self, from: Offset, to: Offset, position: u64) -> Read {
        let (position, why) = match &self.passed {
            Some(damage) => (damage.from, damage.why.clone()),
            None => (position, "the frames are missing".to_owned()),
        };
        let damage = Damage { from, to, path: self.path.clone(), position, why };
        tracing::error!(?damage, "messages are damaged");
        Read::Damage(damage)
    }
}

/// The first offset in these files that was received at `time` or later.
pub(super) fn find_time(
    store: &Store,
    topic: TopicId,
    segments: &[Segment],
    time: TimeMs,
) -> Result<Option<Offset>> {
    let mut damaged = None;
    let begins_before = |segment: &Segment| {
        let path = store.layout().segment(topic, segment.first);
        let header = store
            .env()
            .disk
            .open(&path, Open::Read)
            .map_err(Error::io("open", &path))
            .and_then(|file| SegmentHeader::read(&*file, &path, topic, segment.first));
        match header {
            Ok(header) => header.created < time,
            Err(error) => {
                damaged = Some(error);
                false
            }
        }
    };
    let behind = segments.partition_point(begins_before);
    match damaged {
        None => {}
        Some(error) if error.kind() == ErrorKind::Corrupt || is_missing(&error) => {
            tracing::error!(%error, "a segment is passed over in a search by time");
        }
        Some(error) => return Err(error),
    }
    let Some(at) = behind.checked_sub(1) else {
        return Ok(segments.first().map(|first| first.first));
    };
    let mut cursor = Cursor::open(store, topic, &segments[at], segments[at].first, None)?;
    if let Some(position) = cursor.position_for_time(store, time)? {
        cursor.place = Some(position.into());
    }
    let Some(mut walk) = cursor.walk(store)? else {
        return Ok(segments.get(behind).map(|next| next.first));
    };
    loop {
        match walk.step()? {
            Step::Frame { frame, .. } if frame.receive_time() >= time => {
                return Ok(Some(frame.base()));
            }
            Step::Frame { .. } | Step::Damage(_) => {}
            Step::End => return Ok(segments.get(behind).map(|next| next.first)),
        }
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

impl Cursor {
    fn position_for_time(&mut self, store: &Store, time: TimeMs) -> Result<Option<u64>> {
        let Some(file) = self.file(store)?.filter(|_| self.finished) else { return Ok(None) };
        let len = file.len().map_err(Error::io("read", &self.path))?;
        let footer = self.footer(&*file, len);
        Ok(footer.ok().flatten().and_then(|footer| footer.index.position_for_time(time)))
    }
}
