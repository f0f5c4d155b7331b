//! Lines through the command line and back, byte by byte (P1, P3, P6).

use crate::broker::{Broker, Options};
use crate::wait::Stopwatch;
use crate::{Cli, Generator, Measured};

/// Produces `count` lines of all sorts of lengths with `danube produce` and reads them with `danube read`.
///
/// # Panics
///
/// If one byte differs, or an offset is not the next one.
#[must_use]
pub fn run(count: usize, seed: u64) -> Measured {
    let mut broker = Broker::start(Options::default());
    let cli = Cli::of(&broker).limit(std::time::Duration::from_secs(300));
    let input = lines(count, seed);
    let topic = "/default/lines";
    let watch = Stopwatch::start();
    let produced = cli.run_with(["produce", topic, "--print-offsets"], &input).success();
    let producing = watch.elapsed();
    let mut offsets = produced.text().lines();
    for offset in 0..count {
        assert_eq!(offsets.next(), Some(format!("{topic}\t{offset}").as_str()));
    }
    assert_eq!(offsets.next(), None);
    let watch = Stopwatch::start();
    let read = cli.run(["read", topic]).success();
    let reading = watch.elapsed();
    assert_same(&read.stdout, &input);
    broker.stop();
    broker.restart();
    let read = Cli::of(&broker).run(["read", topic]).success();
    assert_same(&read.stdout, &input);
    broker.stop();
    Measured::default()
        .with("lines", count)
        .with("bytes", input.len())
        .with("producing, s", producing.as_secs_f64())
        .with("reading, s", reading.as_secs_f64())
}

/// Lines without a pattern, most of them short, some empty, a few of many KiB.
#[must_use]
pub fn lines(count: usize, seed: u64) -> Vec<u8> {
    let chance = Generator::new(seed);
    let mut bytes = Vec::new();
    for number in 0..count {
        let length = match chance.below(1000) {
            0 => chance.below(65_536),
            1..100 => 0,
            100..200 => chance.below(2000),
            _ => chance.below(100),
        };
        if length > 0 {
            bytes.extend_from_slice(number.to_string().as_bytes());
        }
        // Everything but the end of a line may be in one, NUL and what is not UTF-8 too.
        let bytes_of_line = (0..length).map(|_| chance.below(256) as u8);
        bytes.extend(bytes_of_line.map(|byte| if byte == b'\n' { b'-' } else { byte }));
        bytes.push(b'\n');
    }
    bytes
}

fn assert_same(actual: &[u8], expected: &[u8]) {
    let differs = actual.iter().zip(expected).position(|(actual, expected)| actual != expected);
    assert_eq!(differs, None, "first byte that differs");
    assert_eq!(actual.len(), expected.len());
}
