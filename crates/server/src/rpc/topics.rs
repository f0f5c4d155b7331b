//! Finding topics, and places in them.

use danube_broker::{Broker, Delivery, Error, NewTopic, Start, Topic};
use danube_model::{Durability, ErrorKind, Offset, TopicName};
use danube_proto::stream::{Damage, Expectation, Gap};
use danube_proto::{Reliability, convert};

/// What a producer expects of a topic; what is `None` agrees with everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) reliability: Option<Reliability>,
    pub(crate) durability: Option<Durability>,
}

impl Expected {
    pub(crate) fn decode(wire: &Expectation) -> danube_proto::Result<Expected> {
        Ok(Expected {
            reliability: convert::reliability("reliability", wire.reliability)?,
            durability: convert::durability("durability", wire.durability)?,
        })
    }

    /// How a topic is created; `None` is as the broker likes.
    pub(crate) fn delivery(self) -> Option<Delivery> {
        match (self.reliability, self.durability) {
            (Some(Reliability::NonReliable), _) => Some(Delivery::NonReliable),
            (_, Some(level)) => Some(Delivery::Reliable(level)),
            (Some(Reliability::Reliable) | None, None) => None,
        }
    }

    fn agrees_with(self, delivery: Delivery) -> bool {
        match delivery {
            Delivery::NonReliable => {
                self.reliability != Some(Reliability::Reliable) && self.durability.is_none()
            }
            Delivery::Reliable(level) => {
                self.reliability != Some(Reliability::NonReliable)
                    && self.durability.is_none_or(|expected| expected == level)
            }
        }
    }
}

/// Where something begins, in the broker's words.
pub(crate) fn start(start: convert::Start) -> Start {
    match start {
        convert::Start::Earliest => Start::Earliest,
        convert::Start::Latest => Start::Latest,
        convert::Start::Offset(offset) => Start::Offset(offset),
        convert::Start::Time(time) => Start::Time(time),
    }
}

/// What becomes of a partition that is missing, when a producer asks for it by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingPartition {
    /// It is created, and its topic with it: clients of the protocol `danube` create partitions one by one.
    Created,
    /// A slip in a name makes no topic with partitions.
    Refused,
}

impl MissingPartition {
    /// For a producer of the protocol `danube`. Where its client makes the producers of a topic with partitions, that of
    /// number 7 has a name that ends in `-7`; any other one was given the name of a partition by hand. For a topic of one
    /// partition the Java client leaves the number out, so that number 0 takes any name.
    pub(crate) fn for_producer(topic: &TopicName, producer: &str) -> MissingPartition {
        match topic.partition_of() {
            Some((_, number)) if number > 0 && !producer.ends_with(&format!("-{number}")) => {
                MissingPartition::Refused
            }
            Some(_) | None => MissingPartition::Created,
        }
    }
}

/// The topic, created if it is missing and `expected` is given, and then it agrees with that.
pub(crate) async fn for_producer(
    broker: &Broker,
    name: &TopicName,
    expected: Option<Expected>,
    partition: MissingPartition,
) -> Result<Topic, Error> {
    let found = broker.topic(name);
    let Some(expected) = expected else { return found };
    match found {
        Err(Error::TopicNotFound { .. }) if broker.auto_creates_topics() => {
            // A partition takes after its siblings, which must agree.
            if let Some((base, _)) = name.partition_of()
                && let Ok(siblings) = broker.listed(&base)
            {
                check(expected, name, siblings.delivery)?;
            }
            match create(broker, name, expected, partition).await {
                // Another producer was faster, or the name is taken in another way.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    broker.topic(name).map_err(|_| error)?;
                }
                created => created?,
            }
        }
        found => drop(found?),
    }
    check(expected, name, broker.listed(name)?.delivery)?;
    broker.topic(name)
}

async fn create(
    broker: &Broker,
    name: &TopicName,
    expected: Expected,
    partition: MissingPartition,
) -> Result<(), Error> {
    let (name, delivery) = (name.clone(), expected.delivery());
    match name.partition_of().map(|_| partition) {
        Some(MissingPartition::Created) => broker.create_partition(name, delivery).await,
        Some(MissingPartition::Refused) | None => {
            let settings = Default::default();
            broker.create_topic(NewTopic { name, partitions: None, delivery, settings }).await
        }
    }
}

fn check(expected: Expected, name: &TopicName, delivery: Delivery) -> Result<(), Error> {
    if expected.agrees_with(delivery) {
        return Ok(());
    }
    let what = match delivery {
        Delivery::Reliable(level) => format!("reliable with durability {level}"),
        Delivery::NonReliable => "not reliable".to_owned(),
    };
    Err(Error::Differs { topic: name.clone(), what })
}

/// A topic's partitions by number, or itself if it has none; nothing if it is unknown.
pub(crate) fn partitions(broker: &Broker, topic: &TopicName) -> Result<Vec<String>, Error> {
    let partitions = match broker.partitions(topic) {
        Err(Error::TopicNotFound { .. }) => Vec::new(),
        found => found?,
    };
    Ok(partitions.iter().map(ToString::to_string).collect())
}

/// Offsets `[from, to)` will never be readable.
pub(crate) fn gap(from: Offset, to: Offset, why: &str) -> Gap {
    Gap { from: from.get(), to: to.get(), why: why.to_owned() }
}

/// Offsets `[from, to)` can't be read, because of this damage.
pub(crate) fn damage(from: Offset, to: Offset, damage: &danube_broker::Damage) -> Damage {
    Damage {
        from: from.get(),
        to: to.get(),
        file: damage.path.display().to_string(),
        message: format!("{}, at byte {}", damage.why, damage.position),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_agrees_with_everything() {
        let reliable = Delivery::Reliable(Durability::Disk);
        let expected = |reliability, durability| Expected { reliability, durability };
        for (expected, with_reliable, with_other) in [
            (expected(None, None), true, true),
            (expected(Some(Reliability::Reliable), None), true, false),
            (expected(Some(Reliability::NonReliable), None), false, true),
            (expected(None, Some(Durability::Disk)), true, false),
            (expected(None, Some(Durability::PageCache)), false, false),
        ] {
            assert_eq!(expected.agrees_with(reliable), with_reliable, "{expected:?}");
            assert_eq!(expected.agrees_with(Delivery::NonReliable), with_other, "{expected:?}");
        }
    }
}
