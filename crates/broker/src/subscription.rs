//! Subscriptions: records of a topic handed to consumers, each settled once, and the cursor that remembers it.
//!
//! ```text
//!  Consumer ◀── outbox ◀── task: engine ◀── source: log reader
//!     │                      │    │
//!     └── settle, grant ─────┘    └── cursor ──▶ saver, all subscriptions at once ──▶ metadata
//! ```
//!
//! One task owns each subscription that somebody uses; it is made when the first consumer attaches and ends when it has been
//! idle for a while. `danube_dispatch` decides what it does, `docs/delivery.md` states the rules.
//!
//! Invariants:
//! * Nothing here is waited for by a producer, nor by another subscription.
//! * What is read ahead for a consumer is bounded in records by its window, and in bytes by its outbox.
//! * A cursor is saved under the incarnation and the epoch that its deliveries belong to.
//!
//! Reading order: this file for what callers do; `consumer`; `live` (which tasks there are), `task` and its `source`,
//! `saver`, `dead_letter`.

mod consumer;
mod counters;
mod dead_letter;
mod live;
mod outbox;
mod saver;
mod source;
mod task;

use std::ops::Range;
use std::time::Duration;

use danube_log::{Gap, Start};
use danube_meta::command::{
    Change, CreateSubscription, DeleteSubscription, ForgetConsumers, RegisterConsumer,
    UpdateSubscription,
};
use danube_model::{
    ConsumerId, ConsumerName, FailurePolicy, Offset, SubscriptionName, SubscriptionType, TopicName,
};
use tokio::sync::oneshot;

pub use self::consumer::{Consumer, Delivered, MissingReason, Window};
pub(crate) use self::counters::Counted;
use self::live::Command;
pub(crate) use self::live::{Key, Subscriptions};
pub(crate) use self::saver::{run as save_cursors, stop};
use crate::broker::Broker;
use crate::error::{Error, Result};
use crate::topic::Topic;

/// Registrations of a subscription beyond which the oldest ones that are not there are forgotten.
const REGISTRATIONS_KEPT: usize = 1_000;

/// Settings of all subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionConfig {
    /// Records that may be delivered and not settled, of a subscription that has no limit of its own; at least 1.
    pub max_unacked_messages: u64,
    /// How often cursors are saved.
    pub cursor_flush_interval: Duration,
    /// Key-shared: how long keys are kept for a consumer that is not there, while others are.
    pub consumer_absence: Duration,
    /// What becomes of records that fail, of new subscriptions.
    pub failure_policy: FailurePolicy,
    /// Subscriptions of a topic; 0: no limit.
    pub subscriptions_per_topic_max: u64,
    /// Consumers that are there, of a topic; 0: no limit.
    pub consumers_per_topic_max: u64,
    /// Consumers that are there, of a subscription; 0: no limit.
    pub consumers_per_subscription_max: u64,
    /// Records that a subscription hands out a second, redeliveries included; 0: no limit.
    pub rate_max: u64,
}

impl Default for SubscriptionConfig {
    fn default() -> SubscriptionConfig {
        SubscriptionConfig {
            max_unacked_messages: 1000,
            cursor_flush_interval: Duration::from_secs(1),
            consumer_absence: Duration::from_secs(60),
            failure_policy: FailurePolicy::default(),
            subscriptions_per_topic_max: 0,
            consumers_per_topic_max: 0,
            consumers_per_subscription_max: 0,
            rate_max: 0,
        }
    }
}

/// A consumer that subscribes.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// To which subscription; it is created if it is new.
    pub subscription: SubscriptionName,
    /// The consumer's name; an earlier consumer of it is replaced.
    pub consumer: ConsumerName,
    /// The type, which must be that of a subscription that is there.
    pub kind: SubscriptionType,
    /// Globs over the keys that it wants, key-shared only; none: every key.
    pub filters: Vec<String>,
    /// Where a new subscription begins.
    pub start: Start,
}

/// What a consumer has done with records. Offsets that it does not fit are passed over: that is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settle {
    /// They are handled.
    Acknowledge(Vec<Range<Offset>>),
    /// It wants one again.
    Refuse {
        /// Which.
        offset: Offset,
        /// Not before so many milliseconds; the policy may say more.
        delay_ms: u64,
        /// Why, for people.
        reason: String,
    },
    /// One can't be sent to it: it is poison.
    Reject {
        /// Which.
        offset: Offset,
        /// Why, for people.
        reason: String,
    },
}

