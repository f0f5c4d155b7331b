//! A full volume.

use danube_env::sim::{self, Fault, Machine, Operation};
use danube_meta::{Config, Error, Meta};
use danube_model::ErrorKind;

use super::*;

/// Makes the volume as small as what is on it.
fn fill(machine: &Machine) {
    let space = machine.env().disk.space("/".as_ref()).unwrap();
    machine.disk().set_size(space.total - space.available);
}

fn make_room(machine: &Machine) {
    machine.disk().set_size(1 << 40);
}

/// Creates topics until that is refused, which must be soon.
async fn create_until_full(meta: &Meta) -> (u64, Error) {
    let mut created = 0;
    loop {
        match meta.propose(create(created)).await {
            Ok(()) => created += 1,
            Err(error) => return (created, error),
        }
        assert!(created < 100, "a full volume takes topics without end");
    }
}

#[test]
fn a_full_volume_refuses_what_grows_and_nothing_else() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let meta = Meta::open(config(), machine.env()).await.unwrap();
        form(&meta).await.unwrap();
        fill(&machine);
        let (created, error) = create_until_full(&meta).await;
        assert!(matches!(error, Error::StorageFull { .. }), "{error}");
        assert_eq!(
            (error.kind(), error.is_retryable(), error.is_unknown()),
            (ErrorKind::Exhausted, true, false)
        );
        assert!(error.to_string().contains("/data/raft"), "{error}");
        assert!(created > 0);
        for epoch in 0..100 {
            meta.propose(open(&meta, 0, epoch)).await.unwrap();
        }
        make_room(&machine);
        meta.propose(create(created)).await.unwrap();
        meta.close().await;
    });
}

#[test]
fn a_start_on_a_full_volume_works() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let meta = Meta::open(config(), machine.env()).await.unwrap();
        form(&meta).await.unwrap();
        meta.propose(create(0)).await.unwrap();
        machine.crash(sim::Crash::Kill);
        let mut env = machine.restart().await;
        fill(&machine);
        for start in 0..5 {
            let meta =
                Meta::open(config(), env).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
            form(&meta).await.unwrap();
            meta.propose(open(&meta, 0, start)).await.unwrap();
            machine.crash(sim::Crash::Kill);
            env = machine.restart().await;
        }
        let meta = Meta::open(config(), env).await.unwrap();
        make_room(&machine);
        meta.propose(create(1)).await.unwrap();
        meta.close().await;
    });
}

/// A snapshot is no reason to stop: the log has everything.
#[test]
fn a_snapshot_that_finds_no_room_waits() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let small = Config { snapshot_after_commands: 5, ..config() };
        let meta = Meta::open(small.clone(), machine.env()).await.unwrap();
        form(&meta).await.unwrap();
        let no_room = Fault::always(Operation::Write).on("snapshot-").no_space();
        machine.disk().plan(no_room);
        for number in 0..40 {
            meta.propose(create(number)).await.unwrap();
        }
        machine.disk().clear_plan();
        for number in 40..60 {
            meta.propose(create(number)).await.unwrap();
        }
        meta.close().await;
        let is_snapshot = |path: &std::path::PathBuf| path.to_str().unwrap().ends_with(".snap");
        assert_eq!(machine.disk().files().iter().filter(|path| is_snapshot(path)).count(), 1);
        let meta = Meta::open(small, machine.restart().await).await.unwrap();
        assert_eq!(meta.read(|state| state.topic_count()), 60);
        meta.close().await;
    });
}

/// Any write of the log may be the one for which there is no room, also that of its mark behind entries that are synced.
#[test]
fn a_write_without_room_is_done_again_with_the_reserve() {
    let survives = |nth| {
        sim::run(1, |world| async move {
            let machine = world.machine("broker");
            let meta = Meta::open(config(), machine.env()).await.unwrap();
            form(&meta).await.unwrap();
            machine.disk().plan(Fault::nth(Operation::Write, nth).on(".rlog").no_space());
            for topic in 0..5 {
                let created = meta.propose(create(topic)).await;
                created.unwrap_or_else(|error| panic!("write {nth}: {}", chain(&error)));
            }
            meta.close().await;
            machine.disk().failures() > 0
        })
    };
    let failed = (0..).take_while(|nth| survives(*nth)).count();
    assert!(failed >= 10, "only {failed} writes");
}
