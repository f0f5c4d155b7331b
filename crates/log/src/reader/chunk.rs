//! Pieces of segment files.

use std::path::PathBuf;
use std::sync::Arc;

use danube_env::disk::Open;
use danube_env::{Disk, File};
use danube_model::{ErrorKind, Frame, Offset, TimeMs, TopicId};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::reader::{Damage, Read};
use crate::segment::{self, Footer, HEADER_BYTES, SegmentHeader, Step, Walk, read_footer};
use crate::shared::{Segment, SegmentKind};

/// A place in a segment file.
pub(super) struct Cursor {
    first: Offset,
    path: PathBuf,
    topic: TopicId,
    file: Option<Arc<dyn File>>,
    walk: Option<Walk>,
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
        disk: &dyn Disk,
        layout: &Layout,
        topic: TopicId,
        segment: &Segment,
        from: Offset,
        hint: Option<u64>,
    ) -> Result<Self> {
        let mut cursor = match before {
            Some(before) if before.first == segment.first && before.walk.is_some() => before,
            _ => Self::open(disk, layout, topic, segment, from, hint)?,
        };
        match segment.kind {
            SegmentKind::Filling { position, .. }
                if position > cursor.until && !cursor.finished =>
            {
                cursor.go_on(position);
            }
            SegmentKind::Finished if !cursor.finished => cursor.finish()?,
            _ => {}
        }
        Ok(cursor)
    }

    fn open(
        disk: &dyn Disk,
        layout: &Layout,
        topic: TopicId,
        segment: &Segment,
        from: Offset,
        hint: Option<u64>,
    ) -> Result<Self> {
        let path = layout.segment(topic, segment.first);
        let mut cursor = Self {
            first: segment.first,
            path: path.clone(),
            topic,
            file: None,
            walk: None,
            until: 0,
            finished: false,
            passed: None,
        };
        let file = match disk.open(&path, Open::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let why = "the segment is missing".to_owned();
                cursor.passed = Some(segment::Damage { from: 0, to: 0, why });
                cursor.finished = true;
                return Ok(cursor);
            }
            file => file.map_err(Error::io("open", &path))?,
        };
        cursor.file = Some(Arc::clone(&file));
        let mut start = hint.unwrap_or(HEADER_BYTES);
        match segment.kind {
            SegmentKind::Filling { position, .. } => cursor.until = position,
            SegmentKind::Finished => {
                if let Some(position) = cursor.find_end(from)? {
                    start = position;
                }
            }
        }
        cursor.walk = Some(Walk::new(file, &path, topic, start, cursor.until));
        Ok(cursor)
    }

    /// The file takes no more: finds where its frames end, and a place to begin for `from`.
    fn find_end(&mut self, from: Offset) -> Result<Option<u64>> {
        let file = self.file.as_ref().expect("an open cursor has a file");
        let len = file.len().map_err(Error::io("read", &self.path))?;
        let footer = self.footer(&**file, len);
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

    fn finish(&mut self) -> Result<()> {
        let Some(walk) = &self.walk else { return Ok(()) };
        let position = walk.position();
        self.find_end(self.first)?;
        self.walk_from(position);
        Ok(())
    }

    /// Walks from `position` on to where the frames end.
    fn walk_from(&mut self, position: u64) {
        if let Some(file) = &self.file {
            let file = Arc::clone(file);
            self.walk = Some(Walk::new(file, &self.path, self.topic, position, self.until));
        }
    }

    /// The file has grown.
    fn go_on(&mut self, until: u64) {
        self.until = until;
        if let Some(position) = self.walk.as_ref().map(Walk::position) {
            self.walk_from(position);
        }
    }

    /// The file is not there.
    pub(super) fn is_missing(&self) -> bool {
        self.file.is_none()
    }

    /// Reads on in a file that was removed: about `bytes` of the frames that follow each other from `offset` on.
    pub(super) fn rest(&mut self, mut offset: Offset, bytes: usize) -> Result<Vec<Frame>> {
        let mut frames: Vec<Frame> = Vec::new();
        if !self.finished {
            self.finish()?;
        }
        let mut taken = 0;
        while taken < bytes
            && let Some(walk) = &mut self.walk
        {
            match walk.step()? {
                Step::Frame { frame, .. } if frame.next() <= offset => {}
                Step::Frame { frame, .. } if frame.base() <= offset => {
                    offset = frame.next();
                    taken += frame.bytes().len();
                    frames.push(frame);
                }
                Step::Frame { .. } | Step::Damage(_) | Step::End => self.walk = None,
            }
        }
        Ok(frames)
    }

    /// Reads on from `offset`: about `bytes` of frames below `limit`, and what is missing between them.
    pub(super) fn piece(
        &mut self,
        mut offset: Offset,
        limit: Offset,
        bytes: usize,
    ) -> Result<Vec<Read>> {
        let mut reads = Vec::new();
        let mut taken = 0;
        while offset < limit && taken < bytes {
            let step = match &mut self.walk {
                Some(walk) => walk.step()?,
                None => Step::End,
            };
            match step {
                Step::Frame { frame, .. } if frame.next() <= offset => {}
                Step::Frame { position, frame } if frame.next() > limit => {
                    // Frames of another life of this file, behind what counts of it.
                    reads.push(self.missing(offset, limit, position));
                    self.walk = None;
                    return Ok(reads);
                }
                Step::Frame { position, frame } => {
                    if frame.base() > offset {
                        reads.push(self.missing(offset, frame.base(), position));
                    }
                    self.passed = None;
                    offset = frame.next();
                    taken += frame.bytes().len();
                    reads.push(Read::Frame(frame));
                }
                Step::Damage(damage) => self.passed = Some(damage),
                Step::End => {
                    reads.push(self.missing(offset, limit, self.until));
                    return Ok(reads);
                }
            }
        }
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
    disk: &dyn Disk,
    layout: &Layout,
    topic: TopicId,
    segments: &[Segment],
    time: TimeMs,
) -> Result<Option<Offset>> {
    let mut damaged = None;
    let begins_before = |segment: &Segment| {
        let path = layout.segment(topic, segment.first);
        let header = disk
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
    let mut cursor = Cursor::open(disk, layout, topic, &segments[at], segments[at].first, None)?;
    if let Some(position) = cursor.position_for_time(time)? {
        cursor.walk_from(position);
    }
    let Some(walk) = &mut cursor.walk else {
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
    fn position_for_time(&self, time: TimeMs) -> Result<Option<u64>> {
        let Some(file) = self.file.as_ref().filter(|_| self.finished) else { return Ok(None) };
        let len = file.len().map_err(Error::io("read", &self.path))?;
        let footer = self.footer(&**file, len);
        Ok(footer.ok().flatten().and_then(|footer| footer.index.position_for_time(time)))
    }
}
