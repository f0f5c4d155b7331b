//! What an acknowledgement promises.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The level of a reliable topic: what is known when a batch is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Durability {
    /// Handed to the operating system: survives the broker process.
    #[serde(rename = "page_cache")]
    PageCache,
    /// Synced to the broker's disk: survives a power cut.
    #[serde(rename = "disk")]
    Disk,
    /// Handed to the operating system, and confirmed by Valkey: survives the process, or this machine.
    #[serde(rename = "warm")]
    Warm,
    /// Synced to disk, and confirmed by Valkey: survives a power cut everywhere, or the loss of this machine.
    #[serde(rename = "disk+warm")]
    DiskWarm,
    /// Stored in the object store: survives the loss of this machine and of Valkey.
    #[serde(rename = "cold")]
    Cold,
}

impl Durability {
    /// Every level, in the order of their codes.
    pub const ALL: [Durability; 5] = [
        Durability::PageCache,
        Durability::Disk,
        Durability::Warm,
        Durability::DiskWarm,
        Durability::Cold,
    ];

    /// Its number in stored formats, 1 to 5.
    pub const fn code(self) -> u8 {
        match self {
            Durability::PageCache => 1,
            Durability::Disk => 2,
            Durability::Warm => 3,
            Durability::DiskWarm => 4,
            Durability::Cold => 5,
        }
    }

    /// The level of this number, or `None` for a number that is none.
    pub fn from_code(code: u8) -> Option<Durability> {
        Durability::ALL.into_iter().find(|level| level.code() == code)
    }

    /// Its name, as in settings and commands.
    pub const fn as_str(self) -> &'static str {
        match self {
            Durability::PageCache => "page_cache",
            Durability::Disk => "disk",
            Durability::Warm => "warm",
            Durability::DiskWarm => "disk+warm",
            Durability::Cold => "cold",
        }
    }

    /// Whether an acknowledgement waits for the sync of this broker's disk.
    pub const fn waits_for_disk(self) -> bool {
        matches!(self, Durability::Disk | Durability::DiskWarm)
    }

    /// Whether an acknowledgement waits for Valkey.
    pub const fn waits_for_warm(self) -> bool {
        matches!(self, Durability::Warm | Durability::DiskWarm)
    }

    /// Whether an acknowledgement waits for the object store.
    pub const fn waits_for_cold(self) -> bool {
        matches!(self, Durability::Cold)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Durability> {
        Durability::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(|| {
            Error::parse("durability", text, "expected page_cache, disk, warm, disk+warm or cold")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_those_of_the_formats() {
        let table = [
            (Durability::PageCache, "page_cache", 1),
            (Durability::Disk, "disk", 2),
            (Durability::Warm, "warm", 3),
            (Durability::DiskWarm, "disk+warm", 4),
            (Durability::Cold, "cold", 5),
        ];
        for (level, name, code) in table {
            assert_eq!((level.to_string().as_str(), level.code()), (name, code));
            assert_eq!(name.parse::<Durability>().unwrap(), level);
            assert_eq!(Durability::from_code(code), Some(level));
            assert_eq!(serde_json::to_string(&level).unwrap(), format!("\"{name}\""));
        }
        assert_eq!((Durability::from_code(0), Durability::from_code(6)), (None, None));
        assert!("Disk".parse::<Durability>().is_err());
    }
}
