//! Reads the frames of a file one after the other, and steps over damage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use danube_env::File;
use danube_model::frame::GAP_FRAME_BYTES;
use danube_model::{Epoch, Frame, FrameError, Offset, TimeMs, TopicId};

use crate::{Error, Result};

/// Bytes that are read at once; more only for a larger frame whose header was verified.
const CHUNK_BYTES: u64 = 256 * 1024;
/// The least that has to be there of a frame.
const FRAME_BYTES_MIN: u64 = GAP_FRAME_BYTES as u64;
/// Bytes of seeming frames that are checked in vain behind one damaged place. Above it their headers are believed: a
/// payload made of headers must not cost hours.
const VAIN_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// What stands next in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A frame, both of whose checksums fit. Whether it belongs to the log here (its first offset, its epoch) is the
    /// caller's to judge.
    Frame {
        /// Where it begins in the file.
        position: u64,
        /// The frame. It shares the memory of the chunk that it was read in.
        frame: Frame,
    },
    /// Bytes that are no frame. The next step is a frame, or the end.
    Damage(Damage),
    /// There is no more.
    End,
}

/// A range of bytes that should be frames and is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Where it begins in the file.
    pub(crate) from: u64,
    /// Where it ends: at the next frame, or where the walk ends.
    pub(crate) to: u64,
    /// What is wrong at its beginning.
    pub(crate) why: String,
}

/// Walks over the frames in a range of a file.
///
/// It reads in large chunks and holds one of them at a time. No length is believed, and nothing allocated by it, before
/// the checksum over it fits.
///
/// Behind damage it goes on with the next thing that is a frame of the topic and does not contradict the frames
/// before: not below them in offset, epoch and receive time. Where the header of the damaged frame is whole, it goes on
/// behind that frame, so that no payload in it is taken for a frame.
pub(crate) struct Walk {
    file: Arc<dyn File>,
    path: PathBuf,
    topic: TopicId,
    place: Place,
    until: u64,
    chunk: Bytes,
    /// Where `chunk` begins in the file.
    chunk_at: u64,
    chunk_bytes: u64,
}

/// Where a walk stands, for one that goes on from there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Where the next step begins.
    pub(crate) position: u64,
    last: Option<Last>,
}

impl From<u64> for Place {
    /// A place that no frame was passed before.
    fn from(position: u64) -> Self {
        Self { position, last: None }
    }
}

/// What no later frame may be below.
#[derive(Debug, Clone, Copy)]
struct Last {
    next: Offset,
    epoch: Epoch,
    receive_time: TimeMs,
}

/// Why there is no frame at a position.
struct Unreadable {
    why: FrameError,
    /// How long it is, where its header is whole.
    known_bytes: Option<u64>,
}

impl Walk {
    /// Walks from `place`, where a frame begins, to `until` of the file at `path`. Where the file ends before `until`, so
    /// does the walk.
    pub(crate) fn new(
        file: Arc<dyn File>,
        path: &Path,
        topic: TopicId,
        place: impl Into<Place>,
        until: u64,
    ) -> Self {
        let place = place.into();
        Self {
            file,
            path: path.to_owned(),
            topic,
            place,
            until,
            chunk: Bytes::new(),
            chunk_at: place.position,
            chunk_bytes: CHUNK_BYTES,
        }
    }

    /// Reads so many bytes at once, or what one frame needs if that is more.
    pub(crate) fn reading(self, chunk_bytes: u64) -> Self {
        Self { chunk_bytes, ..self }
    }

    /// The next step. After [`Step::End`] it is that again.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if reading fails: the next call tries again at the same place. [`Error::UnknownVersion`] at a
    /// whole frame of a later format: the walk can't go on.
    pub(crate) fn step(&mut self) -> Result<Step> {
        let position = self.place.position;
        match self.frame_at(position)? {
            None => Ok(Step::End),
            Some(Ok(frame)) => Ok(self.pass(position, frame)),
            Some(Err(unreadable)) => {
                let why = unreadable.why.to_string();
                self.place.position = self.resync(position, unreadable)?;
                let to = self.place.position;
                Ok(Step::Damage(Damage { from: position, to, why }))
            }
        }
    }

    /// Where it stands; at the end, where the file or the range ends.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Whether the file has to be read for a frame of so many bytes at the place.
    pub(crate) fn has_to_read(&self, frame_bytes: u64) -> bool {
        let in_memory = self.chunk_at + self.chunk.len() as u64;
        in_memory < self.until.min(self.place.position + frame_bytes)
    }

