//! Consumers: waiting, slow, killed, and in each other's way.

use std::time::Duration;

use danube_e2e::scenario::{ack_timeout, consumers, half_open, seek, slow, swap, wakeups};

use crate::{alone, beside_others};

#[test]
fn a_consumer_that_waits_is_woken_by_every_message() {
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

#[test]
fn a_slow_consumer_misses_nothing_and_costs_no_memory() {
    let _guard = beside_others();
    println!("{}", slow::behind(2000));
}

#[test]
fn a_producer_does_not_notice_consumers_that_do_nothing() {
    let _guard = alone();
    println!("{}", slow::beside(2000, 4.0));
}

#[test]
fn keys_keep_their_order_while_consumers_come_and_go() {
    let _guard = beside_others();
    println!("{}", swap::run(2));
}

#[test]
fn one_late_message_comes_again_alone() {
    let _guard = beside_others();
    println!("{}", ack_timeout::run());
}

#[test]
fn a_seek_is_not_undone_by_acknowledgements() {
    let _guard = beside_others();
    println!("{}", seek::run(3));
}

#[test]
fn a_frozen_path_holds_up_nobody_for_long() {
    let _guard = beside_others();
    println!("{}", half_open::run(Duration::ZERO));
}
