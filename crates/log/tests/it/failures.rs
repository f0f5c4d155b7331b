//! What is said when the disk fails, and what is done then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use danube_env::Env;
use danube_env::sim::{self, Crash, Fault, Operation, Survival, World};
use danube_log::{Config, Effect, Error, Log, Read, Start, Store};
use danube_model::Durability;

use crate::panicking::Panicking;
use crate::support::{batch, open, plan_open, read_all, records, small, topic};

async fn open_one(world: &World) -> (sim::Machine, Store, Log) {
    let machine = world.machine("broker");
    let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
    let planned = plan_open(&store, 0, Durability::Disk, &mut 0).await.expect("a new log");
    let log = store.open_log(planned).await.expect("a new log opens");
    (machine, store, log)
}

#[test]
fn an_append_whose_sync_fails_is_unknown() {
    sim::run(1, |world| async move {
        let (machine, store, log) = open_one(&world).await;
        machine.disk().plan(Fault::nth(Operation::SyncData, 0).on(".jnl"));
        let error = log.append(batch(&[b"perhaps".to_vec()], None)).await.expect_err("not synced");
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        store.stopped().await;

        // And so it is: the page cache has it.
        machine.crash(Crash::Kill);
        let (store, _) = open(&machine.restart().await).await.expect("the disk works again");
        let planned = plan_open(&store, 0, Durability::Disk, &mut 0).await.expect("a log");
        let log = store.open_log(planned).await.expect("it opens");
        assert_eq!(read_all(&log, Start::Earliest).await.len(), 1);
    });
}

#[test]
fn a_failed_sync_of_a_journal_file_that_is_made_stops_the_store() {
    for operation in [Operation::SyncData, Operation::SyncDir] {
        sim::run(1, |world| async move {
            let machine = world.machine("broker");
            let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
            let part = if operation == Operation::SyncDir { "journal" } else { ".jnl.tmp" };
            machine.disk().plan(Fault::nth(operation, 0).on(part));
            let planned = plan_open(&store, 0, Durability::Disk, &mut 0).await.expect("a new log");
            // The first round makes the loop ask for another file.
            let _ = store.open_log(planned).await;
            store.stopped().await;
        });
    }
}

#[test]
fn a_deletion_removes_what_a_creation_left() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
        machine.disk().plan(Fault::nth(Operation::SyncDir, 0).on("topics").no_space());
        store.create(topic(0), "/default/t0".to_owned()).await.expect_err("it is not durable");
        let is_there = |path: &std::path::PathBuf| path.starts_with("/wal/topics");
        assert!(machine.disk().files().iter().any(is_there));
        store.delete(&[topic(0)]).await.expect("it is deleted");
        assert_eq!(machine.disk().files().iter().find(|path| is_there(path)), None);
    });
}

/// What was acknowledged, and must be there from then on.
#[derive(Default)]
struct Acknowledged {
    payloads: BTreeMap<u8, BTreeMap<u64, Vec<u8>>>,
    deleted: BTreeSet<u8>,
    /// The log whose deletion was not confirmed.
    condemned: Option<u8>,
    ceilings: BTreeMap<u8, u64>,
    sent: u64,
}

const LOGS: u8 = 20;

impl Acknowledged {
    /// Creates, appends and deletes until something fails.
    async fn work(&mut self, env: &Env, closes: bool) -> danube_log::Result<()> {
        // Few checkpoints, so that one has more to sync than it does file by file.
        let config = Config { journal_bytes: 1 << 20, checkpoint_bytes: 1 << 19, ..small("/wal") };
        let (store, _) = Store::open(config, env.clone()).await?;
        for n in &self.deleted {
            let dir = format!("/wal/topics/{}", topic(*n));
            let is_back = env.disk.exists(dir.as_ref()).expect("the disk works");
            assert!(!is_back, "log {n} was deleted and is back");
        }
        self.delete(&store).await?;
        for n in (0..LOGS).filter(|n| !self.deleted.contains(n)).collect::<Vec<_>>() {
            let ceiling = self.ceilings.entry(n).or_default();
            let planned = plan_open(&store, n, Durability::Disk, ceiling).await?;
            let log = store.open_log(planned).await?;
            self.check(n, &log).await;
            // So much that the first log needs several segments, and the journal another file.
            for _ in 0..if n == 0 { 20 } else { 2 } {
                self.append(n, &log).await?;
            }
        }
        self.condemned = Some(self.deleted.len() as u8 + 1);
        self.delete(&store).await?;
        if closes { store.close().await } else { Ok(()) }
    }

