//! Names of namespaces and topics: the one validator.
//!
//! A name is safe as it is in a path, an object key, a log line and a terminal: it has no control characters, no
//! white space, no separators beyond its two slashes, and no part made of dots alone. Letter case counts.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result, caps};

/// What stands between the name of a partitioned topic and the number of the partition.
const PARTITION_MARK: &str = "-part-";

/// The name of a namespace, without slashes: letters and digits of any script, `_`, `-` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Namespace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Namespace> {
        check_namespace(text).map_err(|reason| Error::parse("namespace", text, reason))?;
        Ok(Namespace(text.into()))
    }
}

/// The full name of a topic or of one partition, `/namespace/topic`. Cheap to clone.
///
/// `<topic>-part-<i>`, `i` in decimal without leading zeros, names a partition; no topic that is not one can have such a
/// name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

impl TopicName {
    /// The topic called `local` in a namespace. A partition's name is refused: [`TopicName::partition`] makes those.
    pub fn new(namespace: &Namespace, local: &str) -> Result<TopicName> {
        TopicName::parse_base(&format!("/{namespace}/{local}"))
    }

    /// Parses the name of a topic that is not a partition.
    pub fn parse_base(text: &str) -> Result<TopicName> {
        let name: TopicName = text.parse()?;
        match name.split_partition() {
            None => Ok(name),
            Some(_) => Err(Error::parse(WHAT, text, "`-part-<number>` is reserved for partitions")),
        }
    }

    /// The whole name, with both slashes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its namespace.
    pub fn namespace(&self) -> Namespace {
        Namespace(self.parts().0.into())
    }

    /// Whether it lies in this namespace.
    pub fn is_in(&self, namespace: &Namespace) -> bool {
        self.parts().0 == namespace.as_str()
    }

    /// What stands behind the second slash.
    pub fn local(&self) -> &str {
        self.parts().1
    }

    /// The name of a partition of this topic, counted from 0. Refused for what is a partition itself, from
    /// [`caps::PARTITIONS_MAX`] on, and where the whole name gets too long.
    pub fn partition(&self, index: u32) -> Result<TopicName> {
        if self.split_partition().is_some() {
            return Err(Error::parse(WHAT, &self.0, "a partition has no partitions"));
        }
        format!("{self}{PARTITION_MARK}{index}").parse()
    }

    /// The topic that this is a partition of, and which; `None` for a topic that is not a partition.
    pub fn partition_of(&self) -> Option<(TopicName, u32)> {
        let (base, index) = self.split_partition()?;
        Some((TopicName(base.into()), index))
    }

    fn split_partition(&self) -> Option<(&str, u32)> {
        let (base, digits) = split_partition(&self.0)?;
        Some((base, digits.parse().expect("checked when the name was made")))
    }

    fn parts(&self) -> (&str, &str) {
        self.0[1..].split_once('/').expect("checked when the name was made")
    }
}

impl FromStr for TopicName {
    type Err = Error;

    /// Takes topics and partitions.
    fn from_str(text: &str) -> Result<TopicName> {
        check_topic(text).map_err(|reason| Error::parse(WHAT, text, reason))?;
        Ok(TopicName(text.into()))
    }
}

const WHAT: &str = "topic name";

fn check_topic(text: &str) -> Result<(), &'static str> {
    if text.len() > caps::TOPIC_NAME_BYTES_MAX {
        return Err("longer than 255 bytes");
    }
    let (namespace, local) = text
        .strip_prefix('/')
        .and_then(|rest| rest.split_once('/'))
        .ok_or("expected /namespace/topic")?;
    check_namespace(namespace)?;
    check_part(local)?;
    let Some((base, digits)) = split_partition(local) else { return Ok(()) };
    if base.is_empty() || split_partition(base).is_some() {
        return Err("`-part-<number>` is reserved for partitions of a topic");
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err("the number of a partition has no leading zeros");
    }
    match digits.parse::<u32>() {
        Ok(index) if index < caps::PARTITIONS_MAX => Ok(()),
        _ => Err("the number of the partition is too large"),
    }
}

fn check_namespace(text: &str) -> Result<(), &'static str> {
    if text.len() > caps::NAMESPACE_BYTES_MAX {
        return Err("namespace longer than 127 bytes");
    }
    check_part(text)
}

fn check_part(part: &str) -> Result<(), &'static str> {
    if part.is_empty() {
        Err("a part of it is empty")
    } else if part.bytes().all(|byte| byte == b'.') {
        Err("a part of it is only dots")
    } else if part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')) {
        Ok(())
    } else {
        Err("only letters, digits, `_`, `-` and `.` are allowed")
    }
}

/// Splits `<base>-part-<digits>`.
fn split_partition(name: &str) -> Option<(&str, &str)> {
    let (base, digits) = name.rsplit_once(PARTITION_MARK)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((base, digits))
}

/// Text, shown and stored as it is, and checked when it is read.
macro_rules! checked_text {
    ($name:ident) => {
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

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
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
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

checked_text!(Namespace);
checked_text!(TopicName);

#[cfg(test)]
mod tests;
