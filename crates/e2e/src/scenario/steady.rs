//! A steady load for a long time, with segments that roll and retention that removes them: nothing grows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::broker::{Broker, Options};
use crate::files;
use crate::plot::{self, Panel};
use crate::usage::{descriptors, resident_kib};
use crate::{Cli, Measured};

/// How much, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Measurements, one after the other.
    pub windows: usize,
    /// Of one.
    pub window: Duration,
    /// Messages of 1 KiB a second, over all topics.
    pub rate: u32,
    /// What each topic keeps, in MiB; it must be full within a quarter of the time.
    pub kept_mib: u32,
}

const TOPICS: usize = 10;
/// What a quarter of the time may be above another.
const GROWTH_MAX: f64 = 1.1;
/// Latency is the machine's, too, and has more noise.
const SLOWER_MAX: f64 = 2.0;
/// What is never growth.
const RESIDENT_NOISE_MIB: f64 = 16.0;
const DESCRIPTORS_NOISE: f64 = 8.0;
const LATENCY_NOISE_MS: f64 = 5.0;

/// What was seen at the end of each window.
struct Seen {
    name: &'static str,
    noise: f64,
    growth_max: f64,
    values: Vec<f64>,
}

/// Produces and consumes at a steady rate, and looks what it takes. Where `plotted` is given, writes a plot there, and the
/// values beside it.
///
/// # Panics
///
/// If the rate is not held, or latency, memory, descriptors or the disk are higher in the last quarter of the time than in
/// the second.
#[must_use]
pub fn run(extent: Extent, plotted: Option<&Path>) -> Measured {
    let kept = format!("{}MiB", extent.kept_mib);
    let options = Options::default()
        .setting("storage.wal.rotation.max_bytes", &format!("{}KiB", extent.kept_mib * 1024 / 8))
        .setting("storage.wal.advanced.journal.checkpoint_bytes", &kept)
        .setting("storage.wal.advanced.cache_capacity", &kept)
        .setting("storage.local_retention.check_interval_minutes", "1s");
    let mut broker = Broker::start(options);
    let cli = Cli::of(&broker).limit(extent.window + Duration::from_secs(60));
    let topics: Vec<String> = (0..TOPICS).map(|topic| format!("/default/steady-{topic}")).collect();
    for topic in &topics {
        drop(cli.run(["topic", "create", topic, "--retention-size", &kept]).success());
    }
    let mut seen = [
        ("ack p50, ms", LATENCY_NOISE_MS, SLOWER_MAX),
        ("ack p99, ms", LATENCY_NOISE_MS, SLOWER_MAX),
        ("end to end p50, ms", LATENCY_NOISE_MS, SLOWER_MAX),
        ("end to end p99, ms", LATENCY_NOISE_MS, SLOWER_MAX),
        ("resident, MiB", RESIDENT_NOISE_MIB, GROWTH_MAX),
        ("descriptors", DESCRIPTORS_NOISE, GROWTH_MAX),
        ("disk, MiB", f64::from(extent.kept_mib * 4), GROWTH_MAX),
        ("messages a second", 0.0, GROWTH_MAX),
    ]
    .map(|(name, noise, growth_max)| Seen { name, noise, growth_max, values: Vec::new() });
    for _ in 0..extent.windows {
        let values = window(&broker, &cli, extent, &topics);
        seen.iter_mut().zip(values).for_each(|(seen, value)| seen.values.push(value));
    }
    broker.stop();
    if let Some(path) = plotted {
        write(path, extent, &seen);
    }
    let quarter = extent.windows / 4;
    let quarters = |values: &[f64]| {
        let [second, last] = [quarter..2 * quarter, extent.windows - quarter..extent.windows];
        [median(&values[second]), median(&values[last])]
    };
    let measured = seen.iter().fold(Measured::default(), |measured, seen| {
        let [second, last] = quarters(&seen.values);
        measured.with(seen.name, format!("{second:.1}, and {last:.1} in the end"))
    });
    for seen in &seen {
        let [second, last] = quarters(&seen.values);
        assert!(last <= second * seen.growth_max + seen.noise, "{} grows\n{measured}", seen.name);
    }
    let rates = &seen[seen.len() - 1].values;
    assert!(median(rates) >= 0.95 * f64::from(extent.rate), "the rate is not held\n{measured}");
    measured
}

/// The values of one window, in the order of what is seen.
fn window(broker: &Broker, cli: &Cli, extent: Extent, topics: &[String]) -> [f64; 8] {
    let rate = extent.rate.to_string();
    let time = format!("{}ms", extent.window.as_millis());
    let mut words = vec!["bench", "end-to-end", "--output", "json", "--message-size", "1024"];
    words.extend(["--rate", &rate, "--duration", &time]);
    words.extend(topics.iter().map(String::as_str));
    let output = cli.run(words).success();
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{said}"));
    [
        number(&said["ack_ms"]["p50"]),
        number(&said["ack_ms"]["p99"]),
        number(&said["end_to_end_ms"]["p50"]),
        number(&said["end_to_end_ms"]["p99"]),
        resident_kib(broker) as f64 / 1024.0,
        descriptors(broker) as f64,
        files::bytes(&broker.data_dir()) as f64 / f64::from(1 << 20),
        number(&said["messages_per_second"]),
    ]
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The plot, and the values as text beside it.
fn write(path: &Path, extent: Extent, seen: &[Seen]) {
    let minutes =
        (1..=extent.windows).map(|window| window as f64 * extent.window.as_secs_f64() / 60.0);
    let axis: Vec<f64> = minutes.collect();
    let panels = seen.iter().map(|seen| Panel {
        title: seen.name.to_owned(),
        lines: vec![(String::new(), seen.values.clone())],
    });
    let drawn = plot::svg("min", &axis, &panels.collect::<Vec<_>>());
    let head = std::iter::once("minutes").chain(seen.iter().map(|seen| seen.name));
    let mut text = head.collect::<Vec<_>>().join("\t") + "\n";
    for (index, at) in axis.iter().enumerate() {
        let values = std::iter::once(*at).chain(seen.iter().map(|seen| seen.values[index]));
        text += &(values.map(|value| format!("{value:.2}")).collect::<Vec<_>>().join("\t") + "\n");
    }
    let beside: PathBuf = path.with_extension("tsv");
    for (path, text) in [(path, drawn), (&beside, text)] {
        files::write(path, text.as_bytes()).expect("a plot can be written");
    }
}
