//! The promises, and how it is told that one is broken.

use std::fmt;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// P1: what was acknowledged is there, as its level and the faults allow.
    Durable,
    /// P2, P3: offsets are dense, and never given to anything else.
    Offsets,
    /// An idempotent batch is stored once, and its producer stays known.
    Once,
    /// What a producer sent later comes later.
    Order,
    /// P5: an older epoch writes nothing any more.
    Epochs,
    /// P6: the bytes that were sent, or an error.
    Bytes,
    /// P7: after a failed sync nothing is acknowledged, and the store says so.
    Stopped,
    /// What was definitely refused never appears.
    Definite,
    /// Receive times never fall.
    Times,
    /// What was deleted stays away.
    Deleted,
    /// Without a fault that explains it nothing fails, and nothing waits for ever.
    Alive,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// How.
    pub what: String,
}

impl Violation {
    /// A violation of `rule`.
    pub fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "P1 what was acknowledged is durable",
            Self::Offsets => "P2, P3 offsets are dense, and what was seen stays",
            Self::Once => "idempotence",
            Self::Order => "order",
            Self::Epochs => "P5 one writer",
            Self::Bytes => "P6 the same bytes, or an error",
            Self::Stopped => "P7 a disk that lied is not trusted",
            Self::Definite => "a definite refusal",
            Self::Times => "receive times never fall",
            Self::Deleted => "what was deleted stays away",
            Self::Alive => "no failure without a fault",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}
