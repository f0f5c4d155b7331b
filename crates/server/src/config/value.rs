//! What a key may say, and reading it from text.

use std::time::Duration;

use danube_model::units::{format_duration, parse_duration};
use danube_model::{ByteSize, Durability, Namespace};

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text but the empty one.
    Text,
    /// A path.
    Path,
    /// An `http://` or `https://` URL.
    Url,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Switch,
    /// A whole number within these bounds, both inclusive.
    Count(u64, u64),
    /// A size; a plain number is in this unit.
    Size(&'static str),
    /// The size of the tail cache: a plain number is a count of messages, as older files have it.
    Cache,
    /// A duration; a plain number is in this unit, where there is one.
    Time(Option<&'static str>),
    /// Two durations, as in `250ms to 500ms`.
    TimeRange,
    /// A list of texts.
    List,
    /// What an acknowledgement means.
    Durability,
    /// Namespaces.
    Namespaces,
}

/// What a key says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Switch(bool),
    Count(u64),
    Size(ByteSize),
    Time(Duration),
    TimeRange(Duration, Duration),
    List(Vec<String>),
    Durability(Durability),
    Namespaces(Vec<Namespace>),
}

/// What stands in a source: everything is text until its key is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Raw {
    Scalar(String),
    List(Vec<String>),
}

/// A cached message of older files, in bytes, and the least that such a number means.
const CACHED_MESSAGE_BYTES: u64 = 1024;
const CACHE_BYTES_MIN: u64 = 16 << 20;

impl Kind {
    /// Reads what a source says.
    ///
    /// # Errors
    /// What was expected, for a person.
    pub(crate) fn read(self, raw: &Raw) -> Result<Value, String> {
        match (self, raw) {
            (Kind::List, raw) => Ok(Value::List(raw.items())),
            (Kind::Namespaces, raw) => {
                let namespaces = raw.items().into_iter().map(|name| name.parse());
                let namespaces: Result<_, danube_model::Error> = namespaces.collect();
                namespaces.map(Value::Namespaces).map_err(|error| error.to_string())
            }
            (kind, Raw::List(_)) => Err(format!("is a list, expected {}", kind.expects())),
            (kind, Raw::Scalar(text)) => kind
                .read_scalar(text.trim())
                .ok_or_else(|| format!("is {text:?}, expected {}", kind.expects())),
        }
    }

    fn read_scalar(self, text: &str) -> Option<Value> {
        match self {
            Kind::Text | Kind::Path => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
            Kind::Url => is_url(text).then(|| Value::Text(text.to_owned())),
            Kind::Word(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::Switch => text.parse().ok().map(Value::Switch),
            Kind::Count(least, most) => {
                let count = text.parse().ok().filter(|count| (least..=most).contains(count));
                count.map(Value::Count)
            }
            Kind::Size(unit) => with_unit(text, unit).parse().ok().map(Value::Size),
            Kind::Cache => match text.parse::<u64>() {
                Ok(messages) => {
                    let bytes = messages.saturating_mul(CACHED_MESSAGE_BYTES).max(CACHE_BYTES_MIN);
                    Some(Value::Size(ByteSize::new(bytes)))
                }
                Err(_) => text.parse().ok().map(Value::Size),
            },
            Kind::Time(unit) => {
                parse_duration(&with_unit(text, unit.unwrap_or(""))).ok().map(Value::Time)
            }
            Kind::TimeRange => {
                let (least, most) = text.split_once(" to ")?;
                let (least, most) = (parse_duration(least).ok()?, parse_duration(most).ok()?);
                (least <= most).then_some(Value::TimeRange(least, most))
            }
            Kind::Durability => text.parse().ok().map(Value::Durability),
            Kind::List | Kind::Namespaces => unreachable!("lists are read as lists"),
        }
    }

    /// What is expected, for a person.
    pub(crate) fn expects(self) -> String {
        match self {
            Kind::Text => "a text".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::Url => "a URL such as http://broker-1:6650".to_owned(),
            Kind::Word(words) => words.join(" or "),
            Kind::Switch => "true or false".to_owned(),
            Kind::Count(least, u64::MAX) => format!("a whole number from {least} on"),
            Kind::Count(least, most) => format!("a whole number from {least} to {most}"),
            Kind::Size(_) | Kind::Cache => "a size such as 512MiB".to_owned(),
            Kind::Time(_) => "a duration such as 30s".to_owned(),
            Kind::TimeRange => "two durations such as 250ms to 500ms".to_owned(),
            Kind::List => "a list".to_owned(),
            Kind::Durability => "page_cache, disk, warm, disk+warm or cold".to_owned(),
            Kind::Namespaces => "a list of namespaces".to_owned(),
        }
    }
}

impl Value {
    /// As a file would say it, on one line.
    pub(crate) fn show(&self) -> String {
        match self {
            Value::Text(text) => quote(text),
            Value::Switch(on) => on.to_string(),
            Value::Count(count) => count.to_string(),
            Value::Size(size) => size.to_string(),
            Value::Time(time) => format_duration(*time),
            Value::TimeRange(least, most) => {
                format!("{} to {}", format_duration(*least), format_duration(*most))
            }
            Value::List(items) => show_list(items.iter().map(|item| quote(item))),
            Value::Durability(level) => level.to_string(),
            Value::Namespaces(names) => show_list(names.iter().map(|name| quote(name.as_str()))),
        }
    }
}

impl Raw {
    /// A list; text from the environment or a flag is split at commas.
    fn items(&self) -> Vec<String> {
        match self {
            Raw::List(items) => items.clone(),
            Raw::Scalar(text) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                items.map(str::to_owned).collect()
            }
        }
    }
}

