//! The broker in numbers: what is declared here, and gathered in `gather` when somebody asks.
//!
//! Counts stand next to what they tell of: of a topic in its log or its fan-out, of a subscription beside its task, so that
//! they outlive it. They end with their object. Gathering holds each lock only to copy handles out of it.

mod gather;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use danube_model::metric::{Counter, Distribution, Kind, Metric, Row, Times};
use danube_model::{SubscriptionName, TimeMs, TopicName};

pub(crate) use self::gather::Oldest;
use crate::subscription::Key;

/// Of how many objects there are metrics of their own. Of more, the first ones by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsLimits {
    /// Topics and partitions.
    pub topics: u64,
    /// Subscriptions.
    pub subscriptions: u64,
}

/// Everything that is known in numbers.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Of the node.
    pub broker: BrokerMetrics,
    /// Of the hot tier.
    pub log: danube_log::Metrics,
    /// Of the metadata.
    pub meta: danube_meta::Metrics,
    /// Of each topic.
    pub topics: Vec<TopicMetrics>,
    /// Of each subscription.
    pub subscriptions: Vec<SubscriptionMetrics>,
}

/// What the node counts.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) sent: Counter,
    pub(crate) failed: Counter,
    pub(crate) send_times: Times,
    /// What logs had in all when retention looked last, and what it has removed.
    pub(crate) stored_bytes: AtomicU64,
    pub(crate) removed_bytes: Counter,
    pub(crate) removed_segments: Counter,
    /// Receive times that were looked for in files: asked for again until the cursor moves.
    pub(crate) oldest: Mutex<BTreeMap<Key, Oldest>>,
}

impl Counters {
    /// An append was answered.
    pub(crate) fn answered(&self, took: Duration, is_error: bool) {
        self.sent.add(1);
        match is_error {
            false => self.send_times.add(took),
            true => self.failed.add(1),
        }
    }
}

/// The node in numbers.
#[derive(Clone, Debug, Default)]
pub struct BrokerMetrics {
    topics: u64,
    subscriptions: u64,
    producers: u64,
    consumers: u64,
    sent: u64,
    failed: u64,
    send_times: Distribution,
    stored_bytes: u64,
    removed_bytes: u64,
    removed_segments: u64,
    topics_left_out: u64,
    subscriptions_left_out: u64,
}

/// A topic or partition in numbers.
#[derive(Clone, Debug)]
pub struct TopicMetrics {
    topic: TopicName,
    messages_in: u64,
    bytes_in: u64,
    /// Of a non-reliable topic.
    dropped: Option<u64>,
    /// Of a reliable one.
    start: Option<u64>,
    durable_end: Option<u64>,
    throttled: Duration,
    producers: u64,
    consumers: u64,
    subscriptions: u64,
}

/// A subscription in numbers.
#[derive(Clone, Debug)]
pub struct SubscriptionMetrics {
    topic: TopicName,
    subscription: SubscriptionName,
    /// Of a reliable topic.
    lag: Option<u64>,
    oldest: Option<Duration>,
    in_flight: u64,
    consumers: u64,
    out: crate::subscription::Counted,
}

impl Row for BrokerMetrics {
    const OF: &'static str = "broker";
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new(
            "danube_broker_topics_owned",
            Kind::Gauge,
            "Topics and partitions of this broker.",
            |broker| broker.topics.into(),
        ),
        Metric::new(
            "danube_broker_subscriptions",
            Kind::Gauge,
            "Subscriptions of these topics.",
            |broker| broker.subscriptions.into(),
        ),
        Metric::new(
            "danube_broker_active_producers",
            Kind::Gauge,
            "Producers that are attached.",
            |broker| broker.producers.into(),
        ),
        Metric::new(
            "danube_broker_active_consumers",
            Kind::Gauge,
            "Consumers that are attached.",
            |broker| broker.consumers.into(),
        ),
        Metric::new(
            "danube_producer_send_total",
            Kind::Counter,
            "Batches and single messages of producers that were answered.",
            |broker| broker.sent.into(),
        ),
        Metric::new(
            "danube_producer_send_failed_total",
            Kind::Counter,
            "Those of them that were answered with an error.",
            |broker| broker.failed.into(),
        ),
        Metric::new(
            "danube_producer_send_latency_ms",
            Kind::Milliseconds,
            "How long a batch of a reliable topic took in the broker until its level was reached.",
            |broker| broker.send_times.clone().into(),
        ),
        Metric::new(
            "danube_broker_stored_bytes",
            Kind::Gauge,
            "Bytes that all topics have in segments, or on their way there, as retention saw them last (`storage.local_retention.check_interval_minutes`).",
            |broker| broker.stored_bytes.into(),
        ),
        Metric::new(
            "danube_retention_removed_bytes_total",
            Kind::Counter,
            "Bytes of segments that retention removed.",
            |broker| broker.removed_bytes.into(),
        ),
        Metric::new(
            "danube_retention_removed_segments_total",
            Kind::Counter,
            "Segments that retention removed.",
            |broker| broker.removed_segments.into(),
        ),
        Metric::new(
            "danube_metrics_topics_left_out",
            Kind::Gauge,
            "Topics without metrics of their own, because there are more than `metrics.max_topics`.",
            |broker| broker.topics_left_out.into(),
        ),
        Metric::new(
            "danube_metrics_subscriptions_left_out",
            Kind::Gauge,
            "Subscriptions without metrics of their own, because there are more than `metrics.max_subscriptions`, or their topic has none.",
            |broker| broker.subscriptions_left_out.into(),
        ),
    ];
}

