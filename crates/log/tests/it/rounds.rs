//! What goes into one round.

use danube_env::sim::{self, Fault, Operation};
use danube_log::{Config, Store};
use danube_model::Durability;

use crate::support::{batch, plan_open};

/// One log that has far more queued than its turn takes pays for one sync with all of it.
#[test]
fn what_queued_meanwhile_is_the_next_round_also_of_one_log() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let config = Config::new("/wal");
        let (store, _) = Store::open(config, machine.env()).await.expect("an empty disk opens");
        let planned = plan_open(&store, 0, Durability::Disk, &mut 0).await.expect("a new log");
        let log = store.open_log(planned).await.expect("a new log opens");
        // The first batch may be a round of its own, those that queue meanwhile are another.
        machine.disk().plan(Fault::nth(Operation::SyncData, 2).on(".jnl"));
        let mut appending = Vec::new();
        for number in 0..20 {
            let batch = batch(&[vec![number; 200 << 10]], None);
            appending.push(log.submit(batch).await.expect("there is room"));
        }
        for appending in appending {
            appending.wait().await.expect("no third sync is needed");
        }
    });
}
