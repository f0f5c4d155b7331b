//! One segment: header, frames, and the footer held against them.

mod found;
mod look;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use danube_env::disk::Open;
use danube_env::{Disk, File};
use danube_model::frame::FrameKind;
use danube_model::{Epoch, Frame, Offset, TimeMs, TopicId};

pub use self::found::{
    Found, FoundBatch, FoundFooter, FoundFrame, FoundGap, FoundHeader, FoundProducer, Problem,
    Summary,
};
use self::look::Look;
use crate::layout;
use crate::segment::builder::SegmentBuilder;
use crate::segment::footer::read_footer;
use crate::segment::walk::Damage;
use crate::segment::{Footer, HEADER_BYTES, SegmentHeader, Step, Walk};
use crate::{Error, Result};

/// Reads the segment at `path` and checks all of it: every checksum, the order of its frames, and what its footer says
/// of them. Blocks.
///
/// Damage is handed on as [`Found::Problem`] and reading goes on behind it. Where the header is damaged, the topic is
/// taken from the name of the directory.
///
/// # Errors
///
/// [`Error::Io`]; [`Error::UnknownVersion`]; [`Error::Corrupt`], which says what the file looks like, if it begins as another one
/// of Danube, is empty, or neither the header nor the directory says which topic it is: then no frame can be checked.
pub fn segment(
    disk: &dyn Disk,
    path: &Path,
    visit: &mut dyn FnMut(Found) -> ControlFlow<()>,
) -> Result<Summary> {
    let file = disk.open(path, Open::Read).map_err(Error::io("open", path))?;
    let len = file.len().map_err(Error::io("read", path))?;
    let mut inspection = Inspection::new(visit, len);
    let outcome = inspection.run(&file, path);
    file.forget_cached();
    outcome.map(|()| inspection.summary)
}

struct Inspection<'a> {
    visit: &'a mut dyn FnMut(Found) -> ControlFlow<()>,
    summary: Summary,
    /// What the footer should say, as long as no frame is missing.
    builder: Option<SegmentBuilder>,
    /// The offset that the first frame must have.
    first: Option<Offset>,
    last: Option<Last>,
}

/// What the next frame must continue.
#[derive(Clone, Copy)]
struct Last {
    next: Offset,
    epoch: Epoch,
    receive_time: TimeMs,
}

impl<'a> Inspection<'a> {
    fn new(visit: &'a mut dyn FnMut(Found) -> ControlFlow<()>, bytes: u64) -> Self {
        let summary = Summary {
            bytes,
            sealed: false,
            first_offset: None,
            next_offset: None,
            frames: 0,
            records: 0,
            gap_offsets: 0,
            damaged_bytes: 0,
            problems: 0,
            complete: true,
        };
        Self { visit, summary, builder: None, first: None, last: None }
    }

