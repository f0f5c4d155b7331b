//! One value for each key, with its origin; and whether this build can do what is asked for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::keys::{self, Fallback, Key, Support};
use super::problem::{Notice, Place, Problem};
use super::sources::{Given, Input, Reading};
use super::value::{Kind, Value, without_password};

/// The settings of a broker, key by key.
#[derive(Debug)]
pub struct Settings {
    values: BTreeMap<&'static str, Setting>,
    notices: Vec<Notice>,
}

#[derive(Debug)]
struct Setting {
    value: Option<Value>,
    /// Where it was said; none for a default.
    place: Option<Place>,
}

/// A key and its value, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The key's path.
    pub path: &'static str,
    /// Its value as it could be written in the environment; secrets are hidden.
    pub value: String,
    /// Its value as it could be written in a file; secrets are hidden.
    pub yaml: String,
    /// Where it was said, or `default`.
    pub origin: String,
    /// What this build makes of it, where that is not what it says.
    pub note: Option<String>,
}

impl Settings {
    /// Weighs what the sources say. What is wrong is a problem, and its key keeps its default.
    pub(super) fn resolve(reading: Reading) -> (Settings, Vec<Problem>) {
        let Reading { given, mut problems, notices } = reading;
        let mut said: BTreeMap<&'static str, (Given, Value)> = BTreeMap::new();
        for given in given {
            let Given { key, name, place, input } = &given;
            let problem = |what: String| Problem { place: Some(place.clone()), what };
            let value = match input {
                Input::Text(text) => key.kind.parse(text),
                Input::List(items) => key.kind.parse_list(items.clone()),
            };
            match value {
                Err(what) => {
                    let found = problem(given.about(&what));
                    // One flag may set several keys.
                    if problems.last() != Some(&found) {
                        problems.push(found);
                    }
                }
                Ok(value) => {
                    let before = said
                        .get(key.path)
                        .filter(|(before, was)| same_file(&before.place, place) && *was != value);
                    if let Some((before, _)) = before {
                        let other = &before.name;
                        problems.push(problem(format!(
                            "`{name}` says something else than `{other}`, which is the same key"
                        )));
                    }
                    said.insert(key.path, (given, value));
                }
            }
        }
        refuse_what_is_lacking(&said, &mut problems);
        let mut settings = Settings { values: BTreeMap::new(), notices };
        for key in keys::all() {
            let setting = match said.remove(key.path) {
                Some((given, value)) => Setting { value: Some(value), place: Some(given.place) },
                None => Setting { value: default(key), place: None },
            };
            settings.values.insert(key.path, setting);
        }
        (settings, problems)
    }

    /// What a user should know.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The keys that were set.
    pub fn set(&self) -> Vec<Line> {
        self.lines(|_, setting| setting.place.is_some())
    }

    /// The keys that are in force, and all others that were set.
    pub fn effective(&self) -> Vec<Line> {
        let in_force = |key: &Key| !matches!(key.support, Support::Idle(_) | Support::Lacking(_));
        self.lines(|key, setting| setting.place.is_some() || in_force(key))
    }

