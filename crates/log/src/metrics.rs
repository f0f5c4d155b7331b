//! What is counted of the hot tier, and what it is called.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use danube_env::disk::Space;
use danube_model::metric::{Counter, Kind, Metric, Row, Times};
use danube_model::{Offset, TopicId};

use crate::bodies::Body;
use crate::checkpoint::Gap;
use crate::fill::Full;
use crate::layout::Layout;
use crate::reader::Damage;

/// Damaged ranges that are remembered of one log.
const DAMAGE_PER_LOG_MAX: usize = 16;

/// Kept by the two loops and the readers; read by who wants to know how the store is.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rounds: Counter,
    pub(crate) round_bytes: Counter,
    pub(crate) batches: Counter,
    pub(crate) messages: Counter,
    pub(crate) message_bytes: Counter,
    pub(crate) duplicates: Counter,
    pub(crate) refused_full: Counter,
    pub(crate) writes: Times,
    pub(crate) syncs: Times,
    pub(crate) fills: Times,
    pub(crate) checkpoints: Counter,
    pub(crate) damage: Counter,
    /// Bytes of the journal's files.
    pub(crate) journal_bytes: AtomicU64,
    /// Bytes of frames in memory.
    pub(crate) tail_bytes: AtomicU64,
    pub(crate) reserve_is_used: AtomicBool,
    /// The commit loop writes or syncs.
    pub(crate) commit: Busy,
    /// The filler writes segments or a checkpoint.
    pub(crate) fill: Busy,
    full: Mutex<Option<Full>>,
    damaged: Mutex<BTreeMap<TopicId, BTreeMap<Offset, Damage>>>,
}

/// Since when something is at work, by the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Busy(AtomicU64);

impl Busy {
    pub(crate) fn begin(&self, now: Duration) {
        self.0.store(u64::try_from(now.as_micros()).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn since(&self) -> Option<Duration> {
        let micros = self.0.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }
}

/// What is wrong with a store, or in its way.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// The volume is full: bytes left, and bytes that are kept in reserve.
    pub full: Option<(u64, u64)>,
    /// The file that holds room for a start was given up, and not made again yet.
    pub reserve_is_used: bool,
    /// A write or a sync is under way since then, by the monotonic clock; the oldest.
    pub busy_since: Option<Duration>,
    /// Ranges that can't be read and are no gaps yet.
    pub damaged: Vec<(TopicId, Damage)>,
}

impl Counters {
    /// A batch was given its offsets.
    pub(crate) fn count_batch(&self, messages: u64, bytes: u64) {
        self.batches.add(1);
        self.messages.add(messages);
        self.message_bytes.add(bytes);
    }

    pub(crate) fn set_full(&self, full: Option<Full>) {
        *self.full.lock().expect("nothing panics while it holds this") = full;
    }

    /// A range of a log can't be read.
    pub(crate) fn is_damaged(&self, topic: TopicId, damage: &Damage) {
        self.damage.add(1);
        self.remember(topic, damage);
    }

    /// A range of a log is known to be damaged.
    pub(crate) fn remember(&self, topic: TopicId, damage: &Damage) {
        let mut damaged = self.damaged();
        let of_log = damaged.entry(topic).or_default();
        if of_log.len() < DAMAGE_PER_LOG_MAX || of_log.contains_key(&damage.from) {
            of_log.insert(damage.from, damage.clone());
        }
    }

    /// Damage that a recovery has found in a log, and nobody has accepted yet.
    pub(crate) fn recovered(&self, body: &Body, layout: &Layout) {
        for gap in body.state.gaps.iter().filter(|gap| gap.reason.is_none()) {
            let Gap { from, to, .. } = *gap;
            let path = layout.segment(body.shared.topic, from);
            let why = "a start found it damaged or missing".to_owned();
            self.remember(body.shared.topic, &Damage { from, to, path, position: 0, why });
        }
    }

