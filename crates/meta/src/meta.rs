//! The handle.

mod proposer;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use danube_env::spawn::Running;
use danube_env::{Env, blocking};
use danube_model::BrokerId;
use tokio::sync::{mpsc, oneshot, watch};

use crate::codec::EncodedCommand;
use crate::command::{Command, Outcome, Proposal};
use crate::failure::Failure;
use crate::meta::proposer::{Proposer, Waiting};
use crate::metrics::{Counters, Metrics};
use crate::raft::group::Start;
use crate::raft::{Applications, Applied, Group};
use crate::state::State;
use crate::store::recover::{self, Contents};
use crate::store::thread::StoreThread;
use crate::{Error, Result, caps};

/// The member that forms a cluster.
const FIRST_MEMBER: BrokerId = BrokerId::new(1);
/// How long a clean stop waits for a snapshot. Without it the next start applies the log again.
const LAST_SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(2);

/// Settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory of the metadata, `raft/` in the data directory.
    pub dir: PathBuf,
    /// A snapshot is stored, and the log purged, after this many commands.
    pub snapshot_after_commands: u64,
    /// A snapshot is stored, and the log purged, after commands of this many bytes.
    pub snapshot_after_bytes: u64,
    /// A file of the log takes no further entry once it has this many bytes.
    pub log_file_bytes: u64,
}

impl Config {
    /// The defaults, for this directory: a snapshot after 50,000 commands or 8 MiB, log files of 4 MiB.
    pub fn new(dir: impl Into<PathBuf>) -> Config {
        Config {
            dir: dir.into(),
            snapshot_after_commands: 50_000,
            snapshot_after_bytes: 8 << 20,
            log_file_bytes: caps::LOG_FILE_BYTES_DEFAULT,
        }
    }
}

/// The metadata. Clones are the same.
#[derive(Clone)]
pub struct Meta(Arc<Inner>);

struct Inner {
    env: Env,
    broker: BrokerId,
    applied: Arc<Applied>,
    changes: watch::Receiver<u64>,
    proposals: mpsc::Sender<Waiting>,
    failure: Failure,
    counters: Arc<Counters>,
    group: Group,
    stop: watch::Sender<bool>,
    tasks: Mutex<Option<Tasks>>,
}

/// What a clean stop joins, in this order.
struct Tasks {
    proposer: Running,
    keeper: Running,
    disk: Running,
}

/// Metadata that were read and can be opened. Nothing was changed yet.
pub struct Checked {
    config: Config,
    env: Env,
    contents: Contents,
    start: Start,
}

impl Checked {
    /// Whether nothing was ever entered: they are those of a broker that starts for the first time.
    pub fn is_new(&self) -> bool {
        self.start.is_new()
    }

    /// Opens them, and forms a group of this one member in a new directory. Once it returns, everything that was ever
    /// acknowledged can be read, and commands are taken. Nobody may have changed the directory since it was read.
    ///
    /// # Errors
    /// `Unavailable` if the disk fails.
    pub async fn open(self) -> Result<Meta> {
        let Checked { config, env, contents, start } = self;
        let (world, vote, log_file_bytes) = (env.clone(), start.vote(), config.log_file_bytes);
        let settle = move || contents.settle(&world, &vote, log_file_bytes);
        let store = blocking(&*env.spawn, settle).await?;
        let broker = start.member();
        let failure = Failure::none();
        let (thread, disk) = StoreThread::spawn(&env, store, failure.clone());
        let (change, changes) = watch::channel(0);
        let (group, applied) =
            Group::start(&env, start, thread.clone(), failure.clone(), change).await?;
        group.lead().await?;
        let every = Applications {
            commands: config.snapshot_after_commands,
            bytes: config.snapshot_after_bytes,
        };
        let keeper = group.keep(&env, applied.clone(), every);
        let (proposals, queue) = mpsc::channel(caps::PROPOSALS_WAITING_MAX);
        let (stop, stopped) = watch::channel(false);
        let proposer = Proposer { dir: config.dir, queue, group: group.clone(), thread, stopped };
        let proposer = env.spawn.task("metadata proposer", Box::pin(proposer.run()));
        let tasks = Mutex::new(Some(Tasks { proposer, keeper, disk }));
        Ok(Meta(Arc::new(Inner {
            env,
            broker,
            applied,
            changes,
            proposals,
            failure,
            counters: Arc::default(),
            group,
            stop,
            tasks,
        })))
    }
}