/// What is changed of a subscription.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionChange {
    /// Another policy.
    pub policy: Option<FailurePolicy>,
    /// Records that may be delivered and not settled; at least 1.
    pub max_unacked_messages: Change<u64>,
}

/// What is known of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionDescription {
    /// Its name.
    pub name: SubscriptionName,
    /// Its type.
    pub kind: SubscriptionType,
    /// What becomes of records that fail.
    pub policy: FailurePolicy,
    /// Records that may be delivered and not settled.
    pub max_unacked_messages: u64,
    /// The first offset that is not settled.
    pub floor: Offset,
    /// What is settled above it.
    pub settled: Vec<Range<Offset>>,
    /// Offsets from the floor to the topic's durable end that are not settled, and that are there: what retention removed and
    /// what is a gap waits for nobody.
    pub lag: u64,
    /// Records of a non-reliable topic that found no room, or nobody, since it was last used.
    pub dropped: u64,
    /// Records at consumers.
    pub in_flight: u64,
    /// Poison that holds it up, or a key of it.
    pub blocked: Vec<Offset>,
    /// Names of the consumers that are there, and how many records each has.
    pub consumers: Vec<(ConsumerName, u64)>,
}

/// Whose a registered consumer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The topic, or the partition.
    pub topic: TopicName,
    /// The subscription.
    pub subscription: SubscriptionName,
}

impl Topic {
    fn key(&self, subscription: &SubscriptionName) -> Key {
        Key { topic: self.slot.id, subscription: subscription.clone() }
    }

    /// Registers a consumer under a new id, and creates the subscription if it is new. An earlier consumer of the same name
    /// has gone.
    ///
    /// # Errors
    ///
    /// `Conflict` if the subscription is of another type, or exclusive and another name has it; `Exhausted` at a limit.
    pub async fn subscribe(&self, subscribe: Subscribe) -> Result<ConsumerId> {
        let Subscribe { subscription, consumer, kind, filters, start } = subscribe;
        self.broker.check_running()?;
        let found =
            self.broker.inner.meta.read(|state| {
                state.subscription(&self.slot.id, &subscription).map(|known| known.kind)
            });
        // Also where it is of another type: the refusal says so.
        let created = match found {
            Some(found) if found == kind => Ok(()),
            _ => self.create_subscription(&subscription, kind, start).await,
        };
        match created {
            Err(Error::Meta(danube_meta::Error::Refused(
                danube_meta::Refusal::SubscriptionExists { kind: found, .. },
            ))) if found == kind => {}
            other => other?,
        }
        let key = self.key(&subscription);
        let (inner, at) = (&self.broker.inner, self.broker.now());
        let id = ConsumerId::new(inner.env.random.next_u64() >> 1 | 1)
            .expect("it has 63 bits and is odd");
        inner.subscriptions.expect(&self.broker, &key, &consumer, id, kind)?;
        let (topic, name) = (key.topic, consumer);
        let register = RegisterConsumer { topic, subscription, name, consumer: id, filters, at };
        let replaced = inner.meta.propose(register).await?;
        let (done, is_expected) = oneshot::channel();
        let registered = Command::Registered { consumer: id, replaced, done };
        inner.subscriptions.tell(&key, registered).await;
        // Without a task there is no answer: the next one begins with what is registered.
        let _ = is_expected.await;
        self.forget_old_registrations(&key).await?;
        Ok(id)
    }

    /// Consumers under names that never come back add up: the oldest are forgotten.
    async fn forget_old_registrations(&self, key: &Key) -> Result<()> {
        let inner = &self.broker.inner;
        let mut oldest: Vec<_> = inner.meta.read(|state| {
            let subscription = state.subscription(&key.topic, &key.subscription);
            let subscription =
                subscription.filter(|known| known.consumers.len() > REGISTRATIONS_KEPT);
            let consumers = subscription.into_iter().flat_map(|known| &known.consumers);
            consumers.map(|(name, known)| (known.registered, known.id, name.clone())).collect()
        });
        let surplus = oldest.len().saturating_sub(REGISTRATIONS_KEPT);
        let now = inner.env.clock.monotonic();
        oldest.retain(|(_, _, name)| !inner.subscriptions.is_present(key, name, now));
        oldest.sort_unstable();
        let consumers: Vec<_> = oldest.into_iter().take(surplus).map(|(_, id, _)| id).collect();
        if !consumers.is_empty() {
            inner.meta.propose(ForgetConsumers { consumers }).await?;
        }
        Ok(())
    }

