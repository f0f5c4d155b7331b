//! The group of members, as the rest of the crate sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use danube_env::spawn::Running;
use danube_env::{Env, Random};
use danube_model::BrokerId;
use openraft::error::{ClientWriteError, Fatal, InitializeError, RaftError};
use openraft::{ServerState, SnapshotPolicy, Vote};
use tokio::sync::watch;

use crate::codec::{self, Batch, Member, Unreadable};
use crate::command::Outcome;
use crate::failure::Failure;
use crate::raft::log_store::{LogStore, Memory};
use crate::raft::machine::{Applications, Applied, Facts, Machine};
use crate::raft::network::NoPeers;
use crate::raft::{Types, from_stored, to_log_id};
use crate::refusal::Refusal;
use crate::store::recover::Contents;
use crate::store::thread::StoreThread;
use crate::store::vote;
use crate::{Error, Result};

/// How often a leader tells the others that it is there.
const HEARTBEAT_INTERVAL_MS: u64 = 100;
/// A member that hears from no leader for a time between these calls an election.
const ELECTION_TIMEOUT_MS: std::ops::Range<u64> = 250..500;

/// Handle of the group. Clones are the same.
#[derive(Clone)]
pub(crate) struct Group {
    raft: openraft::Raft<Types>,
    failure: Failure,
}

/// What a start found on the disk, decoded.
pub(crate) struct Start {
    member: u64,
    memory: Memory,
    facts: Facts,
    has_snapshot: bool,
}

impl Start {
    /// Decodes all that was read. `member` is who this is if the directory is new.
    pub(crate) fn decode(contents: &Contents, member: BrokerId) -> Result<Start> {
        let facts = match contents.snapshot() {
            Some((snapshot, path)) => {
                let body =
                    codec::decode_body(snapshot.body()).map_err(|why| unreadable(why, &path, 0))?;
                Facts::from_snapshot(snapshot.last, body)
            }
            None => Facts::default(),
        };
        let mut entries = BTreeMap::new();
        for (path, position, entry) in contents.entries() {
            let entry = from_stored(entry).map_err(|why| unreadable(why, path, position))?;
            entries.insert(entry.log_id.index, entry);
        }
        let vote = contents.vote().filter(|vote| vote.term > 0).map(|vote| {
            let (term, node) = (vote.term, vote.node);
            if vote.committed { Vote::new_committed(term, node) } else { Vote::new(term, node) }
        });
        let purged = contents.entry_before_log().as_ref().map(to_log_id);
        Ok(Start {
            member: contents.vote().map_or(member.get(), |vote| vote.member),
            memory: Memory { entries, purged, vote },
            has_snapshot: facts.last.is_some(),
            facts,
        })
    }

    /// The vote to begin with.
    pub(crate) fn vote(&self) -> vote::Vote {
        match &self.memory.vote {
            None => vote::Vote::none(self.member),
            Some(vote) => vote::Vote {
                member: self.member,
                term: vote.leader_id.term,
                node: vote.leader_id.node_id,
                committed: vote.committed,
            },
        }
    }

    #[cfg(test)]
    pub(crate) fn into_parts(self) -> (Memory, Facts) {
        (self.memory, self.facts)
    }

    /// Whether nothing was ever entered.
    pub(crate) fn is_new(&self) -> bool {
        !self.has_snapshot && self.memory.entries.is_empty() && self.memory.purged.is_none()
    }

    /// Who this is.
    pub(crate) fn member(&self) -> BrokerId {
        BrokerId::new(self.member)
    }
}

