//! Each planted bug is found, and within seconds.

use danube_sim::{Layer, Run};

/// So many seeds must be enough.
const SEEDS_MAX: u64 = 2000;

#[test]
fn every_planted_bug_is_found() {
    for mutant in danube_log::MUTANTS {
        let finds = |seed: &u64| {
            let run = Run { layer: Layer::Log, seed: *seed, mutant: Some(mutant) };
            !run.run().violations.is_empty()
        };
        let found = (0..SEEDS_MAX).find(finds);
        println!("{mutant}: seed {found:?}");
        assert!(found.is_some(), "{mutant} is not found by {SEEDS_MAX} seeds");
    }
}
