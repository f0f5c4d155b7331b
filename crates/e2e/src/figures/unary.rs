//! The published client of Danube, which sends each message in a call of its own and waits for the answer.

use std::path::Path;
use std::time::Duration;

use danube_client::Durability;

use super::{Extent, Spread, processor_seconds};
use crate::broker::{Broker, Options};
use crate::echo::Echo;
use crate::{Cli, Measured, Native, Peer};

/// How many send at once, each on a connection of its own.
const PRODUCERS: [usize; 3] = [1, 8, 64];
/// To whom.
const SIDES: [&str; 3] = ["echo", "page_cache", "disk"];

/// What was measured with so many producers, of each side turn by turn.
#[derive(Clone, Debug)]
struct Load {
    producers: usize,
    sides: [Vec<Turn>; SIDES.len()],
}

/// One turn of one side.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Messages in a second.
    rate: f64,
    /// In milliseconds.
    p50: f64,
    /// In milliseconds.
    p99: f64,
    /// Of the server, in microseconds a message.
    processor: f64,
}

/// What producing through the published client reached.
#[derive(Clone, Debug)]
pub struct UnaryFigures(Vec<Load>);

/// Produces to `program echo`, and to a broker at `page_cache` and at `disk`, in turn: 1 KiB messages by 1, 8 and 64 producers.
///
/// # Panics
///
/// If a message is not acknowledged.
#[must_use]
pub fn unary(extent: Extent, program: &Path) -> UnaryFigures {
    let echo = Echo::start(program);
    let broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    for level in [Durability::PageCache, Durability::Disk] {
        drop(native.producer(&topic(level), level));
    }
    let side = |topic, url, process| Side { topic, url, process };
    let sides = [
        side("/default/echo".to_owned(), echo.url().to_owned(), echo.process_id()),
        side(topic(Durability::PageCache), broker.url(), broker.process_id()),
        side(topic(Durability::Disk), broker.url(), broker.process_id()),
    ];
    let loads = PRODUCERS.map(|producers| {
        let mut load = Load { producers, sides: [const { Vec::new() }; SIDES.len()] };
        for _ in 0..extent.turns {
            for (side, turns) in sides.iter().zip(&mut load.sides) {
                rustix::fs::sync();
                turns.push(side.turn(producers, extent.turn));
            }
        }
        load
    });
    UnaryFigures(loads.into())
}

fn topic(level: Durability) -> String {
    format!("/default/{level}")
}

/// A server, and a topic on it.
struct Side {
    topic: String,
    url: String,
    process: u32,
}

impl Side {
    fn turn(&self, producers: usize, time: Duration) -> Turn {
        let before = processor_seconds(self.process);
        let (producers, milliseconds) = (producers.to_string(), time.as_millis().to_string());
        let arguments =
            ["load", &self.topic, "--producers", &producers, "--milliseconds", &milliseconds];
        let said = Cli::of_peer(Peer::Rust, &self.url).run(arguments).success().json_lines();
        let field =
            |name: &str| said.last().and_then(|said| said[name].as_f64()).expect("a number");
        let (messages, processor) = (field("messages"), processor_seconds(self.process) - before);
        Turn {
            rate: messages / field("seconds"),
            p50: field("p50"),
            p99: field("p99"),
            processor: processor * 1e6 / messages,
        }
    }
}

impl UnaryFigures {
    /// With so many producers, the median of what a side reaches of the echo's speed, by the time within which half of the
    /// messages are answered: what else the machine does meanwhile counts little.
    ///
    /// # Panics
    ///
    /// If that was not measured.
    #[must_use]
    pub fn to_echo(&self, producers: usize, side: &str) -> f64 {
        let load = self.0.iter().find(|load| load.producers == producers);
        let side = SIDES.iter().position(|name| *name == side);
        load.expect("it was measured").p50_to_echo(side.expect("it was measured")).median()
    }

    /// The median of the turns' 99th percentiles of a lone producer's latency at `page_cache`.
    #[must_use]
    pub fn lone_p99(&self) -> Duration {
        let p99 = Spread::of(self.0[0].sides[1].iter().map(|turn| turn.p99)).median();
        Duration::from_secs_f64(p99 / 1e3)
    }

    /// All of it, for people.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let sides = self.0.iter().flat_map(|load| (0..SIDES.len()).map(move |side| (load, side)));
        sides.fold(Measured::default(), |measured, (load, side)| {
            let name = format!("{} producers, {}", load.producers, SIDES[side]);
            let of = |value: fn(&Turn) -> f64| Spread::of(load.sides[side].iter().map(value));
            measured
                .with(&format!("{name}, messages/s"), format!("{:.0}", of(|turn| turn.rate)))
                .with(&format!("{name} / echo"), format!("{:.3}", load.rate_to_echo(side)))
                .with(&format!("{name} / echo by p50"), format!("{:.3}", load.p50_to_echo(side)))
                .with(&format!("{name}, p50, ms"), format!("{:.3}", of(|turn| turn.p50)))
                .with(&format!("{name}, p99, ms"), format!("{:.3}", of(|turn| turn.p99)))
                .with(
                    &format!("{name}, processor microseconds of the server per message"),
                    of(|turn| turn.processor),
                )
        })
    }
}

impl Load {
    fn rate_to_echo(&self, side: usize) -> Spread {
        let turns = self.sides[side].iter().zip(&self.sides[0]);
        Spread::of(turns.map(|(turn, echo)| turn.rate / echo.rate))
    }

    fn p50_to_echo(&self, side: usize) -> Spread {
        let turns = self.sides[side].iter().zip(&self.sides[0]);
        Spread::of(turns.map(|(turn, echo)| echo.p50 / turn.p50))
    }
}