    /// Creates a subscription.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is there, `Exhausted` if the topic may not have another, `Invalid` for an offset that there isn't.
    pub async fn create_subscription(
        &self,
        name: &SubscriptionName,
        kind: SubscriptionType,
        start: Start,
    ) -> Result<()> {
        let inner = &self.broker.inner;
        let config = &inner.config.subscriptions;
        let known = inner.meta.read(|state| state.subscription(&self.slot.id, name).is_some());
        // The offset of one that is there does not matter; the metadata say what it is.
        let is_new = !known && self.is_reliable();
        let start = if is_new { self.read(start).await?.offset() } else { Offset::ZERO };
        let create = CreateSubscription {
            topic: self.slot.id,
            subscription: name.clone(),
            kind,
            start,
            policy: config.failure_policy.clone(),
            subscriptions_max: config.subscriptions_per_topic_max,
            at: self.broker.now(),
        };
        Ok(inner.meta.propose(create).await?)
    }

    /// Deletes a subscription. Its consumers have gone.
    pub async fn delete_subscription(&self, name: &SubscriptionName) -> Result<()> {
        let delete = DeleteSubscription { topic: self.slot.id, subscription: name.clone() };
        self.broker.inner.meta.propose(delete).await?;
        let (subscriptions, key) = (&self.broker.inner.subscriptions, self.key(name));
        subscriptions.tell(&key, Command::Deleted).await;
        // Last: the task may have ended on its own meanwhile.
        subscriptions.forget(&key);
        Ok(())
    }

    /// Names of the subscriptions, sorted.
    pub fn subscriptions(&self) -> Vec<SubscriptionName> {
        let names = |state: &danube_meta::State| {
            state.subscriptions(&self.slot.id).map(|known| known.name.clone()).collect()
        };
        self.broker.inner.meta.read(names)
    }

    /// The consumer that is registered under this name.
    pub fn registered(
        &self,
        subscription: &SubscriptionName,
        consumer: &ConsumerName,
    ) -> Option<ConsumerId> {
        self.broker.inner.meta.read(|state| {
            let subscription = state.subscription(&self.slot.id, subscription)?;
            subscription.consumers.get(consumer).map(|known| known.id)
        })
    }

    /// Changes what is set for a subscription, from now on.
    pub async fn update_subscription(
        &self,
        name: &SubscriptionName,
        change: SubscriptionChange,
    ) -> Result<()> {
        let SubscriptionChange { policy, max_unacked_messages } = change;
        if max_unacked_messages == Change::Set(0) {
            return Err(Error::NoWindow);
        }
        if policy.is_some() && !self.is_reliable() {
            return Err(Error::NonReliable { topic: self.slot.name.clone() });
        }
        let (topic, subscription) = (self.slot.id, name.clone());
        let update = UpdateSubscription { topic, subscription, policy, max_unacked_messages };
        self.broker.inner.meta.propose(update).await?;
        let (done, is_in_force) = oneshot::channel();
        self.broker.inner.subscriptions.tell(&self.key(name), Command::Changed { done }).await;
        // Without a task there is no answer: the next one begins with what is set.
        let _ = is_in_force.await;
        Ok(())
    }

    /// Sets the cursor anew; done when that is stored. Consumers that are there get what follows. It is done whether or not
    /// anybody waits for it.
    pub async fn seek(&self, name: &SubscriptionName, start: Start) -> Result<Offset> {
        let floor = self.read(start).await?.offset();
        let command = |done| Command::Seek { floor, done };
        self.broker.inner.subscriptions.ask(&self.broker, self, name, command).await??;
        Ok(floor)
    }

