//! The place of one topic on this node: closed, open under an epoch, or refused with a reason.
//!
//! ```text
//!          open: epoch from the metadata, then the log
//!  Closed ──────────────────────────────────────────▶ Open
//!    ▲ ◀──────────── close: another level ─────────────┘
//!    │  deleted: no way back
//! ```
//!
//! Opening is refused, and tried again at the next call, where the log is on another disk, gone, or damaged at its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use danube_log::{EndProof, Facts, Log, OpenLog};
use danube_meta::Refusal;
use danube_meta::command::{OpenTopic, OpenTopics, Opening, OtherDisk, RaiseCeiling};
use danube_meta::state::{CEILING_STEP, Topic};
use danube_model::{Durability, Epoch, GapReason, Offset, TopicId, TopicName};

use crate::broker::Broker;
use crate::error::{Error, Result};
use crate::fan_out::FanOut;
use crate::gather::Gather;
use crate::throttle::Throttle;
use crate::topic::Producers;

/// A ceiling is raised when so many offsets are left below it. No burst uses them up while the metadata store the next one.
const RAISE_AT: u64 = CEILING_STEP / 2;

/// One topic's place.
pub(crate) struct Slot {
    pub(crate) id: TopicId,
    pub(crate) name: TopicName,
    /// The open log, for those who use it.
    open: Mutex<Option<Arc<OpenTopicLog>>>,
    /// Held by whoever opens or closes.
    change: tokio::sync::Mutex<()>,
    deleted: AtomicBool,
    pub(crate) producers: Arc<Producers>,
    /// Whoever publishes passes it.
    pub(crate) throttle: Throttle,
    /// Messages that come one by one.
    pub(crate) gather: Gather,
    /// Of a non-reliable topic.
    pub(crate) fan_out: FanOut,
}

/// A log that is open here.
pub(crate) struct OpenTopicLog {
    pub(crate) log: Log,
    ceiling: AtomicU64,
    raising: AtomicBool,
}

/// What an operator has accepted to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accept {
    Nothing,
    Gap,
}

impl Slot {
    pub(crate) fn new(id: TopicId, name: TopicName, throttle: Throttle) -> Self {
        Self {
            id,
            name,
            open: Mutex::new(None),
            change: tokio::sync::Mutex::new(()),
            deleted: AtomicBool::new(false),
            producers: Arc::default(),
            throttle,
            gather: Gather::default(),
            fan_out: FanOut::default(),
        }
    }

    /// The open log, opening it if it is not. Concurrent callers share one opening. Cancel safe: an opening that is given
    /// up half-way is done anew, under the next epoch.
    pub(crate) async fn log(&self, broker: &Broker, accept: Accept) -> Result<Arc<OpenTopicLog>> {
        if let Some(open) = self.current() {
            return Ok(open);
        }
        let _change = self.change.lock().await;
        if let Some(open) = self.current() {
            return Ok(open);
        }
        if self.deleted.load(Ordering::Relaxed) {
            return Err(Error::Deleted { topic: self.name.clone() });
        }
        broker.check_running()?;
        let opened = self.open(broker, accept).await;
        broker.inner.troubles.opened(self.id, &self.name, opened.as_ref().err());
        let open = Arc::new(opened?);
        *self.lock() = Some(Arc::clone(&open));
        Ok(open)
    }

    /// The open log, if it is.
    pub(crate) fn current(&self) -> Option<Arc<OpenTopicLog>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<OpenTopicLog>>> {
        self.open.lock().expect("nothing panics while it holds the slot")
    }

    async fn open(&self, broker: &Broker, accept: Accept) -> Result<OpenTopicLog> {
        let store = &broker.inner.store;
        let (level, epoch) = broker
            .inner
            .meta
            .read(|state| {
                state.topic_by_id(&self.id).map(|topic| (topic.durability(), topic.epoch))
            })
            .ok_or_else(|| Error::TopicNotFound { topic: self.name.clone() })?;
        let level = level.ok_or_else(|| Error::NonReliable { topic: self.name.clone() })?;
        let facts = store.facts(self.id);
        let stored = facts.map(|facts| facts.epoch);
        let take = |other_disk| {
            self.take_epoch(
                broker,
                OpenTopic { topic: self.id, expected: epoch, stored, other_disk },
            )
        };
        let opening = match facts {
            Some(facts) if facts.end_proof == EndProof::Damaged && accept == Accept::Nothing => {
                return Err(Error::DamagedEnd { topic: self.name.clone(), end: facts.end });
            }
            Some(_) => {
                store.look_at(self.id).await?;
                take(OtherDisk::Refuse).await?
            }
            // The log's place comes before its first epoch: a topic that has one and no place has lost it.
            None if epoch == Epoch::ZERO => {
                store.create(self.id, self.name.to_string()).await?;
                take(OtherDisk::Refuse).await?
            }
            None if accept == Accept::Nothing => {
                let topic = broker.inner.meta.read(|state| state.topic_by_id(&self.id).cloned());
                let lost = topic.map(|topic| broker.lost(&topic));
                return Err(lost.unwrap_or_else(|| Error::Deleted { topic: self.name.clone() }));
            }
            // What is given up is in the metadata before a new log could be taken for the old one.
            None => {
                let opening = take(OtherDisk::GiveUp).await?;
                store.create(self.id, self.name.to_string()).await?;
                opening
            }
        };
        let facts = store.facts(self.id).expect("the log has its place");
        let ceiling = if epoch < facts.epoch {
            // Metadata that were taken back know an older ceiling: offsets behind an end that is not proven may have been
            // assigned up to the one that follows it, or up to the next after one more gap.
            opening.ceiling.max(step_above(facts.end)) + CEILING_STEP
        } else {
            opening.ceiling
        };
        self.open_log(broker, facts, opening, ceiling, level).await
    }

