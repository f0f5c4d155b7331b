//! Which subscriptions have a task, and which consumers are there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use danube_env::spawn::Running;
use danube_meta::command::SaveCursor;
use danube_model::{ConsumerId, ConsumerName, Offset, SubscriptionName, SubscriptionType, TopicId};
use tokio::sync::{mpsc, oneshot};

use super::consumer::{Consumer, Window};
use super::counters::{Counters, HeldUp};
use super::outbox::{Crowd, Outbox, Touched};
use super::task::Task;
use super::{Settle, SubscriptionDescription};
use crate::broker::Broker;
use crate::error::{Error, Result};
use crate::topic::Topic;

/// Commands that wait for one task; who has more waits in line.
const COMMANDS_MAX: usize = 256;
/// How long a consumer that has subscribed counts as there before it attaches, or is heard of again.
const EXPECTED: Duration = Duration::from_secs(15);
/// How often a command is brought to a new task because the one before ended.
const ATTEMPTS: usize = 3;

/// Which subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) topic: TopicId,
    pub(crate) subscription: SubscriptionName,
}

/// What a task is asked for.
pub(super) enum Command {
    /// A registered consumer is there.
    Attach { consumer: Arriving, done: oneshot::Sender<Result<()>> },
    /// A consumer goes.
    Leave { outbox: Arc<Outbox>, done: oneshot::Sender<()> },
    /// A consumer was registered, maybe in place of another; the answer comes when it is expected.
    Registered { consumer: ConsumerId, replaced: Option<ConsumerId>, done: oneshot::Sender<()> },
    /// Somebody has done something with records; only with these deliveries, if it is known.
    Settle { settle: Settle, of: Option<Deliveries> },
    /// The cursor is to be set anew.
    Seek { floor: Offset, done: oneshot::Sender<Result<()>> },
    /// Something is asked.
    Describe { done: oneshot::Sender<SubscriptionDescription> },
    /// What is set for the subscription was changed; the answer comes when it is in force.
    Changed { done: oneshot::Sender<()> },
    /// The subscription was deleted.
    Deleted,
    /// What of the cursor is to be saved?
    Collect { done: oneshot::Sender<Option<SaveCursor>> },
    /// Whether it was.
    Saved(bool),
    /// The broker stops: the last answer is what of the cursor is to be saved.
    Stop { done: oneshot::Sender<Option<SaveCursor>> },
}

/// Those to one consumer under one incarnation of the cursor.
#[derive(Clone, Copy)]
pub(super) struct Deliveries {
    pub(super) consumer: ConsumerId,
    pub(super) incarnation: u64,
}

/// A consumer that attaches.
#[derive(Clone)]
pub(super) struct Arriving {
    pub(super) id: ConsumerId,
    pub(super) window: Window,
    pub(super) outbox: Arc<Outbox>,
}

pub(super) type Handle = mpsc::Sender<Command>;

/// A subscription that has a task.
#[derive(Clone)]
struct Live {
    commands: Handle,
    touched: Arc<Touched>,
    /// Whether there is something of its cursor to save.
    is_changed: Arc<AtomicBool>,
    task: Arc<Mutex<Option<Running>>>,
}

/// All subscriptions of a node that somebody uses.
#[derive(Default)]
pub(crate) struct Subscriptions {
    live: Mutex<BTreeMap<Key, Live>>,
    present: Mutex<BTreeMap<Key, BTreeMap<ConsumerName, Presence>>>,
    /// Of subscriptions whose task has ended.
    absences: Mutex<BTreeMap<Key, Absences>>,
    /// Of subscriptions that were used since the broker started.
    counters: Mutex<BTreeMap<Key, Arc<Counters>>>,
    crowd: Arc<Crowd>,
}

/// How much is left of the time for which the keys of registered consumers are kept. One that is not here has all of it.
pub(super) type Absences = BTreeMap<ConsumerId, Duration>;

/// How a consumer is there.
#[derive(Clone, Copy, Debug)]
struct Presence {
    id: ConsumerId,
    /// None: it is attached.
    until: Option<Duration>,
}

impl Presence {
    fn lasts(&self, now: Duration) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

impl Subscriptions {
    fn live(&self) -> MutexGuard<'_, BTreeMap<Key, Live>> {
        self.live.lock().expect("nothing panics while it holds the subscriptions")
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<Key, BTreeMap<ConsumerName, Presence>>> {
        self.present.lock().expect("nothing panics while it holds the consumers")
    }

    fn absences(&self) -> MutexGuard<'_, BTreeMap<Key, Absences>> {
        self.absences.lock().expect("nothing panics while it holds the absences")
    }

