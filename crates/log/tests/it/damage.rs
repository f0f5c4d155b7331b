//! One thing damaged in any file of a hot tier: what was acknowledged is served as it was, or reported as damaged, or the
//! start is refused; never something else, and never the other log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use danube_env::Env;
use danube_env::sim::{self, Crash, SimDisk, World};
use danube_log::{EndProof, Read, Start};
use danube_model::{Durability, ErrorKind};

use crate::support::{batch, open, plan_open, read_all, records};

/// Offset to payload of each log.
type Stored = BTreeMap<u8, BTreeMap<u64, Vec<u8>>>;

/// Two logs with a few segments each and rounds in the journal; then a clean stop, or a kill.
async fn fill(world: &World, clean: bool) -> (SimDisk, Env, Stored) {
    let machine = world.machine("broker");
    let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
    let mut stored = Stored::new();
    let mut logs = Vec::new();
    for n in 0..2 {
        let planned = plan_open(&store, n, Durability::Disk, &mut 0).await.expect("a new log");
        logs.push(store.open_log(planned).await.expect("a new log opens"));
    }
    for i in 0..120_u64 {
        let n = (i % 2) as u8;
        let value = format!("{n}-{i}-{}", "x".repeat((i * 7 % 300) as usize)).into_bytes();
        let appended = logs[n as usize]
            .append(batch(std::slice::from_ref(&value), None))
            .await
            .expect("it is stored");
        stored.entry(n).or_default().insert(appended.base.get(), value);
    }
    // The last round is entered as synced.
    world.sleep(std::time::Duration::from_secs(1)).await;
    if clean {
        store.close().await.expect("a clean stop");
    }
    machine.crash(Crash::Kill);
    let env = machine.restart().await;
    (machine.disk().clone(), env, stored)
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Whole,
    Reported,
    Refused,
}

/// Opens what is on the disk and compares.
async fn judge(
    env: &Env,
    disk: &SimDisk,
    stored: &Stored,
    harmed: Option<u8>,
    what: &str,
) -> Outcome {
    let env = Env { disk: disk.mount(), ..env.clone() };
    let (store, _) = match open(&env).await {
        Ok(opened) => opened,
        Err(error) => {
            assert!(
                matches!(
                    error.kind(),
                    ErrorKind::Corrupt | ErrorKind::Invalid | ErrorKind::NotFound
                ),
                "{what}: {error:?}"
            );
            return Outcome::Refused;
        }
    };
    let mut outcome = Outcome::Whole;
    for (n, stored) in stored {
        let mut ceiling = 1 << 20;
        let planned =
            plan_open(&store, *n, Durability::Disk, &mut ceiling).await.expect("it is known");
        let proof = store.facts(planned.topic).expect("it is known").end_proof;
        let log = store
            .open_log(planned)
            .await
            .unwrap_or_else(|error| panic!("{what}: log {n}: {error:?}"));
        let mut found = BTreeMap::new();
        let mut lost = Vec::new();
        for read in read_all(&log, Start::Earliest).await {
            match read {
                Read::Frame(frame) => found.extend(records(&frame)),
                Read::Damage(damage) => lost.push(damage.from.get()..damage.to.get()),
                read => panic!("{what}: log {n}: {read:?}"),
            }
        }
        for (offset, value) in &found {
            assert_eq!(
                stored.get(offset),
                Some(value),
                "{what}: log {n}: another message at {offset}"
            );
        }
        let missing: Vec<_> = stored.keys().filter(|offset| !found.contains_key(offset)).collect();
        if !missing.is_empty() {
            let reported = |offset: &u64| lost.iter().any(|range| range.contains(offset));
            assert!(
                missing.iter().all(|offset| reported(offset)) || proof == EndProof::Damaged,
                "{what}: log {n}: {missing:?} are gone in silence, lost: {lost:?}"
            );
            assert!(harmed.is_none_or(|harmed| harmed == *n), "{what}: log {n} is harmed");
            outcome = Outcome::Reported;
        }
        let appended = log.append(batch(&[b"after".to_vec()], None)).await;
        let appended = appended.unwrap_or_else(|error| panic!("{what}: log {n}: {error:?}"));
        assert!(
            !stored.contains_key(&appended.base.get()),
            "{what}: log {n}: an offset is used twice"
        );
    }
    store.close().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    outcome
}

fn log_of(path: &Path) -> Option<u8> {
    let topic = path.strip_prefix("/wal/topics").ok()?.iter().next()?.to_str()?;
    topic.get(..2)?.parse().ok()
}

/// Positions of a file: all of a small one, some of a large one.
fn positions(len: usize) -> impl Iterator<Item = u64> {
    let step = (len / 150).max(1);
    (0..len as u64).step_by(step)
}

type Damage = Box<dyn Fn(&SimDisk)>;

