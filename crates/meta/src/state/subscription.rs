//! What is known of a subscription.

use std::collections::BTreeMap;

use danube_model::{
    Chunk, ConsumerId, ConsumerName, FailurePolicy, Offset, SubscriptionName, SubscriptionType,
    TimeMs, TopicId,
};
use serde::{Deserialize, Serialize};

use crate::command::SaveCursor;

/// A subscription of one topic or partition, with its cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Whose.
    pub topic: TopicId,
    /// Its name.
    pub name: SubscriptionName,
    /// Who of its consumers gets what.
    pub kind: SubscriptionType,
    /// The first offset that is not settled.
    pub floor: Offset,
    /// What is settled above the floor, by number of the chunk. What a chunk says below the floor does not matter.
    pub settled: BTreeMap<u64, Chunk>,
    /// How often the cursor was set, by its creation and by each seek.
    pub incarnation: u64,
    /// What becomes of records that fail.
    pub policy: FailurePolicy,
    /// Records that may be delivered and not settled; none: the broker's setting counts.
    pub max_unacked_messages: Option<u64>,
    /// The newest registration of each consumer name.
    pub consumers: BTreeMap<ConsumerName, Consumer>,
    /// When it was created.
    pub created: TimeMs,
}

/// A registered consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consumer {
    /// Its identity; it gets another whenever it registers.
    pub id: ConsumerId,
    /// Globs over the keys that it wants; none: every key.
    pub filters: Vec<String>,
    /// When it registered.
    pub registered: TimeMs,
}

impl Subscription {
    /// Takes over what was saved: the floor only rises, chunks replace those before.
    pub(crate) fn save(&mut self, saved: &SaveCursor) {
        self.floor = self.floor.max(saved.floor);
        self.settled.extend(saved.chunks.iter().cloned());
        self.settled = self.settled.split_off(&Chunk::index_of(self.floor));
    }

    /// Sets the cursor anew.
    pub(crate) fn seek(&mut self, floor: Offset) {
        self.floor = floor;
        self.settled.clear();
        self.incarnation += 1;
    }
}
