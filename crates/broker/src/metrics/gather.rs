//! Taking the numbers from where they stand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use danube_log::{Progress, Read, Start};
use danube_meta::state::{Subscription, Topic};
use danube_model::{Offset, TimeMs, TopicId};

use super::{BrokerMetrics, Metrics, MetricsLimits, SubscriptionMetrics, TopicMetrics, age};
use crate::broker::Broker;
use crate::slot::Slot;
use crate::subscription::{Key, lag};

/// Batches that are looked for in files for one request.
const LOOKED_FOR_MAX: usize = 100;

/// What is on disk is looked at for so long at most.
const ON_DISK_MAX: Duration = Duration::from_millis(500);

/// When the batch with the first offset that is not settled was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oldest {
    received: TimeMs,
    /// It holds for floors from this one on,
    from: Offset,
    /// and below this one.
    next: Offset,
}

/// What is known of a topic before it is looked at.
struct Known {
    topic: Arc<Topic>,
    /// Those that get metrics of their own, and how many there are.
    subscriptions: Vec<Arc<Subscription>>,
    subscription_count: u64,
}

/// A subscription whose first unsettled batch lies in a file.
struct Wanted {
    key: Key,
    floor: Offset,
    /// Its place among the rows.
    row: usize,
}

impl Broker {
    /// Everything that is known in numbers. Nobody who appends or consumes waits for it.
    pub async fn metrics(&self, limits: MetricsLimits) -> Metrics {
        let inner = &self.inner;
        let (known, mut broker) = self.known(limits);
        let slots = self.slots().clone();
        let consumers = inner.subscriptions.attached();
        broker.producers = slots.values().map(|slot| slot.producers.count()).sum();
        broker.consumers = consumers.values().flat_map(BTreeMap::values).sum();
        (broker.sent, broker.failed) = (inner.counters.sent.get(), inner.counters.failed.get());
        broker.send_times = inner.counters.send_times.get();
        broker.stored_bytes = inner.counters.stored_bytes.load(Ordering::Relaxed);
        broker.removed_bytes = inner.counters.removed_bytes.get();
        broker.removed_segments = inner.counters.removed_segments.get();
        let mut metrics = Metrics {
            broker,
            log: inner.store.metrics(None),
            meta: inner.meta.metrics(),
            topics: Vec::with_capacity(known.len()),
            subscriptions: Vec::new(),
        };
        let mut wanted = Vec::new();
        for Known { topic, subscriptions, subscription_count } in &known {
            let progress = inner.store.progress(topic.id);
            let slot = slots.get(&topic.id);
            let mut row = topic_row(topic, progress, slot);
            let consumers = consumers.get(&topic.id);
            row.consumers = consumers.map_or(0, |of_topic| of_topic.values().sum());
            row.subscriptions = *subscription_count;
            metrics.topics.push(row);
            for subscription in subscriptions {
                let key = Key { topic: topic.id, subscription: subscription.name.clone() };
                let mut row = self.subscription_row(topic, &key, subscription, progress);
                let attached = consumers.and_then(|of_topic| of_topic.get(&key.subscription));
                row.consumers = attached.copied().unwrap_or(0);
                if let Some(progress) = progress.filter(|_| topic.is_reliable()) {
                    let floor = subscription.floor.max(progress.start);
                    match self.oldest_in_memory(&key, floor, progress) {
                        Some(oldest) => row.oldest = Some(oldest),
                        None => {
                            wanted.push(Wanted { key, floor, row: metrics.subscriptions.len() })
                        }
                    }
                }
                metrics.subscriptions.push(row);
            }
        }
        // Also while the disk hangs there are numbers; then without these.
        tokio::select! {
            biased;
            () = self.look_on_disk(wanted, &mut metrics) => {}
            () = inner.env.clock.sleep(ON_DISK_MAX) => {}
        }
        metrics
    }

    async fn look_on_disk(&self, wanted: Vec<Wanted>, metrics: &mut Metrics) {
        let waits = |since| self.inner.env.clock.monotonic().saturating_sub(since);
        let busy = self.inner.store.condition().busy_since.map(waits);
        // Threads that wait for a disk that hangs would add up.
        if busy.is_some_and(|busy| busy > ON_DISK_MAX) {
            return;
        }
        metrics.log = self.inner.store.metrics(self.inner.store.space().await);
        self.look_for_oldest(wanted, &mut metrics.subscriptions).await;
    }

