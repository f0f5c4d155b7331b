//! The task of one subscription: it owns the engine, feeds it, and does what it says.

mod comings;
mod hand_out;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use danube_dispatch::{Cursor, Engine, Pace, Promise, Settings};
use danube_meta::command::{SaveCursor, SeekSubscription};
use danube_model::{
    ConsumerId, ConsumerName, Epoch, ErrorKind, FailurePolicy, Offset, SubscriptionType,
};
use tokio::sync::{mpsc, oneshot};

use super::consumer::MissingReason;
use super::counters::Counters;
use super::dead_letter::DeadLetters;
use super::live::{Command, Deliveries, Key};
use super::outbox::{Outbox, Touched};
use super::source::{Found, Source};
use super::{Settle, SubscriptionDescription};
use crate::error::{Error, Result};
use crate::topic::Topic;

/// How long a task without consumers stays for acknowledgements that are on their way, and consumers that come back.
const LINGER: Duration = Duration::from_secs(60);
/// How long a log that can't be read is left alone.
const READ_RETRY: Duration = Duration::from_secs(1);
/// Commands that are taken before what follows from them is done.
const COMMANDS_AT_ONCE: usize = 64;

/// One subscription's.
pub(super) struct Task {
    topic: Topic,
    key: Key,
    kind: SubscriptionType,
    promise: Promise,
    policy: FailurePolicy,
    engine: Engine,
    incarnation: u64,
    /// Of the topic, while this broker has it.
    epoch: Epoch,
    source: Source,
    /// The log can't be read before this.
    read_at: Duration,
    /// Why it can't be read, as it was told last.
    unreadable: Option<String>,
    /// Poison that blocks it, as it was told last.
    blocked: Option<Offset>,
    /// Where the log was found closed for the last time.
    closed_at: Option<Offset>,
    consumers: BTreeMap<ConsumerId, Attached>,
    dead_letters: DeadLetters,
    commands: mpsc::Receiver<Command>,
    touched: Arc<Touched>,
    is_changed: Arc<AtomicBool>,
    counters: Arc<Counters>,
    /// Since when it hands out nothing for the sake of its rate, as it was counted last.
    paced_since: Option<Duration>,
    /// A save is under way.
    is_saving: bool,
    /// Since when nobody is there.
    idle_since: Duration,
}

/// A consumer that is there.
struct Attached {
    name: ConsumerName,
    outbox: Arc<Outbox>,
}

/// Whether the task goes on.
enum Next {
    GoOn,
    End,
}

impl Task {
    /// Takes the cursor from the metadata.
    pub(super) fn new(
        topic: &Topic,
        key: Key,
        commands: mpsc::Receiver<Command>,
        touched: Arc<Touched>,
        is_changed: Arc<AtomicBool>,
        counters: Arc<Counters>,
    ) -> Result<Task> {
        let inner = &topic.broker.inner;
        let known = inner.meta.read(|state| {
            let of = state.topic_by_id(&key.topic)?;
            let known = state.subscription(&key.topic, &key.subscription)?;
            Some((Arc::clone(known), of.epoch, of.is_reliable()))
        });
        let Some((known, epoch, is_reliable)) = known else {
            let (topic, subscription) = (topic.name().clone(), key.subscription);
            return Err(Error::SubscriptionNotFound { topic, subscription });
        };
        let config = &inner.config.subscriptions;
        let now = inner.env.clock.monotonic();
        let chunks = known.settled.iter().map(|(index, chunk)| (*index, chunk));
        let (promise, source, cursor) = if is_reliable {
            let cursor = Cursor::restore(known.floor, chunks);
            (Promise::AtLeastOnce, Source::log(topic.clone()), cursor)
        } else {
            let (source, next) = Source::memory(topic.clone());
            (Promise::AtMostOnce, source, Cursor::new(next))
        };
        let settings = Settings {
            kind: known.kind,
            promise,
            max_unacked_messages: known.max_unacked_messages.unwrap_or(config.max_unacked_messages),
            policy: known.policy.clone(),
            absence: config.consumer_absence,
            pace: Pace::new(config.rate_max, now),
        };
        let mut engine = Engine::new(settings, cursor);
        comings::expect_all(&mut engine, &known, inner.subscriptions.take_absences(&key), now);
        Ok(Task {
            kind: known.kind,
            promise,
            policy: known.policy.clone(),
            engine,
            incarnation: known.incarnation,
            epoch,
            source,
            read_at: Duration::ZERO,
            unreadable: None,
            blocked: None,
            closed_at: None,
            consumers: BTreeMap::new(),
            dead_letters: DeadLetters::new(topic.clone(), key.subscription.clone()),
            commands,
            touched,
            is_changed,
            counters,
            paced_since: None,
            is_saving: false,
            idle_since: now,
            topic: topic.clone(),
            key,
        })
    }

