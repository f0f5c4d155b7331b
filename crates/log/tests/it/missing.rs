//! Segments and directories that are gone at a start: it is said then, the rest is served, and the loss can be accepted.

use std::path::PathBuf;

use danube_env::Env;
use danube_env::sim::{self, Crash, Machine, Survival, World};
use danube_log::{EndProof, Log, Read, Report, Start, Store};
use danube_model::{Durability, Offset};

use crate::support::{batch, open, plan_open, read_all, topic};

/// Two logs with `messages` messages each, then a stop or a kill.
async fn fill(world: &World, messages: u64, clean: bool) -> (Machine, Env) {
    let machine = world.machine("broker");
    let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
    for n in 0..2 {
        let log = open_log(&store, n).await;
        for _ in 0..messages {
            log.append(batch(&[vec![n; 500]], None)).await.expect("it is stored");
        }
    }
    if clean {
        store.close().await.expect("a clean stop");
    }
    machine.crash(Crash::Kill);
    let env = machine.restart().await;
    (machine, env)
}

async fn open_log(store: &Store, n: u8) -> Log {
    let planned = plan_open(store, n, Durability::Disk, &mut 0).await.expect("it can be opened");
    store.open_log(planned).await.unwrap_or_else(|error| panic!("log {n}: {error:?}"))
}

fn directory(n: u8) -> PathBuf {
    format!("/wal/topics/{}", topic(n)).into()
}

fn segments(machine: &Machine, n: u8) -> Vec<PathBuf> {
    let is_segment = |path: &PathBuf| path.starts_with(directory(n)) && !path.ends_with("topic");
    machine.disk().files().into_iter().filter(is_segment).collect()
}

/// What the report says is missing.
fn told(report: &Report) -> Vec<String> {
    report.damaged.iter().map(ToString::to_string).collect()
}

/// Offsets that are damaged, and how many messages are served.
async fn damage(log: &Log) -> (Vec<(u64, u64)>, usize) {
    let (mut damaged, mut served) = (Vec::new(), 0);
    for read in read_all(log, Start::Earliest).await {
        match read {
            Read::Damage(damage) => damaged.push((damage.from.get(), damage.to.get())),
            Read::Frame(frame) if frame.records(1 << 20).is_some() => served += 1,
            Read::Frame(_) => {}
            Read::Trimmed { .. } | Read::CaughtUp(_) => panic!("{read:?}"),
        }
    }
    (damaged, served)
}

async fn stop_and_open(machine: &Machine, store: &Store) -> (Store, Report) {
    store.close().await.expect("a clean stop");
    let env = machine.restart().await;
    open(&env).await.expect("it opens")
}

async fn removed(world: World, pick: impl Fn(usize) -> usize, messages: u64) {
    let (machine, env) = fill(&world, messages, true).await;
    let segments = segments(&machine, 0);
    let path = segments[pick(segments.len())].to_str().expect("text");
    env.disk.remove_file(path.as_ref()).expect("it is there");

    let (store, report) = open(&env).await.expect("a start is not refused");
    let said = told(&report);
    assert!(matches!(&said[..], [one] if one.contains(path)), "{said:?}");
    // Also the second time, as long as nobody has accepted it.
    let (store, report) = stop_and_open(&machine, &store).await;
    assert_eq!(told(&report), said);
    let log = open_log(&store, 0).await;
    let (damaged, served) = damage(&log).await;
    let [(from, to)] = damaged[..] else { panic!("{damaged:?}") };
    assert!(said[0].contains(&format!("offsets {from} to {to} ")), "{said:?}");
    assert_eq!(served as u64 + to - from, messages);
    assert_eq!(damage(&open_log(&store, 1).await).await, (vec![], messages as usize));

    let gaps = log.accept_damage().await.expect("it can be accepted");
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(damage(&log).await, (vec![], served));
    assert_eq!(log.append(batch(&[vec![9]], None)).await.expect("it goes on").base.get(), messages);
    let (store, report) = stop_and_open(&machine, &store).await;
    assert_eq!(told(&report), [""; 0]);
    let log = open_log(&store, 0).await;
    assert_eq!(damage(&log).await, (vec![], served + 1));
    assert_eq!(log.extent().await.expect("it is known").gaps, gaps);
}

#[test]
fn the_only_segment() {
    sim::run(1, |world| removed(world, |_| 0, 5));
}

#[test]
fn the_first_segment_of_many() {
    sim::run(2, |world| removed(world, |_| 0, 60));
}

#[test]
fn a_segment_between_others() {
    sim::run(3, |world| removed(world, |count| count / 2, 60));
}

