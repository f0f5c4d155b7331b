//! The state, as openraft asks for it: applying entries, building and installing snapshots.

use std::io::Cursor;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use danube_env::{Env, blocking};
use openraft::storage::RaftStateMachine;
use openraft::{
    AnyError, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, SnapshotMeta, StorageError,
    StorageIOError, StoredMembership,
};
use tokio::sync::watch;

use crate::codec::{self, Body, Member};
use crate::raft::{Answers, Types, from_members, to_entry_id, to_log_id, to_members};
use crate::state::State;
use crate::store::entry::EntryId;
use crate::store::snapshot::Snapshot;
use crate::store::thread::StoreThread;

type Entry = openraft::Entry<Types>;
type Meta = SnapshotMeta<u64, Member>;

/// What all applied entries made, shared with those who read it.
#[derive(Default)]
pub(crate) struct Applied(RwLock<Facts>);

/// The state, and how far it got.
#[derive(Clone, Default)]
pub(crate) struct Facts {
    /// The state.
    pub(crate) state: State,
    /// The last applied entry.
    pub(crate) last: Option<LogId<u64>>,
    /// The last applied membership.
    pub(crate) members: StoredMembership<u64, Member>,
    /// Commands since the last snapshot, and bytes of their entries.
    pub(crate) since_snapshot: Applications,
}

/// An amount of applied commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applications {
    /// How many.
    pub(crate) commands: u64,
    /// Bytes of their payloads.
    pub(crate) bytes: u64,
}

impl Applied {
    pub(crate) fn new(facts: Facts) -> Applied {
        Applied(RwLock::new(facts))
    }

    /// Looks at the facts. Entries are applied before or after, never meanwhile.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Facts> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Facts> {
        // A panic while applying stops openraft, so nobody applies to what it left.
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    /// What the body of a snapshot says.
    pub(crate) fn from_snapshot(last: EntryId, body: Body) -> Facts {
        let members_at =
            body.members_at.map(|(index, term, node)| to_log_id(&EntryId { term, node, index }));
        Facts {
            state: body.state,
            last: Some(to_log_id(&last)),
            members: StoredMembership::new(members_at, from_members(body.members)),
            since_snapshot: Applications::default(),
        }
    }

    fn to_snapshot(&self) -> Option<(Meta, Snapshot)> {
        let last = to_entry_id(&self.last?);
        let at = self.members.log_id().as_ref().map(to_entry_id);
        let body = Body {
            members: to_members(self.members.membership()),
            members_at: at.map(|at| (at.index, at.term, at.node)),
            state: self.state.clone(),
        };
        Some((self.meta(), Snapshot::build(last, |out| codec::encode_to(&body, out))))
    }

    fn meta(&self) -> Meta {
        Meta {
            last_log_id: self.last,
            last_membership: self.members.clone(),
            snapshot_id: self.last.map_or_else(String::new, |last| last.to_string()),
        }
    }

    fn apply(&mut self, entry: Entry) -> Answers {
        self.last = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => Answers::default(),
            EntryPayload::Membership(membership) => {
                self.members = StoredMembership::new(Some(entry.log_id), membership);
                Answers::default()
            }
            EntryPayload::Normal(batch) => {
                self.since_snapshot.commands += batch.commands.len() as u64;
                self.since_snapshot.bytes += batch.encoded.len() as u64;
                Answers(batch.commands.iter().map(|command| self.state.apply(command)).collect())
            }
        }
    }
}

/// What openraft applies entries to.
pub(crate) struct Machine {
    env: Env,
    thread: StoreThread,
    applied: Arc<Applied>,
    /// Index of the last applied entry.
    changes: watch::Sender<u64>,
    /// What the stored snapshot says of itself.
    stored: Arc<RwLock<Option<Meta>>>,
}

