//! The filler: writes what the journal holds to segments, takes checkpoints, and makes journal files.
//!
//! It hears of every round from the commit loop, in order, of small ones together, and answers through [`Feedback`], which
//! never blocks: so the two can't wait for each other in a circle.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use danube_env::Env;
use danube_env::disk::Lock;
use danube_model::{Offset, TimeMs, TopicId};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};

use crate::bodies::{self, Bodies, Body, Record, Trims};
use crate::checkpoint::{self, Gap, Writer};
use crate::error::{Error, Result};
use crate::files;
use crate::journal::writer;
use crate::layout::Layout;
use crate::metrics::Counters;
use crate::mutant;
use crate::recovery::fill_at_need;
use crate::shared::Shared;

/// What the filler is told.
pub(crate) enum Fill {
    /// Rounds are in the journal.
    Round {
        records: Vec<(TopicId, Record)>,
        /// Room for its frames; given back when they are in segments.
        room: Option<OwnedSemaphorePermit>,
    },
    /// A log begins.
    Create(Arc<Shared>),
    /// The deletion of logs is durable: remove their files, and answer each.
    Delete(Vec<(TopicId, oneshot::Sender<Result<()>>)>),
    /// Put what waits of this log into segments, and then answer.
    Finish { topic: TopicId, done: oneshot::Sender<Result<()>> },
    /// Damage of this log was accepted.
    Accepted { topic: TopicId, gaps: Vec<Gap> },
    /// Put everything up to `round` into segments, synced, and say so in a checkpoint.
    Checkpoint(Asked),
    /// Let go of segments that hold nothing at or above these offsets, in a checkpoint; and then say which, to have their
    /// files removed.
    Trim { before: BTreeMap<TopicId, Offset>, asked: Asked, done: oneshot::Sender<Result<Trims>> },
    /// Make a journal file.
    MakeFile { index: u32, bytes: u64 },
}

/// A checkpoint that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) round: u64,
    pub(crate) clean: bool,
    /// Of the journal's file that is written now.
    pub(crate) generation: u64,
}

/// What the filler has to say.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Round of the newest checkpoint.
    pub(crate) checkpointed: Option<u64>,
    /// A journal file was made, or could not be.
    pub(crate) file_made: Option<Option<u32>>,
    /// The volume is full, or not any more.
    pub(crate) full: Option<Option<Full>>,
    /// Something was written to segments: room in memory.
    pub(crate) filled: bool,
    /// The disk can't be trusted any more.
    pub(crate) failed: Option<Error>,
}

/// A volume without room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) path: PathBuf,
    pub(crate) available: u64,
    pub(crate) reserve: u64,
}

/// From the filler to the commit loop.
#[derive(Clone, Default)]
pub(crate) struct Feedback {
    said: Arc<Mutex<Said>>,
    news: Arc<Notify>,
}

impl Feedback {
    fn say(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.lock());
        self.news.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().expect("nothing panics while it holds the feedback")
    }

    /// What was said since the last call.
    pub(crate) fn take(&self) -> Said {
        std::mem::take(&mut self.lock())
    }

    /// Completes when something was said since the last time. Cancel safe.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

/// The filler's own state.
pub(crate) struct Filler {
    pub(crate) env: Env,
    pub(crate) layout: Layout,
    pub(crate) writer: Writer,
    pub(crate) bodies: Bodies,
    /// Frames are written to segments when so many bytes of them wait.
    pub(crate) fill_bytes: u64,
    pub(crate) reserve: u64,
    pub(crate) space_check: Duration,
    pub(crate) feedback: Feedback,
    pub(crate) counters: Arc<Counters>,
    /// Held as long as something may be written.
    pub(crate) _lock: Arc<dyn Lock>,
}

impl Filler {
    /// Runs until the commit loop is gone, or the disk fails. Owned and joined by the store.
    pub(crate) async fn run(mut self, mut told: mpsc::Receiver<Fill>) {
        let mut ending = Ending { feedback: self.feedback.clone(), has_come: false };
        if let Err(error) = self.work(&mut told).await {
            self.feedback.say(|said| said.failed = Some(error));
        }
        ending.has_come = true;
    }

    async fn work(&mut self, told: &mut mpsc::Receiver<Fill>) -> Result<()> {
        let mut rooms = Vec::new();
        let mut full = self.tell_space();
        let mut checkpoint = None;
        loop {
            let again = full.is_some() || checkpoint.is_some();
            let next = tokio::select! {
                biased;
                next = told.recv() => next,
                () = self.env.clock.sleep(self.space_check), if again => Some(Fill::Round { records: vec![], room: None }),
            };
            self.env.spawn.interleave().await;
            let Some(next) = next else { return Ok(()) };
            match next {
                Fill::Round { records, room } => {
                    rooms.extend(room);
                    for (topic, record) in records {
                        self.bodies.push(topic, record);
                    }
                }
                Fill::Create(shared) => self.bodies.insert(shared.topic, Body::empty(shared)),
                Fill::Delete(logs) => {
                    let (topics, asked): (Vec<_>, Vec<_>) = logs.into_iter().unzip();
                    answer(asked, self.bodies.delete(&topics))?;
                }
                Fill::Finish { topic, done } => {
                    answer([done], self.bodies.fill_log(topic))?;
                }
                Fill::Accepted { topic, gaps } => self.bodies.accept(topic, &gaps),
                Fill::Checkpoint(asked) => checkpoint = Some(asked),
                Fill::Trim { before, asked, done } => {
                    let trimmed = self.trim(&before, asked)?;
                    if trimmed.is_ok() {
                        rooms.clear();
                        // It is as good as one that was asked for before.
                        checkpoint = None;
                    }
                    let _ = done.send(trimmed);
                    full = self.tell_space();
                }
                Fill::MakeFile { index, bytes } => self.make_file(index, bytes)?,
            }
            let held: usize = rooms.iter().map(OwnedSemaphorePermit::num_permits).sum();
            let waiting = self.bodies.pending_bytes().max(held as u64 * 1024);
            if waiting >= self.fill_bytes || checkpoint.is_some() || full.is_some() {
                let result = self.fill();
                full = match &result {
                    Ok(()) => self.check_space(),
                    Err(error) if error.is_disk_failure() => return Err(error.clone()),
                    Err(error) => {
                        tracing::warn!(%error, source = ?std::error::Error::source(error), "segments can't be written");
                        Some(self.full())
                    }
                };
                if result.is_ok() {
                    rooms.clear();
                    self.feedback.say(|said| said.filled = true);
                    if let Some(asked) = checkpoint {
                        match self.take_checkpoint(asked, &Trims::new()) {
                            Ok(()) => checkpoint = None,
                            Err(error) if error.is_full() => full = Some(self.full()),
                            Err(error) => return Err(error),
                        }
                    }
                }
                let now = full.clone();
                self.feedback.say(|said| said.full = Some(now));
            }
        }
    }