    fn now(&self) -> Duration {
        self.topic.broker.inner.env.clock.monotonic()
    }

    pub(super) async fn run(mut self) {
        loop {
            self.settle_what_is_gone();
            self.hand_out().await;
            self.is_changed.store(self.has_changes(), Ordering::Relaxed);
            self.counters.set_in_flight(self.engine.in_flight());
            self.tell_blocked();
            self.count_pauses();
            if let Next::End = self.wait().await {
                return;
            }
        }
    }

    /// Whether there is something to save.
    fn has_changes(&self) -> bool {
        self.promise == Promise::AtLeastOnce && self.engine.cursor().is_changed()
    }

    /// Waits for whatever comes first, and tells the engine.
    async fn wait(&mut self) -> Next {
        let now = self.now();
        let wants = self.engine.wants() > 0 && self.read_at <= now;
        let timer = self.next_timer(now);
        let clock = Arc::clone(&self.topic.broker.inner.env.clock);
        let touched = Arc::clone(&self.touched);
        let next = self.engine.next_offset();
        let slept = async {
            match timer {
                Some(at) => clock.sleep(at.saturating_sub(now)).await,
                None => std::future::pending().await,
            }
        };
        // Commands come last, so that many of them hold up nothing else; what stands before them is bounded by the window.
        tokio::select! {
            biased;
            () = touched.some() => return self.look_at_consumers().await,
            offset = self.dead_letters.appended() => {
                let now = self.now();
                self.engine.acknowledge(offset..offset + 1, None, now);
                self.counters.dead_letters.add(1);
            }
            found = self.source.more(next), if wants => return self.found(found),
            command = self.commands.recv() => return self.commands(command).await,
            () = slept => return self.end_if_idle(),
        }
        Next::GoOn
    }

    fn next_timer(&self, now: Duration) -> Option<Duration> {
        let idle = self.consumers.is_empty().then(|| self.idle_since + LINGER);
        // What is left to save, or being saved, is looked at again a little later.
        let idle = idle.map(|at| at.max(now + Duration::from_millis(100)));
        let read = (self.engine.wants() > 0 && self.read_at > now).then_some(self.read_at);
        [self.engine.next_timer(), idle, read].into_iter().flatten().min()
    }

    fn end_if_idle(&mut self) -> Next {
        let is_idle = self.consumers.is_empty()
            && self.now() >= self.idle_since + LINGER
            && !self.has_changes()
            && !self.is_saving
            && self.dead_letters.is_empty();
        if !is_idle {
            return Next::GoOn;
        }
        let absences = self.absences();
        let subscriptions = &self.topic.broker.inner.subscriptions;
        match subscriptions.end_if_unasked(&self.key, &mut self.commands, absences) {
            true => Next::End,
            false => Next::GoOn,
        }
    }

    /// What was read and retention removed is settled, so that it leaves the window: what is at its consumer in silence, the
    /// rest as a gap. Without a consumer it waits for one to be told. What was not read yet is told to whoever reads it.
    fn settle_what_is_gone(&mut self) {
        let floor = self.engine.cursor().floor();
        let start = self.source.log_start().min(self.engine.next_offset());
        if start <= floor || self.consumers.is_empty() {
            return;
        }
        for range in self.engine.not_in_flight(floor..start) {
            self.missing(range, MissingReason::Trimmed);
        }
        self.engine.missing(floor..start);
    }

    async fn commands(&mut self, first: Option<Command>) -> Next {
        // Without senders the broker is gone.
        let Some(first) = first else { return Next::End };
        let mut next = Some(first);
        for _ in 0..COMMANDS_AT_ONCE {
            let Some(command) = next else { break };
            if let Next::End = self.command(command).await {
                return Next::End;
            }
            next = self.commands.try_recv().ok();
        }
        match next {
            Some(command) => self.command(command).await,
            None => Next::GoOn,
        }
    }

