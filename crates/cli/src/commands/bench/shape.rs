//! What is measured, in numbers: what was said, what was not, and what of it makes no sense.

use std::collections::BTreeSet;
use std::time::Duration;

use danube_model::{ByteSize, caps};

use super::payload::STAMP_BYTES;
use crate::arguments::{BenchLoad, BenchRun, BenchTopics};
use crate::failure::{Failure, Result};

/// Messages of the backlog that is made to be consumed, if nobody says how many.
const BACKLOG_MESSAGES: u64 = 100_000;
const DURATION: Duration = Duration::from_secs(10);
const MESSAGE_BYTES: u64 = 1 << 10;
const BATCH_BYTES: u64 = 256 << 10;
const IN_FLIGHT_MESSAGES: u64 = 1_000;
/// What a producer has in flight at most, if nobody says how many messages.
const IN_FLIGHT_BYTES: u64 = 64 << 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Produce,
    Consume,
    EndToEnd,
}

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) producers: u32,
    pub(super) consumers: u32,
    pub(super) message_bytes: usize,
    pub(super) batch_bytes: usize,
    /// Messages of one producer.
    pub(super) in_flight_max: usize,
    /// Without limit the greatest number.
    pub(super) count: u64,
    /// Without limit the greatest time.
    pub(super) duration: Duration,
}

impl Shape {
    pub(super) fn of(
        mode: Mode,
        topics: &BenchTopics,
        load: &BenchLoad,
        consumers: Option<u32>,
        run: &BenchRun,
    ) -> Result<Shape> {
        let is_own = topics.named.is_empty();
        if topics.named.iter().collect::<BTreeSet<_>>().len() < topics.named.len() {
            return Err(misuse("a topic is named twice"));
        }
        if mode == Mode::Consume
            && !is_own
            && let Some(flag) = load.said().next()
        {
            return Err(misuse(format!("{flag}: nothing is sent to topics that are named")));
        }
        let topics = if is_own { topics.topics.unwrap_or(1) } else { topics.named.len() as u32 };
        let workers = |flag, workers: Option<u32>| match workers.unwrap_or(topics) {
            few if few < topics => Err(misuse(format!("{flag} {few} for {topics} topics"))),
            workers => Ok(workers),
        };
        let least = if mode == Mode::EndToEnd { STAMP_BYTES } else { 0 };
        let most = caps::MESSAGE_BYTES_MAX;
        let message_bytes = load.message_size.map_or(MESSAGE_BYTES, ByteSize::get);
        let message_bytes = size("--message-size", message_bytes, least, most)?;
        let batch_bytes = load.batch_size.map_or(BATCH_BYTES, ByteSize::get);
        let batch_bytes = size("--batch-size", batch_bytes, 1, caps::BATCH_BYTES_MAX)?;
        let window = IN_FLIGHT_BYTES / (message_bytes as u64).max(1);
        let in_flight =
            load.in_flight.map_or_else(|| window.clamp(1, IN_FLIGHT_MESSAGES), u64::from);
        if in_flight * message_bytes as u64 > u64::from(u32::MAX) {
            let text = format!(
                "--in-flight {in_flight} messages of {message_bytes} bytes: expected at most 4GiB"
            );
            return Err(misuse(text));
        }
        let is_backlog = mode == Mode::Consume && is_own;
        let default_count = if is_backlog { BACKLOG_MESSAGES } else { u64::MAX };
        let is_endless = run.count.is_none() && !is_backlog;
        let default_duration = if is_endless { DURATION } else { Duration::MAX };
        Ok(Shape {
            producers: workers("--producers", load.producers)?,
            consumers: workers("--consumers", consumers)?,
            message_bytes,
            batch_bytes,
            in_flight_max: in_flight as usize,
            count: run.count.map_or(default_count, u64::from),
            duration: run.duration.unwrap_or(default_duration),
        })
    }