    /// What is known of a subscription.
    pub async fn describe_subscription(
        &self,
        name: &SubscriptionName,
    ) -> Result<SubscriptionDescription> {
        let command = |done| Command::Describe { done };
        let subscriptions = &self.broker.inner.subscriptions;
        let mut description = subscriptions.ask(&self.broker, self, name, command).await?;
        if self.is_reliable() {
            let start = self.read(Start::Earliest).await?.offset().max(description.floor);
            let end = self.read(Start::Latest).await?.offset();
            let gaps = self.broker.inner.store.gaps(self.slot.id);
            description.lag = lag(start..end, description.settled.clone(), gaps);
        }
        Ok(description)
    }

    /// Takes what a consumer has done. Returns when it is sure to be done before whatever is asked for later. Cancel safe.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such subscription.
    pub async fn settle(&self, name: &SubscriptionName, settle: Settle) -> Result<()> {
        self.broker.check_running()?;
        self.require_subscription(name)?;
        // Without a task nothing was delivered, and there is nothing to settle.
        let settle = Command::Settle { settle, of: None };
        self.broker.inner.subscriptions.tell(&self.key(name), settle).await;
        Ok(())
    }

    fn require_subscription(&self, name: &SubscriptionName) -> Result<()> {
        let known = |state: &danube_meta::State| state.subscription(&self.slot.id, name).is_some();
        if self.broker.inner.meta.read(known) {
            return Ok(());
        }
        let (topic, subscription) = (self.slot.name.clone(), name.clone());
        Err(Error::SubscriptionNotFound { topic, subscription })
    }
}

impl Broker {
    /// Whose a consumer is; `None` for an id that is not registered, or was replaced.
    pub fn registration(&self, consumer: ConsumerId) -> Option<Registration> {
        self.inner.meta.read(|state| {
            let subscription = state.subscription_of(consumer)?;
            let topic = state.topic_by_id(&subscription.topic)?.name.clone();
            Some(Registration { topic, subscription: subscription.name.clone() })
        })
    }

    /// A consumer that has subscribed and not attached yet is still there. Whether it is registered.
    pub fn consumer_is_alive(&self, consumer: ConsumerId) -> bool {
        self.inner.subscriptions.heard(self, consumer);
        self.registration(consumer).is_some()
    }

    /// Attaches to a registered consumer: from now on it gets what is its. An attachment of the same id or name that is
    /// still there ends. Cancel safe: what was not returned has gone.
    ///
    /// # Errors
    ///
    /// [`Error::ConsumerUnknown`]; `Conflict` if the subscription is exclusive and another name has it; `Exhausted` at a limit.
    pub async fn attach_consumer(&self, id: ConsumerId, window: Window) -> Result<Consumer> {
        let registration = self.registration(id).ok_or(Error::ConsumerUnknown { consumer: id })?;
        let topic = self.topic(&registration.topic)?;
        self.inner.subscriptions.attach(self, &topic, &registration.subscription, id, window).await
    }
}

/// Offsets of a range that are neither settled nor in a gap.
pub(crate) fn lag(range: Range<Offset>, settled: Vec<Range<Offset>>, gaps: Vec<Gap>) -> u64 {
    let mut done = settled;
    done.extend(gaps.into_iter().map(|gap| gap.from..gap.to));
    done.sort_unstable_by_key(|done| done.start);
    let (mut at, mut lag) = (range.start, 0);
    for done in done {
        lag += at.distance(done.start.min(range.end).max(at));
        at = at.max(done.end.min(range.end));
    }
    lag + at.distance(range.end.max(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64) -> Range<Offset> {
        Offset::new(from)..Offset::new(to)
    }

    #[test]
    fn lag_is_what_is_there_and_not_settled() {
        let gap = |from, to| Gap { from: Offset::new(from), to: Offset::new(to), reason: None };
        let of = |from, to, settled: &[(u64, u64)], gaps: &[(u64, u64)]| {
            let settled = settled.iter().map(|(from, to)| range(*from, *to)).collect();
            let gaps = gaps.iter().map(|(from, to)| gap(*from, *to)).collect();
            lag(range(from, to), settled, gaps)
        };
        assert_eq!(of(0, 10, &[], &[]), 10);
        assert_eq!(of(2, 10, &[(4, 5), (7, 20)], &[(0, 3), (4, 6)]), 2);
        assert_eq!(of(5, 10, &[(0, 3)], &[(0, 1 << 32)]), 0);
        assert_eq!(of(10, 5, &[], &[(6, 7)]), 0);
    }
}