    async fn take_epoch(&self, broker: &Broker, open: OpenTopic) -> Result<Opening> {
        let meta = &broker.inner.meta;
        let topics = vec![open];
        let (owner, disk) = (meta.broker(), broker.inner.store.disk_id());
        let mut opened = meta.propose(OpenTopics { broker: owner, disk, topics }).await?;
        match opened.pop() {
            Some(Ok(opening)) => Ok(opening),
            Some(Err(Refusal::OtherDisk { disk, .. })) => {
                Err(Error::OtherDisk { topic: self.name.clone(), disk })
            }
            // Deleted in the meantime, and what is stored of it was removed before its place was made here.
            Some(Err(Refusal::TopicIdNotFound { .. })) => {
                broker.inner.store.delete(&[self.id]).await?;
                Err(Error::Deleted { topic: self.name.clone() })
            }
            Some(Err(refusal)) => Err(Error::Meta(refusal.into())),
            None => unreachable!("the metadata answer for each topic that is opened"),
        }
    }

    /// Opens the log under its new epoch. Nothing was assigned at or above `last_ceiling`. The ceiling under which it goes on is stored before it does.
    async fn open_log(
        &self,
        broker: &Broker,
        facts: Facts,
        opening: Opening,
        last_ceiling: Offset,
        level: Durability,
    ) -> Result<OpenTopicLog> {
        let resume = match facts.end_proof {
            EndProof::Proven if opening.resume_at > facts.end => {
                Some((opening.resume_at, GapReason::LostDisk))
            }
            EndProof::Proven => None,
            EndProof::Unproven => Some((last_ceiling, GapReason::UnprovenEnd)),
            EndProof::Damaged => Some((last_ceiling, GapReason::Corrupt)),
        };
        let end = resume.map_or(facts.end, |(next, _)| next);
        let mut ceiling = opening.ceiling;
        if end.get().saturating_add(RAISE_AT) > ceiling.get() {
            ceiling = self.raise(broker, opening.epoch, ceiling.max(end)).await?;
        }
        let open = OpenLog { topic: self.id, epoch: opening.epoch, level, ceiling, resume };
        let log = broker.inner.store.open_log(open).await?;
        if let Some((next, reason)) = resume {
            tracing::warn!(topic = %self.name, from = %facts.end, to = %next, %reason, "a topic goes on behind a gap");
        }
        Ok(OpenTopicLog {
            log,
            ceiling: AtomicU64::new(ceiling.get()),
            raising: AtomicBool::new(false),
        })
    }

    /// Raises the ceiling to the next step above `offset`.
    async fn raise(&self, broker: &Broker, epoch: Epoch, offset: Offset) -> Result<Offset> {
        let ceiling = step_above(offset);
        let raise = RaiseCeiling { topic: self.id, epoch, ceiling };
        Ok(broker.inner.meta.propose(raise).await?)
    }

    /// Raises the ceiling ahead of need, in the background.
    pub(crate) fn watch_ceiling(self: &Arc<Self>, broker: &Broker, open: &Arc<OpenTopicLog>) {
        let left = open.ceiling.load(Ordering::Relaxed) - open.log.ends().durable.get();
        if left > RAISE_AT || open.raising.swap(true, Ordering::Relaxed) {
            return;
        }
        let (slot, broker, open) = (Arc::clone(self), broker.clone(), Arc::clone(open));
        let spawn = Arc::clone(&broker.inner.env.spawn);
        // Owned by nobody: it ends by itself, and what it does not finish is done at the next append or opening.
        drop(spawn.task(
            "raise-ceiling",
            Box::pin(async move {
                let ceiling = Offset::new(open.ceiling.load(Ordering::Relaxed));
                let raised = slot.raise(&broker, open.log.epoch(), ceiling).await;
                match raised {
                    Ok(ceiling) => {
                        open.ceiling.store(ceiling.get(), Ordering::Relaxed);
                        // A log that was closed meanwhile takes its ceiling from the metadata when it is opened.
                        let _ = open.log.raise_ceiling(ceiling).await;
                    }
                    Err(error) => {
                        tracing::warn!(topic = %slot.name, %error, "a ceiling can't be raised")
                    }
                }
                open.raising.store(false, Ordering::Relaxed);
            }),
        ));
    }

    /// Closes the log, so that the next use opens it anew.
    pub(crate) async fn close(&self) -> Result<()> {
        let _change = self.change.lock().await;
        let open = self.lock().take();
        if let Some(open) = open {
            open.log.close().await?;
        }
        Ok(())
    }

    /// The log is closed for some other reason: the next use opens it anew.
    pub(crate) fn forget(&self, closed: &Arc<OpenTopicLog>) {
        let mut open = self.lock();
        if open.as_ref().is_some_and(|open| Arc::ptr_eq(open, closed)) {
            *open = None;
        }
    }

    /// The topic is deleted: nobody opens it again.
    pub(crate) async fn delete(&self) {
        let _change = self.change.lock().await;
        self.deleted.store(true, Ordering::Relaxed);
        self.lock().take();
    }
}

impl Broker {
    /// The log of a topic should be on this disk and is not.
    pub(crate) fn lost(&self, topic: &Topic) -> Error {
        let name = topic.name.clone();
        match topic.disk {
            Some(disk) if disk != self.inner.store.disk_id() => {
                Error::OtherDisk { topic: name, disk }
            }
            _ => {
                let path = self.inner.config.log.root.join("topics").join(topic.id.to_string());
                Error::LogMissing { topic: name, path }
            }
        }
    }
}

/// The lowest ceiling above `offset`.
fn step_above(offset: Offset) -> Offset {
    Offset::new((offset.get() / CEILING_STEP + 1) * CEILING_STEP)
}
