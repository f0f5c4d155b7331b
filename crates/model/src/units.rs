//! Sizes and durations as people write them: `512MiB`, `30s`, `7d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result};

/// Units of size, the largest first.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Units of time in nanoseconds, the largest first.
const TIMES: [(&str, u64); 8] = [
    ("w", 7 * 24 * 3600 * 1_000_000_000),
    ("d", 24 * 3600 * 1_000_000_000),
    ("h", 3600 * 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A number of bytes.
///
/// Parses `1048576`, `512MiB`, `1.5 GB`; units in any case, `KiB` is 1024 and `KB` 1000. Displays exactly, in the largest
/// binary unit that divides it: `512MiB`, `1000B`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// This many bytes.
    pub const fn new(bytes: u64) -> ByteSize {
        ByteSize(bytes)
    }

    /// Bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// For people: three digits or so, `1.4GiB`. Rounded; `Display` is exact.
    pub fn human(self) -> String {
        let binary = SIZES.iter().filter(|(name, _)| name.ends_with("iB"));
        match binary.into_iter().find(|(_, bytes)| self.0 >= *bytes) {
            Some((name, bytes)) => format!("{:.1}{name}", self.0 as f64 / *bytes as f64),
            None => format!("{}B", self.0),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut binary = SIZES.iter().filter(|(name, _)| name.ends_with("iB"));
        match binary.find(|(_, bytes)| self.0 != 0 && self.0.is_multiple_of(*bytes)) {
            Some((name, bytes)) => f.pad(&format!("{}{name}", self.0 / bytes)),
            None => f.pad(&format!("{}B", self.0)),
        }
    }
}

impl FromStr for ByteSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<ByteSize> {
        parse(text, &SIZES, Some(1), str::eq_ignore_ascii_case).map(ByteSize).map_err(|reason| {
            Error::parse(
                "size",
                text,
                reason.unwrap_or("expected a size such as 512MiB or 1048576"),
            )
        })
    }
}

impl Serialize for ByteSize {
    /// Exact, as a number.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    /// From a number or text; the format must describe itself, as JSON and YAML do.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 512MiB or 1048576")
            }

            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                u64::try_from(bytes).map(ByteSize).map_err(|_| E::custom("a size is not negative"))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Parses a duration with its unit: `250ms`, `30s`, `1.5h`, `7d`; of the units `ns us ms s m h d w`. `0` needs none.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let nanoseconds = if text.trim() == "0" { Ok(0) } else { parse(text, &TIMES, None, str::eq) };
    nanoseconds.map(Duration::from_nanos).map_err(|reason| {
        Error::parse("duration", text, reason.unwrap_or("expected a duration such as 30s or 7d"))
    })
}

/// A duration, exactly, in the largest unit that divides it: `90s`, `250ms`, `7d`. [`parse_duration`] reads it.
///
/// Durations beyond the 584 years that fit into 64 bits of nanoseconds show as those.
pub fn format_duration(duration: Duration) -> String {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    // Weeks are read but not written: `14d` says more to most people than `2w`.
    let (name, unit) = TIMES[1..]
        .iter()
        .find(|(_, unit)| nanoseconds.is_multiple_of(*unit))
        .expect("the last unit is 1, which divides everything");
    format!("{}{name}", nanoseconds / unit)
}

/// Parses `<number>[.<digits>] <unit>`, in whole smallest units; `plain` is the unit of a number without one.
/// An error without a reason means that the text is no quantity at all.
fn parse(
    text: &str,
    units: &[(&str, u64)],
    plain: Option<u64>,
    is_same: impl Fn(&str, &str) -> bool,
) -> Result<u64, Option<&'static str>> {
    let text = text.trim();
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let unit = match unit.trim_start() {
        "" => plain.ok_or(None)?,
        name => units.iter().find(|(unit, _)| is_same(unit, name)).ok_or(None)?.1,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // 18 digits of fraction keep the sum below within 128 bits; more say nothing.
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 18 || fraction.contains('.') {
        return Err(None);
    }
    let whole: u64 = whole.parse().map_err(|_| Some("too large"))?;
    let fraction_value: u128 = fraction.parse().map_err(|_| None)?;
    let fraction_units = fraction_value * u128::from(unit) / 10_u128.pow(fraction.len() as u32);
    let total = u128::from(whole) * u128::from(unit) + fraction_units;
    // Nothing often means no limit.
    if total == 0 && fraction_value > 0 {
        return Err(Some("too small"));
    }
    u64::try_from(total).map_err(|_| Some("too large"))
}

#[cfg(test)]
mod tests;