    async fn append(&mut self, n: u8, log: &Log) -> danube_log::Result<()> {
        self.sent += 1;
        let payload = format!("{}-{}", self.sent, "x".repeat(900)).into_bytes();
        let appended = log.append(batch(std::slice::from_ref(&payload), None)).await?;
        self.payloads.entry(n).or_default().insert(appended.base.get(), payload);
        Ok(())
    }

    async fn delete(&mut self, store: &Store) -> danube_log::Result<()> {
        let Some(condemned) = self.condemned else { return Ok(()) };
        self.payloads.remove(&condemned);
        store.delete(&[topic(condemned)]).await?;
        self.condemned = None;
        self.deleted.insert(condemned);
        Ok(())
    }

    async fn check(&self, n: u8, log: &Log) {
        let mut found = BTreeMap::new();
        for read in read_all(log, Start::Earliest).await {
            let Read::Frame(frame) = read else { panic!("log {n}: {read:?}") };
            found.extend(records(&frame));
        }
        for (offset, payload) in self.payloads.get(&n).into_iter().flatten() {
            let is_there = found.get(offset) == Some(payload);
            assert!(is_there, "log {n}: offset {offset} was acknowledged and is gone");
        }
    }
}

/// A name that was made before a sync failed may be in the page cache alone; whoever trusts it after a restart loses what
/// it leads to with the next power cut.
#[test]
fn names_from_before_a_failed_sync_are_made_anew() {
    for operation in [Operation::SyncDir, Operation::SyncVolume] {
        let failures = (0..).take_while(|nth| survives_failed_names(operation, *nth)).count();
        assert!(failures > 0, "{operation:?} never fails");
    }
}

/// False if there were not that many syncs.
fn survives_failed_names(operation: Operation, nth: u64) -> bool {
    sim::run(nth, |world| async move {
        let machine = world.machine("broker");
        let mut acknowledged = Acknowledged::default();
        machine.disk().plan(Fault::nth(operation, nth));
        let failed = acknowledged.work(&machine.env(), true).await.is_err();
        for crash in [Crash::Kill, Crash::PowerCut(Survival::Nothing), Crash::Kill] {
            machine.crash(crash);
            let worked = acknowledged.work(&machine.restart().await, false).await;
            worked.unwrap_or_else(|error| panic!("after {operation:?} {nth} failed: {error:?}"));
        }
        failed
    })
}

/// Whatever a sync says that failed, and whoever asked for it: the store stops. So it does when the device is gone, and not
/// when there is no room.
#[test]
fn a_failure_of_the_disk_stops_the_store_wherever_it_is_met() {
    let fails_with = |errno: i32| {
        sim::run(1, |world| async move {
            let (machine, store, log) = open_one(&world).await;
            log.append(batch(&[vec![1; 20_000]], None)).await.expect("it is stored");
            machine.disk().plan(Fault::nth(Operation::Write, 0).on(".seg").errno(errno));
            machine.disk().plan(Fault::nth(Operation::Create, 0).on(".seg").errno(errno));
            // Enough for the filler to write, and to begin a segment.
            for _ in 0..10 {
                let _ = log.append(batch(&[vec![1; 2000]], None)).await;
            }
            tokio::select! {
                biased;
                _ = store.stopped() => true,
                () = world.sleep(Duration::from_secs(5)) => false,
            }
        })
    };
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;
    for errno in [5, 6, 19, 30, 74, 116, 117, 121, 123] {
        assert!(fails_with(errno), "errno {errno}");
    }
    for errno in [ENOSPC, EDQUOT] {
        assert!(!fails_with(errno), "errno {errno}");
    }
    for operation in [Operation::SyncDir, Operation::SyncData] {
        sim::run(1, |world| async move {
            let (machine, store, _log) = open_one(&world).await;
            machine.disk().plan(Fault::nth(operation, 0).on("topics").no_space());
            store.create(topic(1), "/default/t1".to_owned()).await.expect_err("it is not durable");
            store.stopped().await;
        });
    }
}

