//! The hot tier of one broker: opens, creates and deletes logs, and owns the two loops. How it is opened itself is in `opening`.

mod opening;
mod trim;
mod watching;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use danube_env::disk::{Lock, Open};
use danube_env::spawn::Running;
use danube_env::{Env, blocking};
use danube_model::{DiskId, Durability, Epoch, Offset, TopicId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

pub use self::opening::{Checked, Expected};
pub use self::trim::{Holding, SealedSegment};
pub use self::watching::Progress;

use crate::bodies::Body;
use crate::checkpoint::{EndProof, Gap};
use crate::commit::{Answer, Command, Home, Item, OpenLog};
use crate::error::{Error, Result};
use crate::files::{self, Behind};
use crate::identity::TopicIdentity;
use crate::layout::Layout;
use crate::log::{Extent, Log};
use crate::metrics::Counters;
use crate::pool::Pool;
use crate::reader::{Damage, Reader, Start};
use crate::repair::{self, Range};
use crate::shared::{Segment, SegmentKind, Shared};
use crate::state::LogState;

/// Rounds that wait for the filler at most.
const ROUNDS_MAX: usize = 1024;
/// Logs that are deleted in one round, with one sync for the names of all.
const DELETED_AT_ONCE: usize = 256;

/// The hot tier. Cheap to clone; it runs until [`Store::close`].
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    layout: Layout,
    disk_id: DiskId,
    commands: mpsc::Sender<Command>,
    /// Where the commit loop runs.
    home: Home,
    /// Bytes that may be queued, in KiB.
    queue: Arc<Semaphore>,
    queue_kib: u32,
    stopped: watch::Receiver<Option<Error>>,
    counters: Arc<Counters>,
    logs: Mutex<BTreeMap<TopicId, Known>>,
    loops: Mutex<Vec<Running>>,
    pool: Arc<Pool>,
    _lock: Arc<dyn Lock>,
}

struct Known {
    shared: Arc<Shared>,
    /// Whether its files were listed. Locked by who lists them.
    found: Arc<tokio::sync::Mutex<bool>>,
    facts: Facts,
}

impl Known {
    fn recovered(body: &Body) -> Self {
        let LogState { epoch, level, end_proof, end, .. } = body.state;
        let facts = Facts { epoch, level, end_proof, end };
        Self { shared: Arc::clone(&body.shared), found: Arc::default(), facts }
    }
}

/// What a store knows of a log that may not be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Of the last opening; zero if there was none.
    pub epoch: Epoch,
    /// Level of the last opening.
    pub level: Durability,
    /// What is known of where the log ends.
    pub end_proof: EndProof,
    /// Where the log ended when the store was opened.
    pub end: Offset,
}

impl Store {
    /// Identity of this hot tier, written once.
    pub fn disk_id(&self) -> DiskId {
        self.inner.disk_id
    }

    /// The logs on this disk.
    pub fn topics(&self) -> Vec<TopicId> {
        self.logs().keys().copied().collect()
    }

    /// What is known of a log; None if this disk has none.
    pub fn facts(&self, topic: TopicId) -> Option<Facts> {
        self.logs().get(&topic).map(|known| known.facts)
    }

    /// Makes the place of a new log, durably. Doing it again does nothing.
    pub async fn create(&self, topic: TopicId, name: String) -> Result<()> {
        if self.logs().contains_key(&topic) {
            return Ok(());
        }
        let (env, layout) = (self.inner.env.clone(), self.inner.layout.clone());
        let made = blocking(&*self.inner.env.spawn, move || {
            let dir = layout.topic_dir(topic);
            env.disk.create_dir_all(&dir).map_err(Error::io("create", &dir))?;
            TopicIdentity::new(topic, name).write(&*env.disk, &layout)?;
            let topics = layout.topics_dir();
            env.disk.sync_dir(&topics).map_err(Error::io("sync", &topics))
        });
        self.or_fail(made.await).await?;
        let shared = Shared::new(topic, Offset::ZERO, Offset::ZERO);
        let (done, answer) = oneshot::channel();
        self.command(Command::Create { shared, done }).await?;
        let shared = self.answered(answer).await?;
        let facts = Facts {
            epoch: Epoch::ZERO,
            level: Durability::Disk,
            end_proof: EndProof::Proven,
            end: Offset::ZERO,
        };
        self.logs().entry(topic).or_insert(Known { shared, found: Arc::default(), facts });
        Ok(())
    }

