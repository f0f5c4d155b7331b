//! What a segment's footer will say, known while its frames come in.

use std::path::Path;
use std::sync::Arc;

use danube_env::File;
use danube_model::{Frame, Offset, TimeMs, TopicId};

use crate::producers::Producers;
use crate::segment::footer::{EpochStart, Footer, Summary};
use crate::segment::header::{HEADER_BYTES, SegmentHeader};
use crate::segment::index::{Index, IndexEntry};
use crate::segment::walk::{Step, Walk};
use crate::{Error, Result};

/// Adds up the frames of an open segment. Pure but for [`rebuild`](Self::rebuild): the bytes are written elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentBuilder {
    header: SegmentHeader,
    position: u64,
    next: Offset,
    checksum: u32,
    index: Index,
    epochs: Vec<EpochStart>,
    frames: u64,
    records: u64,
    gap_offsets: u64,
    first_receive_time: TimeMs,
    last_receive_time: TimeMs,
    timestamp_least: TimeMs,
    timestamp_greatest: TimeMs,
}

impl SegmentBuilder {
    /// A segment that has its header and no frames.
    pub(crate) fn new(header: &SegmentHeader) -> Self {
        Self {
            header: *header,
            position: HEADER_BYTES,
            next: header.first,
            checksum: crc32c::crc32c(&header.encode()),
            index: Index::default(),
            epochs: Vec::new(),
            frames: 0,
            records: 0,
            gap_offsets: 0,
            first_receive_time: header.created,
            last_receive_time: header.created,
            timestamp_least: TimeMs::MAX,
            timestamp_greatest: TimeMs::ZERO,
        }
    }

    /// Finds out again what a builder knew, from the first `until` bytes of the segment at `path`. Reads all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::UnknownVersion`]; [`Error::Corrupt`] at the first byte that is damaged, belongs to another segment, or is
    /// not part of a frame that ends before `until`.
    pub(crate) fn rebuild(
        file: Arc<dyn File>,
        path: &Path,
        topic: TopicId,
        first: Offset,
        until: u64,
    ) -> Result<Self> {
        let header = SegmentHeader::read(&*file, path, topic, first)?;
        let mut builder = Self::new(&header);
        let mut walk = Walk::new(file, path, topic, HEADER_BYTES, until);
        loop {
            match walk.step()? {
                Step::Frame { position, frame } => {
                    if frame.base() != builder.next {
                        let what = format!(
                            "a frame from offset {} instead of {}",
                            frame.base(),
                            builder.next
                        );
                        return Err(Error::corrupt(path, position, what));
                    }
                    builder.add(&frame, position);
                }
                Step::Damage(damage) => return Err(Error::corrupt(path, damage.from, damage.why)),
                Step::End => return Ok(builder),
            }
        }
    }

    /// Takes in the next frame, which lies at `position`.
    ///
    /// # Panics
    ///
    /// If it does not begin where the one before it ends, in bytes and in offsets: a segment has no holes.
    pub(crate) fn add(&mut self, frame: &Frame, position: u64) {
        let (base, next, epoch) = (frame.base(), frame.next(), frame.epoch());
        let receive_time = frame.receive_time();
        assert_eq!(position, self.position, "frames without holes between them");
        assert_eq!(base, self.next, "offsets without holes between them");
        self.index.add(IndexEntry { offset: base, receive_time, position });
        if self.epochs.last().is_none_or(|last| last.epoch < epoch) {
            self.epochs.push(EpochStart { epoch, first: base });
        }
        if self.frames == 0 {
            self.first_receive_time = receive_time;
        }
        self.last_receive_time = receive_time;
        self.frames += 1;
        match frame.to_batch() {
            Some(batch) => {
                self.records += u64::from(batch.record_count());
                self.timestamp_least = self.timestamp_least.min(batch.base_timestamp());
                self.timestamp_greatest = self.timestamp_greatest.max(batch.max_timestamp());
            }
            None => self.gap_offsets += base.distance(next),
        }
        self.checksum = crc32c::crc32c_append(self.checksum, frame.bytes());
        self.position += frame.bytes().len() as u64;
        self.next = next;
    }

    /// The bytes of the footer, to be written behind the last frame.
    ///
    /// # Panics
    ///
    /// If the segment has no frames.
    pub(crate) fn seal(&self, producers: &Producers) -> Vec<u8> {
        assert!(self.frames > 0, "a segment begins with its first frame");
        let footer = Footer {
            topic: self.header.topic,
            seal: self.header.seal,
            position: self.position,
            index: self.index.clone(),
            epochs: self.epochs.clone(),
            producers: producers.clone(),
            summary: self.summary(),
        };
        footer.encode()
    }

    /// Counts and limits of the frames so far.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            first: self.header.first,
            next: self.next,
            frames: self.frames,
            records: self.records,
            gap_offsets: self.gap_offsets,
            first_receive_time: self.first_receive_time,
            last_receive_time: self.last_receive_time,
            timestamp_least: self.timestamp_least,
            timestamp_greatest: self.timestamp_greatest,
            body_checksum: self.checksum,
        }
    }

    /// What a footer says otherwise than the frames do. Its producers are not looked at: they are those of the whole
    /// log.
    pub(crate) fn contradiction(&self, footer: &Footer) -> Option<String> {
        let (found, said) = (self.summary(), &footer.summary);
        let numbers = [
            ("first offset", found.first.get(), said.first.get()),
            ("next offset", found.next.get(), said.next.get()),
            ("frames", found.frames, said.frames),
            ("records", found.records, said.records),
            ("gap offsets", found.gap_offsets, said.gap_offsets),
            ("first receive time", found.first_receive_time.get(), said.first_receive_time.get()),
            ("last receive time", found.last_receive_time.get(), said.last_receive_time.get()),
            ("least timestamp", found.timestamp_least.get(), said.timestamp_least.get()),
            ("greatest timestamp", found.timestamp_greatest.get(), said.timestamp_greatest.get()),
            ("body checksum", found.body_checksum.into(), said.body_checksum.into()),
        ];
        if let Some((what, found, said)) =
            numbers.into_iter().find(|(_, found, said)| found != said)
        {
            return Some(format!("{what}: the footer says {said}, the frames say {found}"));
        }
        if self.index != footer.index {
            return Some("the footer's index is not that of the frames".to_owned());
        }
        if self.epochs != footer.epochs {
            return Some("the footer's epochs are not those of the frames".to_owned());
        }
        None
    }

    /// Where the next frame begins in the file, or the footer.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Where to begin to look for an offset or a time.
    #[cfg(test)]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
}
