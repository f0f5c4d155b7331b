//! What the text of a setting means.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use danube_model::units::{format_duration, parse_duration};
use danube_model::{ByteSize, Namespace};

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Any text but the empty one.
    Text,
    /// As [`Kind::Text`], and never shown.
    Secret,
    /// A file or a directory.
    Path,
    /// A URL that clients connect to, with its port; `http` where it says no scheme.
    Url,
    /// `true` or `false`.
    Bool,
    /// A whole number within these bounds, both inclusive.
    Number(u64, u64),
    /// A number of bytes within these bounds, both inclusive; what a plain number counts.
    Size(Plain, u64, u64),
    /// A time of at least so much; the unit of a plain number, where the key's name tells one.
    Time(Option<&'static str>, Duration),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of such items.
    List(Item),
}

/// The largest size that a setting takes, where nothing smaller is said: 1 EiB.
pub(super) const SIZE_MAX: u64 = 1 << 60;

/// What a plain number counts where a size is expected.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plain {
    Bytes,
    Mebibytes,
    /// Messages of 1 KiB, and at least 16 MiB of them: what the tail cache was measured in once.
    Messages,
}

/// What a list consists of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// Any text.
    Text,
    Namespace,
    /// `host:port`.
    Address,
}

/// The size that a count of messages stands for.
const MESSAGE_BYTES: u64 = 1 << 10;
const MESSAGES_BYTES_MIN: u64 = 16 << 20;

/// A value of some kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Bool(bool),
    Number(u64),
    Size(ByteSize),
    Time(Duration),
    List(Vec<String>),
}

impl Kind {
    /// The value of a text. The error says what was expected, and what was found instead unless it is a secret.
    pub(super) fn parse(self, text: &str) -> Result<Value, String> {
        let found = || format!("expected {}, found `{}`", self.expected(), without_password(text));
        match self {
            Kind::Text | Kind::Path | Kind::Secret if text.is_empty() => {
                Err(format!("expected {}, found nothing", self.expected()))
            }
            Kind::Text | Kind::Path | Kind::Secret => Ok(Value::Text(text.to_owned())),
            Kind::Url => url(text).map(Value::Text).ok_or_else(found),
            Kind::Bool => text.to_lowercase().parse().map(Value::Bool).map_err(|_| found()),
            Kind::Number(min, max) => match text.parse::<u64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(Value::Number(number)),
                _ => Err(found()),
            },
            Kind::Size(plain, min, max) => match size(text, plain) {
                Some(size) if (min..=max).contains(&size.get()) => Ok(Value::Size(size)),
                _ => Err(found()),
            },
            Kind::Time(unit, min) => match time(text, unit) {
                Some(time) if time >= min => Ok(Value::Time(time)),
                _ => Err(found()),
            },
            Kind::Choice(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
                word.map(|word| Value::Text((*word).to_owned())).ok_or_else(found)
            }
            Kind::List(_) => {
                // With or without the brackets that a file has.
                let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                let items = inside.unwrap_or(text).split(',').map(str::trim);
                self.parse_list(items.filter(|item| !item.is_empty()).map(str::to_owned).collect())
            }
        }
    }

    /// The value of a list.
    pub(super) fn parse_list(self, items: Vec<String>) -> Result<Value, String> {
        let Kind::List(item) = self else {
            return Err(format!("expected {}, found a list", self.expected()));
        };
        match items.iter().find(|text| !item.admits(text)) {
            Some(text) => {
                Err(format!("expected {}, found `{}`", self.expected(), without_password(text)))
            }
            None => Ok(Value::List(items)),
        }
    }

    /// What it takes, in words.
    pub(super) fn expected(self) -> String {
        match self {
            Kind::Text | Kind::Secret => "text".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::Url => {
                "a URL that clients can connect to, such as `http://broker:6650`".to_owned()
            }
            Kind::Bool => "`true` or `false`".to_owned(),
            Kind::Number(min, u64::MAX) => format!("a whole number of at least {min}"),
            Kind::Number(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Size(plain, min, max) => {
                let plain = plain.meaning();
                let bounds = match (min, max) {
                    (0, SIZE_MAX) => String::new(),
                    _ => format!(" from {} to {}", ByteSize::new(min), ByteSize::new(max)),
                };
                format!("a size{bounds}, such as `512MiB` or a number of {plain}")
            }
            Kind::Time(None, min) => {
                format!("a time of at least {}, such as `30s`", format_duration(min))
            }
            Kind::Time(Some(unit), min) => {
                let unit = unit_name(unit);
                let min = format_duration(min);
                format!("a time of at least {min}, such as `30s` or a number of {unit}")
            }
            Kind::Choice(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("one of {}", words.join(", "))
            }
            Kind::List(Item::Text) => "a list".to_owned(),
            Kind::List(Item::Namespace) => "a list of namespaces".to_owned(),
            Kind::List(Item::Address) => "a list of `host:port`".to_owned(),
        }
    }
}

