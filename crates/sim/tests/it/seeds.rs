//! Every promise is kept, whatever a seed brings.

use danube_sim::Run;

/// Seeds that have failed once.
const FAILED_ONCE: &str = include_str!("../../seeds.txt");

/// Returns how many batches were acknowledged.
#[track_caller]
fn keeps_all_promises(seed: u64) -> u64 {
    let run = Run::new(seed);
    let outcome = run.run();
    assert!(outcome.violations.is_empty(), "{}", run.explain(&outcome));
    outcome.counts.acked
}

#[test]
fn seeds_that_have_failed_once() {
    for line in FAILED_ONCE.lines().filter(|line| !line.starts_with('#')) {
        let seed = line.split_whitespace().next().expect("a line is a seed and its story");
        keeps_all_promises(seed.parse().expect("a seed is a number"));
    }
}

#[test]
fn five_hundred_seeds() {
    let acked: u64 = (0..500).map(keeps_all_promises).sum();
    assert!(acked > 10_000, "the worlds are idle: {acked} batches acknowledged");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        assert_eq!(Run::new(seed).differs(), None);
    }
}