    fn counters(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Counters>>> {
        self.counters.lock().expect("nothing panics while it holds the counters")
    }

    /// What is counted of a subscription, if it was ever used.
    pub(crate) fn known_counters(&self, key: &Key) -> Option<Arc<Counters>> {
        self.counters().get(key).cloned()
    }

    /// What holds up subscriptions that some thing does.
    pub(crate) fn held_up(&self) -> Vec<(Key, HeldUp)> {
        let counters = self.counters();
        let held_up = counters.iter().map(|(key, counters)| (key.clone(), counters.held_up()));
        held_up.filter(|(_, held_up)| *held_up != HeldUp::default()).collect()
    }

    /// How many consumers are attached to each subscription, by topic.
    pub(crate) fn attached(&self) -> BTreeMap<TopicId, BTreeMap<SubscriptionName, u64>> {
        let mut attached = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (key, of_key) in &*self.present() {
            let count = of_key.values().filter(|presence| presence.until.is_none()).count() as u64;
            attached.entry(key.topic).or_default().insert(key.subscription.clone(), count);
        }
        attached
    }

    /// Bytes that may be held for one consumer.
    pub(super) fn share(&self) -> usize {
        self.crowd.share()
    }

    /// What the last task of a subscription has left.
    pub(super) fn take_absences(&self, key: &Key) -> Absences {
        self.absences().remove(key).unwrap_or_default()
    }

    /// A subscription was deleted.
    pub(super) fn forget(&self, key: &Key) {
        self.absences().remove(key);
        self.counters().remove(key);
    }

    /// Topics were deleted.
    pub(crate) fn forget_topics(&self, topics: &[TopicId]) {
        self.absences().retain(|key, _| !topics.contains(&key.topic));
        self.counters().retain(|key, _| !topics.contains(&key.topic));
    }

    /// The task of a subscription, which is made if there is none.
    fn start(&self, broker: &Broker, topic: &Topic, key: &Key) -> Result<Live> {
        let mut live = self.live();
        broker.check_running()?;
        if let Some(known) = live.get(key).filter(|known| !known.commands.is_closed()) {
            return Ok(known.clone());
        }
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let started = Live {
            commands: sender,
            touched: Arc::default(),
            is_changed: Arc::default(),
            task: Arc::default(),
        };
        let touched = Arc::clone(&started.touched);
        let is_changed = Arc::clone(&started.is_changed);
        let counters = Arc::clone(self.counters().entry(key.clone()).or_default());
        let task = Task::new(topic, key.clone(), commands, touched, is_changed, counters)?;
        let running = broker.inner.env.spawn.task("subscription", Box::pin(task.run()));
        *started.task.lock().expect("it is only set and taken") = Some(running);
        live.insert(key.clone(), started.clone());
        Ok(started)
    }

    /// Tells the task of a subscription, if it has one.
    pub(super) async fn tell(&self, key: &Key, command: Command) {
        let commands = self.live().get(key).map(|live| live.commands.clone());
        if let Some(commands) = commands {
            // A task that ended has nothing in flight, and knows nothing that could be out of date.
            let _ = commands.send(command).await;
        }
    }

    /// Asks the task of a subscription, which is made if there is none.
    pub(super) async fn ask<T>(
        &self,
        broker: &Broker,
        topic: &Topic,
        subscription: &SubscriptionName,
        command: impl Fn(oneshot::Sender<T>) -> Command,
    ) -> Result<T> {
        let key = Key { topic: topic.id(), subscription: subscription.clone() };
        for _ in 0..ATTEMPTS {
            topic.require_subscription(subscription)?;
            let live = self.start(broker, topic, &key)?;
            let (done, answer) = oneshot::channel();
            // It fails where the task is just ending.
            if live.commands.send(command(done)).await.is_ok()
                && let Ok(answer) = answer.await
            {
                return Ok(answer);
            }
        }
        Err(Error::SubscriptionStopped { subscription: subscription.clone() })
    }

    pub(super) async fn attach(
        &self,
        broker: &Broker,
        topic: &Topic,
        subscription: &SubscriptionName,
        id: ConsumerId,
        window: Window,
    ) -> Result<Consumer> {
        let key = Key { topic: topic.id(), subscription: subscription.clone() };
        let live = self.start(broker, topic, &key)?;
        let outbox = Arc::new(Outbox::new(id, Arc::clone(&live.touched), Arc::clone(&self.crowd)));
        // Made first: if nobody waits for the answer, it goes, and the task notices.
        let consumer = Consumer::new(id, Arc::clone(&outbox), live.commands.clone());
        let (done, answer) = oneshot::channel();
        let arriving = Arriving { id, window, outbox };
        let stopped = || Error::SubscriptionStopped { subscription: subscription.clone() };
        let command = Command::Attach { consumer: arriving, done };
        live.commands.send(command).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())??;
        Ok(consumer)
    }

    /// The task of a subscription ends, unless somebody has just asked it for something: then it is to go on.
    pub(super) fn end_if_unasked(
        &self,
        key: &Key,
        commands: &mut mpsc::Receiver<Command>,
        absences: Absences,
    ) -> bool {
        let mut live = self.live();
        if !commands.is_empty() {
            return false;
        }
        commands.close();
        live.remove(key);
        if !absences.is_empty() {
            self.absences().insert(key.clone(), absences);
        }
        true
    }

