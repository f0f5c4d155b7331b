//! The simulated world.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use danube_env::disk::Open;
use danube_env::sim::{self, Crash, Fault, Machine, Operation, SimDisk, Survival, World};
use danube_env::{Env, blocking};

use crate::conformance;

#[test]
fn the_disk_keeps_its_promises() {
    for seed in 0..20 {
        conformance::run(&*SimDisk::new(seed).mount(), Path::new("/root"));
    }
}

const CUT: Crash = Crash::PowerCut(Survival::Chance);

/// Three tasks write and sync files of their own, with waits between.
async fn workload(env: Env) {
    let tasks: Vec<_> = (0..3_u64)
        .map(|number| {
            let env2 = env.clone();
            let task = async move {
                let _ = write_and_sync(env2, number).await;
            };
            env.spawn.task(&format!("writer {number}"), Box::pin(task))
        })
        .collect();
    for task in tasks {
        // A crash ends tasks early.
        let _ = task.join().await;
    }
}

async fn write_and_sync(env: Env, number: u64) -> std::io::Result<()> {
    let file = env.disk.open(Path::new(&format!("/{number}")), Open::Create)?;
    for round in 0..20 {
        let byte = env.random.next_u64() as u8;
        file.write_at(&[&vec![byte; 100 + 50 * round]], 1000 * round as u64)?;
        env.spawn.interleave().await;
        file.sync_data()?;
        env.disk.sync_dir(Path::new("/"))?;
        env.clock.sleep(Duration::from_millis(1 + env.random.next_u64() % 3)).await;
    }
    Ok(())
}

#[test]
fn a_seed_gives_one_run() {
    let hashes: Vec<u64> = (0..20)
        .map(|seed| {
            sim::run_twice(seed, |world| async move {
                let machine = world.machine("a");
                machine.disk().plan(Fault::one_in(Operation::SyncData, 10));
                machine.disk().crash_at(world.generator("crash").below(80), CUT);
                workload(machine.env()).await;
                machine.crash(CUT);
                let env = machine.restart().await;
                for path in machine.disk().files() {
                    let content = machine.disk().content(&path).unwrap();
                    world.trace().note(format_args!("{path:?} {content:?}"));
                }
                drop(env);
                world.trace().hash()
            })
        })
        .collect();
    let mut distinct = hashes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), hashes.len());
}

#[test]
#[should_panic(expected = "the runs differ at event")]
fn a_run_that_follows_from_more_than_its_seed_is_found() {
    let runs = Cell::new(0);
    sim::run_twice(1, |world| {
        runs.set(runs.get() + 1);
        let event = runs.get();
        async move { world.trace().note(format_args!("event {event}")) }
    });
}

#[test]
fn time_passes_when_nothing_else_is_left_to_do() {
    sim::run(1, |world| async move {
        let machine = world.machine("a");
        let clock = machine.env().clock;
        let (wall, monotonic) = (clock.wall_ms(), clock.monotonic());
        clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.wall_ms() - wall, 3_600_000);
        assert_eq!(clock.monotonic() - monotonic, Duration::from_secs(3600));
        machine.set_wall_ahead_ms(-7_200_000);
        assert_eq!(wall - clock.wall_ms(), 3_600_000);
        assert_eq!(clock.monotonic() - monotonic, Duration::from_secs(3600));
    });
}

#[test]
fn a_power_cut_is_a_new_boot_and_a_kill_is_not() {
    sim::run(1, |world| async move {
        let machine = world.machine("a");
        let before = machine.env();
        world.sleep(Duration::from_secs(60)).await;
        let boot = before.disk.boot_id().unwrap();
        for (crash, same_boot) in [
            (Crash::Kill, true),
            (Crash::Remount(Survival::Chance), true),
            (Crash::PowerCut(Survival::Chance), false),
        ] {
            machine.crash(crash);
            let env = machine.restart().await;
            assert_eq!(env.disk.boot_id().unwrap() == boot, same_boot, "{crash:?}");
            assert_eq!(env.clock.monotonic() >= Duration::from_secs(60), same_boot, "{crash:?}");
        }
        assert_ne!(world.machine("b").env().disk.boot_id().unwrap(), boot);
    });
}

/// Counts the steps of a task that never ends.
fn endless(env: &Env, steps: &Arc<AtomicU64>) {
    let (clock, steps) = (Arc::clone(&env.clock), Arc::clone(steps));
    drop(env.spawn.task(
        "endless",
        Box::pin(async move {
            loop {
                steps.fetch_add(1, Ordering::Relaxed);
                clock.sleep(Duration::from_millis(1)).await;
            }
        }),
    ));
}

#[test]
fn a_crash_ends_the_tasks_of_its_machine_alone() {
    sim::run(3, |world| async move {
        let (one, other) = (world.machine("one"), world.machine("other"));
        let (steps, other_steps) = (Arc::default(), Arc::default());
        let dead = one.env();
        endless(&dead, &steps);
        endless(&other.env(), &other_steps);
        world.sleep(Duration::from_millis(100)).await;
        assert!(steps.load(Ordering::Relaxed) > 50);
        assert_eq!(Arc::strong_count(&steps), 2);
        one.crash(Crash::Kill);
        let alive = one.restart().await;
        assert_eq!(Arc::strong_count(&steps), 1, "the task was dropped");
        let before = other_steps.load(Ordering::Relaxed);
        // A dead process starts nothing, and its disk stays dead.
        endless(&dead, &steps);
        world.sleep(Duration::from_millis(100)).await;
        assert_eq!(Arc::strong_count(&steps), 1);
        assert!(other_steps.load(Ordering::Relaxed) > before + 50);
        let refused = dead.disk.list(Path::new("/")).unwrap_err();
        assert!(sim::is_crashed(&refused));
        alive.disk.list(Path::new("/")).unwrap();
    });
}

