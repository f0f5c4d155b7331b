//! The log and the vote, as openraft asks for them.
//!
//! All entries that are not purged are in memory, because openraft reads each again to apply it; the disk thread makes
//! them durable behind that. Snapshots bound both.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    AnyError, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote,
};

use crate::raft::{Types, to_entry_id, to_stored};
use crate::store::thread::StoreThread;
use crate::store::vote;

type Entry = openraft::Entry<Types>;

/// The log and the vote. Clones share both.
#[derive(Clone)]
pub(crate) struct LogStore {
    member: u64,
    thread: StoreThread,
    memory: Arc<Mutex<Memory>>,
}

/// What openraft sees.
pub(crate) struct Memory {
    /// All entries that are not purged, without holes.
    pub(crate) entries: BTreeMap<u64, Entry>,
    /// The last entry that is.
    pub(crate) purged: Option<LogId<u64>>,
    /// The vote, if there was one.
    pub(crate) vote: Option<Vote<u64>>,
}

impl LogStore {
    /// The log of `member`, with what the disk had.
    pub(crate) fn new(member: u64, thread: StoreThread, memory: Memory) -> LogStore {
        LogStore { member, thread, memory: Arc::new(Mutex::new(memory)) }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Nothing that holds this lock can panic half-way.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError<u64>> {
        Ok(self.memory().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError<u64>> {
        let memory = self.memory();
        let last = memory.entries.last_key_value().map(|(_, entry)| entry.log_id);
        Ok(LogState { last_purged_log_id: memory.purged, last_log_id: last.or(memory.purged) })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), StorageError<u64>> {
        let stored = vote::Vote {
            member: self.member,
            term: vote.leader_id.term,
            node: vote.leader_id.node_id,
            committed: vote.committed,
        };
        let saved = self.thread.with(move |store| store.save_vote(&stored)).await;
        saved.map_err(|error| StorageIOError::write_vote(AnyError::new(&error)))?;
        self.memory().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, StorageError<u64>> {
        Ok(self.memory().vote)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> Result<(), StorageError<u64>>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut stored = Vec::new();
        {
            let mut memory = self.memory();
            for entry in entries {
                stored.push(to_stored(&entry));
                memory.entries.insert(entry.log_id.index, entry);
            }
        }
        let done = Box::new(|result: crate::Result<()>| {
            callback.log_io_completed(result.map_err(io::Error::other));
        });
        let queued = self.thread.append(stored, done).await;
        queued.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)).into())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Result<(), StorageError<u64>> {
        self.memory().entries.split_off(&log_id.index);
        let truncated = self.thread.with(move |store| store.truncate(log_id.index)).await;
        truncated.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)).into())
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Result<(), StorageError<u64>> {
        {
            let mut memory = self.memory();
            memory.entries = memory.entries.split_off(&(log_id.index + 1));
            memory.purged = Some(log_id);
        }
        let upto = to_entry_id(&log_id);
        let purged = self.thread.with(move |store| store.purge(upto)).await;
        purged.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)).into())
    }
}