    /// The task of a subscription ends.
    pub(super) fn end(&self, key: &Key, commands: &mut mpsc::Receiver<Command>) {
        let mut live = self.live();
        commands.close();
        live.remove(key);
    }

    /// Tasks with something to save.
    pub(super) fn changed(&self) -> Vec<Handle> {
        let live = self.live();
        let changed = live.values().filter(|live| live.is_changed.load(Ordering::Relaxed));
        changed.map(|live| live.commands.clone()).collect()
    }

    /// All tasks, for a stop; there will be no others.
    pub(super) fn take_all(&self) -> Vec<(Handle, Option<Running>)> {
        let live = std::mem::take(&mut *self.live());
        let running = |live: &Live| live.task.lock().expect("it is only set and taken").take();
        live.into_values().map(|live| (live.commands.clone(), running(&live))).collect()
    }

    /// A consumer has subscribed and will attach, unless it may not.
    pub(super) fn expect(
        &self,
        broker: &Broker,
        key: &Key,
        name: &ConsumerName,
        id: ConsumerId,
        kind: SubscriptionType,
    ) -> Result<()> {
        let now = broker.inner.env.clock.monotonic();
        let mut present = self.present();
        check(broker, &present, key, name, kind, now)?;
        let of_key = present.entry(key.clone()).or_default();
        of_key.retain(|_, presence| presence.lasts(now));
        // One that is attached stays so until it is told that it was replaced.
        let until = Some(now + EXPECTED);
        of_key.insert(name.clone(), Presence { id, until });
        Ok(())
    }

    /// A consumer is attached, unless it may not.
    pub(super) fn arrive(
        &self,
        broker: &Broker,
        key: &Key,
        name: &ConsumerName,
        id: ConsumerId,
        kind: SubscriptionType,
    ) -> Result<()> {
        let now = broker.inner.env.clock.monotonic();
        let mut present = self.present();
        check(broker, &present, key, name, kind, now)?;
        let of_key = present.entry(key.clone()).or_default();
        of_key.insert(name.clone(), Presence { id, until: None });
        Ok(())
    }

    /// A consumer is there no more; a newer one of its name stays.
    pub(super) fn depart(&self, key: &Key, name: &ConsumerName, id: ConsumerId) {
        let mut present = self.present();
        let Some(of_key) = present.get_mut(key) else { return };
        if of_key.get(name).is_some_and(|presence| presence.id == id) {
            of_key.remove(name);
        }
        if of_key.is_empty() {
            present.remove(key);
        }
    }

    /// A consumer that has not attached yet was heard of.
    pub(super) fn heard(&self, broker: &Broker, id: ConsumerId) {
        let key = broker.inner.meta.read(|state| {
            let subscription = state.subscription_of(id)?;
            Some(Key { topic: subscription.topic, subscription: subscription.name.clone() })
        });
        let Some(key) = key else { return };
        let now = broker.inner.env.clock.monotonic();
        let mut present = self.present();
        let of_key = present.get_mut(&key).into_iter().flat_map(BTreeMap::values_mut);
        for presence in of_key.filter(|presence| presence.id == id && presence.lasts(now)) {
            presence.until = presence.until.map(|_| now + EXPECTED);
        }
    }

    pub(super) fn is_present(&self, key: &Key, name: &ConsumerName, now: Duration) -> bool {
        let present = self.present();
        let presence = present.get(key).and_then(|of_key| of_key.get(name));
        presence.is_some_and(|presence| presence.lasts(now))
    }
}

/// Whether one more consumer may be there.
fn check(
    broker: &Broker,
    present: &BTreeMap<Key, BTreeMap<ConsumerName, Presence>>,
    key: &Key,
    name: &ConsumerName,
    kind: SubscriptionType,
    now: Duration,
) -> Result<()> {
    let config = &broker.inner.config.subscriptions;
    let others = |of_key: &BTreeMap<ConsumerName, Presence>, is_same: bool| {
        let other = |(known, presence): &(&ConsumerName, &Presence)| {
            presence.lasts(now) && !(is_same && *known == name)
        };
        of_key.iter().filter(other).count() as u64
    };
    let subscription = || key.subscription.clone();
    let of_key = present.get(key).map_or(0, |of_key| others(of_key, true));
    if kind == SubscriptionType::Exclusive && of_key > 0 {
        return Err(Error::ExclusiveTaken { subscription: subscription() });
    }
    let limit = config.consumers_per_subscription_max;
    if limit > 0 && of_key >= limit {
        return Err(Error::TooManyConsumers { subscription: subscription(), limit });
    }
    let limit = config.consumers_per_topic_max;
    let of_topic = present.iter().filter(|(other, _)| other.topic == key.topic);
    let of_topic: u64 = of_topic.map(|(other, of_key)| others(of_key, other == key)).sum();
    if limit > 0 && of_topic >= limit {
        return Err(Error::TooManyConsumers { subscription: subscription(), limit });
    }
    Ok(())
}