fn all_damages(disk: &SimDisk) -> Vec<(String, PathBuf, Damage)> {
    let mut damages: Vec<(String, PathBuf, Damage)> = Vec::new();
    for path in disk.files() {
        let len = disk.content(&path).expect("it is there").len();
        let show = path.display().to_string();
        for position in positions(len) {
            for mask in [0x01, 0x80] {
                let target = path.clone();
                let flip =
                    move |disk: &SimDisk| disk.flip(&target, position, mask).expect("it is there");
                damages.push((
                    format!("{show}: bit {mask:#x} at {position}"),
                    path.clone(),
                    Box::new(flip),
                ));
            }
        }
        for keep in positions(len).step_by(10) {
            let target = path.clone();
            let cut = move |disk: &SimDisk| disk.truncate(&target, keep).expect("it is there");
            damages.push((format!("{show}: cut to {keep}"), path.clone(), Box::new(cut)));
            let target = path.clone();
            let zeroes = vec![0; (len - keep as usize).min(700)];
            let zero =
                move |disk: &SimDisk| disk.overwrite(&target, keep, &zeroes).expect("it is there");
            damages.push((format!("{show}: zeroes at {keep}"), path.clone(), Box::new(zero)));
        }
        let target = path.clone();
        let extend = move |disk: &SimDisk| {
            disk.overwrite(&target, len as u64, &[7; 900]).expect("it is there")
        };
        damages.push((format!("{show}: extended"), path.clone(), Box::new(extend)));
        let target = path.clone();
        let remove = move |disk: &SimDisk| {
            disk.mount().remove_file(&target).expect("it is there");
        };
        damages.push((format!("{show}: removed"), path.clone(), Box::new(remove)));
    }
    damages
}

async fn damage_everything(world: World, clean: bool) -> BTreeMap<(String, Outcome), u32> {
    let (disk, env, stored) = fill(&world, clean).await;
    let mut outcomes = BTreeMap::new();
    for (what, path, damage) in all_damages(&disk) {
        let fork = disk.fork(1);
        damage(&fork);
        let outcome = judge(&env, &fork, &stored, log_of(&path), &what).await;
        let kind =
            path.extension().map_or_else(|| path.file_name(), Some).expect("files have names");
        *outcomes.entry((kind.to_string_lossy().into_owned(), outcome)).or_default() += 1;
    }
    outcomes
}

/// What may come of damage to which files.
fn check(outcomes: &BTreeMap<(String, Outcome), u32>) {
    let count = |file: &str, outcome: Outcome| {
        outcomes.get(&(file.to_owned(), outcome)).copied().unwrap_or(0)
    };
    // Frames are served but for the damaged ones; a damaged segment never keeps the store from opening.
    assert!(count("seg", Outcome::Reported) > 0, "{outcomes:?}");
    assert_eq!(count("seg", Outcome::Refused), 0, "{outcomes:?}");
    // A damaged round is read by its copy or from segments, or reported.
    assert!(count("jnl", Outcome::Whole) > 0, "{outcomes:?}");
    // One copy of the checkpoint is enough.
    for copy in ["a", "b"] {
        assert!(count(copy, Outcome::Whole) > 0, "{outcomes:?}");
        assert_eq!(
            count(copy, Outcome::Reported) + count(copy, Outcome::Refused),
            0,
            "{outcomes:?}"
        );
    }
    assert_eq!(
        count("topic", Outcome::Reported) + count("topic", Outcome::Refused),
        0,
        "{outcomes:?}"
    );
}

#[test]
fn damage_after_a_clean_stop() {
    check(&sim::run(1, |world| damage_everything(world, true)));
}

#[test]
fn damage_after_a_kill() {
    check(&sim::run(1, |world| damage_everything(world, false)));
}

/// What a reader was shown before a kill is never taken for a write that the kill cut short: the round behind it was begun
/// when its write had returned.
#[test]
fn a_round_with_others_behind_it_is_damaged_and_not_cut_where_the_page_cache_is_proven() {
    for harm in [Harm::Flip, Harm::Zero] {
        sim::run(3, |world| async move {
            let machine = world.machine("broker");
            let mut ceiling = 0;
            let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
            let planned = plan_open(&store, 0, Durability::PageCache, &mut ceiling).await;
            let log = store.open_log(planned.expect("a new log")).await.expect("it opens");
            for value in *b"abc" {
                log.append(batch(&[vec![value; 9000]], None)).await.expect("it is stored");
            }
            assert_eq!(read_all(&log, Start::Earliest).await.len(), 3);
            machine.crash(Crash::Kill);
            let env = machine.restart().await;
            for path in machine.disk().files() {
                let content = machine.disk().content(&path).expect("it is there");
                let Some(at) = content.windows(99).position(|bytes| bytes == [b'b'; 99]) else {
                    continue;
                };
                match harm {
                    Harm::Zero if path.starts_with("/wal/journal") => {
                        machine.disk().overwrite(&path, (at / 4096 * 4096) as u64, &[0; 12288])
                    }
                    Harm::Flip | Harm::Zero => machine.disk().flip(&path, at as u64 + 9, 1),
                }
                .expect("it is there");
            }

            let (store, report) = open(&env).await.expect("a start is not refused");
            assert!(report.page_cache_proven && report.cut.is_empty(), "{report:?}");
            let text = report.damaged.first().expect("it is reported").to_string();
            assert!(text.contains("/wal/journal/"), "{text}");
            let planned = plan_open(&store, 0, Durability::PageCache, &mut ceiling).await;
            let log = store.open_log(planned.expect("it is known")).await.expect("it opens");
            let (mut found, mut lost) = (Vec::new(), Vec::new());
            for read in read_all(&log, Start::Earliest).await {
                match read {
                    Read::Frame(frame) => found.push(frame.base().get()),
                    Read::Damage(damage) => lost.push((damage.from.get(), damage.to.get())),
                    read => panic!("{read:?}"),
                }
            }
            assert_eq!((found, lost), (vec![0, 2], vec![(1, 2)]));
            let appended = log.append(batch(&[b"after".to_vec()], None)).await;
            assert_eq!(appended.expect("it is stored").base.get(), 3);
        });
    }
}

#[derive(Clone, Copy)]
enum Harm {
    /// A bit of its payload.
    Flip,
    /// All of it.
    Zero,
}