#[test]
fn the_last_segment_of_many() {
    sim::run(4, |world| removed(world, |count| count - 1, 60));
}

#[test]
fn a_directory_that_is_gone_stops_no_start() {
    for clean in [false, true] {
        sim::run(5, |world| async move {
            let (machine, env) = fill(&world, 60, true).await;
            let (store, _) = open(&env).await.expect("it opens");
            for n in 0..2 {
                let log = open_log(&store, n).await;
                log.append(batch(&[vec![7; 500]], None)).await.expect("it is stored");
            }
            if clean {
                store.close().await.expect("a clean stop");
            }
            machine.crash(Crash::Kill);
            let env = machine.restart().await;
            env.disk.remove_dir_all(&directory(0)).expect("it is there");

            let (store, report) = open(&env).await.expect("a start is not refused");
            let said = told(&report);
            assert!(
                said.iter().any(|one| one.contains(directory(0).to_str().unwrap())),
                "{said:?}"
            );
            assert_eq!(damage(&open_log(&store, 1).await).await, (vec![], 61));
            let log = open_log(&store, 0).await;
            // What the journal has is there.
            let expected = if clean { 0 } else { 1 };
            let (damaged, served) = damage(&log).await;
            assert_eq!(damaged, [(0, 61 - expected as u64)]);
            assert_eq!(served, expected);
            log.accept_damage().await.expect("it can be accepted");
            assert_eq!(damage(&log).await, (vec![], expected));
            let appended = log.append(batch(&[vec![9]], None)).await.expect("it goes on");
            assert_eq!(appended.base.get(), 61);
        });
    }
}

#[test]
fn a_directory_that_is_gone_is_made_from_the_journal() {
    sim::run(6, |world| async move {
        let (machine, env) = fill(&world, 5, false).await;
        env.disk.remove_dir_all(&directory(0)).expect("it is there");
        let (store, report) = open(&env).await.expect("a start is not refused");
        assert_eq!(told(&report), [""; 0]);
        assert_eq!(damage(&open_log(&store, 0).await).await, (vec![], 5));
        machine.crash(Crash::PowerCut(Survival::Chance));
        let (store, _) = open(&machine.restart().await).await.expect("it opens");
        assert_eq!(damage(&open_log(&store, 0).await).await, (vec![], 5));
    });
}

#[test]
fn a_log_that_was_deleted_is_not_missing() {
    sim::run(6, |world| async move {
        let (machine, env) = fill(&world, 5, true).await;
        let (store, _) = open(&env).await.expect("it opens");
        store.delete(&[topic(0)]).await.expect("it is deleted");
        machine.crash(Crash::Kill);
        let (store, report) = open(&machine.restart().await).await.expect("it opens");
        assert_eq!(told(&report), [""; 0]);
        assert!(store.facts(topic(0)).is_none());
        assert!(!machine.disk().files().iter().any(|path| path.starts_with(directory(0))));
    });
}

#[test]
fn a_damaged_topic_file_of_a_new_log_harms_nobody() {
    sim::run(7, |world| async move {
        let (machine, env) = fill(&world, 5, false).await;
        machine.disk().flip(&directory(0).join("topic"), 3, 0x80).expect("it is there");
        let (store, report) = open(&env).await.expect("a start is not refused");
        assert!(report.problems.iter().any(|problem| problem.to_string().contains("topic")));
        for n in 0..2 {
            assert_eq!(damage(&open_log(&store, n).await).await, (vec![], 5));
        }
    });
}