    /// The topics and subscriptions that get metrics of their own, and how many others there are.
    fn known(&self, limits: MetricsLimits) -> (Vec<Known>, BrokerMetrics) {
        let mut left = usize::try_from(limits.subscriptions).unwrap_or(usize::MAX);
        let topics_max = usize::try_from(limits.topics).unwrap_or(usize::MAX);
        self.inner.meta.read(|state| {
            let take = |topic: &Arc<Topic>| {
                let subscriptions: Vec<_> =
                    state.subscriptions(&topic.id).take(left).cloned().collect();
                left -= subscriptions.len();
                let subscription_count = state.subscriptions(&topic.id).count() as u64;
                Known { topic: Arc::clone(topic), subscriptions, subscription_count }
            };
            let known: Vec<_> = state.topics().take(topics_max).map(take).collect();
            let (topics, subscriptions) = (state.topic_count(), state.subscription_count());
            let told: usize = known.iter().map(|known| known.subscriptions.len()).sum();
            let broker = BrokerMetrics {
                topics: topics as u64,
                subscriptions: subscriptions as u64,
                topics_left_out: (topics - known.len()) as u64,
                subscriptions_left_out: (subscriptions - told) as u64,
                ..BrokerMetrics::default()
            };
            (known, broker)
        })
    }

    fn subscription_row(
        &self,
        topic: &Topic,
        key: &Key,
        subscription: &Subscription,
        progress: Option<Progress>,
    ) -> SubscriptionMetrics {
        let counters = self.inner.subscriptions.known_counters(key);
        let counters = counters.as_deref();
        // A topic whose log was never opened has taken nothing.
        let lag = progress.map_or(0, |progress| {
            let ranges =
                subscription.settled.iter().flat_map(|(index, chunk)| chunk.ranges(*index));
            let start = subscription.floor.max(progress.start);
            lag(start..progress.durable_end, ranges.collect(), self.inner.store.gaps(topic.id))
        });
        SubscriptionMetrics {
            topic: topic.name.clone(),
            subscription: subscription.name.clone(),
            lag: topic.is_reliable().then_some(lag),
            oldest: None,
            in_flight: counters.map_or(0, |counters| counters.in_flight()),
            consumers: 0,
            out: counters.map(|counters| counters.counted()).unwrap_or_default(),
        }
    }

    /// The age of the first unsettled batch, if that needs no file.
    fn oldest_in_memory(&self, key: &Key, floor: Offset, progress: Progress) -> Option<Duration> {
        if floor >= progress.durable_end {
            return Some(Duration::ZERO);
        }
        let now = self.now();
        let in_memory = self.inner.store.received(key.topic, floor);
        let known = || {
            let oldest = self.inner.counters.oldest();
            let oldest = oldest.get(key).filter(|known| (known.from..known.next).contains(&floor));
            oldest.map(|known| known.received)
        };
        in_memory.or_else(known).map(|received| age(now, received))
    }

    /// Looks in files, for some; what was found stays known as long as it is asked for.
    async fn look_for_oldest(&self, wanted: Vec<Wanted>, rows: &mut [SubscriptionMetrics]) {
        let now = self.now();
        for Wanted { key, floor, row } in wanted.into_iter().take(LOOKED_FOR_MAX) {
            let Some(found) = self.look_in_files(key.topic, floor).await else { continue };
            rows[row].oldest = Some(age(now, found.received));
            self.inner.counters.oldest().insert(key, found);
        }
        let there = |key: &Key| {
            self.inner
                .meta
                .read(|state| state.subscription(&key.topic, &key.subscription).is_some())
        };
        self.inner.counters.oldest().retain(|key, _| there(key));
    }

    async fn look_in_files(&self, topic: TopicId, floor: Offset) -> Option<Oldest> {
        // It opens nothing: a log that nobody uses stays closed.
        let reader = self.inner.store.read(topic, Start::Offset(floor), floor).await;
        let Ok(Read::Frame(frame)) = reader.ok()?.next().await else { return None };
        Some(Oldest { received: frame.receive_time(), from: floor, next: frame.next() })
    }
}

fn topic_row(topic: &Topic, progress: Option<Progress>, slot: Option<&Arc<Slot>>) -> TopicMetrics {
    let is_reliable = topic.is_reliable();
    let fanned = slot.filter(|_| !is_reliable).map(|slot| slot.fan_out.counted());
    let logged = progress.map(|progress| (progress.messages, progress.bytes));
    let (messages_in, bytes_in) =
        fanned.map(|counted| (counted.messages, counted.bytes)).or(logged).unwrap_or_default();
    TopicMetrics {
        topic: topic.name.clone(),
        messages_in,
        bytes_in,
        dropped: (!is_reliable).then(|| fanned.map_or(0, |counted| counted.dropped)),
        start: progress.map(|progress| progress.start.get()),
        durable_end: progress.map(|progress| progress.durable_end.get()),
        throttled: slot.map_or(Duration::ZERO, |slot| slot.throttle.waited.get()),
        producers: slot.map_or(0, |slot| slot.producers.count()),
        consumers: 0,
        subscriptions: 0,
    }
}

impl super::Counters {
    fn oldest(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Oldest>> {
        self.oldest.lock().expect("nothing panics while it holds what was looked for")
    }
}
