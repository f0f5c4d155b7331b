//! Alarms: named conditions that an operator must act on. Each is raised and cleared by itself, and said in the log when it is.
//!
//! ```text
//!  storage, metadata, topics, subscriptions, clock, descriptors ─▶ `look`: what stands now ─▶ Alarms ─▶ log, list, metric
//! ```
//!
//! Who notices something keeps it beside its own state; nobody raises anything. At each check, and whenever somebody asks, all that
//! is looked at, and what is not there any more is cleared: so an alarm can't be forgotten, and none outlives its cause.

mod clock;
mod look;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use danube_model::TimeMs;
use danube_model::metric::{Kind, Metric, Row};

use self::clock::ClockWatch;
pub(crate) use self::look::Troubles;
use crate::broker::Broker;

/// Alarms of one name that stand at once, at most; those of more subjects are not told.
const OF_A_NAME_MAX: usize = 1_000;

/// When alarms are raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmConfig {
    /// How often all is looked at.
    pub check_interval: Duration,
    /// A write, a sync or a command that takes longer is slow.
    pub slow: Duration,
    /// The wall clock jumped if it is off by so much between two checks.
    pub clock_jump: Duration,
    /// How long a jump of the clock is told.
    pub clock_jump_kept: Duration,
    /// Descriptors are nearly used up at so many in a hundred of their limit.
    pub open_files_percent: u64,
}

impl Default for AlarmConfig {
    fn default() -> Self {
        Self {
            check_interval: Duration::from_secs(1),
            slow: Duration::from_secs(5),
            clock_jump: Duration::from_secs(10),
            clock_jump_kept: Duration::from_secs(600),
            open_files_percent: 90,
        }
    }
}

/// What alarms there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmName {
    /// The volume has no room for messages.
    StorageFull,
    /// The room that is kept for a start was used.
    ReserveInUse,
    /// The disk failed.
    StorageFailed,
    /// A write or a sync hangs.
    StorageSlow,
    /// A command to the metadata hangs.
    MetadataSlow,
    /// Messages of a topic are damaged.
    TopicDamaged,
    /// A topic can't be opened.
    TopicUnavailable,
    /// A subscription can't read its topic.
    SubscriptionUnreadable,
    /// Poison blocks a subscription.
    SubscriptionBlocked,
    /// The wall clock jumped.
    ClockJumped,
    /// Descriptors are nearly used up.
    OpenFilesLow,
}

impl AlarmName {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::StorageFull,
        Self::ReserveInUse,
        Self::StorageFailed,
        Self::StorageSlow,
        Self::MetadataSlow,
        Self::TopicDamaged,
        Self::TopicUnavailable,
        Self::SubscriptionUnreadable,
        Self::SubscriptionBlocked,
        Self::ClockJumped,
        Self::OpenFilesLow,
    ];

    /// As it is called everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StorageFull => "storage_full",
            Self::ReserveInUse => "reserve_in_use",
            Self::StorageFailed => "storage_failed",
            Self::StorageSlow => "storage_slow",
            Self::MetadataSlow => "metadata_slow",
            Self::TopicDamaged => "topic_damaged",
            Self::TopicUnavailable => "topic_unavailable",
            Self::SubscriptionUnreadable => "subscription_unreadable",
            Self::SubscriptionBlocked => "subscription_blocked",
            Self::ClockJumped => "clock_jumped",
            Self::OpenFilesLow => "open_files_low",
        }
    }

    /// What to do about it, in a sentence.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::StorageFull => "free space on the volume, by retention or by hand",
            Self::ReserveInUse => "free space on the volume before the broker is started again",
            Self::StorageFailed => {
                "look into the kernel's log, replace or repair the disk, and start again"
            }
            Self::StorageSlow => "look at the disk and at what else uses it",
            Self::MetadataSlow => "look at the disk of the metadata and at what else uses it",
            Self::TopicDamaged => "see what is lost with `danube topic repair`, and accept the gap",
            Self::TopicUnavailable => {
                "bring the topic's disk or files back, or accept the loss with `danube topic repair`"
            }
            Self::SubscriptionUnreadable => "see why its topic can't be read",
            Self::SubscriptionBlocked => "handle and acknowledge the message, or seek behind it",
            Self::ClockJumped => "see why the clock was set, and whether it is right now",
            Self::OpenFilesLow => {
                "raise the limit of open files, or have fewer connections and topics"
            }
        }
    }
}

impl fmt::Display for AlarmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An alarm that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Which.
    pub name: AlarmName,
    /// What it is about: a directory, a topic, a subscription.
    pub subject: String,
    /// What is wrong, in words.
    pub what: String,
    /// When it was raised.
    pub since: TimeMs,
}

/// A condition that was found to stand.
pub(crate) struct Found {
    pub(crate) name: AlarmName,
    pub(crate) subject: String,
    pub(crate) what: String,
}

/// All that stand.
pub(crate) struct Alarms {
    state: Mutex<State>,
}

struct State {
    standing: BTreeMap<(AlarmName, String), Alarm>,
    clock: ClockWatch,
}

