//! A crash at every change of the disk, and syncs that fail.

use danube_env::sim::{self, Crash, Fault, Machine, Operation, Survival};
use danube_meta::command::RaiseCeiling;
use danube_meta::state::CEILING_STEP;
use danube_meta::{Config, Error, Meta, Result, State};
use danube_model::{Epoch, Offset};

use super::*;

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    sessions: u64,
    created: u64,
    opened: u32,
    ceiling: u64,
}

impl Acknowledged {
    /// Works until something fails.
    async fn work(&mut self, meta: &Meta) -> Result<()> {
        form(meta).await?;
        self.sessions += 1;
        for round in 0..6 {
            let next = self.created;
            let (one, other) =
                tokio::join!(meta.propose(create(next)), meta.propose(create(next + 1)));
            // After a crash one of them may be there though it was not acknowledged.
            self.created +=
                [one, other].map(|created| created.map(|()| 1)).into_iter().sum::<Result<u64>>()?;
            let epoch = self.opened;
            meta.propose(open(meta, 0, epoch)).await?[0].as_ref().unwrap();
            self.opened = epoch + 1;
            let ceiling = self.ceiling.max(1) + round % 2;
            let raised = Offset::new(ceiling * CEILING_STEP);
            let epoch = Epoch::new(self.opened).unwrap();
            meta.propose(RaiseCeiling { topic: id(0), epoch, ceiling: raised }).await?;
            self.ceiling = ceiling;
        }
        Ok(())
    }

    /// Checks that all of it is there, and takes what is there as acknowledged.
    fn check(&mut self, state: &State, context: &str) {
        let sessions = state.brokers().map(|(_, broker)| broker.sessions).sum::<u64>();
        let created = state.topic_count() as u64;
        let topic = state.topic(&name(0));
        let opened = topic.map_or(0, |topic| topic.epoch.get());
        let ceiling = topic.map_or(0, |topic| topic.ceiling.get() / CEILING_STEP);
        assert!(
            (self.sessions..=self.sessions + 1).contains(&sessions),
            "{context}: {sessions} sessions"
        );
        assert!(
            (self.created..=self.created + 2).contains(&created),
            "{context}: {created} topics"
        );
        assert!((self.opened..=self.opened + 1).contains(&opened), "{context}: epoch {opened}");
        assert!(
            (self.ceiling..=self.ceiling + 1).contains(&ceiling),
            "{context}: ceiling {ceiling}"
        );
        for number in 0..created {
            assert!(state.topic(&name(number)).is_some(), "{context}: topic {number} is missing");
        }
        *self = Acknowledged { sessions, created, opened, ceiling };
    }
}

fn small() -> Config {
    Config { snapshot_after_commands: 10, log_file_bytes: 2048, ..config() }
}

async fn works(machine: &Machine, acknowledged: &mut Acknowledged, context: &str) {
    let meta = Meta::open(small(), machine.restart().await).await;
    let meta = meta.unwrap_or_else(|error| panic!("{context}: {}", chain(&error)));
    meta.read(|state| acknowledged.check(state, context));
    acknowledged.work(&meta).await.unwrap_or_else(|error| panic!("{context}: {}", chain(&error)));
}

/// False if there were not that many changes.
fn survives_crash_at(seed: u64, at: u64, crash: Crash) -> bool {
    let context = &format!("seed {seed}, {crash:?} at change {at}");
    sim::run(seed ^ (at << 20), |world| async move {
        let machine = world.machine("broker");
        let mut acknowledged = Acknowledged::default();
        machine.disk().crash_at(at, crash);
        let env = machine.env();
        let work = async {
            let meta = Meta::open(small(), env).await?;
            acknowledged.work(&meta).await?;
            meta.close().await;
            Ok::<_, Error>(())
        };
        let crashed = tokio::select! {
            biased;
            () = machine.down() => true,
            result = work => result.is_err(),
        };
        assert_eq!(crashed, machine.disk().is_down(), "{context}");
        if crashed {
            works(&machine, &mut acknowledged, context).await;
            machine.crash(Crash::PowerCut(Survival::Nothing));
            works(&machine, &mut acknowledged, context).await;
        }
        crashed
    })
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_change() {
    for crash in
        [Crash::Kill, Crash::PowerCut(Survival::Chance), Crash::PowerCut(Survival::Nothing)]
    {
        for seed in 0..2 {
            let changes = (0..).take_while(|at| survives_crash_at(seed, *at, crash)).count();
            assert!(changes > 60, "seed {seed} has only {changes} changes");
        }
    }
}

/// P7: after a failed sync nothing is acknowledged, the reason is told, and what was acknowledged before is there at the next
/// start even if the power goes then.
#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    for nth in 0..40 {
        let context = &format!("sync {nth}");
        sim::run(nth, |world| async move {
            let machine = world.machine("broker");
            let meta = Meta::open(small(), machine.env()).await.unwrap();
            let mut acknowledged = Acknowledged::default();
            machine.disk().plan(Fault::nth(Operation::SyncData, nth));
            match acknowledged.work(&meta).await {
                Ok(()) => assert!(nth > 10, "{context} did not come"),
                Err(error) => {
                    assert!(error.is_unknown(), "{context}: {error}");
                    assert!(chain(&error).contains("cannot sync /data/raft/"), "{}", chain(&error));
                    let reason = meta.failed().await;
                    assert!(chain(&error).ends_with(&chain(&reason)), "{}", chain(&reason));
                    let later = meta.propose(create(100)).await.unwrap_err();
                    assert!(chain(&later).contains("cannot sync"), "{context}: {}", chain(&later));
                    assert!(meta.read(|state| state.topic(&name(100)).is_none()));
                }
            }
            meta.close().await;
            machine.disk().clear_plan();
            works(&machine, &mut acknowledged, context).await;
            machine.crash(Crash::PowerCut(Survival::Nothing));
            works(&machine, &mut acknowledged, context).await;
        });
    }
}
