//! The commit loop: one task that owns every log of a broker.
//!
//! ```text
//!  appends ─▶ queue of each log ─▶ round: offsets, epochs, frames ─▶ journal: one write, one sync ─▶ acks
//!                                   (fair among logs, bounded)                                    ├─▶ readers
//!                                                                                                 └─▶ filler
//! ```
//!
//! It runs on a thread of its own, where it may block, and for small rounds without a sync on that of whoever appends ([`home`]).
//! As soon as one round is synced, whatever has queued meanwhile is the next. A log's items are taken in their order;
//! logs take turns. Nothing is visible, and nobody is told, before the log's level is reached. After a failed sync the
//! loop answers everything with [`Error::Stopped`] and never writes again (promise P7).

mod command;
mod handover;
mod home;
mod live;
mod round;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use danube_env::Env;
use danube_model::TopicId;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

pub(crate) use self::command::{Answer, Command, Item};
pub use self::command::{Appended, OpenLog};
use self::handover::Handover;
pub(crate) use self::home::Home;
pub(crate) use self::live::Live;
use self::timers::{Alarm, Timers};
use crate::config::{Config, Sizes};
use crate::error::{Error, Result};
use crate::fill::{Asked, Feedback, Fill, Full, Said};
use crate::journal::writer::Journal;
use crate::metrics::Counters;
use crate::shared::Tail;
use crate::store::kib;

/// Commands that wait for the loop at most; those who send more wait.
pub(crate) const COMMANDS_MAX: usize = 16 * 1024;
/// How long a clean stop may take. What it does not finish is recovered at the next start.
const STOP_MAX: Duration = Duration::from_secs(2);
/// A round of so many bytes at most is written on a thread that was lent to the loop.
pub(crate) const LENT_BYTES_MAX: u64 = 32 << 10;
/// A write of such a round that takes longer shows that the disk is behind, and that more of them may block.
const PROMPT: Duration = Duration::from_millis(4);
/// How long all rounds are written at home after that.
const AT_HOME: Duration = Duration::from_millis(200);
/// Commands taken between two rounds at most.
const TAKE_MAX: usize = 4096;

/// The loop's own state.
pub(crate) struct Committer {
    env: Env,
    config: Config,
    home: Home,
    journal: Journal,
    journal_file_bytes: u64,
    checkpoint_bytes: u64,
    logs: BTreeMap<TopicId, Live>,
    /// Logs whose queue is not empty, in turn.
    ready: VecDeque<TopicId>,
    /// Logs that grew since the last sync.
    unsynced: BTreeSet<TopicId>,
    tail: Tail,
    filler: mpsc::Sender<Fill>,
    /// What the filler was not told yet.
    handover: Handover,
    feedback: Feedback,
    counters: Arc<Counters>,
    /// Memory for frames that are not in segments, in KiB.
    fill_room: Arc<Semaphore>,
    fill_room_kib: u32,
    full: Option<Full>,
    /// The room in the journal at which the next batch did not fit.
    blocked_at: Option<u64>,
    stopped: watch::Sender<Option<Error>>,
    timers: Timers,
    alarm: Alarm,
    /// Bytes of rounds since the last checkpoint was asked for.
    uncheckpointed: u64,
    /// The round of a checkpoint that was asked for and is not there yet.
    checkpointing: Option<u64>,
    /// The loop ended as it should.
    has_ended: bool,
}

impl Committer {
    pub(crate) fn new(
        env: Env,
        config: Config,
        journal: Journal,
        sizes: Sizes,
        logs: BTreeMap<TopicId, Live>,
        (filler, feedback): (mpsc::Sender<Fill>, Feedback),
        stopped: watch::Sender<Option<Error>>,
    ) -> Self {
        let fill_room_kib = kib(config.tail_bytes / 2);
        Self {
            env,
            home: Home::default(),
            journal,
            journal_file_bytes: sizes.file_bytes,
            checkpoint_bytes: sizes.checkpoint_bytes,
            logs,
            ready: VecDeque::new(),
            unsynced: BTreeSet::new(),
            tail: Tail::new(config.tail_bytes),
            filler,
            handover: Handover::new(config.tail_bytes),
            feedback,
            counters: Arc::default(),
            fill_room: Arc::new(Semaphore::new(fill_room_kib as usize)),
            fill_room_kib,
            full: None,
            blocked_at: None,
            stopped,
            timers: Timers::default(),
            alarm: Alarm::default(),
            uncheckpointed: 0,
            checkpointing: None,
            has_ended: false,
            config,
        }
    }