impl Row for TopicMetrics {
    const OF: &'static str = "topic or partition";
    const LABELS: &'static [&'static str] = &["topic"];
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new(
            "danube_topic_messages_in_total",
            Kind::Counter,
            "Messages that the topic took.",
            |topic| topic.messages_in.into(),
        ),
        Metric::new(
            "danube_topic_bytes_in_total",
            Kind::Counter,
            "Bytes of their batches, compressed as they are.",
            |topic| topic.bytes_in.into(),
        ),
        Metric::new(
            "danube_topic_message_size_bytes",
            Kind::Summary,
            "Their number and bytes as a summary: divided, the average size of a message in its batch.",
            |topic| danube_model::metric::Value::Summary {
                count: topic.messages_in,
                sum: topic.bytes_in,
            },
        ),
        Metric::new(
            "danube_topic_dropped_messages_total",
            Kind::Counter,
            "Messages of a non-reliable topic that a subscription had no room for, counted for each such subscription.",
            |topic| topic.dropped.into(),
        ),
        Metric::new(
            "danube_topic_start_offset",
            Kind::Gauge,
            "First offset that is still held.",
            |topic| topic.start.into(),
        ),
        Metric::new(
            "danube_topic_durable_end_offset",
            Kind::Gauge,
            "Offset behind the last message that its level has confirmed.",
            |topic| topic.durable_end.into(),
        ),
        Metric::new(
            "danube_topic_throttled_seconds_total",
            Kind::Counter,
            "How long batches and single messages waited because of `policies.max_publish_rate`, each counted.",
            |topic| topic.throttled.into(),
        ),
        Metric::new(
            "danube_topic_active_producers",
            Kind::Gauge,
            "Producers that are attached.",
            |topic| topic.producers.into(),
        ),
        Metric::new(
            "danube_topic_active_consumers",
            Kind::Gauge,
            "Consumers that are attached, of all its subscriptions.",
            |topic| topic.consumers.into(),
        ),
        Metric::new(
            "danube_topic_active_subscriptions",
            Kind::Gauge,
            "Subscriptions, used or not.",
            |topic| topic.subscriptions.into(),
        ),
    ];

    fn labels(&self) -> Vec<&str> {
        vec![self.topic.as_str()]
    }
}

impl Row for SubscriptionMetrics {
    const OF: &'static str = "subscription";
    const LABELS: &'static [&'static str] = &["topic", "subscription"];
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new(
            "danube_subscription_lag_messages",
            Kind::Gauge,
            "Messages up to the durable end of a reliable topic that are there and not acknowledged, by the cursor as it was saved last. Also of subscriptions that nobody uses.",
            |subscription| subscription.lag.into(),
        ),
        Metric::new(
            "danube_subscription_oldest_unacked_age_seconds",
            Kind::Gauge,
            "How long ago the first of them was received; 0 if there is none. Of what lies in files, only some are looked for at each request: it may come with a later one.",
            |subscription| subscription.oldest.into(),
        ),
        Metric::new(
            "danube_subscription_in_flight_messages",
            Kind::Gauge,
            "Messages at consumers.",
            |subscription| subscription.in_flight.into(),
        ),
        Metric::new(
            "danube_subscription_active_consumers",
            Kind::Gauge,
            "Consumers that are attached.",
            |subscription| subscription.consumers.into(),
        ),
        Metric::new(
            "danube_consumer_messages_out_total",
            Kind::Counter,
            "Messages handed to consumers, redeliveries included.",
            |subscription| subscription.out.messages.into(),
        ),
        Metric::new(
            "danube_consumer_bytes_out_total",
            Kind::Counter,
            "Bytes that they have of their batches.",
            |subscription| subscription.out.bytes.into(),
        ),
        Metric::new(
            "danube_subscription_redelivered_messages_total",
            Kind::Counter,
            "Messages handed out that had been before.",
            |subscription| subscription.out.redelivered.into(),
        ),
        Metric::new(
            "danube_subscription_dropped_messages_total",
            Kind::Counter,
            "Messages that failed too often and were dropped, as the policy says.",
            |subscription| subscription.out.dropped.into(),
        ),
        Metric::new(
            "danube_subscription_dead_letters_total",
            Kind::Counter,
            "Messages that were put into the dead-letter topic.",
            |subscription| subscription.out.dead_letters.into(),
        ),
        Metric::new(
            "danube_subscription_missing_offsets_total",
            Kind::Counter,
            "Offsets that were passed over because they are a gap, damaged, or were removed by retention.",
            |subscription| subscription.out.missing.into(),
        ),
        Metric::new(
            "danube_subscription_throttled_seconds_total",
            Kind::Counter,
            "How long nothing was handed out because of `policies.max_subscription_dispatch_rate`.",
            |subscription| subscription.out.paused.into(),
        ),
    ];

    fn labels(&self) -> Vec<&str> {
        vec![self.topic.as_str(), self.subscription.as_str()]
    }
}

/// How long ago something was received.
fn age(now: TimeMs, received: TimeMs) -> Duration {
    Duration::from_millis(now.get().saturating_sub(received.get()))
}
