//! The long tests: `soak --list`, `soak NAME`. Each prints what it measured and a verdict, and fails with exit code 1.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Duration;

use danube_client::Durability;
use danube_e2e::figures::{self as measure, Extent};
use danube_e2e::scenario::{
    ack_timeout, consumers, damage, half_open, kills, lines, order, power, ready, retention, seek,
    slow, steady, swap, topics, wakeups,
};
use danube_e2e::volume::Kind;
use danube_e2e::wait::Stopwatch;
use danube_e2e::{Measured, echo};

/// A long test.
struct Soak {
    name: &'static str,
    what: &'static str,
    run: fn() -> Vec<Measured>,
}

const SOAKS: [Soak; 24] = [
    Soak { name: "lines", what: "a million lines through the command line and back", run: lines },
    Soak { name: "ready", what: "starts: empty, 2,000 topics, 5 GiB", run: ready },
    Soak {
        name: "kills",
        what: "40 kills and 20 clean stops under load, at disk and at page_cache",
        run: kills,
    },
    Soak { name: "order", what: "2,000 lone messages under strace", run: order },
    Soak {
        name: "power",
        what: "ten power cuts each on ext4 and XFS, at disk and at page_cache",
        run: power,
    },
    Soak { name: "damage", what: "1,000 damaged files", run: damage },
    Soak { name: "consumers", what: "20 kills under consumers of all types", run: consumers },
    Soak { name: "slow", what: "20,000 messages to a slow consumer, and idle ones", run: slow },
    Soak {
        name: "retention",
        what: "a minute's messages, of producers in 2100 and 1971",
        run: keep,
    },
    Soak {
        name: "prune-race",
        what: "ten minutes of readers at a start that moves",
        run: prune_race,
    },
    Soak { name: "steady", what: "20,000 messages a second for an hour", run: steady },
    Soak { name: "swap", what: "20 rounds of key-shared consumers that come and go", run: swap },
    Soak { name: "topics", what: "a kill with 10,000 topics that have data", run: many_topics },
    Soak { name: "idle-topics", what: "20,000 topics that nobody uses", run: idle_topics },
    Soak { name: "partitions", what: "one subscription of 1,000 partitions", run: many_partitions },
    Soak { name: "seek", what: "20 seeks under acknowledgements, and 20 with a kill", run: seek },
    Soak { name: "ack-timeout", what: "one message that is late", run: ack_timeout },
    Soak { name: "half-open", what: "a path frozen for three minutes", run: half_open },
    Soak {
        name: "wakeups",
        what: "2,200 rounds of a few messages to an idle consumer",
        run: wakeups,
    },
    Soak { name: "idle", what: "a message after half an hour of silence", run: idle },
    Soak { name: "figures", what: "speed over the wire, beside an echo", run: figures },
    Soak { name: "unary", what: "speed of existing producers, beside an echo", run: unary },
    Soak {
        name: "consume",
        what: "catching up beside an existing consumer, and 1,000 subscriptions",
        run: consume,
    },
    Soak { name: "log", what: "speed of the log alone, beside plain writes and syncs", run: log },
];

const LEVELS: [Durability; 2] = [Durability::Disk, Durability::PageCache];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--list"] => {
            SOAKS.iter().for_each(|soak| println!("{:11} {}", soak.name, soak.what));
            ExitCode::SUCCESS
        }
        // The other side of `figures` and `unary`.
        ["echo"] => {
            echo::serve();
            ExitCode::SUCCESS
        }
        [name] => match SOAKS.iter().find(|soak| soak.name == *name) {
            Some(soak) => run(soak),
            None => misuse(&format!("there is no `{name}`")),
        },
        _ => misuse("one name, or --list"),
    }
}

fn run(soak: &Soak) -> ExitCode {
    println!("{}: {}", soak.name, soak.what);
    let watch = Stopwatch::start();
    // A broken promise is a panic, whose message has been shown by then.
    let result = catch_unwind(soak.run);
    let seconds = watch.elapsed().as_secs();
    if let Ok(measured) = result {
        measured.iter().for_each(|measured| println!("{measured}"));
        println!("{}: good, {seconds} s", soak.name);
        ExitCode::SUCCESS
    } else {
        println!("{}: FAILED, {seconds} s", soak.name);
        ExitCode::FAILURE
    }
}

