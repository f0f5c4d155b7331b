//! A topic read from its start to its end, after everything.

use std::ops::Range;

use serde_json::Value;

use super::history::History;
use super::message::MessageId;
use crate::cli::Cli;

/// All that a topic holds in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// First offset still held.
    pub start: u64,
    /// What was read, in that order.
    pub records: Vec<Drained>,
    /// Offsets that the log says will never be readable, in the order read.
    pub gaps: Vec<Range<u64>>,
}

/// One message of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Where it was.
    pub offset: u64,
    /// Which one it is, or what is wrong with its payload.
    pub message: Result<MessageId, String>,
    /// Its routing key.
    pub key: Option<String>,
}

impl Drain {
    /// Reads a topic to its end with `danube read`.
    ///
    /// # Panics
    ///
    /// If the command fails, or prints what it should not.
    #[must_use]
    pub fn read(cli: &Cli, history: &History, topic: &str) -> Self {
        let described = cli.run(["topic", "describe", topic, "--output", "json"]).success();
        let described = described.json_lines();
        let start = described.first().and_then(|topic| topic["start_offset"].as_u64());
        let start = start.unwrap_or_else(|| panic!("no start_offset in {described:?}"));
        let read = cli.run(["read", topic, "--from", "earliest", "--output", "json"]).success();
        Self::parse(history, start, &read.json_lines())
    }

    /// Takes what `danube read --output json` printed.
    ///
    /// # Panics
    ///
    /// If a line is neither a record nor a gap.
    #[must_use]
    pub fn parse(history: &History, start: u64, lines: &[Value]) -> Self {
        let mut drain = Self { start, ..Self::default() };
        for line in lines {
            if let Some(gap) = line.get("gap") {
                let (from, to) = (gap["from"].as_u64(), gap["to"].as_u64());
                drain.gaps.push(
                    from.zip(to).map_or_else(|| panic!("not a gap: {line}"), |(from, to)| from..to),
                );
            } else {
                drain.records.push(record(history, line));
            }
        }
        drain
    }

    /// The message at an offset.
    #[must_use]
    pub fn at(&self, offset: u64) -> Option<&MessageId> {
        let found = self.records.binary_search_by_key(&offset, |record| record.offset);
        found.ok().and_then(|at| self.records[at].message.as_ref().ok())
    }

    /// Whether an offset lies in a gap.
    #[must_use]
    pub fn is_gap(&self, offset: u64) -> bool {
        self.gaps.iter().any(|gap| gap.contains(&offset))
    }
}

impl Drained {
    /// What was read at an offset.
    #[must_use]
    pub fn of(history: &History, offset: u64, key: Option<String>, payload: &[u8]) -> Self {
        let message = history.identify(payload).and_then(|(message, sent_key)| {
            if sent_key == key {
                Ok(message)
            } else {
                Err(format!("{message} was sent with key {sent_key:?}, not {key:?}"))
            }
        });
        Self { offset, message, key }
    }
}

fn record(history: &History, line: &Value) -> Drained {
    let offset = line["offset"].as_u64().unwrap_or_else(|| panic!("no offset in {line}"));
    let key = line["key"].as_str().map(str::to_owned);
    match line["payload"].as_str() {
        Some(payload) => Drained::of(history, offset, key, payload.as_bytes()),
        None => Drained { offset, message: Err(format!("not text: {line}")), key },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_and_gaps_are_taken() {
        let history = History::new(7);
        let id = MessageId::new("p", 3);
        let payload = String::from_utf8(history.payload(&id, Some("k"), 0)).unwrap();
        let lines = [
            json!({ "topic": "/default/a", "offset": 4, "key": "k", "payload": payload }),
            json!({ "topic": "/default/a", "gap": { "from": 5, "to": 9, "why": "unproven end" } }),
            json!({ "topic": "/default/a", "offset": 9, "key": "other", "payload": payload }),
            json!({ "topic": "/default/a", "offset": 10, "payload_base64": "AA==" }),
        ];
        let drain = Drain::parse(&history, 4, &lines);
        assert_eq!(drain.at(4), Some(&id));
        assert_eq!((drain.at(9), drain.at(10)), (None, None));
        assert!(drain.is_gap(5) && drain.is_gap(8) && !drain.is_gap(9));
    }
}
