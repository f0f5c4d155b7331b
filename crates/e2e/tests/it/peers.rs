//! Existing clients, unmodified, on a real broker.

mod consuming;
mod producing;

use std::collections::BTreeMap;
use std::time::Duration;

use danube_e2e::{Broker, Cli};
use serde_json::Value;

/// Longer than any pause of a client that goes on by itself.
const LIMIT: Duration = Duration::from_secs(30);

/// What a native reader sees, message by message.
fn read(broker: &Broker, topic: &str) -> Vec<Value> {
    Cli::of(broker).run(["read", topic, "--output", "json"]).success().json_lines()
}

/// The names `p:n` of messages.
fn names(messages: &[Value]) -> Vec<String> {
    let name = |message: &Value| {
        let payload = message["payload"].as_str().expect("peers send text");
        payload.rsplit_once(':').expect("peers name their messages").0.to_owned()
    };
    messages.iter().map(name).collect()
}

/// Each producer's messages are there, from 0 on, in order; some may be there again if they were sent again.
fn complete_and_in_order(found: &[String], producers: &[String], count: u64) {
    let mut next: BTreeMap<&str, u64> = producers.iter().map(|name| (name.as_str(), 0)).collect();
    for name in found {
        let (producer, number) = name.split_once(':').expect("peers name their messages");
        let next = next.get_mut(producer).unwrap_or_else(|| panic!("nobody sent {name}"));
        let number: u64 = number.parse().expect("peers number their messages");
        assert!(number <= *next, "{name} comes before {producer}:{next}");
        *next = (*next).max(number + 1);
    }
    assert!(next.values().all(|next| *next == count), "messages are missing: {next:?}");
}
