//! Administration: topics, namespaces, alarms.

mod subscription;

use std::time::Duration;

use danube_model::{
    BrokerId, ByteSize, Durability, Epoch, Namespace, Offset, TimeMs, TopicId, TopicName,
};
use danube_proto::admin as wire;
use danube_proto::{Reliability, convert, stream};
use tonic::{Response, Status};

pub use self::subscription::{ConsumerDescription, SubscriptionDescription};
use crate::{Client, Result};

/// Settings of a topic. What is `None` is the broker's choice when a topic is created, and unchanged when it is updated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicSettings {
    /// Whether it is a durable log. Can't be changed.
    pub reliability: Option<Reliability>,
    /// What an acknowledgement means.
    pub durability: Option<Durability>,
    /// How long messages are kept; zero: without limit.
    pub retention_time: Option<Duration>,
    /// How much is kept; zero: without limit.
    pub retention_size: Option<ByteSize>,
    /// The largest payload; zero: the broker's limit.
    pub message_size_max: Option<ByteSize>,
}

/// Settings of a topic that are the broker's choice again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicDefaults {
    /// How long messages are kept.
    pub retention_time: bool,
    /// How much is kept.
    pub retention_size: bool,
}

/// A topic in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicEntry {
    /// Its name.
    pub topic: TopicName,
    /// How many partitions it has; 0 if it has none, or is one.
    pub partitions: u32,
    /// Whether it is a durable log.
    pub reliability: Option<Reliability>,
    /// Who owns it, if somebody does.
    pub owner: Option<BrokerId>,
}

/// A topic, or one partition of a topic, as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub topic: TopicName,
    /// The identity of this life of it. `None` for a topic with partitions, of which only `settings` and `partitions` are
    /// said.
    pub topic_id: Option<TopicId>,
    /// Who owns it, if somebody does.
    pub owner: Option<BrokerId>,
    /// Of the last opening.
    pub epoch: Epoch,
    /// What is in force.
    pub settings: TopicSettings,
    /// The first offset still held.
    pub start: Offset,
    /// Readers see what lies below it.
    pub durable_end: Offset,
    /// The next offset to assign.
    pub end: Offset,
    /// No offset at or above it is assigned before it is raised.
    pub ceiling: Offset,
    /// What the broker's own disk holds.
    pub hot: Option<TierRange>,
    /// What Valkey holds.
    pub warm: Option<TierRange>,
    /// What the object store holds.
    pub cold: Option<TierRange>,
    /// What will never be readable.
    pub gaps: Vec<Gap>,
    /// What can't be read at present.
    pub damage: Vec<Damage>,
    /// A word of the ownership's state machine.
    pub state: String,
    /// Why it takes no writes, if it takes none.
    pub blocked: Option<String>,
    /// Who is producing.
    pub producers: Vec<ProducerDescription>,
    /// Names of its subscriptions.
    pub subscriptions: Vec<String>,
    /// Its partitions by number.
    pub partitions: Vec<TopicName>,
}

/// What one tier holds of a topic: `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierRange {
    /// The first offset in it.
    pub start: Offset,
    /// The offset behind the last in it.
    pub end: Offset,
    /// The bytes it takes there.
    pub bytes: u64,
}

/// Offsets `[from, to)` that will never be readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first of them.
    pub from: Offset,
    /// The offset behind the last.
    pub to: Offset,
    /// The reason, in a word of the log's format.
    pub why: String,
}

/// Offsets `[from, to)` that can't be read from any tier at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first of them.
    pub from: Offset,
    /// The offset behind the last.
    pub to: Offset,
    /// Where the damage is.
    pub file: String,
    /// What is damaged.
    pub message: String,
}

/// A connected producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerDescription {
    /// Its name; may be empty.
    pub name: String,
    /// Where it is connected from.
    pub peer: String,
}

/// What a repair found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is damaged or lost.
    pub damage: Damage,
    /// What can be done about it.
    pub remedy: Remedy,
    /// Whether that was done.
    pub is_applied: bool,
}

/// What can be done about damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Another tier holds the range.
    Heal,
    /// No tier holds it: it becomes a gap if that is accepted.
    Gap,
}

/// How far a repair goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Only says what would be done.
    DryRun,
    /// Heals what another tier holds.
    Heal,
    /// Heals, and makes the rest an explicit gap.
    AcceptGap,
}

/// A condition that an operator must act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Its name, as in the operator's handbook.
    pub name: String,
    /// What it is about.
    pub object: String,
    /// What is wrong.
    pub message: String,
    /// When it began.
    pub since: TimeMs,
}

/// Administration through one broker, which speaks for the whole cluster.
///
/// Every call fails with what the broker refused, or with [`crate::Error::Connection`]; then a change may have been made.
/// Nothing is tried again.
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
}

impl Admin {
    pub(crate) fn new(client: Client) -> Admin {
        Admin { client }
    }