fn show_list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// Quotes whatever YAML might take for something else.
fn quote(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off"].contains(&text);
    if is_plain { text.to_owned() } else { format!("{text:?}") }
}

/// A number alone is in `unit`.
fn with_unit(text: &str, unit: &str) -> String {
    let is_number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    format!("{text}{}", if is_number { unit } else { "" })
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> Result<String, String> {
        kind.read(&Raw::Scalar(text.to_owned())).map(|value| value.show())
    }

    #[test]
    fn numbers_have_the_unit_of_their_key_and_may_say_another() {
        let minutes = Kind::Time(Some("m"));
        assert_eq!(read(minutes, "2880").unwrap(), "2d");
        assert_eq!(read(minutes, "0.5").unwrap(), "30s");
        assert_eq!(read(minutes, "2s").unwrap(), "2s");
        assert_eq!(read(Kind::Size("MiB"), "20480").unwrap(), "20GiB");
        assert_eq!(read(Kind::Size("MiB"), "1.5").unwrap(), "1536KiB");
        assert_eq!(read(Kind::Size("B"), "512MiB").unwrap(), "512MiB");
        assert_eq!(read(Kind::TimeRange, "250ms to 500ms").unwrap(), "250ms to 500ms");
    }

    #[test]
    fn a_plain_number_for_the_cache_is_a_count_of_messages() {
        assert_eq!(read(Kind::Cache, "1024").unwrap(), "16MiB");
        assert_eq!(read(Kind::Cache, "65536").unwrap(), "64MiB");
        assert_eq!(read(Kind::Cache, "1MiB").unwrap(), "1MiB");
    }

    #[test]
    fn what_is_wrong_says_what_was_expected() {
        for (kind, text) in [
            (Kind::Switch, "yes"),
            (Kind::Count(1, 65_535), "0"),
            (Kind::Count(0, 10), "-1"),
            (Kind::Word(&["fair", "balanced"]), "fairly"),
            (Kind::Time(None), "30"),
            (Kind::TimeRange, "500ms to 250ms"),
            (Kind::Durability, "ram"),
            (Kind::Url, "broker:6650"),
            (Kind::Text, ""),
        ] {
            let error = read(kind, text).unwrap_err();
            assert!(error.starts_with(&format!("is {text:?}, expected ")), "{error}");
        }
        assert!(Kind::Text.read(&Raw::List(Vec::new())).is_err());
    }

    #[test]
    fn lists_from_the_environment_are_split_at_commas() {
        assert_eq!(read(Kind::List, "a, b,").unwrap(), "[a, b]");
        assert_eq!(read(Kind::Namespaces, "default,x.y").unwrap(), "[default, x.y]");
        assert!(read(Kind::Namespaces, "a/b").is_err());
    }
}