impl Group {
    /// Starts openraft on what was found, and forms a group of one if there was nothing.
    pub(crate) async fn start(
        env: &Env,
        start: Start,
        thread: StoreThread,
        failure: Failure,
        changes: watch::Sender<u64>,
    ) -> Result<(Group, Arc<Applied>)> {
        let is_new = start.is_new();
        let Start { member, memory, facts, has_snapshot } = start;
        let applied = Arc::new(Applied::new(facts));
        let machine =
            Machine::new(env.clone(), thread.clone(), applied.clone(), changes, has_snapshot);
        let log_store = LogStore::new(member, thread, memory);
        let config = Arc::new(config(&*env.random));
        let raft = openraft::Raft::new(member, config, NoPeers, log_store, machine).await;
        let group = Group { raft: raft.map_err(|fatal| stopped(&failure, &fatal))?, failure };
        if !is_new {
            return Ok((group, applied));
        }
        let alone = BTreeMap::from([(member, Member::default())]);
        match group.raft.initialize(alone).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(RaftError::APIError(other)) => {
                return Err(Error::Raft { reason: other.to_string() });
            }
            Err(RaftError::Fatal(fatal)) => return Err(stopped(&group.failure, &fatal)),
        }
        Ok((group, applied))
    }

    /// Waits until this member leads and has applied all that was committed before. An election is called at once.
    pub(crate) async fn lead(&self) -> Result<()> {
        self.raft.trigger().elect().await.map_err(|fatal| stopped(&self.failure, &fatal))?;
        let mut metrics = self.raft.metrics();
        let state = metrics.wait_for(|metrics| {
            metrics.running_state.is_err() || metrics.state == ServerState::Leader
        });
        if state.await.map_or(true, |metrics| metrics.running_state.is_err()) {
            return Err(stopped(&self.failure, &Fatal::Stopped));
        }
        // An entry of this leader commits and applies all before it.
        self.write(Batch::new([])).await.map(|_| ())
    }

    /// Has a batch committed and applied; answers in the order of its commands. If this future is dropped, that goes on.
    pub(crate) async fn write(&self, batch: Batch) -> Result<Vec<Result<Outcome, Refusal>>> {
        match self.raft.client_write(batch).await {
            Ok(written) => Ok(written.data.0),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
                Err(Error::NotLeader { leader: forward.leader_id.map(BrokerId::new) })
            }
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
                Err(Error::Raft { reason: error.to_string() })
            }
            Err(RaftError::Fatal(fatal)) => {
                Err(Error::Interrupted(Arc::new(stopped(&self.failure, &fatal))))
            }
        }
    }

    /// Watches over openraft until it stops: notes why it failed, and has snapshots built after every `every` commands or
    /// bytes.
    pub(crate) fn keep(&self, env: &Env, applied: Arc<Applied>, every: Applications) -> Running {
        let group = self.clone();
        let keep = async move {
            let mut metrics = group.raft.metrics();
            loop {
                let running = metrics.borrow_and_update().running_state.clone();
                match running {
                    Ok(()) => {}
                    Err(Fatal::Stopped) => return,
                    Err(fatal) => return group.failure.note(stopped(&group.failure, &fatal)),
                }
                let since = applied.read().since_snapshot;
                let is_due = since.commands >= every.commands || since.bytes >= every.bytes;
                if (is_due && group.raft.trigger().snapshot().await.is_err())
                    || metrics.changed().await.is_err()
                {
                    return;
                }
            }
        };
        env.spawn.task("metadata keeper", Box::pin(keep))
    }

    /// Stores a snapshot of all that is applied, and waits until the log is purged up to it.
    pub(crate) async fn snapshot(&self, applied: &Applied) {
        let last = applied.read().last;
        let mut metrics = self.raft.metrics();
        let mut seen = metrics.borrow().snapshot;
        // If this fails openraft stops, which ends the waiting too, and the log has it all.
        while self.raft.trigger().snapshot().await.is_ok() {
            // While one is built openraft asks for no other, so what comes first may be one of before.
            let next = metrics.wait_for(|metrics| {
                metrics.running_state.is_err()
                    || metrics.purged >= last
                    || (metrics.snapshot != seen && metrics.snapshot < last)
            });
            match next.await {
                Ok(metrics) if metrics.running_state.is_ok() && metrics.purged < last => {
                    seen = metrics.snapshot;
                }
                _ => return,
            }
        }
    }

    /// Stops openraft. What it was doing is finished or lost; nothing that was answered is.
    pub(crate) async fn stop(&self) {
        if let Err(error) = self.raft.shutdown().await {
            self.failure.note(Error::Raft { reason: error.to_string() });
        }
    }
}

fn config(random: &dyn Random) -> openraft::Config {
    let span = ELECTION_TIMEOUT_MS.end - ELECTION_TIMEOUT_MS.start;
    let election_timeout = ELECTION_TIMEOUT_MS.start + random.next_u64() % span;
    openraft::Config {
        cluster_name: "danube".to_owned(),
        heartbeat_interval: HEARTBEAT_INTERVAL_MS,
        // openraft chooses from this range with a generator of its own; a range of one leaves it no choice.
        election_timeout_min: election_timeout,
        election_timeout_max: election_timeout + 1,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        ..openraft::Config::default()
    }
}

/// Why openraft is not there: the reason that was noted, or what it says.
fn stopped(failure: &Failure, fatal: &Fatal<u64>) -> Error {
    failure.get().unwrap_or_else(|| match fatal {
        Fatal::Stopped => Error::Closed,
        Fatal::StorageError(_) | Fatal::Panicked => Error::Raft { reason: fatal.to_string() },
    })
}

fn unreadable(why: Unreadable, file: &std::path::Path, at: u64) -> Error {
    let (what, found) = match why {
        Unreadable::UnknownCommand(name) => ("command", name),
        Unreadable::Other(text) => ("content", text),
    };
    Error::UnknownContent { file: file.to_owned(), at, what, found }
}