    /// What one of the producers sends of all messages.
    pub(super) fn share(&self, producer: u32) -> u64 {
        if self.count == u64::MAX {
            return self.count;
        }
        let producers = u64::from(self.producers);
        self.count / producers + u64::from(u64::from(producer) < self.count % producers)
    }
}

fn size(flag: &str, bytes: u64, least: usize, most: usize) -> Result<usize> {
    match usize::try_from(bytes) {
        Ok(bytes) if (least..=most).contains(&bytes) => Ok(bytes),
        _ => Err(misuse(format!("{flag} {bytes}: expected {least} to {most} bytes"))),
    }
}

fn misuse(text: impl Into<String>) -> Failure {
    Failure::Misuse(format!("error: {}", text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, BenchCommand, Command};

    fn shape(words: &str) -> Result<Shape> {
        let words = format!("danube bench {words}");
        let Ok(Arguments { command: Command::Bench(command) }) = Arguments::of(words.split(' '))
        else {
            panic!("{words}")
        };
        match command {
            BenchCommand::Produce { topics, load, run, .. } => {
                Shape::of(Mode::Produce, &topics, &load, None, &run)
            }
            BenchCommand::Consume { topics, load, consumers, run } => {
                Shape::of(Mode::Consume, &topics, &load, consumers, &run)
            }
            BenchCommand::EndToEnd { topics, load, consumers, run, .. } => {
                Shape::of(Mode::EndToEnd, &topics, &load, consumers, &run)
            }
        }
    }

    #[test]
    fn what_is_not_said_follows_from_the_rest() {
        let plain = Shape {
            producers: 1,
            consumers: 1,
            message_bytes: 1024,
            batch_bytes: 256 << 10,
            in_flight_max: 1000,
            count: u64::MAX,
            duration: Duration::from_secs(10),
        };
        assert_eq!(shape("produce"), Ok(plain));
        let counted = Shape { count: 7, duration: Duration::MAX, ..plain };
        assert_eq!(shape("produce --count 7"), Ok(counted));
        let both = Shape { duration: Duration::from_secs(1), ..counted };
        assert_eq!(shape("end-to-end --count 7 --duration 1s"), Ok(both));
        let backlog = Shape { count: 100_000, duration: Duration::MAX, ..plain };
        assert_eq!(shape("consume"), Ok(backlog));
        assert_eq!(shape("consume /default/a"), Ok(plain));
        let three = Shape { producers: 3, consumers: 3, ..plain };
        assert_eq!(shape("end-to-end --topics 3"), Ok(three));
        let large = Shape { message_bytes: 1 << 20, in_flight_max: 64, ..plain };
        assert_eq!(shape("produce --message-size 1MiB"), Ok(large));
    }

    #[test]
    fn what_makes_no_sense_is_misuse() {
        for (words, expected) in [
            ("produce --topics 3 --producers 2", "--producers 2 for 3 topics"),
            ("end-to-end --topics 3 --consumers 2", "--consumers 2 for 3 topics"),
            ("produce /default/a /default/a", "named twice"),
            ("consume /default/a --message-size 1KiB", "--message-size"),
            ("consume /default/a --payload text", "--payload"),
            ("end-to-end --message-size 23", "expected 24 to"),
            ("produce --message-size 1GiB", "--message-size 1073741824"),
            ("produce --batch-size 0", "--batch-size 0"),
            ("produce --in-flight 1000000 --message-size 1MiB", "at most 4GiB"),
        ] {
            match shape(words) {
                Err(Failure::Misuse(text)) => assert!(text.contains(expected), "{words}: {text}"),
                other => panic!("{words}: {other:?}"),
            }
        }
    }

    #[test]
    fn producers_share_the_messages() {
        let shape = shape("produce --producers 3 --count 11").unwrap();
        assert_eq!([0, 1, 2].map(|producer| shape.share(producer)), [4, 4, 3]);
        let endless = Shape { count: u64::MAX, ..shape };
        assert_eq!(endless.share(0), u64::MAX);
    }
}