    /// Goes on behind `frame`.
    fn pass(&mut self, position: u64, frame: Frame) -> Step {
        self.place.position = position + frame.bytes().len() as u64;
        self.place.last = Some(Last {
            next: frame.next(),
            epoch: frame.epoch(),
            receive_time: frame.receive_time(),
        });
        Step::Frame { position, frame }
    }

    /// Whether `frame` can come behind all that was passed.
    fn continues(&self, frame: &Frame) -> bool {
        self.place.last.is_none_or(|last| {
            frame.base() >= last.next
                && frame.epoch() >= last.epoch
                && frame.receive_time() >= last.receive_time
        })
    }

    /// Where the log goes on behind what is unreadable at `position`, or the end.
    fn resync(&mut self, mut position: u64, mut unreadable: Unreadable) -> Result<u64> {
        while let Some(bytes) = unreadable.known_bytes {
            position += bytes;
            match self.frame_at(position)? {
                Some(Err(next)) => unreadable = next,
                Some(Ok(_)) | None => return Ok(position),
            }
        }
        let mut vain_bytes = 0;
        loop {
            position = self.candidate(position + 1)?;
            match self.frame_at(position)? {
                None => return Ok(position),
                Some(Ok(frame)) if self.continues(&frame) => return Ok(position),
                Some(Ok(_)) => {}
                Some(Err(unreadable)) => {
                    let bytes = unreadable.known_bytes.unwrap_or(0);
                    vain_bytes += bytes;
                    if vain_bytes > VAIN_BYTES_MAX {
                        position += bytes.saturating_sub(1);
                    }
                }
            }
        }
    }

    /// The first place at `position` or behind it that begins as a frame does, or the end.
    fn candidate(&mut self, mut position: u64) -> Result<u64> {
        loop {
            let bytes = self.read(position, FRAME_BYTES_MIN)?;
            if let Some(found) = Frame::find_next(self.topic, &bytes) {
                return Ok(position + found as u64);
            }
            let scanned = bytes.len() as u64;
            if position + scanned >= self.until || scanned < FRAME_BYTES_MIN {
                return Ok(position + scanned);
            }
            // A header may begin in the last bytes of what was scanned.
            position += scanned - (FRAME_BYTES_MIN - 1);
        }
    }

    /// The frame at `position`; `None` at the end.
    fn frame_at(&mut self, position: u64) -> Result<Option<Result<Frame, Unreadable>>> {
        let mut need = FRAME_BYTES_MIN;
        loop {
            let bytes = self.read(position, need)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let (why, known_bytes) = match Frame::decode(self.topic, &bytes) {
                Ok(frame) => return Ok(Some(Ok(frame))),
                Err(FrameError::NeedMore { bytes: more, available: _ }) if more as u64 > need => {
                    need = more as u64;
                    continue;
                }
                // The end comes within it.
                Err(why @ FrameError::NeedMore { .. }) => (why, Some(bytes.len() as u64)),
                Err(why @ FrameError::Batch { frame_bytes, .. }) => (why, Some(frame_bytes as u64)),
                Err(FrameError::Unknown { what, found, known: _ }) => {
                    return Err(later_format(&self.path, what, found));
                }
                Err(
                    why @ (FrameError::NotFrame { .. }
                    | FrameError::Checksum { .. }
                    | FrameError::Malformed { .. }),
                ) => (why, None),
            };
            return Ok(Some(Err(Unreadable { why, known_bytes })));
        }
    }

    /// The bytes from `position` on: at least `need` of them, unless the end comes first.
    fn read(&mut self, position: u64, need: u64) -> Result<Bytes> {
        let left = self.until.saturating_sub(position);
        let need = need.min(left);
        let chunk_end = self.chunk_at + self.chunk.len() as u64;
        if position < self.chunk_at || chunk_end < position + need {
            let len = need.max(self.chunk_bytes).min(left);
            let mut buf = vec![0; len as usize];
            let read =
                self.file.read_at(&mut buf, position).map_err(Error::io("read", &self.path))?;
            buf.truncate(read);
            if (read as u64) < len {
                self.until = position + read as u64;
            }
            self.chunk = Bytes::from(buf);
            self.chunk_at = position;
        }
        let begin = (position - self.chunk_at).min(self.chunk.len() as u64) as usize;
        Ok(self.chunk.slice(begin..))
    }
}

/// The error for a frame that is whole and uses what the version known here does not have.
pub(crate) fn later_format(path: &Path, what: &'static str, found: u64) -> Error {
    let (what, known) = match what {
        "version" => ("a frame", 1),
        "kind" => ("the kind of a frame", 2),
        "reason of a gap" => ("the reason of a gap", 3),
        _ => ("the reserved part of a frame", 0),
    };
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    Error::UnknownVersion { path: path.to_owned(), what, found, known }
}