    /// Creates a topic, with partitions if their number is given. Returns it, or its partitions by number.
    pub async fn create_topic(
        &self,
        topic: &TopicName,
        partitions: Option<u32>,
        settings: &TopicSettings,
    ) -> Result<Vec<TopicName>> {
        let request = wire::CreateTopicRequest {
            topic: topic.to_string(),
            partitions: partitions.unwrap_or(0),
            settings: Some(wire_settings(settings)),
        };
        let created = self.answer(self.client.admin_calls().create_topic(request).await)?;
        names("topics", &created.topics)
    }

    /// All topics of a namespace, or of all namespaces, sorted by name.
    pub async fn list_topics(&self, namespace: Option<&Namespace>) -> Result<Vec<TopicEntry>> {
        let mut topics: Vec<TopicEntry> = Vec::new();
        loop {
            let request = wire::ListTopicsRequest {
                namespace: namespace.map_or_else(String::new, Namespace::to_string),
                after: topics.last().map_or_else(String::new, |last| last.topic.to_string()),
                limit: 0,
            };
            let page = self.answer(self.client.admin_calls().list_topics(request).await)?;
            let is_last = !page.more || page.topics.is_empty();
            for entry in page.topics {
                topics.push(topic_entry(&entry)?);
            }
            if is_last {
                return Ok(topics);
            }
        }
    }

    /// All about a topic, or about one partition.
    pub async fn describe_topic(&self, topic: &TopicName) -> Result<TopicDescription> {
        let request = wire::DescribeTopicRequest { topic: topic.to_string() };
        let response = self.answer(self.client.admin_calls().describe_topic(request).await)?;
        description(convert::required("topic", response.topic)?)
    }

    /// Changes what `settings` say and what are to be `defaults` again, and adds partitions if their number is given.
    pub async fn update_topic(
        &self,
        topic: &TopicName,
        settings: &TopicSettings,
        defaults: TopicDefaults,
        partitions: Option<u32>,
    ) -> Result<()> {
        let request = wire::UpdateTopicRequest {
            topic: topic.to_string(),
            settings: Some(wire_settings(settings)),
            partitions: partitions.unwrap_or(0),
            default_retention_time: defaults.retention_time,
            default_retention_bytes: defaults.retention_size,
        };
        self.answer(self.client.admin_calls().update_topic(request).await).map(drop)
    }

    /// Deletes a topic with all its messages and partitions.
    pub async fn delete_topic(&self, topic: &TopicName) -> Result<()> {
        let request = wire::DeleteTopicRequest { topic: topic.to_string() };
        self.answer(self.client.admin_calls().delete_topic(request).await).map(drop)
    }

    /// Finds what is damaged or lost in a topic, and mends it.
    pub async fn repair_topic(&self, topic: &TopicName, repair: Repair) -> Result<Vec<Finding>> {
        let request = wire::RepairTopicRequest {
            topic: topic.to_string(),
            accept_gap: repair == Repair::AcceptGap,
            dry_run: repair == Repair::DryRun,
        };
        let response = self.answer(self.client.admin_calls().repair_topic(request).await)?;
        response.findings.into_iter().map(finding).collect()
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, namespace: &Namespace) -> Result<()> {
        let request = wire::CreateNamespaceRequest { namespace: namespace.to_string() };
        self.answer(self.client.admin_calls().create_namespace(request).await).map(drop)
    }

    /// All namespaces, sorted.
    pub async fn list_namespaces(&self) -> Result<Vec<Namespace>> {
        let request = wire::ListNamespacesRequest {};
        let response = self.answer(self.client.admin_calls().list_namespaces(request).await)?;
        let namespaces = response.namespaces.iter();
        Ok(namespaces
            .map(|name| convert::namespace("namespaces", name))
            .collect::<Result<_, _>>()?)
    }

    /// Deletes a namespace without topics.
    pub async fn delete_namespace(&self, namespace: &Namespace) -> Result<()> {
        let request = wire::DeleteNamespaceRequest { namespace: namespace.to_string() };
        self.answer(self.client.admin_calls().delete_namespace(request).await).map(drop)
    }

    /// What an operator must act on, now.
    pub async fn list_alarms(&self) -> Result<Vec<Alarm>> {
        let request = wire::ListAlarmsRequest {};
        let response = self.answer(self.client.admin_calls().list_alarms(request).await)?;
        response.alarms.into_iter().map(alarm).collect()
    }

    fn answer<T>(&self, response: Result<Response<T>, Status>) -> Result<T> {
        response.map(Response::into_inner).map_err(|status| self.client.failed(status))
    }
}

