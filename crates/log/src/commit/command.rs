//! What the commit loop is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use danube_model::{Batch, Durability, Epoch, GapReason, Offset, TopicId};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::bodies::Trims;
use crate::checkpoint::Gap;
use crate::error::{Error, Result};
use crate::shared::Shared;

/// What an append was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the batch's first record.
    pub base: Offset,
    /// Offset behind its last record.
    pub next: Offset,
    /// Epoch under which the log is open.
    pub epoch: Epoch,
    /// The level that was reached.
    pub level: Durability,
    /// The batch had been stored before; these are the offsets it got then.
    pub duplicate: bool,
}

/// How a log is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenLog {
    /// Whose log.
    pub topic: TopicId,
    /// The new epoch, above every earlier one.
    pub epoch: Epoch,
    /// Level at which appends are acknowledged.
    pub level: Durability,
    /// No offset at or above it is assigned.
    pub ceiling: Offset,
    /// Where to go on, and why, if the end of the log is not proven: the ceiling under which the last owner wrote.
    pub resume: Option<(Offset, GapReason)>,
}

pub(crate) type Answer<T> = oneshot::Sender<Result<T>>;

/// One thing to do in one log, in the order of its queue.
pub(crate) enum Item {
    Append {
        epoch: Epoch,
        batch: Batch,
        room: OwnedSemaphorePermit,
        done: Answer<Appended>,
    },
    Open {
        open: OpenLog,
        done: Answer<()>,
    },
    Close {
        epoch: Epoch,
        done: Answer<()>,
    },
    Delete {
        done: Answer<()>,
    },
    /// The segment is old enough.
    Seal,
    /// Seal the segment, and answer when it is in its file.
    Finish {
        done: Answer<()>,
    },
    /// Damage was accepted.
    Accepted {
        gaps: Vec<Gap>,
        done: Answer<()>,
    },
}

/// What the loop is asked.
pub(crate) enum Command {
    Item {
        topic: TopicId,
        item: Item,
    },
    /// The answer is what the loop has of the log from then on.
    Create {
        shared: Arc<Shared>,
        done: Answer<Arc<Shared>>,
    },
    RaiseCeiling {
        topic: TopicId,
        epoch: Epoch,
        ceiling: Offset,
    },
    /// Let go of segments that hold nothing at or above these offsets. The answer is what has gone, durably; the files are
    /// still there.
    Trim {
        before: BTreeMap<TopicId, Offset>,
        done: Answer<Trims>,
    },
    /// The disk failed elsewhere.
    Fail(Error),
    /// Finish what is queued, close all logs, take a checkpoint, and end.
    Stop {
        done: Answer<()>,
    },
}

impl Item {
    /// Answers that it was not done. Whoever waits may be gone.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Append { done, .. } => drop(done.send(Err(error))),
            Self::Open { done, .. }
            | Self::Close { done, .. }
            | Self::Delete { done }
            | Self::Finish { done }
            | Self::Accepted { done, .. } => {
                drop(done.send(Err(error)));
            }
            Self::Seal => {}
        }
    }
}
