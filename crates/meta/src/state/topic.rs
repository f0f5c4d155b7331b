//! What is known of a topic.

use danube_model::{BrokerId, DiskId, Durability, Epoch, Offset, TimeMs, TopicId, TopicName};
use serde::{Deserialize, Serialize};

use crate::command::{Change, UpdateTopic};

/// Ceilings are multiples of this, and rise by it.
pub const CEILING_STEP: u64 = 1 << 32;

/// A topic without partitions, or one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// Its identity. A name that is created again gets another.
    pub id: TopicId,
    /// Its name.
    pub name: TopicName,
    /// What an acknowledgement promises.
    pub delivery: Delivery,
    /// What is set for it.
    pub settings: TopicSettings,
    /// Number of its last opening; 0 if there was none.
    pub epoch: Epoch,
    /// No offset at or above it is assigned.
    pub ceiling: Offset,
    /// No offset below it is assigned by an opening from now on: it is above 0 once a disk was given up, and a log that
    /// ends before it goes on here.
    pub resume_at: Offset,
    /// Who has it.
    pub ownership: Ownership,
    /// The disk of its last opening.
    pub disk: Option<DiskId>,
    /// When it was created.
    pub created: TimeMs,
    /// The partitioned topic that it belongs to.
    pub partition: Option<Partition>,
}

/// What an acknowledgement promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// Fan-out from memory, at most once.
    NonReliable,
    /// A log, at least once, at this level.
    Reliable(Durability),
}

/// What is set for a topic. Where nothing is set, the broker's setting counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicSettings {
    /// How long records are kept, in milliseconds.
    pub retention_ms: Option<u64>,
    /// How many bytes are kept.
    pub retention_bytes: Option<u64>,
    /// The largest message, in bytes.
    pub message_bytes_max: Option<u64>,
}

/// Who may write to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    /// Nobody: it was never opened.
    Unowned,
    /// The broker that opened it last, under its epoch.
    Serving(BrokerId),
}

/// Which partition a topic is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// The topic that it is a partition of.
    pub base: TopicName,
    /// Which, from 0.
    pub index: u32,
}

impl Topic {
    /// Whether it has a log.
    pub fn is_reliable(&self) -> bool {
        matches!(self.delivery, Delivery::Reliable(_))
    }

    /// Its durability level, if it has a log.
    pub fn durability(&self) -> Option<Durability> {
        match self.delivery {
            Delivery::Reliable(durability) => Some(durability),
            Delivery::NonReliable => None,
        }
    }

    /// Its owner.
    pub fn owner(&self) -> Option<BrokerId> {
        match self.ownership {
            Ownership::Serving(broker) => Some(broker),
            Ownership::Unowned => None,
        }
    }

    /// Does what a command says; its durability level only where there is one already.
    pub(crate) fn update(&mut self, update: &UpdateTopic) {
        if let (Some(durability), Delivery::Reliable(level)) =
            (update.durability, &mut self.delivery)
        {
            *level = durability;
        }
        let settings = &mut self.settings;
        change(&mut settings.retention_ms, update.retention_ms);
        change(&mut settings.retention_bytes, update.retention_bytes);
        change(&mut settings.message_bytes_max, update.message_bytes_max);
    }
}

fn change(setting: &mut Option<u64>, change: Change<u64>) {
    match change {
        Change::Keep => {}
        Change::Reset => *setting = None,
        Change::Set(value) => *setting = Some(value),
    }
}
