//! Retention: at each interval, what topics and broker do not keep any more is let go of.
//!
//! ```text
//!  metadata: limits ─┐
//!  log: files ───────┼─▶ `plan` ─▶ log::Store::trim: start, then files
//!  `age`: time ──────┘
//! ```
//!
//! One task does it, one check after the other, away from whoever appends and reads. What it learnt of files that take no
//! more it keeps, so that it reads the footer of each once in a run of the broker. Only such files go: so it has the newest
//! messages sealed where a limit needs that.

mod age;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use danube_log::Holding;
use danube_meta::state::TopicSettings;
use danube_model::{ErrorKind, Offset, TimeMs, TopicId, TopicName};

pub(crate) use self::age::AgeClock;
use self::plan::{Facts, Going, Limits, Sealed, plan};
use crate::broker::Broker;
use crate::error::Result;
use crate::slot::Accept;

/// What is kept where a topic does not say it itself. `None`: without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionConfig {
    /// How long messages of a topic are kept.
    pub time: Option<Duration>,
    /// Bytes of a topic that are kept at least; at most twice as many, and what comes between two checks.
    pub bytes: Option<u64>,
    /// Bytes of all topics together that are kept.
    pub total_bytes: Option<u64>,
    /// How often it is looked at what may go.
    pub check_interval: Duration,
}

impl Default for RetentionConfig {
    /// Everything is kept.
    fn default() -> Self {
        let check_interval = Duration::from_secs(300);
        Self { time: None, bytes: None, total_bytes: None, check_interval }
    }
}

impl RetentionConfig {
    fn limits(&self, settings: &TopicSettings) -> Limits {
        let default_ms = self.time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let limit = |set: Option<u64>, default| match set {
            Some(0) => None,
            Some(limit) => Some(limit),
            None => default,
        };
        Limits {
            time_ms: limit(settings.retention_ms, default_ms),
            bytes: limit(settings.retention_bytes, self.bytes),
        }
    }
}

/// What is known of one log.
struct Known {
    name: TopicName,
    facts: Facts,
    end: Offset,
    /// Nothing was appended since.
    quiet_since: TimeMs,
}

/// The task's own state.
struct Retention {
    broker: Broker,
    clock: AgeClock,
    logs: BTreeMap<TopicId, Known>,
}

/// Checks at once, and then at each interval, until the broker stops.
pub(crate) async fn run(broker: Broker, clock: AgeClock) {
    let env = broker.inner.env.clone();
    let interval = broker.inner.config.retention.check_interval;
    let mut stopping = broker.inner.stopping.subscribe();
    let mut retention = Retention { broker, clock, logs: BTreeMap::new() };
    let checks = async {
        loop {
            retention.check().await;
            env.clock.sleep(interval).await;
        }
    };
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stopping| *stopping) => {}
        () = checks => {}
    }
}