impl Meta {
    /// Reads and checks the metadata, and changes nothing.
    ///
    /// # Errors
    /// `Corrupt`, naming the file and the place, if something is damaged, missing, or of a later version. `Unavailable` if
    /// the disk fails.
    pub async fn check(config: Config, env: Env) -> Result<Checked> {
        let (dir, disk) = (config.dir.clone(), Arc::clone(&env.disk));
        let (contents, start) = blocking(&*env.spawn, move || {
            let contents = recover::read(&*disk, &dir)?;
            let start = Start::decode(&contents, FIRST_MEMBER)?;
            Ok::<_, Error>((contents, start))
        })
        .await?;
        Ok(Checked { config, env, contents, start })
    }

    /// [`Meta::check`], then [`Checked::open`].
    ///
    /// # Errors
    /// Those of both. Nothing was changed if something is damaged, missing, or of a later version.
    pub async fn open(config: Config, env: Env) -> Result<Meta> {
        Meta::check(config, env).await?.open().await
    }

    /// This broker.
    pub fn broker(&self) -> BrokerId {
        self.0.broker
    }

    /// Looks at the state. It has all commands that were acknowledged to anyone before, each whole.
    ///
    /// `look` must be short and must not call this handle: while it looks, nothing is applied.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.0.applied.read().state)
    }

    /// Has a command committed and applied, and returns what came of it: it is on the disk, and [`Meta::read`] shows it.
    ///
    /// If this future is dropped after it was first polled, the command may be carried out all the same.
    ///
    /// # Errors
    /// [`Error::Refused`] if it contradicts the state. After [`Error::Interrupted`] it is unknown what became of it; after
    /// any other error it changed nothing.
    pub async fn propose<P: Proposal>(&self, proposal: P) -> Result<P::Outcome> {
        let command: Command = proposal.into();
        let name = command.name();
        let encoded = EncodedCommand::new(command);
        let found = encoded.bytes.len();
        if found > caps::COMMAND_BYTES_MAX {
            return Err(Error::CommandTooLarge {
                command: name,
                found,
                limit: caps::COMMAND_BYTES_MAX,
            });
        }
        let begun = self.0.env.clock.monotonic();
        let _on_its_way = self.0.counters.propose(begun);
        let outcome = self.commit(encoded).await;
        self.0.counters.answered(self.0.env.clock.monotonic() - begun, outcome.is_err());
        Ok(P::outcome(outcome?)
            .expect("openraft answers each entry with what applying it returned"))
    }

    async fn commit(&self, command: EncodedCommand) -> Result<Outcome> {
        let (answer, answered) = oneshot::channel();
        let closed = || self.0.failure.get().unwrap_or(Error::Closed);
        self.0.proposals.send(Waiting { command, answer }).await.map_err(|_| closed())?;
        answered.await.unwrap_or_else(|_| Err(Error::Interrupted(Arc::new(closed()))))
    }

    /// The metadata in numbers.
    pub fn metrics(&self) -> Metrics {
        self.0.counters.metrics()
    }

    /// Since when the oldest command that is on its way waits, by the monotonic clock.
    pub fn waiting_since(&self) -> Option<Duration> {
        self.0.counters.waiting_since()
    }

    /// Tells when the state changed.
    pub fn watch(&self) -> Changes {
        Changes(self.0.changes.clone())
    }

    /// Completes when the metadata have failed for good, and says why: nothing more is acknowledged, and the process is to
    /// end (P7). Cancel safe.
    pub async fn failed(&self) -> Error {
        self.0.failure.wait().await
    }

    /// Ends: takes no more commands, answers those that it has, stores a snapshot, and lets go of the directory. Calls after
    /// the first return at once.
    pub async fn close(&self) {
        let tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(tasks) = tasks else { return };
        self.0.stop.send_replace(true);
        self.joined(tasks.proposer).await;
        if self.0.applied.read().since_snapshot != Applications::default() {
            tokio::select! {
                // A snapshot that is there counts even if the time is up at once.
                biased;
                () = self.0.group.snapshot(&self.0.applied) => {}
                () = self.0.env.clock.sleep(LAST_SNAPSHOT_TIMEOUT) => {
                    tracing::warn!("no snapshot within the time of a clean stop, the next start is slower");
                }
            }
        }
        self.0.group.stop().await;
        self.joined(tasks.keeper).await;
        self.joined(tasks.disk).await;
    }

    async fn joined(&self, running: Running) {
        if let Err(panicked) = running.join().await {
            self.0.failure.note(Error::Raft { reason: panicked.to_string() });
        }
    }
}

/// Tells when the state changed.
#[derive(Clone)]
pub struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Waits until the state is another than at the last call, or than when [`Meta::watch`] was called. False once there
    /// will be no more changes. Cancel safe.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}
