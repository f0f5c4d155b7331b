//! The one task that puts commands into the log.
//!
//! openraft waits for the sync of each entry before it takes the next, so commands that arrive meanwhile travel in the
//! next entry together: one sync for all of them.

use std::path::PathBuf;

use tokio::sync::{mpsc, oneshot, watch};

use crate::codec::{Batch, EncodedCommand};
use crate::command::{Command, Outcome};
use crate::raft::Group;
use crate::store::thread::StoreThread;
use crate::{Error, Result, caps};

/// A command whose caller waits.
pub(crate) struct Waiting {
    /// The command.
    pub(crate) command: EncodedCommand,
    /// Where its answer goes.
    pub(crate) answer: oneshot::Sender<Result<Outcome>>,
}

/// The task.
pub(crate) struct Proposer {
    /// The directory, for errors.
    pub(crate) dir: PathBuf,
    /// Commands in the order of their arrival.
    pub(crate) queue: mpsc::Receiver<Waiting>,
    /// Where they go.
    pub(crate) group: Group,
    /// Who knows about room on the volume.
    pub(crate) thread: StoreThread,
    /// Turns true when no more commands are to be taken.
    pub(crate) stopped: watch::Receiver<bool>,
}

impl Proposer {
    /// Runs until it is stopped and all that was in the queue is answered, or nobody is left who could ask.
    pub(crate) async fn run(mut self) {
        while let Some(first) = self.next().await {
            let batch = self.gather(first);
            let batch = self.refuse_what_grows_when_full(batch).await;
            if !batch.is_empty() {
                self.write(batch).await;
            }
        }
    }

    async fn next(&mut self) -> Option<Waiting> {
        if !self.queue.is_closed() {
            tokio::select! {
                // Once stopped, nothing more gets into the queue; what is there is done.
                biased;
                stopped = self.stopped.wait_for(|stopped| *stopped) => drop(stopped),
                next = self.queue.recv() => return next,
            }
            self.queue.close();
        }
        self.queue.recv().await
    }

    /// What travels in one entry.
    fn gather(&mut self, first: Waiting) -> Vec<Waiting> {
        let mut bytes = first.command.bytes.len();
        let mut batch = vec![first];
        while bytes < caps::COMMAND_BYTES_MAX && batch.len() < caps::COMMANDS_PER_ENTRY_MAX {
            let Ok(next) = self.queue.try_recv() else { break };
            bytes += next.command.bytes.len();
            batch.push(next);
        }
        batch
    }

    /// On a full volume only those commands are taken that a broker cannot do without, or that make room.
    async fn refuse_what_grows_when_full(&self, batch: Vec<Waiting>) -> Vec<Waiting> {
        if !self.thread.is_reserve_used() {
            return batch;
        }
        if let Ok(true) = self.thread.with(|store| Ok(store.refill_reserve())).await {
            return batch;
        }
        let (refused, taken): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|waiting| is_growth(&waiting.command.command));
        answer(refused, |_| Err(Error::StorageFull { dir: self.dir.clone() }));
        taken
    }

    async fn write(&self, batch: Vec<Waiting>) {
        let (commands, askers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.command, waiting.answer)).unzip();
        match self.group.write(Batch::new(commands)).await {
            Ok(outcomes) => {
                assert_eq!(outcomes.len(), askers.len(), "each command of an entry has an answer");
                for (asker, outcome) in askers.into_iter().zip(outcomes) {
                    // Whoever asked may be gone.
                    let _ = asker.send(outcome.map_err(Error::from));
                }
            }
            Err(error) => askers.into_iter().for_each(|asker| {
                let _ = asker.send(Err(error.clone()));
            }),
        }
    }
}

fn answer(waiting: Vec<Waiting>, result: impl Fn(&Command) -> Result<Outcome>) {
    for Waiting { command, answer } in waiting {
        // Whoever asked may be gone.
        let _ = answer.send(result(&command.command));
    }
}

/// Whether a command makes the state larger for good.
fn is_growth(command: &Command) -> bool {
    match command {
        Command::CreateNamespace(_)
        | Command::CreateTopic(_)
        | Command::UpdateTopic(_)
        | Command::CreateSubscription(_)
        | Command::UpdateSubscription(_)
        | Command::RegisterConsumer(_) => true,
        Command::FormCluster(_)
        | Command::StartSession(_)
        | Command::DeleteNamespace(_)
        | Command::DeleteTopic(_)
        | Command::OpenTopics(_)
        | Command::RaiseCeiling(_)
        | Command::ForgetDeleted(_)
        | Command::DeleteSubscription(_)
        | Command::SeekSubscription(_)
        | Command::SaveCursors(_)
        | Command::ForgetConsumers(_) => false,
    }
}