    /// Opens a log under a new epoch.
    ///
    /// # Errors
    ///
    /// [`Error::NoLog`] if this disk has none; [`Error::Fenced`] for an epoch that is not above the last one;
    /// [`Error::UnprovenEnd`] if `resume` is needed and not given.
    pub async fn open_log(&self, open: OpenLog) -> Result<Log> {
        let topic = open.topic;
        if !matches!(open.level, Durability::PageCache | Durability::Disk) {
            return Err(Error::Level { level: open.level });
        }
        let shared = self.find_files(topic).await?;
        self.ask(topic, |done| Item::Open { open, done }).await?;
        if let Some(known) = self.logs().get_mut(&topic) {
            known.facts.epoch = known.facts.epoch.max(open.epoch);
            known.facts.level = open.level;
            known.facts.end_proof = EndProof::Proven;
            shared.view().end_damage = None;
        }
        Ok(Log { store: self.clone(), shared, epoch: open.epoch, level: open.level })
    }

    /// A reader of a log that may not be open. Where its end is damaged, the offsets from there to `ceiling`, which bounds
    /// what it was given, read as damage.
    ///
    /// # Errors
    ///
    /// [`Error::NoLog`] if this disk has none; [`Error::OutOfRange`] if `start` is an offset beyond the end.
    pub async fn read(&self, topic: TopicId, start: Start, ceiling: Offset) -> Result<Reader> {
        let shared = self.find_files(topic).await?;
        let lost_end = shared.lost_end(ceiling);
        Reader::open(self.clone(), shared, start, lost_end).await
    }

    /// What may be lost behind the end of a log, up to `ceiling`; None if its end is not damaged.
    pub fn lost_end(&self, topic: TopicId, ceiling: Offset) -> Option<Damage> {
        self.logs().get(&topic)?.shared.lost_end(ceiling)
    }

    /// Makes gaps of what is damaged in the files of a log, all of which are finished but for what came since.
    pub(crate) async fn accept_damage(&self, shared: &Arc<Shared>) -> Result<Vec<Gap>> {
        let (disk, layout) = (Arc::clone(&self.inner.env.disk), self.inner.layout.clone());
        let shared = Arc::clone(shared);
        let topic = shared.topic;
        let accepted = blocking(&*self.inner.env.spawn, move || {
            let ranges = {
                let mut view = shared.view();
                let (start, filled) = (view.start, view.filled);
                if view.segments.first().map_or(filled, |first| first.first) > start {
                    view.segments.insert(0, Segment { first: start, kind: SegmentKind::Finished });
                }
                let nexts = view.segments.iter().skip(1).map(|segment| segment.first);
                let nexts = nexts.chain([filled]).collect::<Vec<_>>();
                let finished = view.segments.iter().zip(nexts);
                let finished =
                    finished.filter(|(segment, _)| segment.kind == SegmentKind::Finished);
                let range = |(segment, next): (&Segment, Offset)| Range {
                    topic,
                    first: segment.first,
                    next,
                };
                finished.map(range).collect::<Vec<_>>()
            };
            let mut gaps = Vec::new();
            for range in ranges {
                gaps.extend(repair::accept(&*disk, &layout, range)?);
            }
            Ok(gaps)
        });
        let accepted = self.or_fail(accepted.await).await?;
        self.inner.counters.is_settled(topic);
        Ok(accepted)
    }

