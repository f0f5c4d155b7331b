//! The files of all logs of a broker: frames and seals go in, segments come out.
//!
//! Used by the filler while the broker runs and by the recovery at its start. Both feed it the records of the
//! journal in their order, and the files follow from these alone: writing the same records again puts the same bytes
//! at the same places. So nothing here cuts or empties a file before it is written: while a recovery runs, a file may hold
//! the only copy of what is written to it. What lies behind a log's end is cut when the log is opened (`files`).

mod dirty;
mod open;
mod trim;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use danube_env::{Disk, File, Reserve};
use danube_model::{DiskId, Durability, Epoch, Frame, Offset, TimeMs, TopicId};

use self::dirty::Dirty;
use self::open::{open_active, open_new, seal_number};
pub(crate) use self::trim::{Trims, enter, gone};
use crate::checkpoint::{Checkpoint, CheckpointLog, Gap, Writer};
use crate::error::{Error, Result};
use crate::files;
use crate::layout::Layout;
use crate::mutant;
use crate::pool::{Kept, Pool};
use crate::segment::{HEADER_BYTES, Index, IndexEntry, SegmentBuilder, SegmentHeader};
use crate::shared::{Segment, SegmentKind, Shared};
use crate::state::LogState;

/// Frames that are written by one call.
const WRITE_FRAMES_MAX: usize = 4096;
/// Bytes that are written by one call, about.
const WRITE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// A write of so many bytes is sent to the disk at once, so that a checkpoint finds little to sync. Smaller ones share pages with those that follow.
const WRITE_BACK_BYTES: u64 = 1024 * 1024;

/// What happens to one log, in the journal's order.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    Open {
        epoch: Epoch,
        level: Durability,
    },
    Close,
    Frame(Frame),
    /// The segment ends here, with a footer.
    Seal,
    /// The segment ends here in damage; the next frame does not follow the last one.
    Break {
        next: Offset,
    },
}

/// One log's files.
pub(crate) struct Body {
    /// As of what is in segments.
    pub(crate) state: LogState,
    pub(crate) shared: Arc<Shared>,
    /// Files, the active one included.
    pub(crate) segments: u32,
    active: Option<Active>,
    /// First offset of the newest file.
    last_segment: Offset,
    pending: VecDeque<Record>,
}

/// The segment that takes frames.
struct Active {
    first: Offset,
    position: u64,
    file: Option<Kept>,
    /// None after a restart: found again from the file when it is sealed.
    builder: Option<SegmentBuilder>,
}

/// The files of all logs.
pub(crate) struct Bodies {
    disk: Arc<dyn Disk>,
    layout: Layout,
    disk_id: DiskId,
    bodies: BTreeMap<TopicId, Body>,
    waiting: BTreeSet<TopicId>,
    pending_bytes: u64,
    pool: Arc<Pool>,
    /// Records are dropped instead of written.
    rehearsing: bool,
    pub(crate) dirty: Dirty,
    /// Room for a recovery on a full volume.
    pub(crate) reserve: Reserve,
    /// Damage met while writing footers; for the report.
    pub(crate) problems: Vec<Error>,
}

impl Active {
    fn new(first: Offset) -> Self {
        Self { first, position: 0, file: None, builder: None }
    }
}

impl Body {
    /// A log as the checkpoint has it.
    pub(crate) fn from_checkpoint(log: &CheckpointLog) -> Self {
        let state = log.state.clone();
        let active = (log.position > 0)
            .then(|| Active { position: log.position, ..Active::new(log.last_segment) });
        let shared = Shared::new(log.topic_id, state.start, state.end);
        if let Some(active) = &active {
            let kind = SegmentKind::Filling { end: state.end, position: active.position };
            shared.view().segments.push(Segment { first: active.first, kind });
        }
        Self {
            shared,
            state,
            segments: log.segments,
            active,
            last_segment: log.last_segment,
            pending: VecDeque::new(),
        }
    }

