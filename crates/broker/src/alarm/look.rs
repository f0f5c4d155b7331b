//! Looking at everything that an alarm may be about.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use danube_meta::State;
use danube_model::{ErrorKind, TopicId, TopicName};

use super::clock::ClockWatch;
use super::{AlarmName, Found};
use crate::broker::Broker;
use crate::error::Error;

/// Topics that can't be opened, and why. A topic is in it from its last failed opening, or from the start of the broker, until
/// it is opened or deleted.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<BTreeMap<TopicId, (TopicName, Error)>>);

impl Troubles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TopicId, (TopicName, Error)>> {
        self.0.lock().expect("nothing panics while it holds the troubles")
    }

    /// What came of the opening of a topic.
    pub(crate) fn opened(&self, topic: TopicId, name: &TopicName, error: Option<&Error>) {
        match error {
            None => self.forget(topic),
            Some(error) if is_trouble(error) => {
                self.lock().insert(topic, (name.clone(), error.clone()));
            }
            // Others pass by themselves, or say that there is nothing to open.
            Some(_) => {}
        }
    }

    /// The topic is deleted.
    pub(crate) fn forget(&self, topic: TopicId) {
        self.lock().remove(&topic);
    }
}

/// Whether an operator has to act before the topic can be opened.
fn is_trouble(error: &Error) -> bool {
    match error {
        Error::DamagedEnd { .. } | Error::LogMissing { .. } | Error::OtherDisk { .. } => true,
        Error::Log(error) => !error.is_retryable() && error.kind() != ErrorKind::NotFound,
        _ => false,
    }
}

/// Everything that is wrong now.
pub(super) fn look(broker: &Broker, clock: &mut ClockWatch) -> Vec<Found> {
    let mut found = Vec::new();
    storage(broker, &mut found);
    metadata(broker, &mut found);
    topics(broker, &mut found);
    subscriptions(broker, &mut found);
    machine(broker, clock, &mut found);
    found
}

fn storage(broker: &Broker, found: &mut Vec<Found>) {
    let inner = &broker.inner;
    let root = inner.config.log.root.display().to_string();
    let mut tell = |name, what| found.push(Found { name, subject: root.clone(), what });
    let condition = inner.store.condition();
    if let Some((available, reserve)) = condition.full {
        let what = format!(
            "{available} bytes are left, {reserve} are kept in reserve: messages are refused"
        );
        tell(AlarmName::StorageFull, what);
    }
    if condition.reserve_is_used {
        let what = "the room that is kept for a start on a full volume was used".to_owned();
        tell(AlarmName::ReserveInUse, what);
    }
    if let Some(error) = inner.store.failure() {
        tell(AlarmName::StorageFailed, format!("nothing more is acknowledged: {error}"));
    }
    let took = condition.busy_since.map(|since| inner.env.clock.monotonic().saturating_sub(since));
    if let Some(took) = took.filter(|took| *took >= inner.config.alarms.slow) {
        tell(AlarmName::StorageSlow, format!("a write or a sync hangs for {} s", took.as_secs()));
    }
    for (topic, damage) in condition.damaged {
        let Some(subject) = name(broker, &topic) else { continue };
        let danube_log::Damage { from, to, path, why, .. } = damage;
        let what = format!("offsets {from} to {to} can't be read from {}: {why}", path.display());
        found.push(Found { name: AlarmName::TopicDamaged, subject, what });
    }
}

fn name(broker: &Broker, topic: &TopicId) -> Option<String> {
    let name = |state: &State| state.topic_by_id(topic).map(|topic| topic.name.to_string());
    broker.inner.meta.read(name)
}

fn metadata(broker: &Broker, found: &mut Vec<Found>) {
    let inner = &broker.inner;
    let waits = |since| inner.env.clock.monotonic().saturating_sub(since);
    let took = inner.meta.waiting_since().map(waits);
    if let Some(took) = took.filter(|took| *took >= inner.config.alarms.slow) {
        let subject = inner.config.meta_dir.display().to_string();
        let what = format!("a command waits for {} s", took.as_secs());
        found.push(Found { name: AlarmName::MetadataSlow, subject, what });
    }
}

fn topics(broker: &Broker, found: &mut Vec<Found>) {
    for (topic, error) in broker.inner.troubles.lock().values() {
        let name = match error {
            Error::DamagedEnd { .. } => AlarmName::TopicDamaged,
            _ => AlarmName::TopicUnavailable,
        };
        found.push(Found { name, subject: topic.to_string(), what: error.to_string() });
    }
}

fn subscriptions(broker: &Broker, found: &mut Vec<Found>) {
    for (key, held_up) in broker.inner.subscriptions.held_up() {
        let Some(topic) = name(broker, &key.topic) else { continue };
        let subject = format!("{topic} {}", key.subscription);
        if let Some(what) = held_up.unreadable {
            let subject = subject.clone();
            found.push(Found { name: AlarmName::SubscriptionUnreadable, subject, what });
        }
        if let Some(offset) = held_up.blocked {
            let what = format!("the message at offset {offset} failed too often");
            found.push(Found { name: AlarmName::SubscriptionBlocked, subject, what });
        }
    }
}

fn machine(broker: &Broker, watch: &mut ClockWatch, found: &mut Vec<Found>) {
    let (env, config) = (&broker.inner.env, broker.inner.config.alarms);
    let (wall_ms, at) = (env.clock.wall_ms(), env.clock.monotonic());
    if let Some(jump) = watch.read(wall_ms, at, config.clock_jump, config.clock_jump_kept) {
        let (by_ms, way) = (jump.by_ms, if jump.by_ms < 0 { "back" } else { "ahead" });
        let what = format!("the wall clock went {way} by {} ms at once", by_ms.unsigned_abs());
        found.push(Found { name: AlarmName::ClockJumped, subject: "clock".to_owned(), what });
    }
    let usage = env.process.usage();
    if let (Some(open), Some(limit)) = (usage.open_files, usage.open_files_max)
        && u128::from(open) * 100 >= u128::from(limit) * u128::from(config.open_files_percent)
    {
        let what = format!("{open} of {limit} descriptors are open");
        found.push(Found { name: AlarmName::OpenFilesLow, subject: "process".to_owned(), what });
    }
}

impl Broker {
    /// What is known at a start of topics that can't be opened.
    pub(crate) fn look_for_troubles(&self) {
        let inner = &self.inner;
        let troubles = inner.meta.read(|state| {
            let trouble = |topic: &std::sync::Arc<danube_meta::state::Topic>| {
                let name = &topic.name;
                let error = match inner.store.facts(topic.id) {
                    Some(facts) if facts.end_proof == danube_log::EndProof::Damaged => {
                        Error::DamagedEnd { topic: name.clone(), end: facts.end }
                    }
                    Some(_) => return None,
                    None if topic.epoch == danube_model::Epoch::ZERO => return None,
                    None => self.lost(topic),
                };
                Some((topic.id, name.clone(), error))
            };
            let reliable = state.topics().filter(|topic| topic.is_reliable());
            reliable.filter_map(trouble).collect::<Vec<_>>()
        });
        for (topic, name, error) in troubles {
            inner.troubles.opened(topic, &name, Some(&error));
        }
    }
}
