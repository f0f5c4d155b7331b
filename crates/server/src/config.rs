//! Settings of a broker: from a file, the environment and flags to one checked [`Config`].
//!
//! ```text
//!  file ──┐
//!  environment ──┼─▶ entries ─▶ keys (names, aliases) ─▶ values (kinds) ─▶ lacking (this build) ─▶ Config
//!  flags ─┘          later ones win
//! ```
//!
//! Nothing is guessed: an unknown key, a value of the wrong kind, or a feature that this build lacks is refused by the key's
//! name, so that no broker runs with less than its file asks for.
//!
//! Reading order: `value`, `keys` (the table), `source`, `lacking`, then [`Settings`] and [`Config`].

mod keys;
mod lacking;
mod source;
mod typed;
mod value;

use std::collections::BTreeMap;

use danube_model::ErrorKind;

use source::Entry;
pub use typed::{
    Advertised, Config, FileSync, LocalRetention, Policies, Ports, Rotation, StorageConfig,
};
use value::{Raw, Value};

/// `Result` with this module's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a configuration can't be used. Always definite: nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not YAML.
    #[error("{file} is not a configuration file")]
    Yaml {
        /// The file.
        file: String,
        /// Where and why.
        #[source]
        source: serde_yaml_ng::Error,
    },
    /// A key that there is not.
    #[error("{origin}: unknown key {path}")]
    UnknownKey {
        /// Where it stands, in dots.
        path: String,
        /// The file, variable or flag.
        origin: String,
        /// The known key that is nearest, if one is near.
        nearest: Option<&'static str>,
    },
    /// A value that a key does not take.
    #[error("{origin}: {path} {problem}")]
    Value {
        /// The key, in dots.
        path: String,
        /// The file, variable or flag.
        origin: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// One setting under two names.
    #[error("{origin}: {path} and {other} are the same setting")]
    Twice {
        /// The one name.
        path: String,
        /// The other.
        other: String,
        /// The file.
        origin: String,
    },
    /// A key that a file must have.
    #[error("{origin}: {path} is missing")]
    Missing {
        /// The key, in dots.
        path: &'static str,
        /// The file.
        origin: String,
    },
    /// A feature that this build does not have.
    #[error("{origin}: {path}: {why}")]
    Lacking {
        /// The key, in dots.
        path: String,
        /// The file, variable or flag.
        origin: String,
        /// What this build lacks.
        why: &'static str,
    },
}

impl Error {
    /// What kind of error this is, for callers that branch.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    /// Whether the same may work later without anybody's help: never.
    pub fn is_retryable(&self) -> bool {
        false
    }

    /// Advice, where there is some.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::UnknownKey { nearest, .. } => {
                nearest.map(|nearest| format!("did you mean {nearest}?"))
            }
            _ => None,
        }
    }
}

/// Settings that were read and checked, each with the place that it comes from.
#[derive(Debug, Default)]
pub struct Settings {
    /// By path; what is not here has its default.
    entries: BTreeMap<String, (Value, String)>,
    warnings: Vec<String>,
}

impl Settings {
    /// Nothing but defaults.
    pub fn new() -> Settings {
        Settings::default()
    }

    /// Takes what a file says; `name` is for messages.
    ///
    /// # Errors
    /// If the file is not YAML, has an unknown key, an unusable value or a setting twice, or lacks `cluster_name`.
    pub fn add_file(&mut self, name: &str, text: &str) -> Result<()> {
        self.add_all(source::from_file(name, text)?)?;
        if !self.entries.contains_key("cluster_name") {
            return Err(Error::Missing { path: "cluster_name", origin: name.to_owned() });
        }
        Ok(())
    }

    /// Takes what the environment says, over what was taken before.
    ///
    /// # Errors
    /// If a variable that is a key's has an unusable value.
    pub fn add_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<()> {
        let (entries, warnings) = source::from_environment(variables);
        self.warnings.extend(warnings);
        self.add_all(entries)
    }

    /// Takes what a flag says about the key at `path`, over what was taken before.
    ///
    /// # Errors
    /// If there is no such key or the value is unusable.
    pub fn add_flag(&mut self, flag: &str, path: &str, text: &str) -> Result<()> {
        let raw = Raw::Scalar(text.to_owned());
        self.add_all(vec![Entry { path: path.to_owned(), raw, origin: flag.to_owned() }])
    }

    /// What is worth a warning.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What a broker runs with.
    ///
    /// # Errors
    /// [`Error::Lacking`] for the first key that asks for what this build does not have.
    pub fn config(&self) -> Result<Config> {
        for (path, (value, origin)) in &self.entries {
            // Whoever writes a default down asks for nothing.
            if default(path).as_ref() == Some(value) {
                continue;
            }
            if let Some(why) = lacking::lacks(path, value) {
                let (path, origin) = (path.clone(), origin.clone());
                return Err(Error::Lacking { path, origin, why });
            }
        }
        Config::from_settings(self)
    }

    /// All settings as a file would say them, one line each: path, value and where it comes from. Secrets are masked.
    pub fn show(&self) -> Vec<(String, String, String)> {
        let known = keys::KEYS.iter().map(|key| key.path.to_owned());
        let mut paths: Vec<String> = known.collect();
        let passed_through = self.entries.keys().filter(|path| !paths.contains(path));
        paths.extend(passed_through.cloned().collect::<Vec<_>>());
        let line = |path: String| {
            let (text, origin) = match self.entries.get(&path) {
                Some((value, origin)) => (value.show(), origin.clone()),
                None => (default(&path)?.show(), "default".to_owned()),
            };
            let is_secret = keys::SECRETS.contains(&path.as_str());
            let text = if is_secret { "\"********\"".to_owned() } else { text };
            Some((path, text, origin))
        };
        paths.into_iter().filter_map(line).collect()
    }

    /// Every key: path, kind, default and meaning, for the reference.
    pub fn reference()
    -> impl Iterator<Item = (&'static str, String, Option<&'static str>, &'static str)> {
        keys::KEYS.iter().map(|key| (key.path, key.kind.expects(), key.default, key.meaning))
    }

    fn add_all(&mut self, entries: Vec<Entry>) -> Result<()> {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for Entry { path: name, raw, origin } in entries {
            let Some((path, kind)) = keys::find(&name) else {
                let nearest = keys::nearest(&name);
                return Err(Error::UnknownKey { path: name, origin, nearest });
            };
            let value = kind.read(&raw).map_err(|problem| {
                let is_secret = keys::SECRETS.contains(&path.as_str());
                let expected = format!("is not {}", kind.expects());
                let problem = if is_secret { expected } else { problem };
                Error::Value { path: name.clone(), origin: origin.clone(), problem }
            })?;
            if let Some(other) = names.insert(path.clone(), name.clone()) {
                return Err(Error::Twice { path: name, other, origin });
            }
            self.entries.insert(path, (value, origin));
        }
        Ok(())
    }

    /// What a key says, or its default.
    fn get(&self, path: &'static str) -> Option<Value> {
        let given = self.entries.get(path).map(|(value, _)| value.clone());
        given.or_else(|| default(path))
    }
}

fn default(path: &str) -> Option<Value> {
    let key = keys::KEYS.iter().find(|key| key.path == path)?;
    let raw = Raw::Scalar(key.default?.to_owned());
    Some(key.kind.read(&raw).expect("every default can be read, a test says so"))
}

#[cfg(test)]
mod tests;