impl Kind {
    /// What it takes, in a word or two.
    pub(super) fn takes(self) -> String {
        match self {
            Kind::Text | Kind::Secret => "text".to_owned(),
            Kind::Path => "path".to_owned(),
            Kind::Url => "URL".to_owned(),
            Kind::Bool => "`true`, `false`".to_owned(),
            Kind::Number(..) => "number".to_owned(),
            Kind::Size(Plain::Bytes, ..) => "size".to_owned(),
            Kind::Size(plain, ..) => format!("size, or {}", plain.meaning()),
            Kind::Time(None, _) => "time".to_owned(),
            Kind::Time(Some(unit), _) => format!("time, or {}", unit_name(unit)),
            Kind::Choice(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
            Kind::List(Item::Text) => "list".to_owned(),
            Kind::List(Item::Namespace) => "list of namespaces".to_owned(),
            Kind::List(Item::Address) => "list of `host:port`".to_owned(),
        }
    }
}

impl Plain {
    fn meaning(self) -> &'static str {
        match self {
            Plain::Bytes => "bytes",
            Plain::Mebibytes => "MiB",
            Plain::Messages => "messages of 1 KiB (at least 16 MiB)",
        }
    }
}

impl Item {
    fn admits(self, text: &str) -> bool {
        match self {
            // A comma would be taken for the end of an item elsewhere.
            Item::Text => !text.is_empty() && !text.contains(','),
            Item::Namespace => text.parse::<Namespace>().is_ok(),
            Item::Address => super::Address::parse(text).is_some(),
        }
    }
}

impl fmt::Display for Value {
    /// As it could be written; reading it gives the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Bool(value) => value.fmt(f),
            Value::Number(number) => number.fmt(f),
            Value::Size(size) => size.fmt(f),
            Value::Time(time) => f.write_str(&format_duration(*time)),
            Value::List(items) => write!(f, "[{}]", items.join(", ")),
        }
    }
}

impl Value {
    /// For a file: a text that is not plainly one stands in quotes.
    pub(super) fn to_yaml(&self) -> String {
        let quoted = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+".contains(c);
            let is_plain = !text.is_empty() && text.chars().all(plain) && text != "null";
            if is_plain { text.to_owned() } else { format!("{text:?}") }
        };
        match self {
            Value::Text(text) => quoted(text),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Bool(_) | Value::Number(_) | Value::Size(_) | Value::Time(_) => self.to_string(),
        }
    }
}

/// A text with what stands before the host hidden in every URL in it: names and passwords.
pub(super) fn without_password(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let authority_end = part.find(['/', '?', '#', ',', ' ']).unwrap_or(part.len());
        let host = part[..authority_end].rfind('@').map_or(0, |at| at + 1);
        shown.push_str("://");
        if host > 0 {
            shown.push_str("***@");
        }
        shown.push_str(&part[host..]);
    }
    shown
}

fn url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let address = super::Address::parse(rest.strip_suffix('/').unwrap_or(rest))?;
    let any = address.host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    let is_url = matches!(scheme, "http" | "https") && address.port > 0 && !any;
    is_url.then(|| format!("{scheme}://{address}"))
}

fn size(text: &str, plain: Plain) -> Option<ByteSize> {
    let is_plain = !text.contains(|c: char| c.is_alphabetic());
    match plain {
        Plain::Mebibytes if is_plain => format!("{text}MiB").parse().ok(),
        Plain::Messages if is_plain => {
            let bytes = text.trim().parse::<u64>().ok()?.checked_mul(MESSAGE_BYTES)?;
            Some(ByteSize::new(bytes.max(MESSAGES_BYTES_MIN)))
        }
        Plain::Bytes | Plain::Mebibytes | Plain::Messages => text.parse().ok(),
    }
}

fn time(text: &str, unit: Option<&str>) -> Option<Duration> {
    let is_plain = !text.contains(|c: char| c.is_alphabetic());
    match unit {
        Some(unit) if is_plain => parse_duration(&format!("{text}{unit}")).ok(),
        Some(_) | None => parse_duration(text).ok(),
    }
}

