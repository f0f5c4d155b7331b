//! `inspect` says what a recovery then does, and leaves everything as it was.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use danube_env::Env;
use danube_env::sim::{self, Crash, Generator, Machine, SimDisk, Survival, World};
use danube_log::inspect::journal::{FindingKind, Found, FoundLog, Summary};
use danube_log::inspect::{self, segment::Found as InSegment};
use danube_log::{EndProof, Report, Result, Store};
use danube_model::Durability;

use crate::support::{batch, open, plan_open, topic};

const LOGS: u8 = 3;

fn level(n: u8) -> Durability {
    if n == 1 { Durability::PageCache } else { Durability::Disk }
}

/// Opens all logs and appends to them. An error where the machine goes down.
async fn produce(env: Env, random: Generator, batches: u64) -> Result<Store> {
    let (store, _) = open(&env).await?;
    let mut logs = Vec::new();
    for n in 0..LOGS {
        let open = plan_open(&store, n, level(n), &mut 0).await?;
        logs.push(store.open_log(open).await?);
    }
    for _ in 0..batches {
        let n = random.below(u64::from(LOGS)) as usize;
        let values = [vec![b'x'; random.below(900) as usize]];
        logs[n].append(batch(&values, None)).await?;
    }
    Ok(store)
}

fn inspect_journal(disk: &SimDisk) -> Result<(Vec<Found>, Summary)> {
    let mut found = Vec::new();
    let summary = inspect::journal(&disk.mount(), Path::new("/wal"), &mut |piece| {
        found.push(piece);
        ControlFlow::Continue(())
    })?;
    Ok((found, summary))
}

fn contents(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.files()
        .into_iter()
        .map(|path| (path.clone(), disk.content(&path).expect("it is listed")))
        .collect()
}

/// Flips bits of the journal, and zeroes sectors, where something is written.
fn damage(disk: &SimDisk, random: &Generator) {
    let journal: Vec<_> =
        disk.files().into_iter().filter(|path| path.starts_with("/wal/journal")).collect();
    for _ in 0..random.below(4) {
        let path = &journal[random.below(journal.len() as u64) as usize];
        let content = disk.content(path).expect("it is listed");
        let written = content
            .chunks(512)
            .enumerate()
            .filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
        let sectors: Vec<u64> = written.map(|(index, _)| index as u64 * 512).collect();
        let Some(at) = sectors.get(random.below(sectors.len().max(1) as u64) as usize) else {
            continue;
        };
        if random.below(2) == 0 {
            disk.flip(path, at + random.below(512), 1 << random.below(8)).expect("it is listed");
        } else {
            disk.overwrite(path, *at, &[0; 512]).expect("it works");
        }
    }
}

/// Holds what was said against what was done.
fn compare(found: &[Found], summary: &Summary, store: &Store, report: &Report) {
    assert_eq!(summary.frames_taken, report.frames);
    let said = |kind| {
        let said = found.iter().filter_map(|found| match found {
            Found::Finding(finding) if finding.kind == kind => Some(finding.what.clone()),
            _ => None,
        });
        said.collect::<Vec<_>>()
    };
    let done =
        |errors: &[danube_log::Error]| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(said(FindingKind::Healed), done(&report.healed));
    assert_eq!(said(FindingKind::Cut), done(&report.cut));
    assert_eq!(said(FindingKind::Damaged), done(&report.damaged));
    assert_eq!(said(FindingKind::Refused), [""; 0]);
    let logs: Vec<&FoundLog> = found
        .iter()
        .filter_map(|found| match found {
            Found::Log(log) => Some(log),
            _ => None,
        })
        .collect();
    assert_eq!(logs.len(), store.topics().len());
    for log in logs {
        let facts = store.facts(log.topic_id).expect("the log is there");
        assert_eq!((log.end, log.epoch), (facts.end, facts.epoch));
        assert_eq!(log.end_damaged, facts.end_proof == EndProof::Damaged);
    }
}