    /// Where it is to run.
    pub(crate) fn home(&self) -> Home {
        self.home.clone()
    }

    /// What is counted, for the filler and whoever looks at it, too.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Runs until it is told to stop, or until all handles are gone. Owned and joined by the store.
    pub(crate) async fn run(self, commands: mpsc::Receiver<Command>) {
        // In a panic the loop says why it ends before the commands are dropped that wait for it.
        let mut commands = commands;
        let mut this = self;
        let ended = match this.work(&mut commands).await {
            Ok(done) => done,
            Err(error) => {
                this.fail(error);
                None
            }
        };
        if let Some(done) = ended {
            let result = this.stop().await;
            let _ = done.send(result);
        }
        this.refuse_all(&mut commands).await;
    }

    /// A clean stop, within [`STOP_MAX`].
    async fn stop(&mut self) -> Result<()> {
        let clock = Arc::clone(&self.env.clock);
        let result = tokio::select! {
            biased;
            result = self.finish() => result,
            () = clock.sleep(STOP_MAX) => Err(Error::Unfinished { limit: STOP_MAX }),
        };
        match &result {
            Ok(()) => {}
            Err(error @ Error::Unfinished { .. }) => {
                tracing::warn!(%error, "the stop is cut short")
            }
            Err(error) => self.fail(error.clone()),
        }
        result
    }

