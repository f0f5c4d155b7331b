//! Speed, as ratios to what the same machine can do in the same minute: a broker beside the bare [`Echo`] under the same
//! load, and the log in this process beside a plain loop of writes and syncs. Who is compared takes turns, so that what else
//! the machine does meets them alike; medians count.

mod consume;
mod log;
mod unary;

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use danube_client::{Client, Delivery, Durability, Message, Producer};
use rustix::param::clock_ticks_per_second;
use tokio::runtime::Runtime;

pub use self::consume::{CatchingUp, FanOut, catching_up, fan_out};
pub use self::log::{LogFigures, log};
pub use self::unary::{UnaryFigures, unary};
use crate::broker::{Broker, Options};
use crate::echo::Echo;
use crate::wait::Stopwatch;
use crate::{Generator, Measured, native};

/// Producers of the load, each on a connection of its own.
const PRODUCERS: usize = 4;
/// Messages of a producer that are not acknowledged yet.
const IN_FLIGHT: usize = 256;
/// Bytes of a message, incompressible.
const MESSAGE_BYTES: usize = 1024;
/// Different messages.
const MESSAGES: usize = 1 << 16;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Each side has so many turns.
    pub turns: usize,
    /// How long one lasts.
    pub turn: Duration,
}

/// What a server did in its turns.
#[derive(Clone, Debug, Default)]
struct Turns {
    /// Messages in a second.
    rates: Vec<f64>,
    /// Seconds of processor time for a million messages.
    processor: Vec<f64>,
}

/// What was measured over the wire.
#[derive(Clone, Debug)]
pub struct WireFigures {
    echo: Turns,
    disk: Turns,
    page_cache: Turns,
}

/// Least, median and greatest of some values.
struct Spread([f64; 3]);

/// Produces to a broker at `disk` and at `page_cache`, and to `program echo`, in turn: 1 KiB messages by four producers
/// that have 256 in flight each.
///
/// # Panics
///
/// If a message is not acknowledged.
#[must_use]
pub fn wire(extent: Extent, program: &Path) -> WireFigures {
    let echo = Echo::start(program);
    let mut broker = Broker::start(Options::default());
    let runtime = native::runtime();
    let open = |url: &str, topic, durability| runtime.block_on(Lanes::open(url, topic, durability));
    let on_echo = open(echo.url(), "/default/echo", Durability::PageCache);
    let on_disk = open(&broker.url(), "/default/disk", Durability::Disk);
    let on_page_cache = open(&broker.url(), "/default/page_cache", Durability::PageCache);
    let mut figures = WireFigures {
        echo: Turns::default(),
        disk: Turns::default(),
        page_cache: Turns::default(),
    };
    for _ in 0..extent.turns {
        let turn = |turns: &mut Turns, lanes: &Lanes, process: u32| {
            // What one left to be written must not slow down the next.
            rustix::fs::sync();
            let before = processor_seconds(process);
            let watch = Stopwatch::start();
            let messages = lanes.run(&runtime, extent.turn) as f64;
            turns.rates.push(messages / watch.elapsed().as_secs_f64());
            turns.processor.push((processor_seconds(process) - before) / (messages / 1e6));
        };
        turn(&mut figures.echo, &on_echo, echo.process_id());
        turn(&mut figures.disk, &on_disk, broker.process_id());
        turn(&mut figures.page_cache, &on_page_cache, broker.process_id());
    }
    drop((on_echo, on_disk, on_page_cache));
    broker.stop();
    figures
}

impl WireFigures {
    /// Median of what `disk` reaches of the echo's messages in a second.
    #[must_use]
    pub fn disk_to_echo(&self) -> f64 {
        self.disk.ratio(&self.echo).median()
    }

    /// Median of what `page_cache` reaches of the echo's messages in a second.
    #[must_use]
    pub fn page_cache_to_echo(&self) -> f64 {
        self.page_cache.ratio(&self.echo).median()
    }

    /// All of it, for people.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let sides = [("echo", &self.echo), ("disk", &self.disk), ("page_cache", &self.page_cache)];
        sides.into_iter().fold(Measured::default(), |measured, (name, turns)| {
            let megabytes = turns.rates.iter().map(|rate| rate * MESSAGE_BYTES as f64 / 1e6);
            measured
                .with(
                    &format!("{name}, messages/s"),
                    format!("{:.0}", Spread::of(turns.rates.iter().copied())),
                )
                .with(&format!("{name}, MB/s"), format!("{:.1}", Spread::of(megabytes)))
                .with(&format!("{name} / echo"), format!("{:.3}", turns.ratio(&self.echo)))
                .with(
                    &format!("{name}, processor seconds of the server per million messages"),
                    format!("{:.2}", Spread::of(turns.processor.iter().copied())),
                )
        })
    }
}

