//! Single values between the wire and the model. What a field must be is said by its name in the error.

use std::ops::Range;

use danube_model::{
    BrokerId, ConsumerName, Durability, Epoch, Namespace, Offset, Sequence, SubscriptionName,
    SubscriptionType, TimeMs, TopicId, TopicName,
};

use crate::{Error, Result, stream};

/// Whether a topic is a durable log or only passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reliability {
    /// A durable log, at least once.
    Reliable,
    /// Fan-out from memory, at most once.
    NonReliable,
}

/// A place in a log, where something begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The first record still held.
    Earliest,
    /// Behind all there is.
    Latest,
    /// This offset, or the first behind it that is still held.
    Offset(Offset),
    /// The first batch that was received at or after this time.
    Time(TimeMs),
}

/// A topic's full name.
pub fn topic_name(field: &'static str, text: &str) -> Result<TopicName> {
    text.parse().map_err(|source| Error::Invalid { field, source })
}

/// A namespace's name.
pub fn namespace(field: &'static str, text: &str) -> Result<Namespace> {
    text.parse().map_err(|source| Error::Invalid { field, source })
}

/// A topic's identity.
pub fn topic_id(field: &'static str, bytes: &[u8]) -> Result<TopicId> {
    let expected = 16;
    let bytes =
        bytes.try_into().map_err(|_| Error::Length { field, found: bytes.len(), expected })?;
    Ok(TopicId::new(bytes))
}

/// An epoch.
pub fn epoch(field: &'static str, number: u32) -> Result<Epoch> {
    Epoch::new(number).map_err(|source| Error::Invalid { field, source })
}

/// A sequence number, from the signed field that carries it.
pub fn sequence(field: &'static str, number: i32) -> Result<Sequence> {
    // A negative number becomes one that is out of range.
    Sequence::new(number as u32).map_err(|source| Error::Invalid { field, source })
}

/// A sequence number for the wire.
pub fn wire_sequence(sequence: Sequence) -> i32 {
    i32::try_from(sequence.get()).expect("sequences end at 2^31 - 1")
}

/// An offset.
pub fn offset(field: &'static str, number: u64) -> Result<Offset> {
    let offset = Offset::new(number);
    if offset > Offset::MAX {
        let limit = Offset::MAX.get();
        let source = danube_model::Error::OutOfRange { what: "offset", found: number, limit };
        return Err(Error::Invalid { field, source });
    }
    Ok(offset)
}

/// A time.
pub fn time(field: &'static str, milliseconds: u64) -> Result<TimeMs> {
    let time = TimeMs::new(milliseconds);
    if time > TimeMs::MAX {
        let limit = TimeMs::MAX.get();
        let source = danube_model::Error::OutOfRange { what: "time", found: milliseconds, limit };
        return Err(Error::Invalid { field, source });
    }
    Ok(time)
}

/// A half-open range of offsets that is not empty.
pub fn range(field: &'static str, from: u64, to: u64) -> Result<Range<Offset>> {
    let (from, to) = (offset(field, from)?, offset(field, to)?);
    if from >= to {
        let (found, limit) = (from.get(), to.get());
        let source = danube_model::Error::OutOfRange { what: "start of a range", found, limit };
        return Err(Error::Invalid { field, source });
    }
    Ok(from..to)
}

/// A place in a log that must be said.
pub fn start(field: &'static str, position: Option<stream::Position>) -> Result<Start> {
    use stream::position::Position as Wire;
    match required(field, position.and_then(|position| position.position))? {
        Wire::Edge(edge) => match stream::Edge::try_from(edge) {
            Ok(stream::Edge::Earliest) => Ok(Start::Earliest),
            Ok(stream::Edge::Latest) => Ok(Start::Latest),
            Ok(stream::Edge::Unspecified) | Err(_) => {
                Err(Error::UnknownValue { field, found: edge })
            }
        },
        Wire::Offset(number) => offset(field, number).map(Start::Offset),
        Wire::TimeMs(milliseconds) => time(field, milliseconds).map(Start::Time),
    }
}

/// A place in a log for the wire.
pub fn wire_start(start: Start) -> stream::Position {
    use stream::position::Position as Wire;
    let position = match start {
        Start::Earliest => Wire::Edge(stream::Edge::Earliest.into()),
        Start::Latest => Wire::Edge(stream::Edge::Latest.into()),
        Start::Offset(offset) => Wire::Offset(offset.get()),
        Start::Time(time) => Wire::TimeMs(time.get()),
    };
    stream::Position { position: Some(position) }
}

/// A subscription's name.
pub fn subscription_name(field: &'static str, text: &str) -> Result<SubscriptionName> {
    text.parse().map_err(|source| Error::Invalid { field, source })
}

/// A consumer's name.
pub fn consumer_name(field: &'static str, text: &str) -> Result<ConsumerName> {
    text.parse().map_err(|source| Error::Invalid { field, source })
}

/// A subscription's type that may be left unsaid.
pub fn subscription_type(field: &'static str, number: i32) -> Result<Option<SubscriptionType>> {
    let wire = stream::SubscriptionType::try_from(number)
        .map_err(|_| Error::UnknownValue { field, found: number })?;
    Ok(match wire {
        stream::SubscriptionType::Unspecified => None,
        stream::SubscriptionType::Exclusive => Some(SubscriptionType::Exclusive),
        stream::SubscriptionType::Shared => Some(SubscriptionType::Shared),
        stream::SubscriptionType::Failover => Some(SubscriptionType::Failover),
        stream::SubscriptionType::KeyShared => Some(SubscriptionType::KeyShared),
    })
}

