//! How fast a broker is there, and who may use a data directory.

use danube_e2e::Broker;
use danube_e2e::broker::Options;
use danube_e2e::scenario::ready;

use crate::{alone, beside_others};

#[test]
fn an_empty_broker_is_ready_within_a_second() {
    let _guard = alone();
    println!("{}", ready::empty());
}

#[test]
fn a_broker_with_many_topics_is_ready_within_three_seconds_of_a_kill() {
    let _guard = alone();
    println!("{}", ready::many_topics(200));
}

#[test]
fn a_broker_with_much_data_is_ready_within_three_seconds_of_a_kill() {
    let _guard = alone();
    println!("{}", ready::much_data(256 << 20));
}

/// Two brokers on one directory would write over each other.
#[test]
fn a_second_broker_on_the_directory_refuses() {
    let _guard = beside_others();
    let mut first = Broker::start(Options::default());
    let second = Broker::try_start(Options::default().data_dir(first.data_dir()));
    let refused = second.err().expect("the second broker refuses");
    let status = refused.status.expect("it ends by itself");
    assert_eq!(status.code(), Some(1), "{}", refused.log);
    let directory = first.data_dir().display().to_string();
    assert!(refused.log.contains(&directory), "the directory is named: {}", refused.log);
    let mut third = Broker::start(Options::default());
    third.stop();
    first.stop();
}
