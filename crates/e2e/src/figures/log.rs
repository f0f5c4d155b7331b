//! The log in this process, without a network.

use std::collections::VecDeque;
use std::path::Path;

use danube_env::disk::Open;
use danube_env::{Disk, Env};
use danube_log::{Appending, Config, Log, OpenLog, Store};
use danube_model::batch::{BatchBuilder, BatchLimits};
use danube_model::{Batch, Compression, Durability, Epoch, Offset, Record, TimeMs, TopicId};

use super::{Extent, Spread, messages};
use crate::wait::Stopwatch;
use crate::{Measured, native};

/// What the plain loop writes before each sync.
const PIECE_BYTES: usize = 1 << 20;
/// Messages of a batch.
const BATCH_MESSAGES: usize = 64;
/// Batches that are not acknowledged yet.
const IN_FLIGHT: usize = 64;

/// Bytes in a second, in MB.
#[derive(Clone, Debug, Default)]
pub struct LogFigures {
    plain: Vec<f64>,
    log: Vec<f64>,
}

/// Appends to a log at `disk`, and writes the same bytes in pieces of 1 MiB with a sync behind each, in turn.
///
/// # Panics
///
/// If the disk fails.
#[must_use]
pub fn log(extent: Extent) -> LogFigures {
    let scratch = tempfile::tempdir().expect("temporary directory can be created");
    let runtime = native::runtime();
    let mut figures = LogFigures::default();
    let batches = batches();
    let piece: Vec<u8> =
        batches.iter().flat_map(|batch| batch.bytes()).copied().take(PIECE_BYTES).collect();
    let env = runtime.block_on(async { Env::real() });
    let (store, log) = runtime.block_on(open(scratch.path(), env.clone()));
    for _ in 0..extent.turns {
        rustix::fs::sync();
        figures.plain.push(plain(&*env.disk, scratch.path(), &piece, extent));
        rustix::fs::sync();
        figures.log.push(runtime.block_on(append(&log, &batches, extent)));
    }
    runtime.block_on(store.close()).expect("the store closes");
    figures
}

impl LogFigures {
    /// All of it, for people.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let ratio = self.log.iter().zip(&self.plain).map(|(log, plain)| log / plain);
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        Measured::default()
            .with("plain writes and syncs of 1 MiB, MB/s", spread(&self.plain))
            .with("log at disk in one process, MB/s", spread(&self.log))
            .with("log / plain", format!("{:.2}", Spread::of(ratio)))
    }
}

async fn open(root: &Path, env: Env) -> (Store, Log) {
    let (store, _) = Store::open(Config::new(root), env).await.expect("an empty directory");
    let topic = TopicId::new([1; 16]);
    store.create(topic, "/default/log".to_owned()).await.expect("a log can be made");
    let open = OpenLog {
        topic,
        epoch: Epoch::new(1).expect("a small number"),
        level: Durability::Disk,
        ceiling: Offset::new(1 << 40),
        resume: None,
    };
    let log = store.open_log(open).await.expect("a log can be opened");
    (store, log)
}

fn batches() -> Vec<Batch> {
    let messages = messages();
    let batches = messages.chunks_exact(BATCH_MESSAGES).map(|messages| {
        let mut builder = BatchBuilder::new(Compression::None, BatchLimits::default());
        for message in messages {
            let record = Record {
                timestamp: TimeMs::new(1),
                key: None,
                value: Some(message.clone()),
                headers: Vec::new(),
            };
            builder.append(&record).expect("a small record");
        }
        builder.finish(None).expect("a batch")
    });
    batches.collect()
}

async fn append(log: &Log, batches: &[Batch], extent: Extent) -> f64 {
    let mut in_flight: VecDeque<Appending> = VecDeque::new();
    let mut bytes = 0;
    let watch = Stopwatch::start();
    for batch in batches.iter().cycle() {
        if in_flight.len() == IN_FLIGHT {
            let appending = in_flight.pop_front().expect("it is full");
            appending.wait().await.expect("it is appended");
            if watch.elapsed() >= extent.turn {
                break;
            }
        }
        bytes += batch.bytes().len();
        in_flight.push_back(log.submit(batch.clone()).await.expect("it is taken"));
    }
    for appending in in_flight {
        appending.wait().await.expect("it is appended");
    }
    bytes as f64 / 1e6 / watch.elapsed().as_secs_f64()
}

/// One file that grows, as whoever has no log would do it.
fn plain(disk: &dyn Disk, dir: &Path, piece: &[u8], extent: Extent) -> f64 {
    let path = dir.join("plain");
    let file = disk.open(&path, Open::Replace).expect("a file can be made");
    let mut position = 0;
    let watch = Stopwatch::start();
    while watch.elapsed() < extent.turn {
        file.write_at(&[piece], position).expect("it is written");
        file.sync_data().expect("it is synced");
        position += piece.len() as u64;
    }
    let megabytes = position as f64 / 1e6 / watch.elapsed().as_secs_f64();
    disk.remove_file(&path).expect("it is there");
    megabytes
}
