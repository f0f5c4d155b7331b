//! Identities, offsets and times, each a type of its own.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result};

/// The next record's place in a topic, or any record's: dense, from 0, never reused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Offset(u64);

impl Offset {
    /// The first offset of every topic.
    pub const ZERO: Offset = Offset(0);
    /// The greatest offset that a batch can carry, 2^63 - 1.
    pub const MAX: Offset = Offset(i64::MAX as u64);

    /// An offset of this number. What comes from outside is held against [`Offset::MAX`] where it is decoded.
    pub const fn new(offset: u64) -> Offset {
        Offset(offset)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset `count` records on, or `None` past [`Offset::MAX`].
    pub fn checked_add(self, count: u64) -> Option<Offset> {
        self.0.checked_add(count).map(Offset).filter(|sum| *sum <= Offset::MAX)
    }

    /// How many offsets `[self, end)` holds.
    ///
    /// # Panics
    /// If `end` lies before `self`.
    pub fn distance(self, end: Offset) -> u64 {
        assert!(self <= end, "distance from offset {self} back to {end}");
        end.0 - self.0
    }
}

impl TryFrom<u64> for Offset {
    type Error = Error;

    /// An offset from outside; an error above [`Offset::MAX`].
    fn try_from(number: u64) -> Result<Offset> {
        let offset = Offset(number);
        if offset <= Offset::MAX {
            Ok(offset)
        } else {
            Err(Error::OutOfRange { what: "offset", found: number, limit: Offset::MAX.0 })
        }
    }
}

impl Add<u64> for Offset {
    type Output = Offset;

    /// The offset `count` records on. Panics past [`Offset::MAX`].
    fn add(self, count: u64) -> Offset {
        self.checked_add(count).expect("offsets end at 2^63 - 1, which no topic reaches")
    }
}

impl AddAssign<u64> for Offset {
    fn add_assign(&mut self, count: u64) {
        *self = *self + count;
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TimeMs(u64);

impl TimeMs {
    /// The Unix epoch.
    pub const ZERO: TimeMs = TimeMs(0);
    /// The latest time that a record can carry, 2^63 - 1.
    pub const MAX: TimeMs = TimeMs(i64::MAX as u64);

    /// This many milliseconds since the Unix epoch.
    pub const fn new(milliseconds: u64) -> TimeMs {
        TimeMs(milliseconds)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TimeMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A broker, for ever: never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BrokerId(u64);

impl BrokerId {
    /// A broker id of this number.
    pub const fn new(id: u64) -> BrokerId {
        BrokerId(id)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Numbers with fewer bits than the integer that holds them.
macro_rules! narrow_number {
    ($name:ident, $integer:ty, $text:literal, $doc:literal, $max:expr) => {
        #[doc = $doc]
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(try_from = "u64", into = "u64")]
        pub struct $name($integer);

        impl $name {
            /// The least.
            pub const ZERO: $name = $name(0);
            /// The greatest.
            pub const MAX: $name = $name($max);

            /// One of this number; an error above [`Self::MAX`].
            pub const fn new(number: $integer) -> Result<$name> {
                if number <= $max {
                    Ok($name(number))
                } else {
                    Err(Error::OutOfRange { what: $text, found: number as u64, limit: $max as u64 })
                }
            }

            /// The number.
            pub const fn get(self) -> $integer {
                self.0
            }
        }

        impl From<$name> for u64 {
            fn from(number: $name) -> u64 {
                u64::from(number.0)
            }
        }

        impl TryFrom<u64> for $name {
            type Error = Error;

            fn try_from(number: u64) -> Result<$name> {
                let narrow = <$integer>::try_from(number).map_err(|_| Error::OutOfRange {
                    what: $text,
                    found: number,
                    limit: $max as u64,
                })?;
                $name::new(narrow)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

narrow_number!(
    Epoch,
    u32,
    "epoch",
    "Number of an ownership of a topic: 31 bits, one more at every opening.",
    i32::MAX as u32
);
narrow_number!(
    ProducerId,
    u64,
    "producer id",
    "An idempotent producer, below 2^63.",
    i64::MAX as u64
);
narrow_number!(
    Sequence,
    u32,
    "sequence",
    "A record's number among those of its producer: from 0, and after 2^31 - 1 from 0 again.",
    i32::MAX as u32
);

impl Epoch {
    /// The epoch of the next opening; an error when all 2^31 are used.
    pub fn next(self) -> Result<Epoch> {
        Epoch::new(self.0 + 1)
    }
}

impl Sequence {
    /// The sequence `count` records on.
    pub const fn plus(self, count: u32) -> Sequence {
        Sequence(self.0.wrapping_add(count) & Sequence::MAX.0)
    }

    /// How many records lead from `self` forward to `later`, over the wrap where need be: 0 to 2^31 - 1.
    pub const fn distance(self, later: Sequence) -> u32 {
        later.0.wrapping_sub(self.0) & Sequence::MAX.0
    }
}

/// Identities of 16 bytes, written as 32 hex digits.
macro_rules! identity {
    ($name:ident, $text:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The identity of these bytes.
            pub const fn new(bytes: [u8; 16]) -> $name {
                $name(bytes)
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            /// 32 lower-case hex digits.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// Takes exactly what `Display` writes.
            fn from_str(text: &str) -> Result<$name> {
                parse_hex(text)
                    .map($name)
                    .ok_or_else(|| Error::parse($text, text, "expected 32 lower-case hex digits"))
            }
        }

        impl Serialize for $name {
            /// Hex digits where people read it, else the 16 bytes.
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                if deserializer.is_human_readable() {
                    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                    text.parse().map_err(serde::de::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(deserializer).map($name)
                }
            }
        }
    };
}

identity!(
    TopicId,
    "topic id",
    "The identity of a topic's life: a name that is created again gets a new one."
);
identity!(DiskId, "disk id", "The identity of a data directory, written into it once.");

fn parse_hex(text: &str) -> Option<[u8; 16]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
