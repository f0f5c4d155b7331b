//! The handle of one topic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use danube_log::{Appended, Gap, Reader, Start};
use danube_meta::state::{Delivery, TopicSettings};
use danube_model::{Batch, BrokerId, DiskId, Durability, Epoch, Offset, TopicId, TopicName};

use crate::broker::{Broker, Inner};
use crate::error::{Error, Result};
use crate::slot::{Accept, OpenTopicLog, Slot};

/// One topic on this node. Cheap to clone; stays good while the log behind it is closed and opened again.
#[derive(Clone)]
pub struct Topic {
    pub(crate) broker: Broker,
    pub(crate) slot: Arc<Slot>,
}

/// An append on its way. It is done whether or not anybody waits for it.
#[must_use = "the offsets, or the error, come through it"]
pub struct Appending {
    appending: danube_log::Appending,
    topic: Topic,
    open: Arc<OpenTopicLog>,
    /// By the monotonic clock.
    begun: Duration,
}

/// What is known of a topic.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name.
    pub name: TopicName,
    /// Its identity; a name that is created again gets another.
    pub id: TopicId,
    /// The broker that has it.
    pub owner: Option<BrokerId>,
    /// The disk of its last opening.
    pub disk: Option<DiskId>,
    /// Of its last opening.
    pub epoch: Epoch,
    /// What an acknowledgement promises.
    pub delivery: Delivery,
    /// What is set for it.
    pub settings: TopicSettings,
    /// First offset still held.
    pub start: Offset,
    /// What its level has confirmed.
    pub durable_end: Offset,
    /// No offset at or above it is assigned.
    pub ceiling: Offset,
    /// Bytes of its files.
    pub bytes: u64,
    /// Offsets that can't be read.
    pub gaps: Vec<Gap>,
    /// Why it takes no messages, if it takes none.
    pub blocked: Option<Error>,
    /// Names of the producers that are attached.
    pub producers: Vec<String>,
}

/// A producer is attached to a topic as long as this is held.
pub struct Attached {
    producers: Arc<Producers>,
    key: u64,
}

/// The producers that are attached to a topic.
#[derive(Default)]
pub(crate) struct Producers {
    attached: Mutex<(u64, BTreeMap<u64, String>)>,
}

impl Topic {
    pub(crate) fn new(broker: Broker, slot: Arc<Slot>) -> Self {
        Self { broker, slot }
    }

    /// Its identity.
    pub fn id(&self) -> TopicId {
        self.slot.id
    }

    /// Its name.
    pub fn name(&self) -> &TopicName {
        &self.slot.name
    }

    /// The broker that it is on.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Opens the log if it is not open, and tells under which epoch and at which level it is.
    pub async fn open(&self) -> Result<(Epoch, Durability)> {
        let open = self.slot.log(&self.broker, Accept::Nothing).await?;
        Ok((open.log.epoch(), open.log.level()))
    }

    /// The largest message that it takes, in bytes.
    pub fn message_bytes_max(&self) -> u64 {
        let set = self.broker.inner.meta.read(|state| {
            state.topic_by_id(&self.slot.id).and_then(|topic| topic.settings.message_bytes_max)
        });
        match set.unwrap_or(self.broker.inner.config.message_bytes_max) {
            0 => danube_model::caps::MESSAGE_BYTES_MAX as u64,
            limit => limit.min(danube_model::caps::MESSAGE_BYTES_MAX as u64),
        }
    }

    /// Hands a verified batch to the log; batches of one caller are appended in the order of these calls. Waits while too
    /// much is queued, and while the topic is beyond its rate. Cancel safe: a call that did not return has handed over nothing.
    pub async fn submit(&self, batch: Batch) -> Result<Appending> {
        self.pass(&batch).await?;
        let open = self.slot.log(&self.broker, Accept::Nothing).await?;
        self.slot.watch_ceiling(&self.broker, &open);
        let begun = self.broker.inner.env.clock.monotonic();
        let appending = open.log.submit(batch).await?;
        Ok(Appending { appending, topic: self.clone(), open, begun })
    }

    /// Returns when the topic may take the messages of a batch. Cancel safe.
    async fn pass(&self, batch: &Batch) -> Result<()> {
        self.broker.check_running()?;
        if !self.slot.throttle.is_limited() {
            return Ok(());
        }
        let Inner { env, stopping, .. } = &*self.broker.inner;
        let mut stopping = stopping.subscribe();
        tokio::select! {
            biased;
            () = self.slot.throttle.pass(batch.record_count().into(), &*env.clock) => Ok(()),
            _ = stopping.wait_for(|stopping| *stopping) => Err(Error::Stopping),
        }
    }

    /// Whether it has a log; of a topic that was deleted this says that it had one.
    pub fn is_reliable(&self) -> bool {
        self.reliability().unwrap_or(true)
    }

    /// Whether it has a log; `None` if it was deleted.
    fn reliability(&self) -> Option<bool> {
        let is_reliable = |topic: &Arc<danube_meta::state::Topic>| topic.is_reliable();
        self.broker.inner.meta.read(|state| state.topic_by_id(&self.slot.id).map(is_reliable))
    }

