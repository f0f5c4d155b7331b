//! Consumers: waiting, slow, killed, and in each other's way.

use std::time::Duration;

use danube_e2e::scenario::{consumers, wakeups};

use crate::{alone, beside_others};

#[test]
fn l12_a_consumer_that_waits_is_woken_by_every_message() {
    let _guard = alone();
    let idle = Duration::ZERO;
    let extent = wakeups::Extent { idle, rounds: 150, coming: 50, pause_max_ms: 10, seed: 2 };
    println!("{}", wakeups::run(extent));
}

#[test]
fn p4_consumers_of_all_types_lose_nothing_by_kills() {
    let _guard = beside_others();
    let flush_interval = Duration::from_millis(200);
    println!("{}", consumers::run(consumers::Extent { kills: 3, flush_interval, seed: 2 }));
}
