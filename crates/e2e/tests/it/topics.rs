//! Many topics, within bounds.

use danube_e2e::scenario::topics;

use crate::alone;

#[test]
fn many_topics_with_data_are_back_soon_and_take_little() {
    let _guard = alone();
    println!("{}", topics::with_data(500));
}

#[test]
fn an_idle_topic_costs_little() {
    let _guard = alone();
    println!("{}", topics::idle(500));
}

#[test]
fn a_subscription_of_many_partitions_takes_few_descriptors() {
    let _guard = alone();
    println!("{}", topics::partitions(100));
}
