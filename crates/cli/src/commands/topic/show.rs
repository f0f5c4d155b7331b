//! Topics as text and as JSON.

use std::fmt::Write;
use std::time::Duration;

use danube_client::admin::{
    Damage, Finding, Gap, ProducerDescription, Remedy, TierRange, TopicDescription, TopicEntry,
    TopicSettings,
};
use danube_client::{Durability, Reliability, TopicName};
use danube_model::ByteSize;
use danube_model::units::format_duration;
use serde::Serialize;

/// An entry of a list.
#[derive(Serialize)]
pub(super) struct Entry<'a> {
    topic: &'a str,
    partitions: u32,
    reliable: bool,
    owner: Option<String>,
}

impl Entry<'_> {
    pub(super) fn of(entry: &TopicEntry) -> Entry<'_> {
        Entry {
            topic: entry.topic.as_str(),
            partitions: entry.partitions,
            reliable: entry.reliability != Some(Reliability::NonReliable),
            owner: entry.owner.map(|owner| owner.to_string()),
        }
    }
}

/// A topic, or one partition. Scripts rely on the names of the fields.
#[derive(Serialize)]
pub(super) struct Description<'a> {
    topic: &'a str,
    topic_id: Option<String>,
    owner: Option<String>,
    epoch: u32,
    #[serde(flatten)]
    settings: Settings,
    start_offset: u64,
    durable_end: u64,
    end_offset: u64,
    ceiling: u64,
    tiers: Tiers,
    gaps: Vec<JsonGap<'a>>,
    damage: Vec<JsonDamage<'a>>,
    state: &'a str,
    blocked: Option<&'a str>,
    producers: Vec<Producer<'a>>,
    subscriptions: &'a [String],
}

/// A topic with partitions.
#[derive(Serialize)]
pub(super) struct Partitioned<'a> {
    topic: &'a str,
    #[serde(flatten)]
    settings: Settings,
    partitions: Vec<Description<'a>>,
}

#[derive(Serialize)]
struct Settings {
    reliable: bool,
    durability: Option<&'static str>,
    retention_time_ms: Option<u64>,
    retention_size: Option<u64>,
    max_message_size: Option<u64>,
}

#[derive(Serialize)]
struct Tiers {
    hot: Option<Tier>,
    warm: Option<Tier>,
    cold: Option<Tier>,
}

#[derive(Serialize)]
struct Tier {
    start: u64,
    end: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct JsonGap<'a> {
    from: u64,
    to: u64,
    why: &'a str,
}

#[derive(Serialize)]
struct JsonDamage<'a> {
    from: u64,
    to: u64,
    file: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct Producer<'a> {
    name: &'a str,
    peer: &'a str,
}

/// What a repair found.
#[derive(Serialize)]
pub(super) struct JsonFinding<'a> {
    topic: &'a str,
    #[serde(flatten)]
    damage: JsonDamage<'a>,
    remedy: &'static str,
    applied: bool,
}

impl Description<'_> {
    pub(super) fn of(topic: &TopicDescription) -> Description<'_> {
        Description {
            topic: topic.topic.as_str(),
            topic_id: topic.topic_id.map(|id| id.to_string()),
            owner: topic.owner.map(|owner| owner.to_string()),
            epoch: topic.epoch.get(),
            settings: Settings::of(&topic.settings),
            start_offset: topic.start.get(),
            durable_end: topic.durable_end.get(),
            end_offset: topic.end.get(),
            ceiling: topic.ceiling.get(),
            tiers: Tiers {
                hot: topic.hot.map(Tier::of),
                warm: topic.warm.map(Tier::of),
                cold: topic.cold.map(Tier::of),
            },
            gaps: topic.gaps.iter().map(JsonGap::of).collect(),
            damage: topic.damage.iter().map(JsonDamage::of).collect(),
            state: &topic.state,
            blocked: topic.blocked.as_deref(),
            producers: topic.producers.iter().map(Producer::of).collect(),
            subscriptions: &topic.subscriptions,
        }
    }
}

impl Partitioned<'_> {
    pub(super) fn of<'a>(
        topic: &'a TopicDescription,
        partitions: &'a [TopicDescription],
    ) -> Partitioned<'a> {
        Partitioned {
            topic: topic.topic.as_str(),
            settings: Settings::of(&topic.settings),
            partitions: partitions.iter().map(Description::of).collect(),
        }
    }
}

impl Settings {
    fn of(settings: &TopicSettings) -> Settings {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Settings {
            reliable: settings.reliability != Some(Reliability::NonReliable),
            durability: settings.durability.map(Durability::as_str),
            retention_time_ms: settings.retention_time.map(milliseconds),
            retention_size: settings.retention_size.map(ByteSize::get),
            max_message_size: settings.message_size_max.map(ByteSize::get),
        }
    }
}