fn misuse(text: &str) -> ExitCode {
    eprintln!("{text}\nhint: soak --list");
    ExitCode::from(2)
}

fn lines() -> Vec<Measured> {
    vec![lines::run(1_000_000, 1)]
}

fn ready() -> Vec<Measured> {
    vec![ready::empty(), ready::many_topics(2000), ready::much_data(5 << 30)]
}

fn kills() -> Vec<Measured> {
    let run = |durability| kills::run(kills::Extent { durability, kills: 40, stops: 20, seed: 2 });
    LEVELS.map(run).to_vec()
}

fn order() -> Vec<Measured> {
    LEVELS.map(|durability| order::run(durability, 2000)).to_vec()
}

fn power() -> Vec<Measured> {
    let all =
        [Kind::Ext4, Kind::Xfs].into_iter().flat_map(|kind| LEVELS.map(|level| (kind, level)));
    all.map(|(kind, durability)| power::run(power::Extent { kind, durability, cuts: 10, seed: 2 }))
        .collect()
}

fn damage() -> Vec<Measured> {
    vec![damage::random(1000, 2)]
}

fn consumers() -> Vec<Measured> {
    let flush_interval = Duration::from_secs(1);
    vec![consumers::run(consumers::Extent { kills: 20, flush_interval, seed: 1 })]
}

fn slow() -> Vec<Measured> {
    vec![slow::behind(20_000), slow::beside(20_000, 1.5)]
}

fn keep() -> Vec<Measured> {
    vec![retention::by_receive_time(Duration::from_secs(60))]
}

fn prune_race() -> Vec<Measured> {
    vec![retention::prune_race(Duration::from_secs(600))]
}

fn steady() -> Vec<Measured> {
    let window = Duration::from_secs(60);
    let extent = steady::Extent { windows: 60, window, rate: 20_000, kept_mib: 64 };
    vec![steady::run(extent, Some("steady.svg".as_ref()))]
}

fn swap() -> Vec<Measured> {
    vec![swap::run(20)]
}

fn many_topics() -> Vec<Measured> {
    vec![topics::with_data(10_000)]
}

fn idle_topics() -> Vec<Measured> {
    vec![topics::idle(20_000)]
}

fn many_partitions() -> Vec<Measured> {
    vec![topics::partitions(1_000)]
}

fn seek() -> Vec<Measured> {
    vec![seek::run(20)]
}

fn ack_timeout() -> Vec<Measured> {
    vec![ack_timeout::run()]
}

fn half_open() -> Vec<Measured> {
    vec![half_open::run(Duration::from_secs(180))]
}

fn wakeups() -> Vec<Measured> {
    let idle = Duration::from_secs(120);
    let extent = wakeups::Extent { idle, rounds: 2000, coming: 200, pause_max_ms: 200, seed: 1 };
    vec![wakeups::run(extent)]
}

fn idle() -> Vec<Measured> {
    let idle = Duration::from_secs(30 * 60);
    vec![wakeups::run(wakeups::Extent { idle, rounds: 1, coming: 0, pause_max_ms: 1, seed: 1 })]
}

const EXTENT: Extent = Extent { turns: 5, turn: Duration::from_secs(2) };

fn figures() -> Vec<Measured> {
    let program = std::env::current_exe().expect("the system knows what it runs");
    vec![measure::wire(EXTENT, &program).measured()]
}

fn unary() -> Vec<Measured> {
    let program = std::env::current_exe().expect("the system knows what it runs");
    vec![measure::unary(EXTENT, &program).measured()]
}

fn consume() -> Vec<Measured> {
    let catching_up = measure::catching_up(EXTENT.turns, 10_000);
    vec![catching_up.measured(), measure::fan_out(100, Duration::from_secs(5)).measured()]
}

fn log() -> Vec<Measured> {
    vec![measure::log(EXTENT).measured()]
}
