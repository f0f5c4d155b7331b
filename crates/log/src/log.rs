//! The handle of one open log.

use std::sync::Arc;

use danube_model::{Batch, Durability, Epoch, Offset, TopicId};
use tokio::sync::oneshot;

use crate::checkpoint::Gap;
use crate::commit::{Appended, Command, Item, LENT_BYTES_MAX};
use crate::error::{Error, Result};
use crate::reader::{Reader, Start};
use crate::shared::{Ends, Shared};
use crate::store::Store;

/// A log that is open here under an epoch. Cheap to clone; the log stays open until [`Log::close`].
#[derive(Clone)]
pub struct Log {
    pub(crate) store: Store,
    pub(crate) shared: Arc<Shared>,
    pub(crate) epoch: Epoch,
    pub(crate) level: Durability,
}

/// An append on its way. It is done whether or not anybody waits for it.
#[must_use = "the offsets, or the error, come through it"]
pub struct Appending(oneshot::Receiver<Result<Appended>>);

/// What is known of a log without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First offset still held.
    pub start: Offset,
    /// What the log's level has confirmed; readers stop here.
    pub durable_end: Offset,
    /// Bytes of its frames, in files or in the journal alone, and of the files' headers and footers.
    pub bytes: u64,
    /// How many files there are.
    pub segments: usize,
    /// Offsets that can't be read; the newest ones if there are many.
    pub gaps: Vec<Gap>,
}

impl Log {
    /// Whose log.
    pub fn topic(&self) -> TopicId {
        self.shared.topic
    }

    /// The epoch under which this handle writes.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The level at which appends are acknowledged.
    pub fn level(&self) -> Durability {
        self.level
    }

    /// How far the log goes now.
    pub fn ends(&self) -> Ends {
        *self.shared.ends.borrow()
    }

    /// Hands a batch to the commit loop; batches of one caller are appended in the order of these calls.
    ///
    /// Waits while too many bytes are queued. Cancel safe: a call that did not return has handed over nothing.
    pub async fn submit(&self, batch: Batch) -> Result<Appending> {
        let room = self.store.queue_room(batch.bytes().len()).await?;
        let (done, answer) = oneshot::channel();
        let is_small =
            self.level == Durability::PageCache && batch.bytes().len() as u64 <= LENT_BYTES_MAX / 2;
        let item = Item::Append { epoch: self.epoch, batch, room, done };
        let command = Command::Item { topic: self.topic(), item };
        match is_small {
            true => self.store.small_command(command).await?,
            false => self.store.command(command).await?,
        }
        Ok(Appending(answer))
    }

    /// Appends a batch and waits for its level. Dropping the future does not undo the append.
    ///
    /// # Errors
    ///
    /// [`Error::effect`] tells whether the batch may appear all the same.
    pub async fn append(&self, batch: Batch) -> Result<Appended> {
        self.submit(batch).await?.wait().await
    }

    /// Lets the log assign offsets up to a higher ceiling, exclusive; it must be stored in the metadata already.
    pub async fn raise_ceiling(&self, ceiling: Offset) -> Result<()> {
        let (topic, epoch) = (self.topic(), self.epoch);
        self.store.command(Command::RaiseCeiling { topic, epoch, ceiling }).await
    }

    /// A reader from `start` on.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if `start` is an offset beyond the durable end.
    pub async fn read(&self, start: Start) -> Result<Reader> {
        Reader::open(self.store.clone(), Arc::clone(&self.shared), start, None).await
    }

    /// Start, end and size.
    pub async fn extent(&self) -> Result<Extent> {
        self.store.extent(self.topic()).await
    }

    /// Makes explicit gaps of everything that is damaged in the log's files. Reads all of them.
    pub async fn accept_damage(&self) -> Result<Vec<Gap>> {
        let topic = self.topic();
        self.seal().await?;
        let gaps = self.store.accept_damage(&self.shared).await?;
        let accepted = gaps.clone();
        self.store.ask(topic, |done| Item::Accepted { gaps: accepted, done }).await?;
        Ok(gaps)
    }

    /// Seals the segment that is being filled, if there is one.
    pub async fn seal(&self) -> Result<()> {
        self.store.ask(self.topic(), |done| Item::Finish { done }).await
    }

    /// Closes the log: what was submitted before is finished, nothing is accepted after. Its end is then proven.
    pub async fn close(&self) -> Result<()> {
        let epoch = self.epoch;
        self.store.ask(self.topic(), |done| Item::Close { epoch, done }).await
    }
}

impl Appending {
    /// Waits for the append's level. Cancel safe; the append goes on.
    pub async fn wait(self) -> Result<Appended> {
        // The loop failed while the append was in a round: it may be on the disk.
        self.0.await.map_err(|_| Error::Stopped { why: "the commit loop ended".into() })?
    }
}
