//! What a broker says over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::Broker;

/// An answer takes no longer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The body of what is at a path; none if there is no good answer.
#[must_use]
pub fn try_get(broker: &Broker, path: &str) -> Option<String> {
    let mut socket = TcpStream::connect(&broker.ready().http).ok()?;
    socket.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// The body of what is at a path.
///
/// # Panics
///
/// If there is no good answer.
#[must_use]
pub fn get(broker: &Broker, path: &str) -> String {
    try_get(broker, path).unwrap_or_else(|| panic!("no answer at {path}\n{}", broker.log()))
}

/// Name and subject of the alarms that stand.
///
/// # Panics
///
/// If they can't be asked for.
#[must_use]
pub fn alarms(broker: &Broker) -> Vec<(String, String)> {
    let answer: Value = serde_json::from_str(&get(broker, "/api/v1/alarms")).expect("JSON");
    let text = |alarm: &Value, key: &str| alarm[key].as_str().expect("a text").to_owned();
    let listed = answer["alarms"].as_array().expect("a list");
    listed.iter().map(|alarm| (text(alarm, "name"), text(alarm, "subject"))).collect()
}

/// The value of a metric, with its labels as they are written.
///
/// # Panics
///
/// If it is not there.
#[must_use]
pub fn metric(broker: &Broker, name: &str) -> f64 {
    let text = get(broker, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no metric {name} in\n{text}"));
    line.parse().expect("a number")
}