impl Machine {
    /// The machine that goes on from `applied`; `has_snapshot` says that a snapshot of exactly that is stored.
    pub(crate) fn new(
        env: Env,
        thread: StoreThread,
        applied: Arc<Applied>,
        changes: watch::Sender<u64>,
        has_snapshot: bool,
    ) -> Machine {
        let stored = has_snapshot.then(|| applied.read().meta());
        Machine { env, thread, applied, changes, stored: Arc::new(RwLock::new(stored)) }
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Builder;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, Member>), StorageError<u64>> {
        let facts = self.applied.read();
        Ok((facts.last, facts.members.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Answers>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let (answers, last) = {
            let mut facts = self.applied.write();
            let answers = entries.into_iter().map(|entry| facts.apply(entry)).collect();
            (answers, facts.last)
        };
        self.changes.send_replace(last.map_or(0, |last| last.index));
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let mut facts = self.applied.write();
        facts.since_snapshot = Applications::default();
        Builder {
            env: self.env.clone(),
            thread: self.thread.clone(),
            facts: facts.clone(),
            stored: self.stored.clone(),
        }
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<Cursor<Vec<u8>>>, StorageError<u64>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &Meta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<u64>> {
        let refuse = |why: String| {
            StorageIOError::write_snapshot(Some(meta.signature()), AnyError::error(why))
        };
        let snapshot = Snapshot::decode(Bytes::from(snapshot.into_inner()))
            .map_err(|flaw| refuse(format!("{flaw:?}")))?;
        let body = codec::decode_body(snapshot.body()).map_err(|why| refuse(format!("{why:?}")))?;
        let facts = Facts::from_snapshot(snapshot.last, body);
        if facts.last != meta.last_log_id {
            return Err(refuse("it is of another entry than was announced".to_owned()).into());
        }
        let saved = self.thread.with(move |store| store.save_snapshot(&snapshot)).await;
        match saved {
            Ok(true) => {}
            Ok(false) => return Err(refuse("the volume is full".to_owned()).into()),
            Err(error) => return Err(refuse(error.to_string()).into()),
        }
        let last = facts.last;
        *self.applied.write() = facts;
        *self.stored.write().unwrap_or_else(PoisonError::into_inner) = Some(meta.clone());
        self.changes.send_replace(last.map_or(0, |last| last.index));
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<openraft::Snapshot<Types>>, StorageError<u64>> {
        let stored = self.stored.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(meta) = stored else { return Ok(None) };
        let snapshot = self.thread.with(|store| store.read_snapshot()).await;
        let snapshot = snapshot.map_err(|error| {
            StorageIOError::read_snapshot(Some(meta.signature()), AnyError::new(&error))
        })?;
        let bytes = snapshot.map_or_else(Vec::new, |snapshot| snapshot.bytes.to_vec());
        Ok(Some(openraft::Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}

/// Builds one snapshot of the facts as they were when it was made.
pub(crate) struct Builder {
    env: Env,
    thread: StoreThread,
    facts: Facts,
    stored: Arc<RwLock<Option<Meta>>>,
}

impl RaftSnapshotBuilder<Types> for Builder {
    async fn build_snapshot(&mut self) -> Result<openraft::Snapshot<Types>, StorageError<u64>> {
        let failed =
            |error: crate::Error| StorageIOError::write_snapshot(None, AnyError::new(&error));
        let facts = self.facts.clone();
        let encoded = blocking(&*self.env.spawn, move || facts.to_snapshot()).await;
        let Some((meta, snapshot)) = encoded else {
            return Ok(openraft::Snapshot { meta: Meta::default(), snapshot: Box::default() });
        };
        let bytes = snapshot.bytes.to_vec();
        if self.thread.with(move |store| store.save_snapshot(&snapshot)).await.map_err(failed)? {
            *self.stored.write().unwrap_or_else(PoisonError::into_inner) = Some(meta.clone());
            return Ok(openraft::Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) });
        }
        // No room. The answer is the snapshot that is stored, which openraft takes as nothing new.
        let stored = self.stored.read().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(openraft::Snapshot { meta: stored.unwrap_or_default(), snapshot: Box::default() })
    }
}