    fn run(&mut self, file: &Arc<dyn File>, path: &Path) -> Result<()> {
        let (topic, footer) = self.ends(&**file, path)?;
        let body_end = footer.as_ref().map_or(self.summary.bytes, |footer| footer.position);
        let mut walk = Walk::new(Arc::clone(file), path, topic, HEADER_BYTES, body_end);
        while self.summary.complete {
            match walk.step()? {
                Step::Frame { position, frame } => self.frame(position, &frame),
                Step::Damage(damage) => self.damage(damage),
                Step::End => {
                    self.footer(footer.as_ref());
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads header and footer, and finds out whose segment it is.
    fn ends(&mut self, file: &dyn File, path: &Path) -> Result<(TopicId, Option<Footer>)> {
        let header = match SegmentHeader::read_any(file, path) {
            Ok(header) => header,
            Err(Error::Corrupt { position, what, .. }) => {
                let look = Look::at(file, path)?;
                return match topic_of_dir(path).filter(|_| look.may_be_segment()) {
                    Some(topic) => {
                        self.problem(position, if look.is_segment() { what } else { look.words() });
                        self.first = first_of_name(path);
                        Ok((topic, None))
                    }
                    None => Err(Error::corrupt(path, 0, look.words())),
                };
            }
            Err(error) => return Err(error),
        };
        let SegmentHeader { topic, first, created, epoch, .. } = header;
        self.found(Found::Header(FoundHeader {
            topic_id: topic,
            first_offset: first,
            created,
            epoch,
        }));
        if let Some(named) = topic_of_dir(path).filter(|named| *named != topic) {
            self.problem(16, format!("it is of topic {topic}, the directory of topic {named}"));
        }
        if let Some(named) = first_of_name(path).filter(|named| *named != first) {
            self.problem(32, format!("it begins at offset {first}, its name says {named}"));
        }
        self.builder = Some(SegmentBuilder::new(&header));
        self.first = Some(first);
        match read_footer(file, path, self.summary.bytes, &header) {
            Ok(footer) => Ok((topic, footer)),
            Err(Error::Corrupt { position, what, .. }) => {
                self.problem(position, what);
                Ok((topic, None))
            }
            Err(error) => Err(error),
        }
    }

    fn frame(&mut self, position: u64, frame: &Frame) {
        self.check_order(position, frame);
        self.summary.first_offset.get_or_insert(frame.base());
        self.summary.next_offset = Some(frame.next());
        self.summary.frames += 1;
        self.summary.records += u64::from(frame.record_count());
        let facts = FoundFrame {
            position,
            bytes: frame.bytes().len() as u64,
            base: frame.base(),
            next: frame.next(),
            epoch: frame.epoch(),
            receive_time: frame.receive_time(),
            durable_end: frame.durable_end(),
            synced_end: frame.synced_end(),
        };
        match (frame.kind(), frame.to_batch()) {
            (FrameKind::Gap { next, reason }, _) => {
                self.summary.gap_offsets += frame.base().distance(next);
                self.found(Found::Gap(FoundGap { frame: facts, reason: reason.as_str() }));
            }
            (FrameKind::Batch, batch) => {
                let batch = batch.expect("a batch frame has a batch");
                self.found(Found::Batch(FoundBatch {
                    frame: facts,
                    records: batch.record_count(),
                    compression: batch.compression(),
                    max_timestamp: batch.max_timestamp(),
                    producer: batch.producer().map(|producer| FoundProducer {
                        id: producer.id,
                        epoch: producer.epoch,
                        base_sequence: producer.base_sequence,
                    }),
                }));
            }
        }
    }

    /// Holds a frame against those before it.
    fn check_order(&mut self, position: u64, frame: &Frame) {
        let (base, epoch, time) = (frame.base(), frame.epoch(), frame.receive_time());
        let expected = self.last.as_ref().map(|last| last.next).or(self.first);
        if let Some(expected) = expected.filter(|expected| *expected != base) {
            self.builder = None;
            self.problem(position, format!("a frame from offset {base} where {expected} is next"));
        }
        if let Some(Last { epoch: last_epoch, receive_time: last_time, .. }) = self.last {
            if epoch < last_epoch {
                self.problem(
                    position,
                    format!("a frame of epoch {epoch} behind epoch {last_epoch}"),
                );
            }
            if time < last_time {
                self.problem(
                    position,
                    format!("a frame received at {time} behind one at {last_time}"),
                );
            }
        }
        self.last = Some(Last { next: frame.next(), epoch, receive_time: time });
        if let Some(builder) = &mut self.builder {
            builder.add(frame, position);
        }
    }

    fn damage(&mut self, damage: Damage) {
        self.builder = None;
        self.summary.damaged_bytes += damage.to - damage.from;
        self.summary.problems += 1;
        let Damage { from, to, why } = damage;
        self.found(Found::Problem(Problem { position: from, end: Some(to), what: why }));
    }

    /// Holds the footer against the frames.
    fn footer(&mut self, footer: Option<&Footer>) {
        let Some(footer) = footer else { return };
        self.summary.sealed = true;
        self.found(Found::Footer(FoundFooter {
            position: footer.position,
            index_entries: footer.index.entries().len() as u64,
            epochs: footer.epochs.len() as u64,
            producers: footer.producers.len() as u64,
        }));
        let builder = self.builder.as_ref();
        if let Some(what) = builder.and_then(|builder| builder.contradiction(footer)) {
            self.problem(footer.position, what);
        }
    }

    fn problem(&mut self, position: u64, what: impl Into<String>) {
        self.summary.problems += 1;
        self.found(Found::Problem(Problem { position, end: None, what: what.into() }));
    }

    fn found(&mut self, found: Found) {
        if self.summary.complete && (self.visit)(found).is_break() {
            self.summary.complete = false;
        }
    }
}

/// The topic whose directory a segment lies in, by the directory's name.
fn topic_of_dir(path: &Path) -> Option<TopicId> {
    layout::parse_topic(path.parent()?.file_name()?.to_str()?)
}

/// The first offset of a segment, by its name.
fn first_of_name(path: &Path) -> Option<Offset> {
    layout::parse_segment(path.file_name()?.to_str()?)
}

#[cfg(test)]
mod tests;