impl Tier {
    fn of(range: TierRange) -> Tier {
        Tier { start: range.start.get(), end: range.end.get(), bytes: range.bytes }
    }
}

impl JsonGap<'_> {
    fn of(gap: &Gap) -> JsonGap<'_> {
        JsonGap { from: gap.from.get(), to: gap.to.get(), why: &gap.why }
    }
}

impl JsonDamage<'_> {
    fn of(damage: &Damage) -> JsonDamage<'_> {
        let Damage { from, to, file, message } = damage;
        JsonDamage { from: from.get(), to: to.get(), file, message }
    }
}

impl Producer<'_> {
    fn of(producer: &ProducerDescription) -> Producer<'_> {
        Producer { name: &producer.name, peer: &producer.peer }
    }
}

impl JsonFinding<'_> {
    pub(super) fn of<'a>(topic: &'a TopicName, finding: &'a Finding) -> JsonFinding<'a> {
        JsonFinding {
            topic: topic.as_str(),
            damage: JsonDamage::of(&finding.damage),
            remedy: remedy(finding),
            applied: finding.is_applied,
        }
    }
}

fn remedy(finding: &Finding) -> &'static str {
    match finding.remedy {
        Remedy::Heal => "heal",
        Remedy::Gap => "gap",
    }
}

/// What a repair found, as a line.
pub(super) fn finding(finding: &Finding) -> String {
    let Damage { from, to, file, message } = &finding.damage;
    let file = if file.is_empty() { String::new() } else { format!(" in {file}") };
    let done = match (finding.remedy, finding.is_applied) {
        (Remedy::Heal, true) => "healed",
        (Remedy::Heal, false) => "can be healed",
        (Remedy::Gap, true) => "is a gap",
        (Remedy::Gap, false) => "is lost",
    };
    format!("offset {from} to {to}{file}: {message}: {done}")
}

/// A topic for people: a line for each fact. One that is not reliable has no log, nor anything that is said of one.
pub(super) fn text(topic: &TopicDescription) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: String| {
        writeln!(text, "{name:<15} {value}").expect("a string takes all that fits into memory");
    };
    fact("topic", topic.topic.to_string());
    if !topic.partitions.is_empty() {
        fact("partitions", topic.partitions.len().to_string());
    }
    let is_reliable = topic.settings.reliability != Some(Reliability::NonReliable);
    let has_log = is_reliable && topic.topic_id.is_some();
    if let Some(id) = topic.topic_id {
        fact("topic id", id.to_string());
        if !topic.state.is_empty() {
            fact("state", topic.state.clone());
        }
    }
    if has_log {
        fact("owner", topic.owner.map_or("nobody".to_owned(), |owner| format!("broker {owner}")));
        fact("epoch", topic.epoch.to_string());
    }
    let TopicSettings { reliability, durability, retention_time, retention_size, message_size_max } =
        &topic.settings;
    let level = match (reliability, durability) {
        (Some(Reliability::NonReliable), _) => "none, non-reliable",
        (_, Some(level)) => level.as_str(),
        (_, None) => "as the broker says",
    };
    fact("durability", level.to_owned());
    if is_reliable {
        let time = retention_time.map_or("as the broker says".to_owned(), |time| match time {
            Duration::ZERO => "without limit".to_owned(),
            time => format_duration(time),
        });
        fact("retention time", time);
        fact("retention size", size(*retention_size, "without limit"));
    }
    fact("message size", size(*message_size_max, "as the broker says"));
    if has_log {
        fact("offsets", format!("{} to {}", topic.start, topic.end));
        fact("durable end", topic.durable_end.to_string());
        fact("ceiling", topic.ceiling.to_string());
    }
    for (name, range) in [("hot", topic.hot), ("warm", topic.warm), ("cold", topic.cold)] {
        if let Some(TierRange { start, end, bytes }) = range {
            fact(name, format!("{start} to {end}, {}", ByteSize::new(bytes).human()));
        }
    }
    for Gap { from, to, why } in &topic.gaps {
        fact("gap", format!("{from} to {to}: {why}"));
    }
    for Damage { from, to, file, message } in &topic.damage {
        fact("damage", format!("{from} to {to} in {file}: {message}"));
    }
    if let Some(reason) = &topic.blocked {
        fact("takes no writes", reason.clone());
    }
    for ProducerDescription { name, peer } in &topic.producers {
        let name = if name.is_empty() { "without a name" } else { name };
        let from = if peer.is_empty() { String::new() } else { format!(", from {peer}") };
        fact("producer", format!("{name}{from}"));
    }
    for subscription in &topic.subscriptions {
        fact("subscription", subscription.clone());
    }
    text
}

fn size(size: Option<ByteSize>, zero: &str) -> String {
    match size {
        None => "as the broker says".to_owned(),
        Some(size) if size.get() == 0 => zero.to_owned(),
        Some(size) => size.to_string(),
    }
}

#[cfg(test)]
mod tests;