    /// Damage of a log became gaps, or the log is gone.
    pub(crate) fn is_settled(&self, topic: TopicId) {
        self.damaged().remove(&topic);
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeMap<TopicId, BTreeMap<Offset, Damage>>> {
        self.damaged.lock().expect("nothing panics while it holds this")
    }

    pub(crate) fn condition(&self) -> Condition {
        let full = self.full.lock().expect("nothing panics while it holds this");
        let flat = |(topic, of_log): (&TopicId, &BTreeMap<Offset, Damage>)| {
            of_log.values().map(|damage| (*topic, damage.clone())).collect::<Vec<_>>()
        };
        Condition {
            full: full.as_ref().map(|full| (full.available, full.reserve)),
            reserve_is_used: self.reserve_is_used.load(Ordering::Relaxed),
            busy_since: [&self.commit, &self.fill].into_iter().filter_map(Busy::since).min(),
            damaged: self.damaged().iter().flat_map(flat).collect(),
        }
    }
}

/// The hot tier in numbers.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) counters: Arc<Counters>,
    pub(crate) logs: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) space: Option<Space>,
}

impl Row for Metrics {
    const OF: &'static str = "messages on disk";
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new(
            "danube_log_rounds_total",
            Kind::Counter,
            "Rounds written to the journal.",
            |log| log.counters.rounds.get().into(),
        ),
        Metric::new(
            "danube_log_round_bytes_total",
            Kind::Counter,
            "Bytes of these rounds.",
            |log| log.counters.round_bytes.get().into(),
        ),
        Metric::new(
            "danube_log_batches_total",
            Kind::Counter,
            "Batches that were given offsets. A message that is sent alone is a batch.",
            |log| log.counters.batches.get().into(),
        ),
        Metric::new(
            "danube_log_messages_total",
            Kind::Counter,
            "Messages in these batches.",
            |log| log.counters.messages.get().into(),
        ),
        Metric::new(
            "danube_log_message_bytes_total",
            Kind::Counter,
            "Bytes of these batches, compressed as they are.",
            |log| log.counters.message_bytes.get().into(),
        ),
        Metric::new(
            "danube_log_duplicates_total",
            Kind::Counter,
            "Batches that a producer sent once more and that were there already.",
            |log| log.counters.duplicates.get().into(),
        ),
        Metric::new(
            "danube_log_refused_full_total",
            Kind::Counter,
            "Batches that were refused because the volume is full.",
            |log| log.counters.refused_full.get().into(),
        ),
        Metric::new(
            "danube_log_write_seconds",
            Kind::Seconds,
            "How long the write of a round took.",
            |log| log.counters.writes.get().into(),
        ),
        Metric::new(
            "danube_log_sync_seconds",
            Kind::Seconds,
            "How long a sync of the journal took; its count is that of the syncs.",
            |log| log.counters.syncs.get().into(),
        ),
        Metric::new(
            "danube_log_fill_seconds",
            Kind::Seconds,
            "How long it took to write what had gathered to segments, behind the acknowledgements.",
            |log| log.counters.fills.get().into(),
        ),
        Metric::new("danube_log_checkpoints_total", Kind::Counter, "Checkpoints taken.", |log| {
            log.counters.checkpoints.get().into()
        }),
        Metric::new(
            "danube_log_damage_total",
            Kind::Counter,
            "Times that a reader met a range that can't be read.",
            |log| log.counters.damage.get().into(),
        ),
        Metric::new(
            "danube_log_journal_bytes",
            Kind::Gauge,
            "Bytes of the journal's files.",
            |log| log.counters.journal_bytes.load(Ordering::Relaxed).into(),
        ),
        Metric::new("danube_log_tail_bytes", Kind::Gauge, "Memory of recent messages.", |log| {
            log.counters.tail_bytes.load(Ordering::Relaxed).into()
        }),
        Metric::new(
            "danube_log_queue_bytes",
            Kind::Gauge,
            "Memory of messages that wait for a round.",
            |log| log.queue_bytes.into(),
        ),
        Metric::new(
            "danube_log_topics",
            Kind::Gauge,
            "Topics and partitions that have a log on this disk.",
            |log| log.logs.into(),
        ),
        Metric::new(
            "danube_volume_available_bytes",
            Kind::Gauge,
            "Bytes that the broker may still write on the volume of its messages.",
            |log| log.space.map(|space| space.available).into(),
        ),
        Metric::new("danube_volume_size_bytes", Kind::Gauge, "Size of that volume.", |log| {
            log.space.map(|space| space.total).into()
        }),
    ];
}