impl Retention {
    /// Lets go of what is not kept any more.
    async fn check(&mut self) {
        let now = self.now();
        self.learn(now).await;
        self.seal(now).await;
        let total_bytes = self.broker.inner.config.retention.total_bytes;
        let logs: BTreeMap<_, _> =
            self.logs.iter().map(|(topic, known)| (*topic, known.facts.clone())).collect();
        let stored = logs.values().map(Facts::bytes).sum();
        let counters = &self.broker.inner.counters;
        counters.stored_bytes.store(stored, Ordering::Relaxed);
        let going = plan(&logs, total_bytes, now);
        if going.is_empty() {
            return;
        }
        // Many files take a while: a stop in between must not hide what has gone.
        for (topic, going) in &going {
            let name = &self.logs[topic].name;
            tracing::info!(topic = %name, start = %going.before, segments = going.files, bytes = going.bytes, "retention removes the oldest messages");
        }
        let before = going.iter().map(|(topic, going)| (*topic, going.before)).collect();
        match self.broker.inner.store.trim(before).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%error, "retention can't remove what is not kept any more");
            }
            // A topic was deleted meanwhile: the next check goes on with the others.
            Err(_) => {}
            Ok(_) => {
                for Going { files, bytes, .. } in going.values() {
                    counters.stored_bytes.fetch_sub(*bytes, Ordering::Relaxed);
                    counters.removed_bytes.add(*bytes);
                    counters.removed_segments.add(*files as u64);
                }
            }
        }
    }

    /// What time it is, for files to grow old by.
    fn now(&mut self) -> TimeMs {
        let clock = &self.broker.inner.env.clock;
        let now = self.clock.read(clock.wall_ms(), clock.monotonic());
        // The clock may have been set back.
        for known in self.logs.values_mut() {
            known.quiet_since = known.quiet_since.min(now);
            for file in &mut known.facts.sealed {
                file.newest = file.newest.min(now);
            }
        }
        now
    }

    /// Looks at the topics that there are, and at what their logs hold.
    async fn learn(&mut self, now: TimeMs) {
        let config = self.broker.inner.config.retention;
        let topics: Vec<_> = self.broker.inner.meta.read(|state| {
            let topics = state.topics().filter(|topic| topic.is_reliable());
            topics
                .map(|topic| (topic.id, topic.name.clone(), config.limits(&topic.settings)))
                .collect()
        });
        let there: BTreeSet<_> = topics.iter().map(|(id, ..)| *id).collect();
        self.logs.retain(|id, _| there.contains(id));
        for (id, name, limits) in topics {
            if self.broker.inner.store.facts(id).is_none() {
                continue;
            }
            let known = self.logs.entry(id).or_insert_with(|| Known {
                name,
                facts: Facts::default(),
                end: Offset::ZERO,
                quiet_since: now,
            });
            known.facts.limits = limits;
            known.look(&self.broker, id, now).await;
        }
    }

    /// Seals what nothing was added to for as long as it is kept, and what is as much as is kept, so that it can go.
    async fn seal(&mut self, now: TimeMs) {
        for (id, known) in &mut self.logs {
            let age = now.get().saturating_sub(known.quiet_since.get());
            let is_old = known.facts.limits.time_ms.is_some_and(|limit| age >= limit);
            if known.facts.unsealed_bytes == 0 || !(is_old || known.facts.wants_seal()) {
                continue;
            }
            known.quiet_since = now;
            match seal(&self.broker, &known.name, *id).await {
                Ok(()) => known.look(&self.broker, *id, now).await,
                Err(error) => {
                    tracing::warn!(topic = %known.name, %error, "retention can't seal the newest messages of a topic");
                }
            }
        }
    }
}

/// A log that is not open takes no seal.
async fn seal(broker: &Broker, name: &TopicName, id: TopicId) -> Result<()> {
    let topic = broker.topic(name)?;
    if topic.id() != id {
        return Ok(());
    }
    Ok(topic.slot.log(broker, Accept::Nothing).await?.log.seal().await?)
}

impl Known {
    /// Looks at what the log holds.
    async fn look(&mut self, broker: &Broker, id: TopicId, now: TimeMs) {
        let from = self.facts.sealed.last().map_or(Offset::ZERO, |last| last.next);
        match broker.inner.store.holding(id, from).await {
            Ok(holding) => self.learn(holding, now),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(topic = %self.name, %error, "retention can't look at a topic");
            }
        }
    }

    fn learn(&mut self, holding: Holding, now: TimeMs) {
        if self.end != holding.end {
            (self.end, self.quiet_since) = (holding.end, now);
        }
        self.facts.unsealed_bytes = holding.unsealed_bytes;
        self.facts.sealed.retain(|file| file.first >= holding.start);
        self.facts.sealed.extend(holding.sealed.iter().map(|file| Sealed {
            first: file.first,
            next: file.next,
            bytes: file.bytes,
            // It is there already, whatever clock has stamped it, or its footer does not say.
            newest: file.newest.map_or(now, |newest| newest.min(now)),
        }));
    }
}