    /// Hands a verified batch of a non-reliable topic to whoever listens; it is kept nowhere. Waits while the topic is beyond
    /// its rate. Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Reliable`] for a topic with a log, [`Error::TopicNotFound`] for one that was deleted.
    pub async fn publish(&self, batch: &Batch) -> Result<()> {
        self.pass(batch).await?;
        let topic = || self.slot.name.clone();
        match self.reliability() {
            None => return Err(Error::TopicNotFound { topic: topic() }),
            Some(true) => return Err(Error::Reliable { topic: topic() }),
            Some(false) => {}
        }
        self.slot.fan_out.publish(self.slot.id, batch, self.broker.now());
        self.broker.inner.counters.sent.add(1);
        Ok(())
    }

    /// Appends a batch and waits for the topic's level. Dropping the future does not undo the append.
    ///
    /// # Errors
    ///
    /// [`Error::effect`] tells whether the batch may appear all the same.
    pub async fn append(&self, batch: Batch) -> Result<Appended> {
        self.submit(batch).await?.wait().await
    }

    /// No offset at or above it was assigned.
    pub(crate) fn ceiling(&self) -> Offset {
        let ceiling = |state: &danube_meta::State| {
            state.topic_by_id(&self.slot.id).map_or(Offset::ZERO, |topic| topic.ceiling)
        };
        self.broker.inner.meta.read(ceiling)
    }

    /// A reader from `start` on. A topic whose end is damaged is read as far as it can be, and then as damage, up to its
    /// ceiling, until an operator accepts that as a gap.
    pub async fn read(&self, start: Start) -> Result<Reader> {
        let read = match self.slot.log(&self.broker, Accept::Nothing).await {
            Ok(open) => open.log.read(start).await,
            Err(Error::DamagedEnd { .. }) => {
                self.broker.inner.store.read(self.slot.id, start, self.ceiling()).await
            }
            Err(error) => return Err(error),
        };
        read.map_err(|error| match error {
            danube_log::Error::OutOfRange { offset, end, .. } => {
                Error::BeyondEnd { topic: self.slot.name.clone(), offset, end }
            }
            error => error.into(),
        })
    }

    /// A producer of this name is attached until the answer is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyProducers`].
    pub fn attach(&self, name: String) -> Result<Attached> {
        let limit = self.broker.inner.config.producers_per_topic_max;
        let producers = Arc::clone(&self.slot.producers);
        let mut attached = producers.lock();
        if limit > 0 && attached.1.len() as u64 >= limit {
            return Err(Error::TooManyProducers { topic: self.slot.name.clone(), limit });
        }
        let key = attached.0;
        attached.0 += 1;
        attached.1.insert(key, name);
        drop(attached);
        Ok(Attached { producers, key })
    }

    /// What is known of it. Opens the log if it is not open and can be.
    pub async fn describe(&self) -> Result<Description> {
        let blocked = match self.slot.log(&self.broker, Accept::Nothing).await {
            Ok(_) | Err(Error::NonReliable { .. }) => None,
            Err(error) => Some(error),
        };
        let topic = self.broker.inner.meta.read(|state| state.topic_by_id(&self.slot.id).cloned());
        let topic = topic.ok_or_else(|| Error::TopicNotFound { topic: self.slot.name.clone() })?;
        let extent = match self.broker.inner.store.extent(topic.id).await {
            Ok(extent) => Some(extent),
            Err(danube_log::Error::NoLog { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let extent = extent.as_ref();
        Ok(Description {
            name: topic.name.clone(),
            id: topic.id,
            owner: topic.owner(),
            disk: topic.disk,
            epoch: topic.epoch,
            delivery: topic.delivery,
            settings: topic.settings.clone(),
            start: extent.map_or(Offset::ZERO, |extent| extent.start),
            durable_end: extent.map_or(Offset::ZERO, |extent| extent.durable_end),
            ceiling: topic.ceiling,
            bytes: extent.map_or(0, |extent| extent.bytes),
            gaps: extent.map_or_else(Vec::new, |extent| extent.gaps.clone()),
            blocked,
            producers: self.slot.producers.lock().1.values().cloned().collect(),
        })
    }
}

impl Appending {
    /// Waits for the append's level. Cancel safe; the append goes on.
    pub async fn wait(self) -> Result<Appended> {
        let result = self.appending.wait().await;
        let Topic { broker, slot } = &self.topic;
        if let Err(danube_log::Error::NotOpen { .. }) = &result {
            slot.forget(&self.open);
        }
        let took = broker.inner.env.clock.monotonic() - self.begun;
        broker.inner.counters.answered(took, result.is_err());
        Ok(result?)
    }
}

impl Producers {
    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.lock().1.len() as u64
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, BTreeMap<u64, String>)> {
        self.attached.lock().expect("nothing panics while it holds the producers")
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.producers.lock().1.remove(&self.key);
    }
}
