//! Speed, beside something that does the same work on the same machine at the same time. The bars are those of the long forms in
//! `soak`; here it has to reach half, because the machine may be busy.

use std::path::Path;
use std::time::Duration;

use danube_e2e::figures::{self, Extent};

use crate::alone;

const EXTENT: Extent = Extent { turns: 3, turn: Duration::from_millis(300) };

/// Which can be an echo.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_soak"))
}

#[test]
fn native_producers_at_disk_reach_a_part_of_an_echo() {
    let _guard = alone();
    let figures = figures::wire(EXTENT, program());
    println!("{}", figures.measured());
    // The filler's copies into memory that a virtual machine has to get from its host first can take more time than all else.
    assert!(figures.disk_to_echo() >= 0.3 / 6.0);
}

#[test]
fn existing_producers_reach_a_part_of_an_echo_and_a_lone_one_does_not_wait() {
    let _guard = alone();
    let figures = figures::unary(EXTENT, program());
    println!("{}", figures.measured());
    for producers in [1, 8, 64] {
        assert!(figures.to_echo(producers, "page_cache") >= 0.8 / 2.0, "{producers} producers");
    }
    assert!(figures.to_echo(64, "disk") >= 0.4 / 2.0);
    assert!(figures.lone_p99() <= 2 * Duration::from_millis(5));
}

#[test]
fn a_native_consumer_catches_up_many_times_as_fast_as_an_existing_one() {
    let _guard = alone();
    let figures = figures::catching_up(EXTENT.turns, 1000);
    println!("{}", figures.measured());
    assert!(figures.native_to_peer() >= 5.0 / 2.0);
}

#[test]
fn messages_to_many_subscriptions_do_not_queue_up() {
    let _guard = alone();
    let figures = figures::fan_out(50, Duration::from_secs(2));
    println!("{}", figures.measured());
    assert!(figures.p99() <= 2 * Duration::from_millis(100));
}
