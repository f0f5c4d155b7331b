//! `inspect` says what a recovery then does, and leaves everything as it was.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use danube_env::Env;
use danube_env::sim::{self, Crash, Generator, Machine, SimDisk, Survival, World};
use danube_log::inspect::journal::{
    FindingKind, Found, FoundLog, FoundRecord, LostRounds, Summary,
};
use danube_log::inspect::{self, segment::Found as InSegment};
use danube_log::{EndProof, Error, Report, Result, Store};
use danube_model::Durability;

use crate::support::{batch, open, plan_open, topic};

const LOGS: u8 = 3;

/// Opens all logs and appends to them, the second one at `page_cache`, and sometimes all of them. An error where the machine
/// goes down.
async fn produce(env: Env, random: Generator, batches: u64) -> Result<Store> {
    let (store, _) = open(&env).await?;
    let mut logs = Vec::new();
    let rests_on_page_cache = random.below(2) == 0;
    for n in 0..LOGS {
        let page_cache = n == 1 || rests_on_page_cache;
        let level = if page_cache { Durability::PageCache } else { Durability::Disk };
        let open = plan_open(&store, n, level, &mut 0).await?;
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

/// What a start did, compared with what was said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The same.
    Same,
    /// What was to be cut is known to have been whole: the page cache is that of the broker that wrote it, which only a
    /// start finds out.
    WentOn,
    Refused,
}

fn said(found: &[Found], kind: FindingKind) -> Vec<String> {
    let said = found.iter().filter_map(|found| match found {
        Found::Finding(finding) if finding.kind == kind => Some(finding.what.clone()),
        _ => None,
    });
    said.collect()
}

fn done(errors: &[Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn logs(found: &[Found]) -> impl Iterator<Item = &FoundLog> {
    found.iter().filter_map(|found| match found {
        Found::Log(log) => Some(log),
        _ => None,
    })
}

/// Holds what was said against what was done.
fn compare(found: &[Found], summary: &Summary, store: &Store, report: &Report) -> Outcome {
    assert_eq!(said(found, FindingKind::Refused), [""; 0]);
    assert_eq!(logs(found).count(), store.topics().len());
    let cut = said(found, FindingKind::Cut);
    if cut != done(&report.cut) {
        assert!(report.page_cache_proven, "nothing else tells more than the journal: {report:?}");
        went_on(found, summary, store, report);
        return Outcome::WentOn;
    }
    assert_eq!(summary.frames_taken, report.frames);
    assert_eq!(said(found, FindingKind::Healed), done(&report.healed));
    assert_eq!(said(found, FindingKind::Damaged), done(&report.damaged));
    for log in logs(found) {
        let facts = store.facts(log.topic_id).expect("the log is there");
        assert_eq!((log.end, log.epoch), (facts.end, facts.epoch));
        assert_eq!(log.end_damaged, facts.end_proof == EndProof::Damaged);
    }
    Outcome::Same
}

/// A start went on where a cut was said: what is unreadable there is damage, or was found elsewhere, and no log ends before
/// what was said.
fn went_on(found: &[Found], summary: &Summary, store: &Store, report: &Report) {
    let [cut] = &said(found, FindingKind::Cut)[..] else { panic!("one place is cut: {report:?}") };
    let (place, what) = cut.split_once("round ").expect("it names the round");
    let (round, why) = what.split_once(" was being written: ").expect("it says why");
    let round: u64 = round.parse().expect("a number");
    let at_the_cut = |record: &&FoundRecord| record.round == round && record.problem.is_some();
    let unreadable: Vec<_> = found
        .iter()
        .filter_map(|found| match found {
            Found::Record(record) => Some(record),
            _ => None,
        })
        .filter(at_the_cut)
        .collect();
    let (damaged, healed) = (done(&report.damaged), done(&report.healed));
    let is_damage = damaged.iter().any(|error| error.starts_with(&format!("{place}{why}")));
    let is_healed = |record: &&FoundRecord| {
        let taken = format!("offset {} was taken from its segment", record.offset);
        healed.iter().any(|error| error.ends_with(&taken))
    };
    let all_healed = !unreadable.is_empty() && unreadable.iter().all(is_healed);
    assert!(is_damage || all_healed, "{cut}: {report:?}");
    for lost in found {
        if let Found::Lost(LostRounds { path, position, why, .. }) = lost {
            let known = damaged.iter().any(|error| {
                error.contains(&path.display().to_string())
                    && error.contains(&position.to_string())
                    && error.ends_with(why)
            });
            assert!(known, "{why}: {report:?}");
        }
    }
    assert!(report.frames >= summary.frames_taken);
    for log in logs(found) {
        let facts = store.facts(log.topic_id).expect("the log is there");
        assert!(log.end <= facts.end && log.epoch <= facts.epoch, "{log:?}: {facts:?}");
    }
}

/// After a crash of any kind, sometimes with damage; or after a kill, which leaves the page cache, with damage.
async fn crashed(world: World, is_killed: bool) -> Outcome {
    let machine = world.machine("broker");
    let random = world.generator("test");
    let crash = match random.below(3) {
        _ if is_killed => Crash::Kill,
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
    if (is_killed || random.below(2) == 0)
        && machine.disk().files().iter().any(|path| path.starts_with("/wal/journal"))
    {
        damage(machine.disk(), &random);
    }
    let before = contents(machine.disk());
    let inspected = inspect_journal(machine.disk());
    assert!(before == contents(machine.disk()), "looking changes nothing");
    match (inspected, open(&env).await) {
        (Ok((found, summary)), Ok((store, report))) => {
            let outcome = compare(&found, &summary, &store, &report);
            store.close().await.expect("the disk is whole");
            outcome
        }
        (Ok((found, _)), Err(error)) => {
            let refused = |found: &Found| matches!(found, Found::Finding(finding) if finding.kind == FindingKind::Refused);
            assert!(found.iter().any(refused), "{error}");
            Outcome::Refused
        }
        // A directory that the crash left without an identity is still empty.
        (Err(Error::Missing { .. }), Ok(_)) => {
            assert!(before.is_empty() || !before.contains_key(Path::new("/wal/disk")));
            Outcome::Same
        }
        (Err(_), Err(_)) => Outcome::Refused,
        (Err(error), Ok(_)) => panic!("inspecting fails where opening works: {error}"),
    }
}

#[test]
fn what_inspect_says_is_what_a_recovery_does() {
    let mut outcomes = Vec::new();
    for (seed, is_killed) in (0..300).flat_map(|seed| [(seed, false), (seed, true)]) {
        let run = || sim::run(seed, |world| crashed(world, is_killed));
        let outcome = std::panic::catch_unwind(run);
        outcomes.push(outcome.unwrap_or_else(|_| panic!("seed {seed}, killed: {is_killed}")));
    }
    let count = |is: Outcome| outcomes.iter().filter(|outcome| **outcome == is).count();
    assert!(count(Outcome::Same) > 200 && count(Outcome::WentOn) > 4, "each is tried");
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