    async fn command(&mut self, command: Command) -> Next {
        match command {
            Command::Attach { consumer, done } => {
                // Whoever asked may be gone; then its consumer goes too.
                let _ = done.send(self.attach(consumer));
            }
            Command::Leave { outbox, done } => {
                // A newer attachment of the same id stays.
                let is_its =
                    |known: &&ConsumerId| Arc::ptr_eq(&self.consumers[*known].outbox, &outbox);
                if let Some(id) = self.consumers.keys().find(is_its).copied() {
                    self.remove(id, Error::Replaced);
                }
                let _ = done.send(());
            }
            Command::Registered { consumer, replaced, done } => {
                self.registered(consumer, replaced);
                let _ = done.send(());
            }
            Command::Settle { settle, of } => self.settle(settle, of),
            Command::Seek { floor, done } => {
                let _ = done.send(self.seek(floor).await);
            }
            Command::Describe { done } => {
                let _ = done.send(self.describe());
            }
            Command::Changed { done } => {
                self.take_settings();
                let _ = done.send(());
            }
            Command::Deleted => {
                let subscription = self.key.subscription.clone();
                return self.end(&Error::SubscriptionDeleted { subscription });
            }
            Command::Collect { done } => {
                let _ = done.send(self.collect());
            }
            Command::Saved(saved) => {
                self.is_saving = false;
                if !saved {
                    self.engine.forget_saves();
                }
            }
            Command::Stop { done } => return self.stop(done),
        }
        Next::GoOn
    }

    /// Every consumer is told why nothing more comes.
    fn end(&mut self, reason: &Error) -> Next {
        for id in self.consumers.keys().copied().collect::<Vec<_>>() {
            self.remove(id, reason.clone());
        }
        // What waits was sent before the end was known: who asked is told by not being answered.
        self.topic.broker.inner.subscriptions.end(&self.key, &mut self.commands);
        Next::End
    }

