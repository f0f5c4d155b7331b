//! The words of subscriptions: names, types, and what becomes of records that fail.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result, TopicName, caps};

/// Names that are any text without control characters.
macro_rules! free_name {
    ($name:ident, $what:literal, $doc:literal) => {
        #[doc = $doc]
        #[doc = " Not empty, without control characters, at most [`caps::SUBSCRIPTION_NAME_BYTES_MAX`]; cheap to clone."]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<$name> {
                check_name(text).map_err(|reason| Error::parse($what, text, reason))?;
                Ok($name(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

free_name!(SubscriptionName, "subscription name", "The name of a subscription within its topic.");
free_name!(ConsumerName, "consumer name", "The name of a consumer within its subscription.");

fn check_name(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        Err("it is empty")
    } else if text.len() > caps::SUBSCRIPTION_NAME_BYTES_MAX {
        Err("longer than 255 bytes")
    } else if text.chars().any(char::is_control) {
        Err("it has control characters")
    } else {
        Ok(())
    }
}

/// A registration of a consumer: 1 to 2^63 - 1, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ConsumerId(u64);

impl ConsumerId {
    /// An id of this number; an error for 0 and above 2^63 - 1.
    pub const fn new(id: u64) -> Result<ConsumerId> {
        const LIMIT: u64 = i64::MAX as u64;
        if id == 0 || id > LIMIT {
            return Err(Error::OutOfRange { what: "consumer id", found: id, limit: LIMIT });
        }
        Ok(ConsumerId(id))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for ConsumerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConsumerId, D::Error> {
        ConsumerId::new(u64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for ConsumerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who of a subscription's consumers gets which records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionType {
    /// One consumer name, in order.
    Exclusive,
    /// All in turn.
    Shared,
    /// The one that came first of those that are there, in order.
    Failover,
    /// Each key has one consumer, in order.
    KeyShared,
}

impl SubscriptionType {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            SubscriptionType::Exclusive => "exclusive",
            SubscriptionType::Shared => "shared",
            SubscriptionType::Failover => "failover",
            SubscriptionType::KeyShared => "key-shared",
        }
    }
}

impl fmt::Display for SubscriptionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What becomes of records that fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailurePolicy {
    /// How many failures of a record are followed by another delivery; at the next one it is poison.
    pub max_redelivery_count: u32,
    /// How long a delivery may stay unsettled, in milliseconds; 0: for ever.
    pub ack_timeout_ms: u64,
    /// Delay of the first redelivery after a refusal, in milliseconds.
    pub base_redelivery_delay_ms: u64,
    /// The longest delay of a redelivery, in milliseconds.
    pub max_redelivery_delay_ms: u64,
    /// How the delay grows.
    pub backoff: Backoff,
    /// What becomes of poison.
    pub poison: PoisonPolicy,
}

/// How the delay of redeliveries grows from failure to failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// Not at all.
    Fixed,
    /// It doubles.
    Exponential,
}

/// What becomes of records that failed too often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoisonPolicy {
    /// The subscription stops there; key-shared, the key.
    Block,
    /// They count as settled.
    Drop,
    /// They are appended to this topic.
    DeadLetter(TopicName),
}

impl Default for FailurePolicy {
    fn default() -> FailurePolicy {
        FailurePolicy {
            max_redelivery_count: 5,
            ack_timeout_ms: 30_000,
            base_redelivery_delay_ms: 1_000,
            max_redelivery_delay_ms: 60_000,
            backoff: Backoff::Exponential,
            poison: PoisonPolicy::Block,
        }
    }
}

impl FailurePolicy {
    /// How long after it was handed out a delivery has failed; `None`: never.
    pub fn ack_timeout(&self) -> Option<Duration> {
        (self.ack_timeout_ms > 0).then(|| Duration::from_millis(self.ack_timeout_ms))
    }

    /// Whether a record that failed so often is poison.
    pub fn is_exhausted(&self, failures: u32) -> bool {
        failures > self.max_redelivery_count
    }

    /// The delay before the delivery that follows this many failures, from 1 on, where the consumer asked for another.
    pub fn delay(&self, failures: u32, asked_ms: u64) -> Duration {
        let doubled = match self.backoff {
            Backoff::Fixed => 0,
            Backoff::Exponential => failures.saturating_sub(1).min(63),
        };
        let backoff = self.base_redelivery_delay_ms.saturating_mul(1 << doubled);
        Duration::from_millis(backoff.max(asked_ms).min(self.max_redelivery_delay_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_any_visible_text() {
        for good in ["s", "my sub", "a/b", "größe", &"x".repeat(255)] {
            assert_eq!(good.parse::<SubscriptionName>().unwrap().as_str(), good);
        }
        for bad in ["", "a\nb", "\u{7f}", &"x".repeat(256)] {
            assert!(bad.parse::<SubscriptionName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn consumer_ids_are_positive_for_readers_of_signed_numbers() {
        assert!(ConsumerId::new(0).is_err() && ConsumerId::new(1 << 63).is_err());
        assert_eq!(ConsumerId::new((1 << 63) - 1).unwrap().get(), (1 << 63) - 1);
    }

    #[test]
    fn a_delay_doubles_up_to_its_limit() {
        let policy = FailurePolicy::default();
        let seconds = |failures, asked_ms| policy.delay(failures, asked_ms).as_secs();
        let delays: Vec<_> = (1..9).map(|failures| seconds(failures, 0)).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!((seconds(1, 20_000), seconds(6, 20_000)), (20, 32));
        assert_eq!(seconds(u32::MAX, u64::MAX), 60);
        let fixed = FailurePolicy { backoff: Backoff::Fixed, ..policy };
        assert_eq!(fixed.delay(9, 0).as_secs(), 1);
    }
}