/// Nobody knows how far it went, so it takes no messages; what is there is read all the same.
#[test]
fn a_log_whose_end_is_damaged_is_read_up_to_it_though_it_is_not_opened() {
    sim::run(8, |world| async move {
        let (machine, env) = fill(&world, 5, false).await;
        // The last frame of the log, in the journal and in its segment.
        for path in machine.disk().files() {
            let content = machine.disk().content(&path).expect("it is there");
            let begins = |(at, window): (usize, &[u8])| (window == b"DnFr").then_some(at);
            let frames: Vec<_> = content.windows(4).enumerate().filter_map(begins).collect();
            let is_of_log = path.starts_with(directory(0));
            if is_of_log || path.extension().is_some_and(|found| found == "jnl") {
                let Some(last) = frames.get(4) else { continue };
                machine.disk().flip(&path, *last as u64 + 100, 1).expect("it is there");
            }
        }

        let (store, report) = open(&env).await.expect("a start is not refused");
        assert!(!report.damaged.is_empty(), "{report:?}");
        assert_eq!(store.facts(topic(0)).expect("it is there").end_proof, EndProof::Damaged);
        let mut reader =
            store.read(topic(0), Start::Earliest, Offset::new(99)).await.expect("it can be read");
        for offset in 0..4 {
            match reader.next().await.expect("it can be read") {
                Read::Frame(frame) => assert_eq!(frame.base().get(), offset),
                read => panic!("{read:?}"),
            }
        }
        match reader.next().await.expect("it can be read") {
            Read::Damage(lost) => {
                assert_eq!((lost.from.get(), lost.to.get()), (4, 99));
                assert!(lost.path.starts_with("/wal/journal") && lost.position > 0, "{lost:?}");
            }
            read => panic!("{read:?}"),
        }
        assert!(matches!(reader.next().await, Ok(Read::CaughtUp(end)) if end.get() == 4));
        let lost = store.lost_end(topic(0), Offset::new(99));
        store.close().await.expect("a clean stop");

        // It is told, with its place, at each start until a gap is accepted.
        let (store, report) = open(&machine.restart().await).await.expect("a start is not refused");
        assert_eq!(store.lost_end(topic(0), Offset::new(99)), lost);
        let lost = lost.expect("the end is damaged");
        let told = |error: &danube_log::Error| error.to_string().contains(&lost.why);
        assert!(report.damaged.iter().any(told), "{report:?}");
    });
}

/// Two logs, and a checkpoint from before a long time in which one of them was written to, the other one only sometimes: files
/// of the journal were used again since.
async fn older_checkpoint(world: &World, is_idle: bool) -> (Machine, Env) {
    let machine = world.machine("broker");
    let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
    let path = PathBuf::from("/wal/checkpoint.a");
    let older = machine.disk().content(&path).expect("it was just written");
    let (log, other) = (open_log(&store, 0).await, open_log(&store, 1).await);
    let _empty = open_log(&store, 2).await;
    for _ in 0..5 {
        other.append(batch(&[vec![2; 900]], None)).await.expect("it is stored");
    }
    for _ in 0..700 {
        log.append(batch(&[vec![1; 900]], None)).await.expect("it is stored");
    }
    if !is_idle {
        other.append(batch(&[vec![2; 900]], None)).await.expect("it is stored");
    }
    machine.crash(Crash::Kill);
    let env = machine.restart().await;
    env.disk.remove_file("/wal/checkpoint.b".as_ref()).expect("it is there");
    let file = env.disk.open(&path, danube_env::disk::Open::Replace).expect("it is there");
    file.write_at(&[&older], 0).expect("it works");
    file.sync_data().expect("it works");
    (machine, env)
}

/// What a newer checkpoint held is in segments.
#[test]
fn nothing_is_lost_that_a_newer_checkpoint_held() {
    for is_idle in [false, true] {
        sim::run(8, |world| async move {
            let (machine, env) = older_checkpoint(&world, is_idle).await;
            let (store, report) = open(&env).await.expect("a start is not refused");
            assert_eq!(told(&report), [""; 0]);
            let said: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
            assert!(said.iter().any(|said| said.contains("older than the journal")), "{said:?}");
            let (store, report) = stop_and_open(&machine, &store).await;
            assert_eq!(told(&report), [""; 0]);
            for (n, messages) in [(0, 700), (1, if is_idle { 5 } else { 6 }), (2, 0)] {
                let log = open_log(&store, n).await;
                assert_eq!(damage(&log).await, (vec![], messages));
                let appended = log.append(batch(&[vec![3]], None)).await.expect("it goes on");
                assert_eq!(appended.base.get(), messages as u64);
            }
        });
    }
}

/// Its segment alone tells where the idle log ends, and that is damaged.
#[test]
fn an_end_that_a_newer_checkpoint_held_and_that_is_damaged_is_not_taken_for_another() {
    for cut in [false, true] {
        sim::run(8, |world| async move {
            let (machine, env) = older_checkpoint(&world, true).await;
            let [segment] = &segments(&machine, 1)[..] else { panic!("it has few messages") };
            let content = machine.disk().content(segment).expect("it is there");
            let last = content.iter().rposition(|byte| *byte == 2).expect("a payload") as u64;
            if cut {
                machine.disk().truncate(segment, last - 99).expect("it is there");
            } else {
                machine.disk().flip(segment, last, 1).expect("it is there");
            }
            let (store, report) = open(&env).await.expect("a start is not refused");
            assert_eq!(store.facts(topic(1)).expect("it is there").end_proof, EndProof::Damaged);
            let said = told(&report);
            assert!(said.iter().any(|said| said.contains("may have lost")), "{said:?}");
            assert_eq!(store.facts(topic(0)).expect("it is there").end_proof, EndProof::Proven);
        });
    }
}