    /// Writes what waits to segments.
    fn fill(&mut self) -> Result<()> {
        let begun = self.env.clock.monotonic();
        self.counters.fill.begin(begun);
        let result = self.bodies.fill();
        self.counters.fill.end();
        self.counters.fills.add(self.env.clock.monotonic() - begun);
        result
    }

    /// Lets go of segments at the front of logs. The outer error is final.
    fn trim(&mut self, before: &BTreeMap<TopicId, Offset>, asked: Asked) -> Result<Result<Trims>> {
        match fill_at_need(&mut self.bodies) {
            Ok(()) => self.feedback.say(|said| said.filled = true),
            Err(error) if error.is_disk_failure() => return Err(error),
            Err(error) => return Ok(Err(error)),
        }
        let trims = self.bodies.trims(before);
        match self.take_checkpoint(asked, &trims) {
            Ok(()) => self.bodies.trimmed(&trims),
            Err(error) if error.is_full() => return Ok(Err(error)),
            Err(error) => return Err(error),
        }
        Ok(Ok(trims))
    }

    /// Takes a checkpoint of logs without what `trims` says. Any error but that there is no room is final.
    fn take_checkpoint(&mut self, asked: Asked, trims: &Trims) -> Result<()> {
        self.counters.fill.begin(self.env.clock.monotonic());
        let written = self.write_checkpoint(asked, trims);
        self.counters.fill.end();
        written?;
        self.counters.checkpoints.add(1);
        self.feedback.say(|said| said.checkpointed = Some(asked.round));
        Ok(())
    }

    fn write_checkpoint(&mut self, asked: Asked, trims: &Trims) -> Result<()> {
        self.bodies.sync()?;
        if mutant::is("removed_before_start_is_durable") {
            files::remove_segments(&*self.env.disk, &self.layout, &bodies::gone(trims))?;
        }
        for problem in std::mem::take(&mut self.bodies.problems) {
            tracing::error!(error = %problem, "a segment can't be sealed");
        }
        let written = TimeMs::new(self.env.clock.wall_ms());
        let Asked { round, clean, generation } = asked;
        let mut checkpoint = self.bodies.checkpoint(round, clean, written, self.writer, generation);
        bodies::enter(trims, &mut checkpoint);
        let write = || checkpoint::write(&*self.env.disk, &self.layout, &checkpoint);
        if trims.is_empty() {
            write()
        } else {
            // It makes room for more.
            self.bodies.reserve.retry(write, Error::is_full)
        }
    }

    fn make_file(&self, index: u32, bytes: u64) -> Result<()> {
        let made = match writer::make_file(&*self.env.disk, &self.layout, index, bytes) {
            Ok(()) => Some(index),
            Err(error) if error.is_disk_failure() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "a journal file can't be made");
                None
            }
        };
        self.feedback.say(|said| said.file_made = Some(made));
        Ok(())
    }

    /// Says whether the volume is full.
    pub(crate) fn tell_space(&mut self) -> Option<Full> {
        let full = self.check_space();
        let said_full = full.clone();
        self.feedback.say(|said| said.full = Some(said_full));
        full
    }

    fn check_space(&mut self) -> Option<Full> {
        let full = Some(self.full()).filter(|full| full.available < self.reserve);
        if full.is_none() {
            self.bodies.reserve.refill();
        }
        let is_used = !self.bodies.reserve.is_held();
        self.counters.reserve_is_used.store(is_used, Ordering::Relaxed);
        full
    }

    fn full(&self) -> Full {
        let root = self.layout.root();
        let available = self.env.disk.space(root).map_or(0, |space| space.available);
        Full { path: root.to_owned(), available, reserve: self.reserve }
    }
}

/// Tells the commit loop of a filler that ends before its time, in a panic.
struct Ending {
    feedback: Feedback,
    has_come: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.has_come {
            let why = "the filler ended in a panic".into();
            self.feedback.say(|said| said.failed = Some(Error::Stopped { why }));
        }
    }
}

/// Answers those who asked; they may be gone. Err: the disk failed.
fn answer(
    asked: impl IntoIterator<Item = oneshot::Sender<Result<()>>>,
    result: Result<()>,
) -> Result<()> {
    for done in asked {
        let _ = done.send(result.clone());
    }
    match result {
        Err(error) if error.is_disk_failure() => Err(error),
        _ => Ok(()),
    }
}