    /// Settlements that wait count still.
    fn stop(&mut self, done: oneshot::Sender<Option<SaveCursor>>) -> Next {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Settle { settle, of } = command {
                self.settle(settle, of);
            }
        }
        let _ = done.send(self.collect());
        self.end(&Error::Stopping)
    }

    fn settle(&mut self, settle: Settle, of: Option<Deliveries>) {
        // The cursor was set anew since: what is in flight was delivered once more.
        if of.is_some_and(|of| of.incarnation != self.incarnation) {
            return;
        }
        let of = of.map(|of| of.consumer);
        match settle {
            Settle::Acknowledge(ranges) => {
                let now = self.now();
                ranges.into_iter().for_each(|range| self.engine.acknowledge(range, of, now));
            }
            Settle::Refuse { offset, delay_ms, reason } => {
                self.engine.refuse(offset, of, delay_ms, &reason, self.now());
            }
            Settle::Reject { offset, reason } => self.engine.reject(offset, of, &reason),
        }
    }

    /// What is read is offered to the engine.
    fn found(&mut self, found: Result<Found>) -> Next {
        if let Ok(Found::Batch(_) | Found::Missing(..)) = &found {
            self.can_read();
        }
        match found {
            Ok(Found::Batch(kept)) => self.offer(kept),
            Ok(Found::Missing(range, why)) => self.missing(range, why),
            Ok(Found::Closed) => {
                // It is opened anew at once. One that is closed again takes no messages: its topic is damaged.
                let next = Some(self.engine.next_offset());
                if std::mem::replace(&mut self.closed_at, next) == next {
                    self.read_at = self.now() + READ_RETRY;
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return self.end(&error),
            Err(error) => {
                self.cannot_read(&error);
                self.source.restart();
                self.read_at = self.now() + READ_RETRY;
            }
        }
        Next::GoOn
    }

    /// It is tried again every second, and told once.
    fn cannot_read(&mut self, error: &Error) {
        let why = error.to_string();
        if matches!(error, Error::Stopping) || self.unreadable.as_ref() == Some(&why) {
            return;
        }
        let (topic, subscription) = (self.topic.name(), &self.key.subscription);
        tracing::warn!(%topic, %subscription, %error, "a subscription can't read its topic");
        self.counters.set_unreadable(Some(why.clone()));
        self.unreadable = Some(why);
    }

    fn can_read(&mut self) {
        if self.unreadable.take().is_some() {
            let (topic, subscription) = (self.topic.name(), &self.key.subscription);
            tracing::info!(%topic, %subscription, "a subscription reads its topic again");
            self.counters.set_unreadable(None);
        }
    }

    /// What blocks it is told where it changes.
    fn tell_blocked(&mut self) {
        let blocked = self.engine.blocked().next();
        if std::mem::replace(&mut self.blocked, blocked) != blocked {
            self.counters.set_blocked(blocked);
        }
    }

    /// How long the rate keeps it from handing out more.
    fn count_pauses(&mut self) {
        let now = self.now();
        if let Some(since) = self.paced_since.take() {
            self.counters.paused.add(now.saturating_sub(since));
        }
        self.paced_since = self.engine.is_paced().then_some(now);
    }

    /// The epoch of this broker's last opening; another's is not taken, so that nothing is saved under it.
    fn take_epoch(&mut self) {
        let broker = &self.topic.broker;
        let epoch = broker.inner.meta.read(|state| {
            let topic = state.topic_by_id(&self.key.topic)?;
            topic.owner().is_none_or(|owner| owner == broker.id()).then_some(topic.epoch)
        });
        self.epoch = epoch.unwrap_or(self.epoch);
    }

    async fn seek(&mut self, floor: Offset) -> Result<()> {
        let (topic, subscription) = (self.key.topic, self.key.subscription.clone());
        let seek = SeekSubscription { topic, subscription, floor };
        self.incarnation = self.topic.broker.inner.meta.propose(seek).await?;
        self.engine.seek(floor);
        self.source.restart();
        self.dead_letters.clear();
        for (id, attached) in &self.consumers {
            self.engine.grant(*id, attached.outbox.withdraw());
            self.engine.set_room(*id, true);
        }
        Ok(())
    }

    fn take_settings(&mut self) {
        let Key { topic, subscription } = &self.key;
        let inner = &self.topic.broker.inner;
        let known = inner.meta.read(|state| state.subscription(topic, subscription).cloned());
        let Some(known) = known else { return };
        let default = inner.config.subscriptions.max_unacked_messages;
        self.engine.set_max_unacked_messages(known.max_unacked_messages.unwrap_or(default));
        if known.policy != self.policy {
            self.policy = known.policy.clone();
            self.engine.set_policy(known.policy.clone());
        }
    }

    fn collect(&mut self) -> Option<SaveCursor> {
        if !self.has_changes() {
            return None;
        }
        self.take_epoch();
        let changes = self.engine.take_changes()?;
        self.is_saving = true;
        Some(SaveCursor {
            topic: self.key.topic,
            epoch: self.epoch,
            subscription: self.key.subscription.clone(),
            incarnation: self.incarnation,
            floor: changes.floor,
            chunks: changes.chunks,
        })
    }

    fn describe(&self) -> SubscriptionDescription {
        let cursor = self.engine.cursor();
        let of = |(id, attached): (&ConsumerId, &Attached)| {
            (attached.name.clone(), self.engine.in_flight_at(*id))
        };
        SubscriptionDescription {
            name: self.key.subscription.clone(),
            kind: self.kind,
            policy: self.policy.clone(),
            max_unacked_messages: self.engine.max_unacked_messages(),
            floor: cursor.floor(),
            settled: cursor.settled().collect(),
            lag: 0,
            dropped: self.source.dropped(),
            in_flight: self.engine.in_flight(),
            blocked: self.engine.blocked().collect(),
            consumers: self.consumers.iter().map(of).collect(),
        }
    }
}

impl Drop for Task {
    /// Also where it panicked: nobody waits for a task that is gone.
    fn drop(&mut self) {
        self.counters.rest();
        let subscription = self.key.subscription.clone();
        for (id, attached) in &self.consumers {
            attached.outbox.end(Error::SubscriptionStopped { subscription: subscription.clone() });
            self.topic.broker.inner.subscriptions.depart(&self.key, &attached.name, *id);
        }
    }
}