/// A subscription's type for the wire.
pub fn wire_subscription_type(kind: SubscriptionType) -> i32 {
    match kind {
        SubscriptionType::Exclusive => stream::SubscriptionType::Exclusive,
        SubscriptionType::Shared => stream::SubscriptionType::Shared,
        SubscriptionType::Failover => stream::SubscriptionType::Failover,
        SubscriptionType::KeyShared => stream::SubscriptionType::KeyShared,
    }
    .into()
}

/// A durability that may be left unsaid.
pub fn durability(field: &'static str, number: i32) -> Result<Option<Durability>> {
    let wire = stream::Durability::try_from(number)
        .map_err(|_| Error::UnknownValue { field, found: number })?;
    Ok(match wire {
        stream::Durability::Unspecified => None,
        stream::Durability::PageCache => Some(Durability::PageCache),
        stream::Durability::Disk => Some(Durability::Disk),
        stream::Durability::Warm => Some(Durability::Warm),
        stream::Durability::DiskWarm => Some(Durability::DiskWarm),
        stream::Durability::Cold => Some(Durability::Cold),
    })
}

/// A durability for the wire; none is left unsaid.
pub fn wire_durability(durability: Option<Durability>) -> i32 {
    match durability {
        None => stream::Durability::Unspecified,
        Some(Durability::PageCache) => stream::Durability::PageCache,
        Some(Durability::Disk) => stream::Durability::Disk,
        Some(Durability::Warm) => stream::Durability::Warm,
        Some(Durability::DiskWarm) => stream::Durability::DiskWarm,
        Some(Durability::Cold) => stream::Durability::Cold,
    }
    .into()
}

/// A reliability that may be left unsaid.
pub fn reliability(field: &'static str, number: i32) -> Result<Option<Reliability>> {
    let wire = stream::Reliability::try_from(number)
        .map_err(|_| Error::UnknownValue { field, found: number })?;
    Ok(match wire {
        stream::Reliability::Unspecified => None,
        stream::Reliability::Reliable => Some(Reliability::Reliable),
        stream::Reliability::NonReliable => Some(Reliability::NonReliable),
    })
}

/// A reliability for the wire; none is left unsaid.
pub fn wire_reliability(reliability: Option<Reliability>) -> i32 {
    match reliability {
        None => stream::Reliability::Unspecified,
        Some(Reliability::Reliable) => stream::Reliability::Reliable,
        Some(Reliability::NonReliable) => stream::Reliability::NonReliable,
    }
    .into()
}

/// A field that must be set.
pub fn required<T>(field: &'static str, value: Option<T>) -> Result<T> {
    value.ok_or(Error::Missing { field })
}

/// A broker's id as decimal text; empty where there is none.
pub fn broker_id(field: &'static str, text: &str) -> Result<Option<BrokerId>> {
    if text.is_empty() {
        return Ok(None);
    }
    let id = text.parse().map_err(|_| Error::NotNumber { field, found: text.to_owned() })?;
    Ok(Some(BrokerId::new(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_may_say_comes_back_unchanged() {
        for level in Durability::ALL.map(Some).into_iter().chain([None]) {
            assert_eq!(durability("durability", wire_durability(level)).unwrap(), level);
        }
        for kind in [Some(Reliability::Reliable), Some(Reliability::NonReliable), None] {
            assert_eq!(reliability("reliability", wire_reliability(kind)).unwrap(), kind);
        }
        for kind in [
            SubscriptionType::Exclusive,
            SubscriptionType::Shared,
            SubscriptionType::Failover,
            SubscriptionType::KeyShared,
        ] {
            let wire = wire_subscription_type(kind);
            assert_eq!(subscription_type("type", wire).unwrap(), Some(kind));
        }
        for place in
            [Start::Earliest, Start::Latest, Start::Offset(Offset::MAX), Start::Time(TimeMs::MAX)]
        {
            assert_eq!(start("start", Some(wire_start(place))).unwrap(), place);
        }
        let last = Sequence::MAX;
        assert_eq!(sequence("base_sequence", wire_sequence(last)).unwrap(), last);
    }

    #[test]
    fn what_it_may_not_is_refused_by_the_field_s_name() {
        let errors = [
            durability("durability", 77).unwrap_err(),
            reliability("reliability", -1).unwrap_err(),
            topic_id("topic_id", &[1; 15]).unwrap_err(),
            epoch("epoch", u32::MAX).unwrap_err(),
            sequence("base_sequence", -1).unwrap_err(),
            offset("offset", u64::MAX).unwrap_err(),
            time("time_ms", u64::MAX).unwrap_err(),
            topic_name("topic", "../x").unwrap_err(),
            subscription_name("subscription", "").unwrap_err(),
            consumer_name("consumer", "\n").unwrap_err(),
            subscription_type("type", 9).unwrap_err(),
            range("acknowledged", 3, 3).unwrap_err(),
            range("acknowledged", 3, u64::MAX).unwrap_err(),
            start("start", None).unwrap_err(),
            start("start", Some(stream::Position { position: None })).unwrap_err(),
            required::<()>("start", None).unwrap_err(),
            broker_id("owner", "-1").unwrap_err(),
        ];
        for error in errors {
            let field = error.to_string().split(' ').next().unwrap().to_owned();
            assert!(field.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{error}");
        }
    }
}