impl Alarms {
    /// None stands. `wall_ms` and `monotonic` are what the clocks show now.
    pub(crate) fn new(wall_ms: u64, monotonic: Duration) -> Self {
        let clock = ClockWatch::new(wall_ms, monotonic);
        Self { state: Mutex::new(State { standing: BTreeMap::new(), clock }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the alarms")
    }
}

impl State {
    /// These stand now, and no others.
    fn set(&mut self, found: Vec<Found>, now: TimeMs) {
        let mut before = std::mem::take(&mut self.standing);
        let mut counts = BTreeMap::<_, usize>::new();
        for Found { name, subject, what } in found {
            let count = counts.entry(name).or_default();
            *count += 1;
            if *count > OF_A_NAME_MAX {
                continue;
            }
            let key = (name, subject);
            let since = before.remove(&key).map(|alarm| alarm.since);
            if since.is_none() && !self.standing.contains_key(&key) {
                tracing::warn!(alarm = %name, subject = %key.1, what, remedy = name.remedy(), "alarm raised");
            }
            let subject = key.1.clone();
            let alarm = Alarm { name, subject, what, since: since.unwrap_or(now) };
            self.standing.entry(key).or_insert(alarm);
        }
        for Alarm { name, subject, since, .. } in before.into_values() {
            let stood_ms = now.get().saturating_sub(since.get());
            tracing::info!(alarm = %name, %subject, stood_ms, "alarm cleared");
        }
    }
}

impl Broker {
    /// The alarms that stand now, by name and subject.
    pub fn alarms(&self) -> Vec<Alarm> {
        let mut state = self.inner.alarms.lock();
        let found = look::look(self, &mut state.clock);
        state.set(found, self.now());
        state.standing.values().cloned().collect()
    }
}

/// Looks at each interval, until the broker stops.
pub(crate) async fn run(broker: Broker) {
    let mut stopping = broker.inner.stopping.subscribe();
    let interval = broker.inner.config.alarms.check_interval;
    loop {
        broker.alarms();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = broker.inner.env.clock.sleep(interval) => {}
        }
    }
}

/// The alarms of one name in numbers.
#[derive(Clone, Copy, Debug)]
pub struct AlarmMetrics {
    name: AlarmName,
    standing: u64,
}

impl AlarmMetrics {
    /// Of all names, for those that stand.
    pub fn of(alarms: &[Alarm]) -> Vec<Self> {
        let of = |name| {
            let standing = alarms.iter().filter(|alarm| alarm.name == name).count() as u64;
            Self { name, standing }
        };
        AlarmName::ALL.into_iter().map(of).collect()
    }
}

impl Row for AlarmMetrics {
    const OF: &'static str = "alarm";
    const LABELS: &'static [&'static str] = &["name"];
    const METRICS: &'static [Metric<Self>] = &[Metric::new(
        "danube_alarm",
        Kind::Gauge,
        "For how many subjects the alarm stands; 0: it does not. At most 1000.",
        |alarm| alarm.standing.into(),
    )];

    fn labels(&self) -> Vec<&str> {
        vec![self.name.as_str()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: AlarmName, subject: &str, what: &str) -> Found {
        Found { name, subject: subject.to_owned(), what: what.to_owned() }
    }

    #[test]
    fn what_stands_keeps_its_time_and_what_does_not_is_cleared() {
        let alarms = Alarms::new(0, Duration::ZERO);
        let mut state = alarms.lock();
        let mut set = |found, now| {
            state.set(found, TimeMs::new(now));
            let told =
                |alarm: &Alarm| (alarm.subject.clone(), alarm.what.clone(), alarm.since.get());
            state.standing.values().map(told).collect::<Vec<_>>()
        };
        let of = |subject: &str, what: &str, since| (subject.to_owned(), what.to_owned(), since);
        let (full, slow) = (AlarmName::StorageFull, AlarmName::StorageSlow);
        assert_eq!(set(vec![found(full, "/", "9 left")], 5), [of("/", "9 left", 5)]);
        let both = vec![found(full, "/", "8 left"), found(slow, "/", "hangs")];
        assert_eq!(set(both, 6), [of("/", "8 left", 5), of("/", "hangs", 6)]);
        assert_eq!(set(vec![found(slow, "/", "hangs")], 7), [of("/", "hangs", 6)]);
        assert_eq!(set(vec![], 8), []);
        assert_eq!(set(vec![found(full, "/", "9 left")], 9), [of("/", "9 left", 9)]);
    }

    #[test]
    fn operators_are_told_of_each_what_it_is_and_what_to_do() {
        let text = include_str!("../../../docs/operations/alarms.md");
        let told: Vec<_> = text.split("\n## ").skip(1).collect();
        let names: Vec<_> = told.iter().filter_map(|section| section.lines().next()).collect();
        assert_eq!(names, AlarmName::ALL.map(AlarmName::as_str));
        for section in told {
            for what in ["\n- **Comes** ", "\n- **Goes** ", "\n- **Do**: "] {
                assert!(section.contains(what), "{what} in {section}");
            }
        }
    }

    #[test]
    fn alarms_of_one_name_are_bounded() {
        let alarms = Alarms::new(0, Duration::ZERO);
        let many =
            (0..OF_A_NAME_MAX + 5).map(|n| found(AlarmName::TopicDamaged, &n.to_string(), ""));
        let mut state = alarms.lock();
        state.set(many.collect(), TimeMs::ZERO);
        assert_eq!(state.standing.len(), OF_A_NAME_MAX);
    }
}