    /// Round after round; returns who asked to stop.
    async fn work(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<Option<Answer<()>>> {
        let mut taken = Vec::new();
        loop {
            if self.ready.is_empty() || !self.has_room() {
                let now = self.env.clock.monotonic();
                let alarm = self.alarm.by(self.timers.next(now), now, &*self.env.clock);
                tokio::select! {
                    biased;
                    count = commands.recv_many(&mut taken, TAKE_MAX) => if count == 0 { return Ok(None) },
                    () = self.feedback.news() => {}
                    () = alarm => {}
                }
            } else {
                while taken.len() < TAKE_MAX
                    && let Ok(command) = commands.try_recv()
                {
                    taken.push(command);
                }
            }
            self.env.spawn.interleave().await;
            self.hear(self.feedback.take())?;
            let mut stop = None;
            for command in taken.drain(..) {
                stop = self.obey(command).await?.or(stop);
            }
            self.check_timers().await?;
            if let Some(done) = stop {
                return Ok(Some(done));
            }
            if self.full.is_some() {
                self.refuse_appends();
            }
            if !self.ready.is_empty() && self.has_room() {
                self.round().await?;
            }
            if self.ready.is_empty() {
                // What did not fit was refused meanwhile: nothing needs room any more.
                self.blocked_at = None;
            }
            self.make_room().await?;
        }
    }

    /// Whether the next round can be written: in the journal and in memory.
    fn has_room(&self) -> bool {
        let room = self.journal.room();
        self.blocked_at.map_or(room > 0, |blocked| room > blocked)
            && self.fill_room.available_permits() > self.fill_room_kib as usize / 2
    }

    /// Some: whoever asked to stop.
    async fn obey(&mut self, command: Command) -> Result<Option<Answer<()>>> {
        match command {
            Command::Item { topic, item } => self.enqueue(topic, item),
            Command::Create { shared, done } => {
                let shared = match self.logs.get(&shared.topic) {
                    // A creation that was given up half-way and is done anew; others may know the first one already.
                    Some(live) => Arc::clone(&live.shared),
                    None => {
                        self.logs.insert(shared.topic, Live::empty(Arc::clone(&shared)));
                        self.tell_filler(Fill::Create(Arc::clone(&shared))).await?;
                        shared
                    }
                };
                let _ = done.send(Ok(shared));
            }
            Command::RaiseCeiling { topic, epoch, ceiling } => {
                if let Some(live) = self.logs.get_mut(&topic).filter(|live| live.is_open(epoch)) {
                    live.ceiling = live.ceiling.max(ceiling);
                }
            }
            Command::Trim { before, done } => {
                let asked = self.asked(false);
                self.tell_filler(Fill::Trim { before, asked, done }).await?;
            }
            Command::Fail(error) => return Err(error),
            Command::Stop { done } => return Ok(Some(done)),
        }
        Ok(None)
    }

    fn enqueue(&mut self, topic: TopicId, item: Item) {
        match self.logs.get_mut(&topic) {
            Some(live) => {
                if live.queue.is_empty() {
                    self.ready.push_back(topic);
                }
                live.queue.push_back(item);
            }
            None => item.refuse(Error::NoLog { topic }),
        }
    }

    fn hear(&mut self, said: Said) -> Result<()> {
        if let Some(error) = said.failed {
            return Err(error);
        }
        if let Some(made) = said.file_made {
            if made.is_none() {
                self.timers.no_file_before = self.env.clock.monotonic() + self.config.space_check;
            }
            self.journal.file_made(made);
        }
        if let Some(round) = said.checkpointed {
            self.journal.release(round);
            self.checkpointing.take_if(|asked| *asked <= round);
        }
        if let Some(full) = said.full {
            if full.is_some() != self.full.is_some() {
                match &full {
                    Some(full) => tracing::warn!(?full, "storage is full, messages are refused"),
                    None => tracing::info!("storage has room again"),
                }
            }
            self.counters.set_full(full.clone());
            self.full = full;
        }
        if said.filled {
            self.tail.evict();
        }
        Ok(())
    }

    /// The volume is full: what would grow a log is refused, before it has an offset.
    fn refuse_appends(&mut self) {
        let Some(full) = &self.full else { return };
        for topic in &self.ready {
            let live = self.logs.get_mut(topic).expect("a ready log is known");
            let queue = std::mem::take(&mut live.queue);
            let (refused, kept) =
                queue.into_iter().partition(|item| matches!(item, Item::Append { .. }));
            live.queue = kept;
            self.counters.refused_full.add(refused.len() as u64);
            for item in VecDeque::into_iter(refused) {
                item.refuse(Error::StorageFull {
                    path: full.path.clone(),
                    available: full.available,
                    reserve: full.reserve,
                });
            }
        }
        let logs = &self.logs;
        self.ready.retain(|topic| !logs[topic].queue.is_empty());
    }

    /// Asks the filler ahead of need for journal files and checkpoints.
    async fn make_room(&mut self) -> Result<()> {
        // What keeps the next round from memory may be what the filler was not told.
        if !self.has_room()
            && let Some(rounds) = self.handover.take()
        {
            self.send_to_filler(rounds).await?;
        }
        if self.timers.no_file_before <= self.env.clock.monotonic()
            && let Some(index) = self.journal.file_to_make()
        {
            self.tell_filler(Fill::MakeFile { index, bytes: self.journal_file_bytes }).await?;
        }
        let wanted = self.uncheckpointed >= self.checkpoint_bytes
            || self.journal.wants_checkpoint()
            || (self.blocked_at.is_some() && self.journal.has_used());
        if wanted && self.checkpointing.is_none() {
            self.ask_for_checkpoint(false).await?;
        }
        Ok(())
    }

    async fn ask_for_checkpoint(&mut self, clean: bool) -> Result<()> {
        let asked = self.asked(clean);
        self.checkpointing = Some(asked.round);
        self.uncheckpointed = 0;
        self.tell_filler(Fill::Checkpoint(asked)).await
    }

    fn asked(&self, clean: bool) -> Asked {
        Asked { round: self.journal.last_round(), clean, generation: self.journal.generation() }
    }

    /// Tells it behind all that it was not told yet.
    async fn tell_filler(&mut self, fill: Fill) -> Result<()> {
        if let Some(rounds) = self.handover.take() {
            self.send_to_filler(rounds).await?;
        }
        self.send_to_filler(fill).await
    }

    async fn send_to_filler(&mut self, fill: Fill) -> Result<()> {
        if self.filler.send(fill).await.is_ok() {
            return Ok(());
        }
        // It has said why it is gone.
        self.hear(self.feedback.take())?;
        Err(Error::Stopped { why: "the filler is gone".into() })
    }

    async fn check_timers(&mut self) -> Result<()> {
        let now = self.env.clock.monotonic();
        if [self.timers.sync, self.timers.quiet].into_iter().flatten().any(|due| due <= now) {
            self.home.reached().await;
        }
        if self.timers.sync.is_some_and(|due| due <= now) {
            self.sync(now)?;
        }
        if self.timers.quiet.is_some_and(|due| due <= now) {
            self.timers.quiet = None;
            if self.journal.is_unentered() && self.journal.room() == 0 {
                // A checkpoint enters it as well.
                self.uncheckpointed = self.checkpoint_bytes;
            } else if self.journal.is_unentered() {
                self.journal.write(Vec::new(), &[], self.env.clock.wall_ms())?;
                self.sync(now)?;
                self.timers.quiet = None;
            }
        }
        if self.timers.age <= now {
            self.timers.age = now + self.age_check();
            self.seal_old();
        }
        Ok(())
    }

    fn age_check(&self) -> Duration {
        (self.config.segment_age.min(self.config.segment_age_max) / 4).min(Duration::from_secs(60))
    }

    fn seal_old(&mut self) {
        let now = self.env.clock.wall_ms();
        let old: Vec<_> = self
            .logs
            .iter()
            .filter(|(_, live)| live.is_old(&self.config, now))
            .map(|(topic, _)| *topic)
            .collect();
        for topic in old {
            self.enqueue(topic, Item::Seal);
        }
    }

    /// A clean stop: everything queued, every log closed, a checkpoint.
    async fn finish(&mut self) -> Result<()> {
        let open: Vec<_> = self
            .logs
            .iter()
            .filter(|(_, live)| live.state.open)
            .map(|(topic, live)| (*topic, live.state.epoch))
            .collect();
        for (topic, epoch) in open {
            let (done, _) = oneshot::channel();
            self.enqueue(topic, Item::Close { epoch, done });
        }
        while !self.ready.is_empty() {
            if self.has_room() {
                self.round().await?;
                self.make_room().await?;
            } else {
                self.feedback.news().await;
            }
            self.hear(self.feedback.take())?;
            self.refuse_appends();
        }
        while self.checkpointing.is_some() {
            self.feedback.news().await;
            self.hear(self.feedback.take())?;
        }
        self.ask_for_checkpoint(true).await?;
        while self.checkpointing.is_some() && self.full.is_none() {
            self.feedback.news().await;
            self.hear(self.feedback.take())?;
        }
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        tracing::error!(%error, source = ?std::error::Error::source(&error), "storage stops: nothing more is acknowledged on this disk");
        self.stopped.send_replace(Some(error));
        for live in self.logs.values_mut() {
            live.shared.set_closed(true);
        }
    }

    /// Answers whatever is left and whatever comes.
    async fn refuse_all(mut self, commands: &mut mpsc::Receiver<Command>) {
        self.has_ended = true;
        let error = match &*self.stopped.borrow() {
            Some(error) => Error::Stopped { why: error.to_string().into() },
            None => Error::Closing,
        };
        for live in self.logs.values_mut() {
            live.shared.set_closed(true);
            live.queue.drain(..).for_each(|item| item.refuse(error.clone()));
        }
        drop(self);
        commands.close();
        while let Some(command) = commands.recv().await {
            match command {
                Command::Item { item, .. } => item.refuse(error.clone()),
                Command::Create { done, .. } => drop(done.send(Err(error.clone()))),
                Command::Trim { done, .. } => drop(done.send(Err(error.clone()))),
                Command::Stop { done } => drop(done.send(Err(error.clone()))),
                Command::RaiseCeiling { .. } | Command::Fail(_) => {}
            }
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        if !self.has_ended {
            self.fail(Error::Stopped { why: "the commit loop ended in a panic".into() });
        }
    }
}