async fn crash_by_plan(world: &World, machine: &Machine) {
    machine.disk().crash_at(5, CUT);
    let work = machine.env();
    let task = work.clone();
    drop(work.spawn.task("workload", Box::pin(workload(task))));
    machine.down().await;
    assert!(machine.disk().is_down());
    assert!(machine.disk().changes() >= 6);
    world.sleep(Duration::from_millis(1)).await;
}

#[test]
fn a_planned_crash_is_waited_for() {
    sim::run(5, |world| async move {
        let machine = world.machine("a");
        crash_by_plan(&world, &machine).await;
        let env = machine.restart().await;
        env.disk.create_dir_all(Path::new("/works/again")).unwrap();
    });
}

#[test]
fn interleaving_varies_with_the_seed() {
    let order = |seed| {
        sim::run(seed, |world| async move {
            let env = world.machine("a").env();
            let order = Arc::new(std::sync::Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let order = Arc::clone(&order);
                    let spawn = Arc::clone(&env.spawn);
                    let task = async move {
                        spawn.interleave().await;
                        order.lock().unwrap().push(number);
                    };
                    env.spawn.disk_thread("step", Box::pin(task))
                })
                .collect();
            for task in tasks {
                task.join().await.unwrap();
            }
            order.lock().unwrap().clone()
        })
    };
    let mut orders: Vec<Vec<i32>> = (0..200).map(order).collect();
    orders.sort();
    orders.dedup();
    assert!(orders.len() >= 20, "{} of 24 orders", orders.len());
}

#[test]
fn those_who_wait_for_the_same_go_on_in_an_order_that_the_seed_gives() {
    let run = |world: World| async move {
        let env = world.machine("a").env();
        let (tell, told) = tokio::sync::watch::channel(0);
        let waiting: Vec<_> = (0..8)
            .map(|number| {
                let (trace, mut told) = (world.trace().clone(), told.clone());
                let task = async move {
                    while told.changed().await.is_ok() {
                        trace.note(format_args!("{number} saw {}", *told.borrow()));
                    }
                };
                env.spawn.task("waits", Box::pin(task))
            })
            .collect();
        for news in 1..20 {
            world.sleep(Duration::from_millis(1)).await;
            tell.send_replace(news);
        }
        drop(tell);
        for task in waiting {
            task.join().await.unwrap();
        }
        world.trace().hash()
    };
    let hashes: std::collections::BTreeSet<u64> =
        (0..20).map(|seed| sim::run_twice(seed, run)).collect();
    assert_eq!(hashes.len(), 20);
}

#[test]
#[should_panic(expected = "these tasks panicked: [\"circle\"]")]
fn a_task_that_goes_round_in_a_circle_is_found() {
    sim::run(1, |world| async move {
        let task = async {
            loop {
                tokio::task::yield_now().await;
            }
        };
        let circle = world.machine("a").env().spawn.task("circle", Box::pin(task));
        assert!(circle.join().await.is_err());
    });
}

#[test]
fn a_slow_machine_takes_time() {
    sim::run(1, |world| async move {
        let machine = world.machine("a");
        let spawn = machine.env().spawn;
        for _ in 0..100 {
            spawn.interleave().await;
        }
        assert_eq!(world.elapsed(), Duration::ZERO);
        machine.set_latency_max(Duration::from_millis(20));
        for _ in 0..100 {
            spawn.interleave().await;
        }
        // 10 ms each on average.
        assert!((500..2000).contains(&world.elapsed().as_millis()), "{:?}", world.elapsed());
    });
}

#[test]
fn blocking_work_runs() {
    sim::run(1, |world| async move {
        let env = world.machine("a").env();
        assert_eq!(blocking(&*env.spawn, || 6 * 7).await, 42);
    });
}

#[test]
#[should_panic(expected = "these tasks panicked: [\"bad\"]")]
fn a_panic_of_a_task_fails_the_run() {
    sim::run(1, |world| async move {
        let task =
            world.machine("a").env().spawn.task("bad", Box::pin(async { panic!("on purpose") }));
        assert!(task.join().await.is_err());
    });
}

#[test]
#[should_panic(expected = "the test waits for ever")]
fn a_test_that_waits_for_ever_is_ended() {
    sim::run(1, |_| std::future::pending::<()>());
}

#[test]
fn a_crash_is_known_through_wrapped_errors() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot write")]
    struct Outer(#[source] std::io::Error);

    let disk = SimDisk::new(1);
    let mount = disk.mount();
    disk.crash(Crash::Kill);
    let error = mount.list(Path::new("/")).unwrap_err();
    assert!(sim::is_crashed(&error));
    assert!(sim::is_crashed(&std::io::Error::other(Outer(error))));
    assert!(!sim::is_crashed(&std::io::Error::other("else")));
}
