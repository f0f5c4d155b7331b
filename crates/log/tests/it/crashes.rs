//! Crashes at any change of the disk, again and again, under a workload; what was acknowledged is there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use danube_env::sim::{self, Crash, Generator, Machine, Survival, World};
use danube_log::{Read, Start};
use danube_model::{Durability, Offset};

use crate::support::{batch, open, plan_open, read_all, records};

const LOGS: u8 = 4;

#[derive(Default)]
struct Seen {
    /// Offset to payload, for what was acknowledged and must survive.
    acked: BTreeMap<u64, Vec<u8>>,
    ceiling: u64,
}

fn level(n: u8) -> Durability {
    if n.is_multiple_of(2) { Durability::Disk } else { Durability::PageCache }
}

async fn produce(
    machine: Machine,
    seen: Rc<RefCell<BTreeMap<u8, Seen>>>,
    random: Generator,
    life: u64,
) {
    let env = machine.env();
    let (store, _) = match open(&env).await {
        Ok(opened) => opened,
        // The machine went down, which whoever called waits for.
        Err(_) if machine.disk().is_down() => return,
        Err(error) => panic!("the store does not open: {error:?}"),
    };
    let mut logs = Vec::new();
    for n in 0..LOGS {
        let mut ceiling = seen.borrow().get(&n).map_or(0, |seen| seen.ceiling);
        let planned = plan_open(&store, n, level(n), &mut ceiling).await;
        seen.borrow_mut().entry(n).or_default().ceiling = ceiling;
        let opened = match planned {
            Ok(open) => store.open_log(open).await,
            Err(error) => Err(error),
        };
        let log = match opened {
            Ok(log) => log,
            Err(_) if machine.disk().is_down() => return,
            Err(error) => panic!("log {n} does not open: {error:?}"),
        };
        check(&log, n, &seen).await;
        logs.push(log);
    }
    for i in 0.. {
        let n = random.below(u64::from(LOGS)) as u8;
        let count = 1 + random.below(3);
        let values: Vec<_> = (0..count)
            .map(|k| {
                format!("{n}-{life}-{i}-{k}-{}", "x".repeat(random.below(900) as usize))
                    .into_bytes()
            })
            .collect();
        let appended = match logs[n as usize].append(batch(&values, None)).await {
            Ok(appended) => appended,
            Err(_) if machine.disk().is_down() => return,
            Err(error) => panic!("log {n} takes nothing: {error:?}"),
        };
        let mut seen = seen.borrow_mut();
        let acked = &mut seen.entry(n).or_default().acked;
        for (k, value) in values.into_iter().enumerate() {
            let before = acked.insert(appended.base.get() + k as u64, value);
            assert!(
                before.is_none(),
                "log {n}: offset {} was given twice",
                appended.base.get() + k as u64
            );
        }
    }
}

async fn check(log: &danube_log::Log, n: u8, seen: &RefCell<BTreeMap<u8, Seen>>) {
    let reads = read_all(log, Start::Earliest).await;
    let mut end = Offset::ZERO;
    let mut found = BTreeMap::new();
    for read in &reads {
        let Read::Frame(frame) = read else { panic!("log {n}: {read:?}") };
        assert_eq!(frame.base(), end, "log {n} is dense");
        end = frame.next();
        found.extend(records(frame));
    }
    let seen = seen.borrow();
    let Some(seen) = seen.get(&n) else { return };
    for (offset, value) in &seen.acked {
        let found = found.get(offset).map(|value| name(value));
        assert_eq!(found, Some(name(value)), "log {n}: offset {offset}");
    }
}

/// The part of a payload that says which it is.
fn name(value: &[u8]) -> String {
    let value = String::from_utf8_lossy(value);
    value.trim_end_matches('x').to_owned()
}

async fn lives(world: World) {
    let machine = world.machine("broker");
    let random = world.generator("test");
    let seen = Rc::new(RefCell::new(BTreeMap::<u8, Seen>::new()));
    for life in 0..6 {
        let crash = match random.below(3) {
            0 => Crash::Kill,
            1 => Crash::PowerCut(Survival::Chance),
            _ => Crash::Remount(Survival::Chance),
        };
        machine.disk().crash_at(random.below(300), crash);
        tokio::select! {
            biased;
            () = machine.down() => {}
            () = produce(machine.clone(), Rc::clone(&seen), world.generator(&format!("life {life}")), life) => machine.down().await,
        }
        if !matches!(crash, Crash::Kill) {
            for (n, seen) in seen.borrow_mut().iter_mut() {
                if level(*n) == Durability::PageCache {
                    seen.acked.clear();
                }
            }
        }
        machine.restart().await;
    }
}

#[test]
fn what_was_acknowledged_survives_crashes_at_any_change() {
    for seed in 0..300 {
        let result = std::panic::catch_unwind(|| sim::run(seed, lives));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..5 {
        sim::run_twice(seed, lives);
    }
}

/// A start notes that it looks at the page cache, because a look can hide what it finds. A start that was killed after the
/// look must leave no doubt to the next one: every topic at `page_cache` would get a gap.
#[test]
fn a_kill_of_the_start_after_a_kill_leaves_no_doubt_about_the_page_cache() {
    let mut in_doubt = Vec::new();
    let mut kills = 0;
    for change in 0..400 {
        let (was_killed, is_proven) = sim::run(7, move |world| killed_at_start(world, change));
        kills += u64::from(was_killed);
        if !is_proven {
            in_doubt.push(change);
        }
    }
    assert!((20..400).contains(&kills), "kills at {kills} changes, which are all of a start");
    // Where the end of the journal itself was being looked at, nobody can say.
    assert!(in_doubt.len() <= 1, "in doubt after kills at {in_doubt:?}");
}

async fn killed_at_start(world: World, change: u64) -> (bool, bool) {
    let machine = world.machine("broker");
    let (store, _) = open(&machine.env()).await.expect("a store opens");
    let open_log = plan_open(&store, 1, Durability::PageCache, &mut 0).await.expect("a plan");
    let log = store.open_log(open_log).await.expect("a log opens");
    for n in 0..8 {
        log.append(batch(&[vec![n; 3000]], None)).await.expect("it is appended");
    }
    machine.disk().crash(Crash::Kill);
    machine.restart().await;
    machine.disk().crash_at(change, Crash::Kill);
    let killed = open(&machine.env()).await.is_err();
    machine.disk().crash(Crash::Kill);
    machine.restart().await;
    let (_, report) = open(&machine.env()).await.expect("a store opens");
    (killed, report.page_cache_proven)
}