fn wire_settings(settings: &TopicSettings) -> wire::TopicSettings {
    // Rounded up: 0 would mean without limit.
    let milliseconds =
        |time: Duration| u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    wire::TopicSettings {
        reliability: convert::wire_reliability(settings.reliability),
        durability: convert::wire_durability(settings.durability),
        retention_time_ms: settings.retention_time.map(milliseconds),
        retention_bytes: settings.retention_size.map(ByteSize::get),
        max_message_bytes: settings.message_size_max.map(ByteSize::get),
    }
}

fn settings(settings: &wire::TopicSettings) -> Result<TopicSettings> {
    Ok(TopicSettings {
        reliability: convert::reliability("reliability", settings.reliability)?,
        durability: convert::durability("durability", settings.durability)?,
        retention_time: settings.retention_time_ms.map(Duration::from_millis),
        retention_size: settings.retention_bytes.map(ByteSize::new),
        message_size_max: settings.max_message_bytes.map(ByteSize::new),
    })
}

fn description(topic: wire::TopicDescription) -> Result<TopicDescription> {
    let topic_id = match &topic.topic_id[..] {
        [] => None,
        bytes => Some(convert::topic_id("topic_id", bytes)?),
    };
    let producers = topic.producers.into_iter();
    Ok(TopicDescription {
        topic: convert::topic_name("topic", &topic.topic)?,
        topic_id,
        owner: owner(&topic.owner)?,
        epoch: convert::epoch("epoch", topic.epoch)?,
        settings: settings(&topic.settings.unwrap_or_default())?,
        start: convert::offset("start_offset", topic.start_offset)?,
        durable_end: convert::offset("durable_end", topic.durable_end)?,
        end: convert::offset("end_offset", topic.end_offset)?,
        ceiling: convert::offset("ceiling", topic.ceiling)?,
        hot: topic.hot.map(tier).transpose()?,
        warm: topic.warm.map(tier).transpose()?,
        cold: topic.cold.map(tier).transpose()?,
        gaps: topic.gaps.into_iter().map(gap).collect::<Result<_>>()?,
        damage: topic.damage.into_iter().map(damage).collect::<Result<_>>()?,
        state: topic.state,
        blocked: Some(topic.blocked).filter(|reason| !reason.is_empty()),
        producers: producers
            .map(|producer| ProducerDescription { name: producer.name, peer: producer.peer })
            .collect(),
        subscriptions: topic.subscriptions,
        partitions: names("partitions", &topic.partitions)?,
    })
}

fn topic_entry(entry: &wire::TopicEntry) -> Result<TopicEntry> {
    Ok(TopicEntry {
        topic: convert::topic_name("topic", &entry.topic)?,
        partitions: entry.partitions,
        reliability: convert::reliability("reliability", entry.reliability)?,
        owner: owner(&entry.owner)?,
    })
}

fn owner(text: &str) -> Result<Option<BrokerId>> {
    Ok(convert::broker_id("owner", text)?)
}

fn names(field: &'static str, names: &[String]) -> Result<Vec<TopicName>> {
    Ok(names.iter().map(|name| convert::topic_name(field, name)).collect::<Result<_, _>>()?)
}

fn tier(range: wire::TierRange) -> Result<TierRange> {
    Ok(TierRange {
        start: convert::offset("start", range.start)?,
        end: convert::offset("end", range.end)?,
        bytes: range.bytes,
    })
}

fn gap(gap: stream::Gap) -> Result<Gap> {
    Ok(Gap {
        from: convert::offset("from", gap.from)?,
        to: convert::offset("to", gap.to)?,
        why: gap.why,
    })
}

fn damage(damage: stream::Damage) -> Result<Damage> {
    Ok(Damage {
        from: convert::offset("from", damage.from)?,
        to: convert::offset("to", damage.to)?,
        file: damage.file,
        message: damage.message,
    })
}

fn finding(finding: wire::Finding) -> Result<Finding> {
    let remedy = match finding.remedy() {
        wire::Remedy::Heal => Remedy::Heal,
        // What a newer broker can do besides is not to be taken for healing.
        wire::Remedy::Gap | wire::Remedy::Unspecified => Remedy::Gap,
    };
    let wire::Finding { from, to, file, message, applied, remedy: _ } = finding;
    let damage = damage(stream::Damage { from, to, file, message })?;
    Ok(Finding { damage, remedy, is_applied: applied })
}

fn alarm(alarm: wire::Alarm) -> Result<Alarm> {
    Ok(Alarm {
        name: alarm.name,
        object: alarm.object,
        message: alarm.message,
        since: convert::time("since_ms", alarm.since_ms)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_time_is_no_time_without_limit() {
        let retention_ms = |nanoseconds| {
            let retention_time = Some(Duration::from_nanos(nanoseconds));
            let settings = TopicSettings { retention_time, ..TopicSettings::default() };
            wire_settings(&settings).retention_time_ms
        };
        assert_eq!(
            [0, 1, 1_000_000, 1_000_001].map(retention_ms),
            [Some(0), Some(1), Some(1), Some(2)]
        );
    }
}
