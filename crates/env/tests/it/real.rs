//! The real world.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use danube_env::disk::names::create_dir_durably;
use danube_env::disk::{Disk, Open};
use danube_env::real::RealDisk;
use danube_env::{Env, blocking};

use crate::conformance;

/// A directory where the build writes: its file system drops clean pages and knows `RWF_NOWAIT`, which that of
/// temporary files may not, being in memory.
fn build_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn the_disk_keeps_its_promises() {
    let dir = build_dir();
    conformance::run(&RealDisk::new(), dir.path());
}

/// Two brokers may be started at once, in directories of their own below one that neither has made yet.
#[test]
fn directories_side_by_side_are_made_at_once() {
    let dir = build_dir();
    let make = |round: u32, name: &str| {
        let own = dir.path().join(round.to_string()).join(name);
        let disk = RealDisk::new();
        create_dir_durably(&disk, &own).unwrap();
        disk.open(&own.join("lock"), Open::Create).unwrap();
    };
    for round in 0..100 {
        std::thread::scope(|scope| {
            scope.spawn(|| make(round, "a"));
            scope.spawn(|| make(round, "b"));
        });
    }
}

#[test]
fn what_was_forgotten_is_not_resident() {
    let dir = build_dir();
    let file = RealDisk::new().open(&dir.path().join("a"), Open::Create).unwrap();
    file.write_at(&[&vec![1; 1 << 20]], 0).unwrap();
    file.sync_data().unwrap();
    assert!(file.is_resident(0, 1 << 20));
    file.forget_cached();
    assert!(!file.is_resident(0, 1 << 20));
    file.read_at(&mut [0; 4096], 0).unwrap();
    assert!(file.is_resident(0, 4096));
}

/// Reading one page must not make a probe of the pages behind it true.
#[test]
fn a_probe_does_not_find_what_it_brought_in() {
    let dir = build_dir();
    let file = RealDisk::new().open(&dir.path().join("a"), Open::Create).unwrap();
    file.write_at(&[&vec![1; 16 << 20]], 0).unwrap();
    file.sync_data().unwrap();
    for _ in 0..20 {
        file.forget_cached();
        file.read_at(&mut [0; 65536], 0).unwrap();
        assert!(!file.is_resident(0, 16 << 20));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
}

#[test]
fn a_disk_thread_has_its_name_and_may_block() {
    runtime().block_on(async {
        let env = Env::real();
        let clock = Arc::clone(&env.clock);
        let (named, name) = mpsc::sync_channel(1);
        let (release, released) = mpsc::sync_channel(1);
        let thread = env.spawn.disk_thread(
            "disk-test",
            Box::pin(async move {
                named.send(std::thread::current().name().map(str::to_owned)).unwrap();
                // The only worker thread goes on while this one blocks.
                released.recv().unwrap();
                clock.sleep(Duration::from_millis(1)).await;
            }),
        );
        let helper = env.spawn.task("helper", Box::pin(async move { release.send(()).unwrap() }));
        helper.join().await.unwrap();
        thread.join().await.unwrap();
        assert_eq!(name.recv().unwrap().as_deref(), Some("disk-test"));
    });
}

#[test]
fn a_panic_is_told_to_the_owner() {
    runtime().block_on(async {
        let env = Env::real();
        let task = env.spawn.task("first", Box::pin(async { panic!("on purpose") }));
        assert_eq!(task.join().await.unwrap_err().to_string(), "task first panicked");
        let thread = env.spawn.disk_thread("second", Box::pin(async { panic!("on purpose") }));
        assert_eq!(thread.join().await.unwrap_err().to_string(), "task second panicked");
    });
}

#[test]
fn blocking_work_gives_its_answer() {
    runtime().block_on(async {
        let env = Env::real();
        assert_eq!(blocking(&*env.spawn, || 6 * 7).await, 42);
        env.spawn.interleave().await;
    });
}

#[test]
#[should_panic(expected = "on purpose")]
fn a_panic_of_blocking_work_comes_through() {
    runtime().block_on(async {
        let env = Env::real();
        blocking(&*env.spawn, || panic!("on purpose")).await;
    });
}

#[test]
fn clocks_and_random_numbers() {
    runtime().block_on(async {
        let env = Env::real();
        // 2020 to 2100.
        assert!((1_577_836_800_000..4_102_444_800_000).contains(&env.clock.wall_ms()));
        let before = env.clock.monotonic();
        env.clock.sleep(Duration::from_millis(5)).await;
        assert!(env.clock.monotonic() - before >= Duration::from_millis(5));
        assert_ne!(env.random.next_u64(), env.random.next_u64());
        assert_ne!(env.random.next_id(), env.random.next_id());
    });
}
