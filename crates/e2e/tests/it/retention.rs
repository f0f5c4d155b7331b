//! What is removed, and who notices.

use std::time::Duration;

use danube_e2e::scenario::retention;

use crate::beside_others;

#[test]
fn l04_messages_are_kept_by_the_brokers_time() {
    let _guard = beside_others();
    drop(retention::by_receive_time(Duration::from_secs(4)));
}

#[test]
fn l05_readers_at_the_start_are_told_what_is_removed() {
    let _guard = beside_others();
    drop(retention::prune_race(Duration::from_secs(5)));
}
