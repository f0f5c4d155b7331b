//! Every promise is kept, whatever a seed brings.

use danube_sim::{Layer, Run};

/// Seeds that have failed once.
const FAILED_ONCE: &str = include_str!("../../seeds.txt");

/// Returns how many batches were acknowledged.
#[track_caller]
fn keeps_all_promises(layer: Layer, seed: u64) -> u64 {
    let run = Run::new(layer, seed);
    let outcome = run.run();
    assert!(outcome.violations.is_empty(), "{}", run.explain(&outcome));
    outcome.counts.acked
}

#[test]
fn seeds_that_have_failed_once() {
    for line in FAILED_ONCE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let mut word = || words.next().expect("a line is a layer, a seed and its story");
        let layer = word().parse().expect("a layer comes first");
        keeps_all_promises(layer, word().parse().expect("a seed is a number"));
    }
}

#[test]
fn five_hundred_seeds_of_logs() {
    let acked: u64 = (0..500).map(|seed| keeps_all_promises(Layer::Log, seed)).sum();
    assert!(acked > 10_000, "the worlds are idle: {acked} batches acknowledged");
}

#[test]
fn two_hundred_seeds_of_brokers() {
    let acked: u64 = (0..200).map(|seed| keeps_all_promises(Layer::Broker, seed)).sum();
    assert!(acked > 2_000, "the worlds are idle: {acked} batches acknowledged");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        for layer in [Layer::Log, Layer::Broker] {
            assert_eq!(Run::new(layer, seed).differs(), None);
        }
    }
}
