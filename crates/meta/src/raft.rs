//! The only module that knows openraft.
//!
//! It turns openraft's entries, votes and snapshots into those of [`crate::store`] and back, and hides the rest behind
//! [`Group`]. openraft spawns its tasks on tokio by itself; the only randomness that it uses, the choice of an election
//! time-out, is left no choice ([`group`]), so that it does the same in the simulator every time.
//!
//! [`log_store`] and [`machine`] are what openraft calls, [`network`] how it reaches other members, [`group`] what the
//! rest of this crate calls.

pub(crate) mod group;
mod log_store;
mod machine;
mod network;
#[cfg(test)]
mod suite;

use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use openraft::{CommittedLeaderId, EntryPayload, LogId, Membership, TokioRuntime};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::codec::{self, Batch, Member, Members, Unreadable};
use crate::command::{Command, Outcome};
use crate::refusal::Refusal;
use crate::store::entry::{Entry, EntryId, EntryKind};

pub(crate) use group::Group;
pub(crate) use machine::{Applications, Applied};

openraft::declare_raft_types!(
    /// What openraft is made of here.
    pub(crate) Types:
        D = Batch,
        R = Answers,
        NodeId = u64,
        Node = Member,
        Entry = openraft::Entry<Types>,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = TokioRuntime,
);

/// What came of each command of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answers(pub(crate) Vec<Result<Outcome, Refusal>>);

impl Serialize for Batch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.commands.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Batch, D::Error> {
        let commands = Vec::<Command>::deserialize(deserializer)?;
        let encoded = Bytes::from(codec::encode(&commands));
        Ok(Batch { commands: Arc::from(commands), encoded })
    }
}

fn to_stored(entry: &openraft::Entry<Types>) -> Entry {
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (EntryKind::Blank, Bytes::new()),
        EntryPayload::Normal(batch) => (EntryKind::Commands, batch.encoded.clone()),
        EntryPayload::Membership(membership) => {
            (EntryKind::Members, Bytes::from(codec::encode(&to_members(membership))))
        }
    };
    Entry { id: to_entry_id(&entry.log_id), kind, payload }
}

fn from_stored(entry: &Entry) -> Result<openraft::Entry<Types>, Unreadable> {
    let payload = match entry.kind {
        EntryKind::Blank if entry.payload.is_empty() => EntryPayload::Blank,
        EntryKind::Blank => {
            return Err(Unreadable::Other("a blank entry has a payload".to_owned()));
        }
        EntryKind::Commands => EntryPayload::Normal(Batch::decode(entry.payload.clone())?),
        EntryKind::Members => {
            EntryPayload::Membership(from_members(codec::decode(&entry.payload)?))
        }
    };
    Ok(openraft::Entry { log_id: to_log_id(&entry.id), payload })
}

fn to_members(membership: &Membership<u64, Member>) -> Members {
    Members {
        voters: membership.get_joint_config().clone(),
        nodes: membership.nodes().map(|(id, node)| (*id, node.clone())).collect(),
    }
}

fn from_members(members: Members) -> Membership<u64, Member> {
    Membership::new(members.voters, members.nodes)
}

fn to_entry_id(id: &LogId<u64>) -> EntryId {
    EntryId { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
}

fn to_log_id(id: &EntryId) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(id.term, id.node), id.index)
}