async fn crashed(world: World) {
    let machine = world.machine("broker");
    let random = world.generator("test");
    let crash = match random.below(3) {
        0 => Crash::Kill,
        1 => Crash::PowerCut(Survival::Chance),
        _ => Crash::Remount(Survival::Chance),
    };
    machine.disk().crash_at(random.below(400), crash);
    let batches = random.below(200);
    tokio::select! {
        biased;
        () = machine.down() => {}
        _ = produce(machine.env(), world.generator("load"), batches) => machine.crash(crash),
    }
    let env = machine.restart().await;
    if random.below(2) == 0
        && machine.disk().files().iter().any(|path| path.starts_with("/wal/journal"))
    {
        damage(machine.disk(), &random);
    }
    let before = contents(machine.disk());
    let inspected = inspect_journal(machine.disk());
    assert!(before == contents(machine.disk()), "looking changes nothing");
    match (inspected, open(&env).await) {
        (Ok((found, summary)), Ok((store, report))) => {
            compare(&found, &summary, &store, &report);
            store.close().await.expect("the disk is whole");
        }
        (Ok((found, _)), Err(error)) => {
            let refused = |found: &Found| matches!(found, Found::Finding(finding) if finding.kind == FindingKind::Refused);
            assert!(found.iter().any(refused), "{error}");
        }
        // A directory that the crash left without an identity is still empty.
        (Err(danube_log::Error::Missing { .. }), Ok(_)) => {
            assert!(before.is_empty() || !before.contains_key(Path::new("/wal/disk")))
        }
        (Err(_), Err(_)) => {}
        (Err(error), Ok(_)) => panic!("inspecting fails where opening works: {error}"),
    }
}

#[test]
fn what_inspect_says_is_what_a_recovery_does() {
    for seed in 0..300 {
        let result = std::panic::catch_unwind(|| sim::run(seed, crashed));
        assert!(result.is_ok(), "seed {seed}");
    }
}

/// Whether the log at `page_cache` is opened without a gap.
async fn proven_after(world: World, crash: Crash) -> bool {
    let machine = world.machine("broker");
    produce(machine.env(), world.generator("load"), 30).await.expect("it runs");
    machine.crash(crash);
    let env = machine.restart().await;
    inspect_journal(machine.disk()).expect("it can be read");
    let (store, report) = open(&env).await.expect("it works");
    assert_eq!(
        report.page_cache_proven,
        store.facts(topic(1)).expect("it works").end_proof == EndProof::Proven
    );
    report.page_cache_proven
}

/// Reading brings pages into the cache. Were they left there, a cache that was lost would look as if it were not.
#[test]
fn looking_neither_proves_nor_disproves_the_page_cache() {
    let lost = Crash::Remount(Survival::Nothing);
    assert!(!sim::run(1, |world| proven_after(world, lost)));
    assert!(sim::run(1, |world| proven_after(world, Crash::Kill)));
}

async fn stopped(world: World) {
    let machine = world.machine("broker");
    let store = produce(machine.env(), world.generator("load"), 200).await.expect("it works");
    store.close().await.expect("the disk is whole");
    let (found, summary) = inspect_journal(machine.disk()).expect("it can be read");
    assert_eq!(
        (summary.frames_taken, summary.cut, summary.damaged, summary.problems),
        (0, 0, 0, 0)
    );
    assert!(summary.complete && summary.rounds > 0);
    let checkpoint = found.iter().find_map(|found| match found {
        Found::Checkpoint(checkpoint) => Some(checkpoint),
        _ => None,
    });
    assert!(checkpoint.is_some_and(|checkpoint| checkpoint.clean));
    let disk = machine.disk().mount();
    let segments = segments(&machine);
    assert!(segments.len() > 2 * usize::from(LOGS), "segments roll");
    let mut sealed = 0;
    for path in segments {
        let mut problems = Vec::new();
        let summary = inspect::segment(&*disk, &path, &mut |found| {
            if let InSegment::Problem(problem) = found {
                problems.push(problem);
            }
            ControlFlow::Continue(())
        });
        assert!(problems.is_empty(), "{}: {problems:?}", path.display());
        sealed += usize::from(summary.expect("it works").sealed);
    }
    assert!(sealed >= usize::from(LOGS));
}

fn segments(machine: &Machine) -> Vec<PathBuf> {
    let files = machine.disk().files();
    files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "seg")).collect()
}

#[test]
fn after_a_clean_stop_everything_is_whole() {
    sim::run(7, stopped);
}

#[test]
fn the_journal_is_found_from_the_directories_around_it() {
    let disk = SimDisk::new(1);
    let mount: Arc<dyn danube_env::Disk> = disk.mount();
    mount.create_dir_all(Path::new("/data/wal/journal")).expect("it works");
    for dir in ["/data", "/data/wal", "/data/wal/journal"] {
        let inspected =
            inspect::journal(&mount, Path::new(dir), &mut |_| ControlFlow::Continue(()));
        let error = inspected.expect_err("there is none").to_string();
        assert_eq!(error, "/data/wal/disk is missing: the identity of a hot tier");
    }
    let inspected = inspect::journal(&mount, Path::new("/"), &mut |_| ControlFlow::Continue(()));
    let error = inspected.expect_err("there is none").to_string();
    assert_eq!(error, "/journal is missing: the journal of a hot tier");
}
