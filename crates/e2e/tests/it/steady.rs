//! A steady load, within bounds.

use std::time::Duration;

use danube_e2e::scenario::steady;

use crate::alone;

#[test]
fn a_steady_load_makes_nothing_grow() {
    let _guard = alone();
    let window = Duration::from_millis(1500);
    println!(
        "{}",
        steady::run(steady::Extent { windows: 8, window, rate: 5_000, kept_mib: 1 }, None)
    );
}