    fn lines(&self, wanted: impl Fn(&Key, &Setting) -> bool) -> Vec<Line> {
        let line = |key: &'static Key| {
            let setting = &self.values[key.path];
            let value = setting.value.as_ref().filter(|_| wanted(key, setting))?;
            let origin = setting.place.as_ref().map_or("default".to_owned(), Place::to_string);
            let (value, yaml) =
                (key.kind.show(&value.to_string()), key.kind.show(&value.to_yaml()));
            Some(Line { path: key.path, value, yaml, origin, note: note(key) })
        };
        keys::all().filter_map(line).collect()
    }

    /// Where a key was set; none for a default.
    pub(super) fn place(&self, path: &str) -> Option<&Place> {
        self.values[path].place.as_ref()
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        match self.value(path)? {
            Value::Text(text) => Some(text),
            other => wrong(path, other),
        }
    }

    pub(super) fn path(&self, path: &str) -> Option<PathBuf> {
        self.text(path).map(PathBuf::from)
    }

    pub(super) fn flag(&self, path: &str) -> bool {
        match self.value(path) {
            Some(Value::Bool(value)) => *value,
            other => wrong(path, other),
        }
    }

    pub(super) fn number(&self, path: &str) -> u64 {
        self.number_if_set(path).unwrap_or_else(|| wrong(path, "nothing"))
    }

    /// None: it has no default, and is not set.
    pub(super) fn number_if_set(&self, path: &str) -> Option<u64> {
        match self.value(path)? {
            Value::Number(number) => Some(*number),
            other => wrong(path, other),
        }
    }

    /// In bytes.
    pub(super) fn size(&self, path: &str) -> Option<u64> {
        match self.value(path)? {
            Value::Size(size) => Some(size.get()),
            other => wrong(path, other),
        }
    }

    pub(super) fn time(&self, path: &str) -> Duration {
        match self.value(path) {
            Some(Value::Time(time)) => *time,
            other => wrong(path, other),
        }
    }

    pub(super) fn list(&self, path: &str) -> &[String] {
        match self.value(path) {
            Some(Value::List(items)) => items,
            other => wrong(path, other),
        }
    }

    fn value(&self, path: &str) -> Option<&Value> {
        let setting = self.values.get(path);
        setting.unwrap_or_else(|| panic!("{path} is not in the table")).value.as_ref()
    }
}

/// The table says of what kind a key is and that it has a default; who asks for something else is wrong.
fn wrong(path: &str, found: impl std::fmt::Debug) -> ! {
    panic!("{path} is asked for as something that it is not: {found:?}")
}

/// What this build makes of a key, where that is not what it says.
fn note(key: &Key) -> Option<String> {
    match key.support {
        Support::Full | Support::Only(..) => None,
        Support::Idle(what) => {
            Some(format!("without effect: it needs {what}, which this build lacks"))
        }
        Support::Lacking(what) => Some(format!("it needs {what}, which this build lacks")),
    }
}

/// Refuses the values that need what this build lacks; where that is a whole block, the block once.
fn refuse_what_is_lacking(
    said: &BTreeMap<&'static str, (Given, Value)>,
    problems: &mut Vec<Problem>,
) {
    let mut refused = Vec::new();
    // In the order of the reference, so that a block is named where its first key is.
    for (given, value) in keys::all().filter_map(|key| said.get(key.path)) {
        let key = given.key;
        let mut refuse = |what| problems.push(Problem { place: Some(given.place.clone()), what });
        match key.support {
            Support::Only(values, what) if !values.contains(&value.to_string().as_str()) => {
                let shown = key.kind.show(&value.to_string());
                refuse(given.about(&format!("`{shown}` needs {what}, which this build lacks")));
            }
            Support::Lacking(what) => {
                let block = key.path.rsplit_once('.').map_or(key.path, |(block, _)| block);
                if !refused.contains(&block) {
                    refused.push(block);
                    refuse(format!("`{block}` needs {what}, which this build lacks"));
                }
            }
            Support::Only(..) | Support::Full | Support::Idle(_) => {}
        }
    }
}

fn default(key: &Key) -> Option<Value> {
    match key.fallback {
        Fallback::Value(text) => {
            Some(key.kind.parse(text).expect("a test holds every default against its kind"))
        }
        Fallback::None(_) => None,
    }
}

fn same_file(one: &Place, other: &Place) -> bool {
    matches!((one, other), (Place::File { .. }, Place::File { .. }))
}

impl Given {
    /// What is wrong with it: in a file, of which key; a variable and a flag are their own place.
    fn about(&self, what: &str) -> String {
        match &self.place {
            Place::File { .. } => format!("`{}`: {what}", self.name),
            Place::Environment { .. } | Place::Flag { .. } => what.to_owned(),
        }
    }
}

impl Kind {
    /// A value's text as people may see it.
    fn show(self, text: &str) -> String {
        match self {
            Kind::Secret => "\"***\"".to_owned(),
            _ => without_password(text),
        }
    }
}
