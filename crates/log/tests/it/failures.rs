//! What is said when the disk fails, and what is done then.

use danube_env::sim::{self, Crash, Fault, Operation, World};
use danube_log::{Effect, Log, Store};
use danube_model::Durability;

use crate::support::{batch, open, plan_open, read_all, topic};

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
        assert_eq!(read_all(&log, danube_log::Start::Earliest).await.len(), 1);
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
        store.delete(topic(0)).await.expect("it is deleted");
        assert_eq!(machine.disk().files().iter().find(|path| is_there(path)), None);
    });
}
