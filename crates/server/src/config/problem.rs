//! What is wrong with settings, and what is worth saying of settings that are right.

use std::fmt;

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a line of a file, counted from 1.
    File {
        /// The file, as the user named it.
        file: String,
        /// The line.
        line: usize,
    },
    /// In a variable of the environment.
    Environment {
        /// Its name.
        name: String,
    },
    /// On the command line.
    Flag {
        /// The flag, with its dashes.
        flag: &'static str,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { file, line } => write!(f, "{file}:{line}"),
            Place::Environment { name } => f.write_str(name),
            Place::Flag { flag } => f.write_str(flag),
        }
    }
}

/// Something that keeps a broker from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where; none for what is missing.
    pub place: Option<Place>,
    /// What, naming the key.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Everything that keeps a broker from starting, in the order of the sources; one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

/// Something that a user should know of settings that are accepted: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice(pub String);

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
