//! Opening, proposing, watching, closing.

use std::time::{Duration, Instant};

use danube_env::Env;
use danube_env::sim;
use danube_meta::command::DeleteTopic;
use danube_meta::state::CEILING_STEP;
use danube_meta::{Config, Error, Meta};
use danube_model::{ErrorKind, Offset};

use super::*;

#[test]
fn what_was_closed_is_there_again() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let meta = Meta::open(config(), machine.env()).await.unwrap();
        form(&meta).await.unwrap();
        meta.propose(create(1)).await.unwrap();
        let state = meta.read(Clone::clone);
        meta.close().await;
        for _ in 0..3 {
            let meta = Meta::open(config(), machine.restart().await).await.unwrap();
            assert_eq!(meta.read(Clone::clone), state);
            meta.close().await;
        }
    });
}

#[test]
fn a_clean_stop_leaves_a_snapshot_and_an_empty_log() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let meta = Meta::open(config(), machine.env()).await.unwrap();
        form(&meta).await.unwrap();
        meta.close().await;
        let files = machine.disk().files();
        let names: Vec<_> =
            files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        let [log, "reserve", snapshot, "vote"] = names[..] else { panic!("{names:?}") };
        assert!(log.starts_with("log-") && snapshot.starts_with("snapshot-"), "{names:?}");
        let log = machine.disk().content(&files[0]).unwrap();
        assert_eq!(log.len(), 1024, "the log has entries");
    });
}

#[test]
fn a_refused_command_says_why_and_the_next_works() {
    sim::run(1, |world| async move {
        let meta = Meta::open(config(), world.machine("broker").env()).await.unwrap();
        form(&meta).await.unwrap();
        meta.propose(create(1)).await.unwrap();
        let error = meta.propose(create(1)).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)));
        assert_eq!((error.kind(), error.is_unknown()), (ErrorKind::Conflict, false));
        let opened = meta.propose(open(&meta, 1, 0)).await.unwrap();
        let opening = opened[0].as_ref().unwrap();
        assert_eq!((opening.epoch.get(), opening.ceiling), (1, Offset::new(CEILING_STEP)));
        meta.close().await;
    });
}

#[test]
fn proposals_that_wait_together_share_a_sync() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let meta = Meta::open(config(), machine.env()).await.unwrap();
        form(&meta).await.unwrap();
        let (env, before) = (machine.env(), machine.disk().changes());
        let start = |number| {
            let meta = meta.clone();
            let proposal = async move { meta.propose(create(number)).await.unwrap() };
            env.spawn.task("propose", Box::pin(proposal))
        };
        for proposal in (0..100).map(start).collect::<Vec<_>>() {
            proposal.join().await.unwrap();
        }
        let changes = machine.disk().changes() - before;
        // An entry is a write, a sync, and the mark.
        assert!(changes <= 5 * 3, "100 commands took {changes} operations");
        assert_eq!(meta.read(|state| state.topic_count()), 100);
        meta.close().await;
    });
}

#[test]
fn a_dropped_proposal_is_carried_out_all_the_same() {
    sim::run(1, |world| async move {
        let meta = Meta::open(config(), world.machine("broker").env()).await.unwrap();
        form(&meta).await.unwrap();
        let mut changes = meta.watch();
        {
            let proposal = std::pin::pin!(meta.propose(create(1)));
            tokio::select! {
                biased;
                _ = proposal => panic!("nothing is written within one poll"),
                () = std::future::ready(()) => {}
            }
        }
        while meta.read(|state| state.topic(&name(1)).is_none()) {
            assert!(changes.changed().await);
        }
        meta.close().await;
    });
}

#[test]
fn after_a_close_nothing_is_taken() {
    sim::run(1, |world| async move {
        let meta = Meta::open(config(), world.machine("broker").env()).await.unwrap();
        form(&meta).await.unwrap();
        let mut changes = meta.watch();
        let waiting = meta.propose(create(1));
        let (closed, waited) = tokio::join!(meta.close(), waiting);
        let () = closed;
        // It came before the end, or after it; there is nothing between.
        let is_there = meta.read(|state| state.topic(&name(1)).is_some());
        assert_eq!(waited.is_ok(), is_there);
        assert!(matches!(meta.propose(create(2)).await, Err(Error::Closed)));
        while changes.changed().await {}
        meta.close().await;
    });
}

#[test]
fn the_log_is_purged_as_it_grows() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let small = Config { snapshot_after_commands: 20, log_file_bytes: 2048, ..config() };
        let meta = Meta::open(small.clone(), machine.env()).await.unwrap();
        form(&meta).await.unwrap();
        for number in 0..500 {
            meta.propose(create(number)).await.unwrap();
            let topic = name(number);
            meta.propose(DeleteTopic { topic, at: AT }).await.unwrap();
            let files = machine.disk().files().len();
            assert!(files < 16, "{files} files after {number} topics");
        }
        let state = meta.read(Clone::clone);
        machine.crash(sim::Crash::Kill);
        let meta = Meta::open(small, machine.restart().await).await.unwrap();
        assert_eq!(meta.read(Clone::clone), state);
        meta.close().await;
    });
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..5 {
        sim::run_twice(seed, |world| async move {
            let machine = world.machine("broker");
            let small = Config { snapshot_after_commands: 7, ..config() };
            let meta = Meta::open(small.clone(), machine.env()).await.unwrap();
            form(&meta).await.unwrap();
            for number in 0..20 {
                let (one, other) = tokio::join!(
                    meta.propose(create(2 * number)),
                    meta.propose(create(2 * number + 1))
                );
                one.and(other).unwrap();
            }
            machine.crash(sim::Crash::PowerCut(sim::Survival::Chance));
            drop(meta);
            let meta = Meta::open(small, machine.restart().await).await.unwrap();
            assert_eq!(meta.read(|state| state.topic_count()), 40);
            meta.close().await;
        });
    }
}

/// What a single broker does at every start and stop, on a real disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_takes_well_under_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new(dir.path().join("raft"));
    for start in 0..4 {
        #[expect(clippy::disallowed_methods, reason = "measures the real world from outside")]
        let begun = Instant::now();
        let meta = Meta::open(config.clone(), Env::real()).await.unwrap();
        assert!(
            begun.elapsed() < Duration::from_millis(900),
            "start {start} took {:?}",
            begun.elapsed()
        );
        form(&meta).await.unwrap();
        meta.propose(create(start)).await.unwrap();
        meta.close().await;
        assert!(begun.elapsed() < Duration::from_secs(2), "all of it took {:?}", begun.elapsed());
    }
    let meta = Meta::open(config, Env::real()).await.unwrap();
    let sessions =
        meta.read(|state| state.brokers().map(|(_, broker)| broker.sessions).collect::<Vec<_>>());
    assert_eq!(sessions, [4]);
    assert_eq!(meta.read(|state| state.topic_count()), 4);
    meta.close().await;
}

/// A stop may come while a snapshot of an older state is built; it waits for one of the last state, and no longer.
#[test]
fn a_stop_in_the_middle_of_a_snapshot_takes_another() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let machine = world.machine("broker");
            let small = Config { snapshot_after_commands: 8, ..config() };
            let meta = Meta::open(small, machine.env()).await.unwrap();
            form(&meta).await.unwrap();
            for number in 0..world.generator("topics").below(20) {
                meta.propose(create(number)).await.unwrap();
            }
            let begun = world.elapsed();
            meta.close().await;
            assert!(world.elapsed() - begun < Duration::from_secs(1));
            let log = machine.disk().content(&machine.disk().files()[0]).unwrap();
            assert_eq!(log.len(), 1024, "the log has entries");
        });
    }
}
