//! A consumer's end of a subscription.

use std::ops::Range;
use std::sync::Arc;

use danube_log::Damage;
use danube_model::{Batch, ConsumerId, GapReason, Offset, Record, TimeMs, caps};
use tokio::sync::oneshot;

use super::Settle;
use super::live::{Command, Deliveries, Handle};
use super::outbox::Outbox;
use crate::error::{Error, Result};

/// How many records a consumer may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// As many as the subscription may have unsettled.
    Unlimited,
    /// So many, and then what it grants.
    Credit(u64),
}

/// An attached consumer. Dropping it is going: what it holds is delivered again, at once.
pub struct Consumer {
    id: ConsumerId,
    outbox: Arc<Outbox>,
    handle: Handle,
}

/// What a consumer is handed.
#[derive(Clone, Debug)]
pub enum Delivered {
    /// Records.
    Records {
        /// The batch that they are in; its bytes are shared.
        batch: Batch,
        /// Which of its offsets.
        range: Range<Offset>,
        /// How often they were delivered, this time included.
        deliveries: u32,
        /// When the broker received the batch.
        receive_time: TimeMs,
        /// Of the cursor; each time that it is set anew it has a greater one.
        incarnation: u64,
    },
    /// Offsets without records. They need no settling; every consumer that is there is told.
    Missing {
        /// Which.
        range: Range<Offset>,
        /// Why.
        why: MissingReason,
    },
}

/// Why offsets have no records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// An explicit gap.
    Gap(GapReason),
    /// Retention removed them.
    Trimmed,
    /// They can't be read.
    Damage(Damage),
}

impl Consumer {
    pub(super) fn new(id: ConsumerId, outbox: Arc<Outbox>, handle: Handle) -> Consumer {
        Consumer { id, outbox, handle }
    }

    /// Its id.
    pub fn id(&self) -> ConsumerId {
        self.id
    }

    /// What comes next, at least one piece, joined up to a bound of bytes. Cancel safe.
    ///
    /// # Errors
    ///
    /// The end, and why: [`Error::Replaced`], [`Error::SubscriptionDeleted`], [`Error::Deleted`], [`Error::Stopping`].
    pub async fn next(&mut self) -> Result<Vec<Delivered>> {
        self.outbox.take().await
    }

    /// It may be sent so many records more.
    pub fn grant(&self, records: u64) {
        self.outbox.grant(records);
    }

    /// Goes, and returns once another may have its place. Cancel safe: it goes in any case.
    pub async fn leave(self) {
        let (done, left) = oneshot::channel();
        let command = Command::Leave { outbox: Arc::clone(&self.outbox), done };
        // A task that ended has no consumers.
        if self.handle.send(command).await.is_ok() {
            let _ = left.await;
        }
    }

    /// As [`crate::Topic::settle`], without looking anything up, and only for what was delivered to this consumer last, under
    /// this incarnation of the cursor. Cancel safe.
    pub async fn settle(&self, settle: Settle, incarnation: u64) -> Result<()> {
        let of = Some(Deliveries { consumer: self.id, incarnation });
        let command = Command::Settle { settle, of };
        self.handle.send(command).await.map_err(|_| Error::Replaced)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.outbox.leave();
    }
}

impl Delivered {
    /// How many records it stands for.
    pub fn records(&self) -> u64 {
        match self {
            Delivered::Records { range, .. } => range.start.distance(range.end),
            Delivered::Missing { .. } => 0,
        }
    }

    /// The share that it has of its batch's bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Delivered::Missing { .. } => 0,
            Delivered::Records { batch, .. } => {
                let share = batch.bytes().len() as u64 * self.records();
                (share / u64::from(batch.offset_span())) as usize
            }
        }
    }

    /// The records with their offsets. What can't be decoded is an error, and then there are no more.
    pub fn decode(
        &self,
    ) -> danube_model::Result<impl Iterator<Item = danube_model::Result<(Offset, Record)>> + '_>
    {
        let (records, range) = match self {
            Delivered::Missing { .. } => (None, None),
            Delivered::Records { batch, range, .. } => {
                (Some(batch.records(caps::DECOMPRESSED_BYTES_MAX)?), Some(range.clone()))
            }
        };
        let is_in = move |record: &danube_model::Result<(Offset, Record)>| match record {
            Ok((offset, _)) => range.as_ref().is_some_and(|range| range.contains(offset)),
            Err(_) => true,
        };
        Ok(records.into_iter().flatten().filter(is_in))
    }
}
