//! Letting go of the oldest segments: the start moves first, whatever crash comes in between.

use std::collections::BTreeMap;
use std::path::PathBuf;

use danube_env::Env;
use danube_env::sim::{self, Crash, Machine, Survival, World};
use danube_log::{Config, Gap, Log, Read, Reader, Start, Store};
use danube_model::{Durability, Offset};

use crate::support::{batch, open, plan_open, read_all, small, topic};

const MESSAGES: u64 = 60;

async fn open_log(store: &Store, n: u8) -> Log {
    let planned = plan_open(store, n, Durability::Disk, &mut 0).await.expect("it can be opened");
    store.open_log(planned).await.unwrap_or_else(|error| panic!("log {n}: {error:?}"))
}

async fn fill(log: &Log, messages: u64) {
    for n in 0..messages {
        log.append(batch(&[vec![n as u8; 500]], None)).await.expect("it is stored");
    }
}

async fn trim(store: &Store, n: u8, before: u64) -> usize {
    let before = BTreeMap::from([(topic(n), Offset::new(before))]);
    store.trim(before).await.expect("it can be trimmed")
}

fn segments(machine: &Machine, n: u8) -> Vec<u64> {
    let dir = PathBuf::from(format!("/wal/topics/{}", topic(n)));
    let first = |path: PathBuf| {
        let name = path.strip_prefix(&dir).ok()?.to_str()?;
        name.strip_suffix(".seg")?.parse().ok()
    };
    machine.disk().files().into_iter().filter_map(first).collect()
}

/// Where the log begins, and where it ends; it is dense in between.
async fn dense(log: &Log) -> (u64, u64) {
    let start = log.extent().await.expect("it is known").start;
    let mut end = start;
    for read in read_all(log, Start::Earliest).await {
        let Read::Frame(frame) = read else { panic!("{read:?}") };
        assert_eq!(frame.base(), end, "the log is dense");
        end = frame.next();
    }
    (start.get(), end.get())
}

#[test]
fn whole_segments_go_and_the_start_moves() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
        let log = open_log(&store, 0).await;
        fill(&log, MESSAGES).await;
        log.seal().await.expect("it is sealed");
        let all = segments(&machine, 0);
        assert!(all.len() > 3, "{all:?}");
        assert_eq!(trim(&store, 0, all[1] - 1).await, 0, "a segment goes whole");
        assert_eq!(trim(&store, 0, all[2] + 1).await, 2);
        assert_eq!(segments(&machine, 0), all[2..]);
        assert_eq!(dense(&log).await, (all[2], MESSAGES));

        // Who asks for what is gone is told so.
        let reads = read_all(&log, Start::Offset(Offset::new(3))).await;
        let Read::Trimmed { from, to } = reads[0] else { panic!("{:?}", reads[0]) };
        assert_eq!((from.get(), to.get()), (3, all[2]));
        let holding = store.holding(topic(0), Offset::new(all[3])).await.expect("it is known");
        assert_eq!(holding.start.get(), all[2]);
        let found: Vec<_> = holding.sealed.iter().map(|sealed| sealed.first.get()).collect();
        assert_eq!(found, all[3..], "what it was asked for");
        assert!(holding.sealed.iter().all(|sealed| sealed.newest.is_some() && sealed.bytes > 0));

        // Nothing is left of it, and it goes on where it was.
        assert_eq!(trim(&store, 0, MESSAGES).await, all.len() - 2);
        assert_eq!(segments(&machine, 0), [0u64; 0]);
        assert_eq!(dense(&log).await, (MESSAGES, MESSAGES));
        store.close().await.expect("a clean stop");
        let (store, report) = open(&machine.restart().await).await.expect("it opens");
        assert!(report.damaged.is_empty() && report.problems.is_empty(), "{report:?}");
        let log = open_log(&store, 0).await;
        fill(&log, 1).await;
        assert_eq!(dense(&log).await, (MESSAGES, MESSAGES + 1));
    });
}

/// The segment that takes frames stays.
#[test]
fn the_segment_that_is_filled_is_never_removed() {
    sim::run(2, |world| async move {
        let machine = world.machine("broker");
        let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
        let log = open_log(&store, 0).await;
        fill(&log, MESSAGES).await;
        trim(&store, 0, MESSAGES).await;
        let (start, end) = dense(&log).await;
        assert!(0 < start && start < end && end == MESSAGES, "{start} {end}");
        assert_eq!(segments(&machine, 0), [start]);
    });
}

#[test]
fn a_gap_below_the_start_is_not_told_any_more() {
    sim::run(3, |world| async move {
        let machine = world.machine("broker");
        let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
        let mut planned = plan_open(&store, 0, Durability::Disk, &mut 0).await.expect("a plan");
        planned.resume = Some((Offset::new(7), danube_model::GapReason::LostDisk));
        let log = store.open_log(planned).await.expect("it opens");
        fill(&log, MESSAGES).await;
        let gaps = |log: &Log| {
            let log = log.clone();
            async move { log.extent().await.expect("it is known").gaps }
        };
        assert!(matches!(gaps(&log).await[..], [Gap { to, .. }] if to.get() == 7));
        trim(&store, 0, MESSAGES).await;
        assert_eq!(gaps(&log).await, []);
        log.close().await.expect("it closes");
        assert_eq!(gaps(&open_log(&store, 0).await).await, []);
    });
}