impl Turns {
    fn ratio(&self, other: &Turns) -> Spread {
        Spread::of(self.rates.iter().zip(&other.rates).map(|(rate, other)| rate / other))
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1).expect("there was at least one turn");
        Self([values[0], values[last / 2], values[last]])
    }

    fn median(&self) -> f64 {
        self.0[1]
    }
}

/// The median, and from least to greatest.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, median, greatest] = self.0;
        let digits = f.precision().unwrap_or(1);
        write!(f, "{median:.digits$} ({least:.digits$} to {greatest:.digits$})")
    }
}

/// The producers of one side.
struct Lanes {
    producers: Vec<Producer>,
    messages: Vec<Bytes>,
}

impl Lanes {
    async fn open(url: &str, topic: &str, durability: Durability) -> Self {
        let mut producers = Vec::new();
        for _ in 0..PRODUCERS {
            let client = Client::connect(url).expect("where a server listens");
            let opening = client.producer(topic).expect("the name of a topic");
            let opened = opening.create(Some(native::creation(durability))).open().await;
            producers.push(opened.unwrap_or_else(|error| panic!("can't open {topic}: {error:?}")));
        }
        Self { producers, messages: messages() }
    }

    /// Runs load for a time, until all of it is acknowledged. Returns how many messages that were.
    fn run(&self, runtime: &Runtime, time: Duration) -> u64 {
        let watch = Stopwatch::start();
        let lanes = self.producers.iter().map(|producer| {
            let (producer, messages) = (producer.clone(), self.messages.clone());
            runtime.spawn(produce(producer, messages, move || watch.elapsed() >= time))
        });
        let lanes: Vec<_> = lanes.collect();
        let ended = lanes.into_iter().map(|lane| runtime.block_on(lane));
        ended.map(|count| count.expect("a producer does not panic")).sum()
    }
}

async fn produce(producer: Producer, messages: Vec<Bytes>, is_over: impl Fn() -> bool) -> u64 {
    let mut in_flight: VecDeque<Delivery> = VecDeque::new();
    let mut count = 0;
    for payload in messages.iter().cycle() {
        if in_flight.len() == IN_FLIGHT {
            acknowledged(in_flight.pop_front()).await;
            if is_over() {
                break;
            }
        }
        let message = Message { payload: payload.clone(), ..Message::default() };
        in_flight.push_back(producer.send(message).await.expect("a message that can be sent"));
        count += 1;
    }
    while !in_flight.is_empty() {
        acknowledged(in_flight.pop_front()).await;
    }
    count
}

async fn acknowledged(delivery: Option<Delivery>) {
    let delivery = delivery.expect("something is in flight");
    delivery.await.unwrap_or_else(|error| panic!("not acknowledged: {error:?}"));
}

/// Payloads: the same noise from different places, so that they are made quickly.
fn messages() -> Vec<Bytes> {
    let chance = Generator::new(MESSAGES as u64);
    let noise: Vec<u8> =
        (0..(MESSAGES + MESSAGE_BYTES) / 8).flat_map(|_| chance.next().to_ne_bytes()).collect();
    let noise = Bytes::from(noise);
    (0..MESSAGES).map(|from| noise.slice(from..from + MESSAGE_BYTES)).collect()
}

/// Processor time that a process has used, in user and kernel mode.
fn processor_seconds(process: u32) -> f64 {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    // Behind the name, which may have anything in it, come fields 3 and on; 14 and 15 are the times.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
    let ticks = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>());
    let ticks: u64 = ticks.map(|field| field.expect("a number of ticks")).sum();
    ticks as f64 / clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_least_median_and_greatest() {
        let spread = Spread::of([3.0, 1.0, 9.0, 2.0, 4.0].into_iter());
        assert_eq!(format!("{spread:.0}"), "3 (1 to 9)");
        assert_eq!(format!("{:.1}", Spread::of([0.5].into_iter())), "0.5 (0.5 to 0.5)");
    }

    #[test]
    fn processor_time_of_a_process_is_found() {
        let before = processor_seconds(std::process::id());
        let mut sum = 0_u64;
        while processor_seconds(std::process::id()) < before + 0.02 {
            sum = std::hint::black_box(sum + 1);
        }
    }
}