    /// A log without a record.
    pub(crate) fn new(topic: TopicId) -> Self {
        Self::empty(Shared::new(topic, Offset::ZERO, Offset::ZERO))
    }

    /// A log without a record that others know already.
    pub(crate) fn empty(shared: Arc<Shared>) -> Self {
        Self {
            state: LogState::default(),
            shared,
            segments: 0,
            active: None,
            last_segment: Offset::ZERO,
            pending: VecDeque::new(),
        }
    }

    /// The active segment: its first offset and the bytes of it that count.
    pub(crate) fn active(&self) -> Option<(Offset, u64)> {
        self.active.as_ref().map(|active| (active.first, active.position))
    }

    fn checkpoint(&self, topic_id: TopicId) -> CheckpointLog {
        let (last_segment, position) = self.active().unwrap_or((self.last_segment, 0));
        let (state, segments) = (self.state.clone(), self.segments);
        CheckpointLog { topic_id, state, segments, last_segment, position }
    }
}

impl Bodies {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        layout: Layout,
        disk_id: DiskId,
        reserve: Reserve,
        pool: Arc<Pool>,
    ) -> Self {
        Self {
            reserve,
            disk,
            layout,
            disk_id,
            bodies: BTreeMap::new(),
            waiting: BTreeSet::new(),
            pending_bytes: 0,
            pool,
            rehearsing: false,
            dirty: Dirty::default(),
            problems: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, topic: TopicId, body: Body) {
        self.bodies.insert(topic, body);
    }

    pub(crate) fn get(&self, topic: TopicId) -> Option<&Body> {
        self.bodies.get(&topic)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TopicId, &Body)> {
        self.bodies.iter().map(|(topic, body)| (*topic, body))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (TopicId, &mut Body)> {
        self.bodies.iter_mut().map(|(topic, body)| (*topic, body))
    }

    /// Bytes of frames that are not in segments.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// From here on all records are dropped.
    pub(crate) fn only_rehearse(&mut self) {
        self.rehearsing = true;
    }

    /// Takes the next record of a log. A record of a log that is not there any more is dropped.
    pub(crate) fn push(&mut self, topic: TopicId, record: Record) {
        let Some(body) = self.bodies.get_mut(&topic).filter(|_| !self.rehearsing) else { return };
        if let Record::Frame(frame) = &record {
            self.pending_bytes += frame.bytes().len() as u64;
        }
        body.pending.push_back(record);
        self.waiting.insert(topic);
    }

    /// Writes all that waits. After an error what is left waits on, and the next call goes on where this one stopped.
    pub(crate) fn fill(&mut self) -> Result<()> {
        while let Some(topic) = self.waiting.first().copied() {
            self.fill_log(topic)?;
            self.waiting.remove(&topic);
        }
        Ok(())
    }

    /// Writes all that waits of one log.
    pub(crate) fn fill_log(&mut self, topic: TopicId) -> Result<()> {
        loop {
            let Some(body) = self.bodies.get_mut(&topic) else { return Ok(()) };
            match body.pending.front() {
                None => break,
                Some(Record::Frame(_)) => {
                    self.write_run(topic)?;
                    continue;
                }
                Some(Record::Open { epoch, level }) => body.state.open(*epoch, *level),
                Some(Record::Close) => body.state.close(),
                Some(Record::Seal) => self.seal(topic)?,
                Some(Record::Break { next }) => {
                    body.state.skip(*next);
                    body.shared.view().filled = *next;
                    self.finish_active(topic);
                }
            }
            let body = self.bodies.get_mut(&topic).expect("it was there");
            body.pending.pop_front();
        }
        Ok(())
    }

    /// Writes the frames at the front of what waits, up to the next other record.
    fn write_run(&mut self, topic: TopicId) -> Result<()> {
        let body = self.bodies.get_mut(&topic).expect("the caller found it");
        let mut bytes = 0;
        let run: Vec<Frame> = body
            .pending
            .iter()
            .take(WRITE_FRAMES_MAX)
            .map_while(|record| match record {
                Record::Frame(frame) if bytes < WRITE_BYTES_MAX => {
                    bytes += frame.bytes().len() as u64;
                    Some(frame.clone())
                }
                _ => None,
            })
            .collect();
        let (file, header) = self.prepare(topic, &run[0])?;
        let body = self.bodies.get_mut(&topic).expect("the caller found it");
        let active = body.active.as_mut().expect("it was just prepared");
        let path = self.layout.segment(topic, active.first);
        let header_bytes = header.as_ref().map(SegmentHeader::encode);
        let parts = header_bytes.iter().map(Vec::as_slice);
        let parts: Vec<&[u8]> = parts.chain(run.iter().map(|frame| &frame.bytes()[..])).collect();
        if !mutant::looks_written(&*file, &parts, active.position) {
            file.write_at(&parts, active.position).map_err(Error::io("write", &path))?;
        }
        if bytes >= WRITE_BACK_BYTES {
            file.write_back(active.position, bytes);
        }
        if let Some(header) = header {
            active.position = HEADER_BYTES;
            active.builder = Some(SegmentBuilder::new(&header));
            body.segments += 1;
            body.last_segment = active.first;
            self.dirty.named_in(topic);
        }
        self.dirty.written(topic, active.first, &file);
        let mut entries = Vec::with_capacity(run.len());
        for frame in &run {
            entries.push(IndexEntry {
                offset: frame.base(),
                receive_time: frame.receive_time(),
                position: active.position,
            });
            if let Some(builder) = &mut active.builder {
                builder.add(frame, active.position);
            }
            active.position += frame.bytes().len() as u64;
            body.state.append(frame);
            body.pending.pop_front();
        }
        self.pending_bytes -= bytes;
        let kind = SegmentKind::Filling { end: body.state.end, position: active.position };
        let segment = Segment { first: active.first, kind };
        body.shared.view().show_filled(segment, body.state.end, entries);
        Ok(())
    }

    /// Opens the segment that takes `first` next. Some: it is a new one, and this is its header.
    fn prepare(
        &mut self,
        topic: TopicId,
        first: &Frame,
    ) -> Result<(Arc<dyn File>, Option<SegmentHeader>)> {
        let body = self.bodies.get_mut(&topic).expect("the caller found it");
        if body.active.as_ref().is_some_and(|active| active.position > 0) {
            match self.active_file(topic) {
                Ok(file) => return Ok((file, None)),
                // What is gone stays gone, and shows as a hole between two segments.
                Err(error @ (Error::Missing { .. } | Error::Corrupt { .. })) => {
                    self.problems.push(error)
                }
                Err(error) => return Err(error),
            }
            self.finish_active(topic);
        }
        let header = SegmentHeader {
            topic,
            first: first.base(),
            created: first.receive_time(),
            epoch: first.epoch(),
            seal: seal_number(self.disk_id, topic, first.base()),
        };
        let body = self.bodies.get_mut(&topic).expect("the caller found it");
        let active = body.active.get_or_insert_with(|| Active::new(header.first));
        if let Some(file) = active.file.as_mut().and_then(Kept::file) {
            return Ok((file, Some(header)));
        }
        let path = self.layout.segment(topic, header.first);
        let (file, is_dir_new) = open_new(&*self.disk, &path)?;
        if is_dir_new {
            self.dirty.named_log();
        }
        active.file = Some(self.pool.keep(Arc::clone(&file)));
        Ok((file, Some(header)))
    }

    /// The file that a log goes on with.
    fn active_file(&mut self, topic: TopicId) -> Result<Arc<dyn File>> {
        let body = self.bodies.get_mut(&topic).expect("the caller found it");
        let active = body.active.as_mut().expect("the caller found it");
        if let Some(file) = active.file.as_mut().and_then(Kept::file) {
            return Ok(file);
        }
        let path = self.layout.segment(topic, active.first);
        let file = open_active(&*self.disk, &path, active.position)?;
        active.file = Some(self.pool.keep(Arc::clone(&file)));
        Ok(file)
    }

    fn seal(&mut self, topic: TopicId) -> Result<()> {
        let body = self.bodies.get_mut(&topic).expect("the caller found it");
        if body.active.is_none() {
            return Ok(());
        }
        let file = self.active_file(topic);
        let body = self.bodies.get_mut(&topic).expect("the caller found it");
        let Some(active) = &mut body.active else { return Ok(()) };
        let path = self.layout.segment(topic, active.first);
        let builder = active.builder.take();
        let built = file.and_then(|file| {
            let rebuild = || {
                SegmentBuilder::rebuild(
                    Arc::clone(&file),
                    &path,
                    topic,
                    active.first,
                    active.position,
                )
            };
            Ok((Arc::clone(&file), builder.map_or_else(rebuild, Ok)?))
        });
        match built {
            Ok((file, builder)) => {
                let footer = builder.seal(&body.state.producers);
                let len = active.position + footer.len() as u64;
                let written = file
                    .write_at(&[&footer], active.position)
                    .and_then(|()| file.set_len(len))
                    .map_err(Error::io("write", &path));
                if let Err(error) = written {
                    active.builder = Some(builder);
                    return Err(error);
                }
                self.dirty.written(topic, active.first, &file);
            }
            // A footer would vouch for what can't be read: the file stays without one.
            Err(error @ (Error::Corrupt { .. } | Error::Missing { .. })) => {
                self.problems.push(error)
            }
            Err(error) => return Err(error),
        }
        self.finish_active(topic);
        Ok(())
    }

    /// The active segment takes no more.
    fn finish_active(&mut self, topic: TopicId) {
        let body = self.bodies.get_mut(&topic).expect("the caller found it");
        body.active = None;
        let mut view = body.shared.view();
        if let Some(last) = view.segments.last_mut() {
            last.kind = SegmentKind::Finished;
        }
        view.index = Index::default();
    }

    /// Damage of a log was accepted.
    pub(crate) fn accept(&mut self, topic: TopicId, gaps: &[Gap]) {
        if let Some(body) = self.bodies.get_mut(&topic) {
            body.state.accept(gaps);
            // A file that was missing is there again, or was left out.
            body.segments = body.shared.view().segments.len() as u32;
        }
    }

    /// Makes all that was written durable. An error is final (promise P7).
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.dirty.sync(&*self.disk, &self.layout)
    }

    /// The state of all logs; everything must be filled and synced.
    pub(crate) fn checkpoint(
        &self,
        round: u64,
        clean: bool,
        written: TimeMs,
        writer: Writer,
        generation: u64,
    ) -> Checkpoint {
        assert!(self.waiting.is_empty() && self.dirty.is_empty(), "a checkpoint is behind a sync");
        let logs = self.bodies.iter().map(|(topic, body)| body.checkpoint(*topic)).collect();
        let (disk_id, Writer { boot_id, session }) = (self.disk_id, writer);
        Checkpoint { disk_id, round, clean, written, boot_id, generation, session, logs }
    }

    /// Removes logs and their files. What of them is left after an error is removed by the next call.
    pub(crate) fn delete(&mut self, logs: &[TopicId]) -> Result<()> {
        logs.iter().for_each(|topic| self.forget(*topic));
        files::remove(&*self.disk, &self.layout, logs)
    }

    /// The names of a log, and in its directory, are to be synced.
    pub(crate) fn named(&mut self, topic: TopicId) {
        self.dirty.named_in(topic);
        self.dirty.named_log();
    }

    /// Drops a log and leaves its files.
    pub(crate) fn forget(&mut self, topic: TopicId) {
        if let Some(body) = self.bodies.remove(&topic) {
            let frames = body.pending.iter().map(|record| match record {
                Record::Frame(frame) => frame.bytes().len() as u64,
                _ => 0,
            });
            self.pending_bytes -= frames.sum::<u64>();
            body.shared.set_closed(true);
            let mut view = body.shared.view();
            view.tail.clear();
            view.segments.clear();
        }
        self.waiting.remove(&topic);
        self.dirty.forget(topic);
    }
}