fn unit_name(unit: &'static str) -> &'static str {
    match unit {
        "ms" => "milliseconds",
        "s" => "seconds",
        "m" => "minutes",
        "h" => "hours",
        "d" => "days",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Kind = Kind::Size(Plain::Bytes, 1, 1 << 40);
    const MEBIBYTES: Kind = Kind::Size(Plain::Mebibytes, 0, SIZE_MAX);
    const MESSAGES: Kind = Kind::Size(Plain::Messages, 1 << 20, 1 << 40);
    const HOURS: Kind = Kind::Time(Some("h"), Duration::from_millis(1));
    const TIME: Kind = Kind::Time(None, Duration::from_millis(1));

    #[test]
    fn values_are_understood() {
        let seconds = |seconds| Value::Time(Duration::from_secs(seconds));
        let bytes = |bytes| Value::Size(ByteSize::new(bytes));
        for (kind, text, value) in [
            (SIZE, "536870912", bytes(512 << 20)),
            (SIZE, "512MiB", bytes(512 << 20)),
            (SIZE, "1.5 KiB", bytes(1536)),
            (MEBIBYTES, "20480", bytes(20 << 30)),
            (MEBIBYTES, "0.5", bytes(512 << 10)),
            (MEBIBYTES, "3MB", bytes(3_000_000)),
            (MESSAGES, "1024", bytes(16 << 20)),
            (MESSAGES, "65536", bytes(64 << 20)),
            (MESSAGES, "1MiB", bytes(1 << 20)),
            (HOURS, "1", seconds(3600)),
            (HOURS, "0.5", seconds(1800)),
            (HOURS, "2s", seconds(2)),
            (TIME, "90s", seconds(90)),
            (Kind::Bool, "True", Value::Bool(true)),
            (Kind::Choice(&["local", "shared_fs"]), "Local", Value::Text("local".to_owned())),
            (Kind::List(Item::Text), "", Value::List(Vec::new())),
            (Kind::List(Item::Text), "a, b", Value::List(vec!["a".to_owned(), "b".to_owned()])),
        ] {
            assert_eq!(kind.parse(text), Ok(value), "{kind:?} {text:?}");
        }
    }

    #[test]
    fn a_value_says_what_was_expected() {
        for (kind, text, expected) in [
            (Kind::Number(1, 65_535), "65536", "a whole number from 1 to 65535, found `65536`"),
            (Kind::Number(1, u64::MAX), "-1", "a whole number of at least 1, found `-1`"),
            (SIZE, "0", "a size from 1B to 1TiB, such as `512MiB` or a number of bytes, found `0`"),
            (MEBIBYTES, "-1", "a size, such as `512MiB` or a number of MiB, found `-1`"),
            (TIME, "30", "a time of at least 1ms, such as `30s`, found `30`"),
            (HOURS, "0", "a time of at least 1ms, such as `30s` or a number of hours, found `0`"),
            (Kind::Bool, "yes", "`true` or `false`, found `yes`"),
            (Kind::Choice(&["fair", "balanced"]), "x", "one of `fair`, `balanced`, found `x`"),
            (Kind::List(Item::Address), "a", "a list of `host:port`, found `a`"),
            (Kind::Text, "", "text, found nothing"),
        ] {
            assert_eq!(kind.parse(text), Err(format!("expected {expected}")), "{kind:?} {text:?}");
        }
        let list = vec!["a".to_owned()];
        assert_eq!(
            Kind::Bool.parse_list(list),
            Err("expected `true` or `false`, found a list".to_owned())
        );
    }

    #[test]
    fn a_url_has_a_scheme_and_a_place_that_can_be_called() {
        for (text, expected) in [
            ("http://b:1", "http://b:1"),
            ("https://b.example:65535/", "https://b.example:65535"),
            ("b:1", "http://b:1"),
            ("[::1]:6650", "http://[::1]:6650"),
        ] {
            assert_eq!(Kind::Url.parse(text), Ok(Value::Text(expected.to_owned())));
        }
        for text in [
            "",
            "http://",
            "http://b",
            "b",
            "ftp://b:1",
            "http://b:1/x",
            "0.0.0.0:1",
            "[::]:1",
            "b:0",
        ] {
            assert!(Kind::Url.parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn passwords_in_urls_are_hidden() {
        for (text, shown) in [
            ("redis://a:6379", "redis://a:6379"),
            ("rediss://user:pass@a:6379/0", "rediss://***@a:6379/0"),
            ("[redis://:p@ss@a, redis://b]", "[redis://***@a, redis://b]"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("me@example.com", "me@example.com"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }

    #[test]
    fn a_value_is_written_as_it_is_read() {
        for (kind, text) in [
            (SIZE, "1536B"),
            (SIZE, "128MiB"),
            (HOURS, "36h"),
            (TIME, "250ms"),
            (Kind::Bool, "false"),
            (Kind::Number(0, 9), "7"),
        ] {
            assert_eq!(kind.parse(text).unwrap().to_string(), text);
        }
    }
}