    /// Stops the store if the disk failed.
    async fn or_fail<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.is_disk_failure()
        {
            // A store that is closing needs no stop.
            let _ = self.command(Command::Fail(error.clone())).await;
        }
        result
    }

    /// Looks at the files of a log as its opening does: so that one that can't be opened is refused before it gets an epoch.
    ///
    /// # Errors
    ///
    /// [`Error::NoLog`] if this disk has none; [`Error::UnknownVersion`] for a file of a newer build, which is left as it is.
    pub async fn look_at(&self, topic: TopicId) -> Result<()> {
        self.find_files(topic).await.map(|_| ())
    }

    async fn find_files(&self, topic: TopicId) -> Result<Arc<Shared>> {
        let (shared, found, proof) = {
            let logs = self.logs();
            let known = logs.get(&topic).ok_or(Error::NoLog { topic })?;
            (Arc::clone(&known.shared), Arc::clone(&known.found), known.facts.end_proof)
        };
        // Who lists them a second time might do it while the log is open already.
        let mut found = found.lock_owned().await;
        if *found {
            return Ok(shared);
        }
        let (disk, layout) = (Arc::clone(&self.inner.env.disk), self.inner.layout.clone());
        let behind = match proof {
            EndProof::Damaged => Behind::SetAside,
            EndProof::Proven | EndProof::Unproven => Behind::Remove,
        };
        let listed = Arc::clone(&shared);
        // It keeps the lock even if nobody waits for it any more.
        let list = move || {
            let odd = files::find(&*disk, &layout, &listed, behind);
            *found = odd.is_ok();
            odd
        };
        let odd = blocking(&*self.inner.env.spawn, list).await;
        for error in self.or_fail(odd).await? {
            tracing::warn!(%topic, %error, "a log's files are not as they were left");
        }
        Ok(shared)
    }

    /// Deletes logs and their files, some at once. Their readers end.
    pub async fn delete(&self, topics: &[TopicId]) -> Result<()> {
        for topics in topics.chunks(DELETED_AT_ONCE) {
            let mut remains = Vec::new();
            let mut deleting = Vec::new();
            for topic in topics.iter().copied() {
                self.inner.counters.is_settled(topic);
                if self.logs().remove(&topic).is_none() {
                    remains.push(topic);
                    continue;
                }
                let (done, answer) = oneshot::channel();
                self.command(Command::Item { topic, item: Item::Delete { done } }).await?;
                deleting.push(answer);
            }
            if !remains.is_empty() {
                self.remove_remains(remains).await?;
            }
            for answer in deleting {
                self.answered(answer).await?;
            }
        }
        Ok(())
    }

    /// Removes what creations or deletions that were cut short have left of logs.
    async fn remove_remains(&self, topics: Vec<TopicId>) -> Result<()> {
        if self.inner.stopped.borrow().is_some() {
            return Err(self.ended());
        }
        let (disk, layout) = (Arc::clone(&self.inner.env.disk), self.inner.layout.clone());
        let removing = move || files::remove(&*disk, &layout, &topics);
        let removed = blocking(&*self.inner.env.spawn, removing).await;
        self.or_fail(removed).await
    }

    /// Stops the store for a reason from outside, as if its own disk had failed: nothing more is acknowledged. For what is
    /// kept beside it and failed there.
    pub async fn fail(&self, why: &str) {
        // A store that is closing needs no stop.
        let _ = self.command(Command::Fail(Error::Stopped { why: why.into() })).await;
    }

    /// Completes with the reason once the disk has failed and nothing is acknowledged any more; the process is to end
    /// then. Never completes otherwise. Cancel safe.
    pub async fn stopped(&self) -> Error {
        let mut stopped = self.inner.stopped.clone();
        let error = match stopped.wait_for(Option::is_some).await {
            Ok(error) => error.clone(),
            Err(_) => None,
        };
        match error {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }

    /// Finishes what was submitted, closes all logs, takes a checkpoint, and ends the loops.
    ///
    /// # Errors
    ///
    /// [`Error::Unfinished`] if that takes too long: the next start recovers the rest.
    pub async fn close(&self) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let asked = self.command(Command::Stop { done }).await;
        let result = match asked {
            Ok(()) => self.answered(answer).await,
            Err(error) => Err(error),
        };
        if let Err(Error::Unfinished { .. }) = &result {
            // The filler may be at it for long; it keeps the directory locked.
            return result;
        }
        let loops = std::mem::take(
            &mut *self.inner.loops.lock().expect("nothing panics while it holds the loops"),
        );
        for running in loops {
            if let Err(panicked) = running.join().await {
                return Err(Error::Stopped { why: panicked.to_string().into() });
            }
        }
        result
    }

    pub(crate) fn env(&self) -> &Env {
        &self.inner.env
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.inner.pool
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    pub(crate) async fn queue_room(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let kib = kib(bytes as u64).min(self.inner.queue_kib);
        Arc::clone(&self.inner.queue).acquire_many_owned(kib).await.map_err(|_| Error::Closing)
    }

    pub(crate) async fn command(&self, command: Command) -> Result<()> {
        self.inner.commands.send(command).await.map_err(|_| self.ended())
    }

    /// As [`Store::command`], for what the loop can do at once on this thread, without blocking for long.
    pub(crate) async fn small_command(&self, command: Command) -> Result<()> {
        match self.inner.commands.try_reserve() {
            Ok(place) => {
                self.inner.home.lend(|| place.send(command));
                Ok(())
            }
            Err(_) => self.command(command).await,
        }
    }

    /// Asks the commit loop to do something in a log, and waits for it.
    pub(crate) async fn ask<T>(
        &self,
        topic: TopicId,
        item: impl FnOnce(Answer<T>) -> Item,
    ) -> Result<T> {
        let (done, answer) = oneshot::channel();
        self.command(Command::Item { topic, item: item(done) }).await?;
        self.answered(answer).await
    }

    async fn answered<T>(&self, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        if let Ok(answered) = answer.await {
            return answered;
        }
        // The filler drops what it was asked when it fails, before the commit loop says why all ends.
        let _ = self.inner.stopped.clone().wait_for(Option::is_some).await;
        Err(self.ended())
    }

    /// Why the commit loop answers nothing more.
    fn ended(&self) -> Error {
        match &*self.inner.stopped.borrow() {
            Some(error) => Error::Stopped { why: error.to_string().into() },
            None => Error::Closing,
        }
    }

    /// Start, end and size of a log, open or not.
    ///
    /// # Errors
    ///
    /// [`Error::NoLog`] if this disk has none.
    pub async fn extent(&self, topic: TopicId) -> Result<Extent> {
        let shared = self.find_files(topic).await?;
        let (disk, layout) = (Arc::clone(&self.inner.env.disk), self.inner.layout.clone());
        let (start, gaps, segments, in_memory) = {
            let view = shared.view();
            let gaps = view.gaps.iter().filter(|gap| gap.to > view.start).copied();
            (view.start, gaps.collect(), view.segments.clone(), view.unfilled_bytes())
        };
        let count = segments.len();
        let in_files: u64 = blocking(&*self.inner.env.spawn, move || {
            let len = |segment: &Segment| match segment.kind {
                SegmentKind::Filling { position, .. } => position,
                SegmentKind::Finished => {
                    let path = layout.segment(topic, segment.first);
                    disk.open(&path, Open::Read).and_then(|file| file.len()).unwrap_or(0)
                }
            };
            segments.iter().map(len).sum()
        })
        .await;
        let durable_end = shared.ends.borrow().durable;
        Ok(Extent { start, durable_end, bytes: in_files + in_memory, segments: count, gaps })
    }

    fn logs(&self) -> MutexGuard<'_, BTreeMap<TopicId, Known>> {
        self.inner.logs.lock().expect("nothing panics while it holds the logs")
    }
}

/// Rounded up, so that everything that waits counts.
pub(crate) fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).max(1)
}
