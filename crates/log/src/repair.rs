//! Makes explicit gaps of what is damaged, once an operator accepts the loss.
//!
//! A damaged segment is written anew: the frames that are whole, a gap in the place of each that is not, and a footer.
//! The new file takes the old one's name when it is durable, so that a crash leaves one or the other.

use std::path::Path;

use danube_env::Disk;
use danube_env::disk::Open;
use danube_model::{Epoch, Frame, GapReason, Offset, Stamp, TimeMs, TopicId};

use crate::checkpoint::Gap;
use crate::error::{Error, Result};
use crate::layout::{self, Layout};
use crate::producers::Producers;
use crate::segment::{HEADER_BYTES, SegmentBuilder, SegmentHeader, Step, Walk, read_footer};

/// Offsets `[first, next)` of a log, in a file that takes no more, which may be missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) topic: TopicId,
    pub(crate) first: Offset,
    pub(crate) next: Offset,
}

/// Writes the segment anew if it is damaged. Returns what became gaps.
pub(crate) fn accept(disk: &dyn Disk, layout: &Layout, range: Range) -> Result<Vec<Gap>> {
    let path = layout.segment(range.topic, range.first);
    let (frames, sealed) = whole_frames(disk, &path, range)?;
    let mut gaps = Vec::new();
    let mut end = range.first;
    for (from, to) in frames.iter().copied().chain([(range.next, range.next)]) {
        if from > end {
            gaps.push(Gap { from: end, to: from, reason: Some(GapReason::Corrupt) });
        }
        end = to;
    }
    if gaps.is_empty() && sealed {
        return Ok(gaps);
    }
    let unfinished = layout::temporary(&path);
    write(disk, &path, &unfinished, range)?;
    disk.rename(&unfinished, &path).map_err(Error::io("replace", &path))?;
    let dir = layout.topic_dir(range.topic);
    disk.sync_dir(&dir).map_err(Error::io("sync", &dir))?;
    Ok(gaps)
}

/// The offsets of the frames that can be read, in order, and whether the footer can be.
fn whole_frames(
    disk: &dyn Disk,
    path: &Path,
    range: Range,
) -> Result<(Vec<(Offset, Offset)>, bool)> {
    let mut frames = Vec::new();
    each_frame(disk, path, range, |frame| {
        frames.push((frame.base(), frame.next()));
        Ok(())
    })?;
    let Some((file, len)) = open(disk, path)? else { return Ok((frames, false)) };
    let header = SegmentHeader::read(&*file, path, range.topic, range.first);
    let footer = header.and_then(|header| read_footer(&*file, path, len, &header));
    Ok((frames, matches!(footer, Ok(Some(_)))))
}

fn open(
    disk: &dyn Disk,
    path: &Path,
) -> Result<Option<(std::sync::Arc<dyn danube_env::File>, u64)>> {
    let file = match disk.open(path, Open::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(Error::io("open", path))?,
    };
    let len = file.len().map_err(Error::io("read", path))?;
    Ok(Some((file, len)))
}

/// Calls `take` with each frame of the range that can be read, in order.
fn each_frame(
    disk: &dyn Disk,
    path: &Path,
    range: Range,
    mut take: impl FnMut(Frame) -> Result<()>,
) -> Result<()> {
    let Some((file, len)) = open(disk, path)? else { return Ok(()) };
    let mut end = range.first;
    let mut walk = Walk::new(file, path, range.topic, HEADER_BYTES, len);
    loop {
        match walk.step()? {
            Step::Frame { frame, .. } if frame.base() >= end && frame.next() <= range.next => {
                end = frame.next();
                take(frame)?;
            }
            Step::Frame { .. } | Step::Damage(_) => {}
            Step::End => return Ok(()),
        }
    }
}

fn write(disk: &dyn Disk, path: &Path, unfinished: &Path, range: Range) -> Result<()> {
    let file = disk.open(unfinished, Open::Replace).map_err(Error::io("create", unfinished))?;
    let mut writer = Writer {
        file: &*file,
        path: unfinished,
        range,
        builder: None,
        end: range.first,
        last: None,
        producers: Producers::default(),
    };
    each_frame(disk, path, range, |frame| writer.frame(frame))?;
    writer.finish()?;
    file.sync_data().map_err(Error::io("sync", unfinished))
}

/// Writes a segment, with gaps in it.
struct Writer<'a> {
    file: &'a dyn danube_env::File,
    path: &'a Path,
    range: Range,
    builder: Option<SegmentBuilder>,
    end: Offset,
    /// Epoch and receive time of the last frame.
    last: Option<(Epoch, TimeMs)>,
    producers: Producers,
}

impl Writer<'_> {
    fn frame(&mut self, frame: Frame) -> Result<()> {
        if frame.base() > self.end {
            let facts = self.last.unwrap_or((frame.epoch(), frame.receive_time()));
            self.gap(frame.base(), facts)?;
        }
        self.append(&frame)
    }

    fn gap(&mut self, next: Offset, (epoch, receive_time): (Epoch, TimeMs)) -> Result<()> {
        let base = self.end;
        let stamp = Stamp { base, epoch, receive_time, durable_end: base, synced_end: base };
        self.append(&Frame::gap(self.range.topic, stamp, next, GapReason::Corrupt))
    }

    fn append(&mut self, frame: &Frame) -> Result<()> {
        let builder = match &mut self.builder {
            Some(builder) => builder,
            None => {
                let header = SegmentHeader {
                    topic: self.range.topic,
                    first: self.range.first,
                    created: frame.receive_time(),
                    epoch: frame.epoch(),
                    // Ties header and trailer of this file together; any number that no producer knows will do.
                    seal: u64::from(crc32c::crc32c(frame.bytes())) << 32 | 0x5ea1,
                };
                self.file
                    .write_at(&[&header.encode()], 0)
                    .map_err(Error::io("write", self.path))?;
                self.builder.insert(SegmentBuilder::new(&header))
            }
        };
        let position = builder.position();
        builder.add(frame, position);
        self.file.write_at(&[frame.bytes()], position).map_err(Error::io("write", self.path))?;
        if let Some(producer) = frame.producer() {
            self.producers.record(&producer, frame.record_count(), frame.base());
        }
        self.end = frame.next();
        self.last = Some((frame.epoch(), frame.receive_time()));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.end < self.range.next {
            self.gap(self.range.next, self.last.unwrap_or((Epoch::ZERO, TimeMs::ZERO)))?;
        }
        let Some(builder) = &self.builder else { return Ok(()) };
        let footer = builder.seal(&self.producers);
        self.file.write_at(&[&footer], builder.position()).map_err(Error::io("write", self.path))
    }
}