/// A log with two lives, which is trimmed while the disk goes down at its `change`th change from then on. Whether it did.
async fn crashed(world: World, change: u64, crash: Crash) -> bool {
    let machine = world.machine("broker");
    let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
    let log = open_log(&store, 0).await;
    fill(&log, MESSAGES).await;
    let before = segments(&machine, 0);
    let keep = before[before.len() / 2];
    machine.disk().crash_at(change, crash);
    let trimming = BTreeMap::from([(topic(0), Offset::new(keep))]);
    let is_down = store.trim(trimming).await.is_err();
    machine.disk().crash(crash);
    let (store, report) = open(&machine.restart().await).await.expect("a start is not refused");
    assert!(report.damaged.is_empty(), "change {change}: {report:?}");
    let log = open_log(&store, 0).await;
    let (start, end) = dense(&log).await;
    assert_eq!(end, MESSAGES, "change {change}");
    assert!(start == 0 || start == keep, "change {change}: it begins at {start}");
    assert!(is_down || start == keep, "change {change}: what was told is durable");
    assert_eq!(segments(&machine, 0)[0], start, "change {change}: nothing is left below the start");
    is_down
}

#[test]
fn a_crash_leaves_the_files_or_a_start_behind_them() {
    for crash in
        [Crash::Kill, Crash::PowerCut(Survival::Chance), Crash::PowerCut(Survival::Nothing)]
    {
        let mut crashes = 0;
        for change in 0..60 {
            let went_down = sim::run(change, move |world| crashed(world, change, crash));
            crashes += u64::from(went_down);
        }
        assert!((5..60).contains(&crashes), "{crash:?}: down at {crashes} changes, which are all");
    }
}

/// Files large enough to be read in several pieces.
async fn open_large(env: &Env, open_files_max: usize) -> Store {
    let config = Config { segment_bytes: 1 << 20, open_files_max, ..small("/wal") };
    Store::open(Config { journal_bytes: 1 << 20, ..config }, env.clone()).await.expect("it opens").0
}

async fn next(reader: &mut Reader) -> Read {
    reader.next().await.expect("it can be read")
}

#[test]
fn a_reader_goes_on_to_the_end_of_a_file_that_is_removed() {
    sim::run(5, |world| async move {
        let machine = world.machine("broker");
        let store = open_large(&machine.env(), 1_024).await;
        let log = open_log(&store, 0).await;
        let value = || vec![7; 10_000];
        for _ in 0..400 {
            log.append(batch(&[value()], None)).await.expect("it is stored");
        }
        log.seal().await.expect("it is sealed");
        let all = segments(&machine, 0);
        assert!(all.len() > 3, "{all:?}");
        let mut reader = log.read(Start::Earliest).await.expect("it opens");
        let mut other = log.read(Start::Offset(Offset::new(all[1] - 1))).await.expect("it opens");
        assert!(matches!(next(&mut reader).await, Read::Frame(_)));
        assert_eq!(trim(&store, 0, all[2]).await, 2);
        for offset in 1..all[1] {
            match next(&mut reader).await {
                Read::Frame(frame) => assert_eq!(frame.base().get(), offset),
                read => panic!("{offset}: {read:?}"),
            }
        }
        // One that had not opened it yet is told at once; then both go on.
        for (reader, gone) in [(&mut reader, all[1]), (&mut other, all[1] - 1)] {
            let read = next(reader).await;
            let Read::Trimmed { from, to } = read else { panic!("{read:?}") };
            assert_eq!((from.get(), to.get()), (gone, all[2]));
            assert!(matches!(next(reader).await, Read::Frame(frame) if frame.base() == to));
        }
    });
}

/// Found by a simulation: the reader took the file for damaged.
#[test]
fn a_reader_whose_file_was_closed_and_is_removed_goes_on_at_the_start() {
    sim::run(5, |world| async move {
        let machine = world.machine("broker");
        let store = open_large(&machine.env(), 1).await;
        let log = open_log(&store, 0).await;
        for _ in 0..400 {
            log.append(batch(&[vec![7; 10_000]], None)).await.expect("it is stored");
        }
        log.seal().await.expect("it is sealed");
        let all = segments(&machine, 0);
        let mut reader = log.read(Start::Earliest).await.expect("it opens");
        assert!(matches!(next(&mut reader).await, Read::Frame(_)));
        // There is room for one open file.
        let mut other = log.read(Start::Offset(Offset::new(all[1]))).await.expect("it opens");
        assert!(matches!(next(&mut other).await, Read::Frame(_)));
        assert_eq!(trim(&store, 0, all[1]).await, 1);
        let to = loop {
            match next(&mut reader).await {
                Read::Frame(_) => {}
                Read::Trimmed { to, .. } => break to.get(),
                read => panic!("{read:?}"),
            }
        };
        assert_eq!(to, all[1]);
        for offset in all[1]..400 {
            let read = next(&mut reader).await;
            assert!(
                matches!(&read, Read::Frame(frame) if frame.base().get() == offset),
                "{read:?}"
            );
        }
    });
}