/// A loop that panics stops the store: who waits for it gets an error, and who asks for the reason is told.
#[test]
fn a_loop_that_panics_stops_the_store() {
    // The commit loop goes on in the journal's second file; the filler begins a segment.
    for (part, opens) in [(".jnl", 2), (".seg", 0)] {
        sim::run(1, |world| async move {
            let machine = world.machine("broker");
            let disk = machine.env().disk;
            let disk = Arc::new(Panicking { disk, part, opens: opens.into() });
            let (store, _) = open(&Env { disk, ..machine.env() }).await.expect("it opens");
            let planned = plan_open(&store, 0, Durability::Disk, &mut 0).await.expect("a new log");
            let log = store.open_log(planned).await.expect("a new log opens");
            let mut reader = log.read(Start::Earliest).await.expect("it can be read");
            let error = loop {
                if let Err(error) = log.append(batch(&[vec![1; 2000]], None)).await {
                    break error;
                }
            };
            assert!(matches!(error, Error::Stopped { .. }), "{part}: {error}");
            let why = store.stopped().await;
            assert!(why.to_string().contains("panic"), "{part}: {why}");
            while !matches!(reader.next().await, Ok(Read::CaughtUp(_))) {}
            assert!(reader.more().await.closed, "{part}: more will come");
            for refused in [
                log.append(batch(&[vec![1]], None)).await.map(drop),
                store.create(topic(1), "/default/t1".to_owned()).await,
                store.delete(&[topic(0)]).await,
                log.close().await,
                store.close().await,
            ] {
                let error = refused.expect_err("the store has stopped");
                assert!(matches!(error, Error::Stopped { .. }), "{part}: {error}");
            }
            assert_eq!(world.take_panics().len(), 1, "{part}");
        });
    }
}

/// A stop that runs out of time says so, and what it has not finished is recovered.
#[test]
fn a_stop_that_takes_too_long_is_not_a_clean_one() {
    sim::run(1, |world| async move {
        let (machine, store, log) = open_one(&world).await;
        for _ in 0..100 {
            log.append(batch(&[vec![1; 1000]], None)).await.expect("it is stored");
        }
        machine.set_latency_max(Duration::from_secs(3));
        let error = store.close().await.expect_err("it takes too long");
        assert!(matches!(error, Error::Unfinished { .. }), "{error}");
        machine.set_latency_max(Duration::ZERO);
        let (store, _) = open(&machine.restart().await).await.expect("it opens");
        let planned = plan_open(&store, 0, Durability::Disk, &mut 0).await.expect("a log");
        let log = store.open_log(planned).await.expect("it opens");
        assert_eq!(read_all(&log, Start::Earliest).await.len(), 100);
    });
}

/// Others may fill a volume beyond what the broker keeps free of it.
#[test]
fn a_start_on_a_volume_without_a_free_byte_serves_and_refuses() {
    for crash in [Crash::Kill, Crash::PowerCut(Survival::Chance)] {
        sim::run(1, |world| async move {
            let (machine, store, log) = open_one(&world).await;
            for n in 0..40 {
                log.append(batch(&[vec![n; 400]], None)).await.expect("it is stored");
            }
            drop((store, log));
            machine.crash(crash);
            let env = machine.restart().await;
            let free = env.disk.space("/wal".as_ref()).expect("it is known");
            machine.disk().set_size(free.total - free.available);

            for _ in 0..3 {
                let (store, _) = open(&machine.restart().await).await.expect("it starts");
                let planned = plan_open(&store, 0, Durability::Disk, &mut 0).await.expect("a log");
                let log = store.open_log(planned).await.expect("it opens");
                assert_eq!(read_all(&log, Start::Earliest).await.len(), 40);
                let error = log.append(batch(&[b"more".to_vec()], None)).await.expect_err("full");
                assert!(error.to_string().starts_with("storage full"), "{error}");
                assert_eq!(error.effect(), Effect::Definite);
                machine.crash(crash);
            }
        });
    }
}
