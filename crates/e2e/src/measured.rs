//! What a scenario measured, for people.

use std::fmt;

/// Names and values, in the order in which they were measured.
#[derive(Clone, Debug, Default)]
pub struct Measured(Vec<(String, String)>);

impl Measured {
    /// Adds a value. Names end in their unit.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.0.push((name.to_owned(), value.to_string()));
        self
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name}: {value}"))
    }
}
