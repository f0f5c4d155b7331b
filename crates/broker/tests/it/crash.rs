//! A crash at every change of the disk, of the hot tier and of the metadata: what was acknowledged is there, at its
//! offset, and a start always works.

use std::collections::BTreeMap;

use danube_broker::Result;
use danube_env::sim::{Fault, Machine, Operation};

use super::*;

/// What a producer knows.
#[derive(Default)]
struct Acknowledged {
    /// Payloads by topic and offset.
    records: BTreeMap<(TopicName, u64), String>,
    /// Payloads that were handed over and may be there or not.
    unknown: Vec<String>,
    /// Topics that were created, and one that may be.
    created: Vec<TopicName>,
    creating: Option<TopicName>,
    /// The topic that is deleted, or may be.
    deleting: Option<TopicName>,
    /// Greatest epoch seen of each topic.
    epochs: BTreeMap<TopicName, u32>,
    sent: u64,
    named: u64,
    closing: bool,
}

impl Acknowledged {
    /// Works until something fails.
    async fn work(&mut self, broker: &Broker) -> Result<()> {
        for round in 0..3 {
            self.create(broker).await?;
            for topic in self.created.clone() {
                for _ in 0..3 {
                    self.append(broker, &topic).await?;
                }
            }
            if round == 1 {
                self.delete(broker).await?;
            }
        }
        self.closing = true;
        broker.close().await
    }

    async fn create(&mut self, broker: &Broker) -> Result<()> {
        self.named += 1;
        let topic = name(&format!("/default/t{}", self.named));
        self.creating = Some(topic.clone());
        broker.create_topic(new_topic(topic.as_str())).await?;
        self.creating = None;
        self.created.push(topic);
        Ok(())
    }

    async fn append(&mut self, broker: &Broker, topic: &TopicName) -> Result<()> {
        self.sent += 1;
        let payload = format!("{}-{}", self.sent, "x".repeat(self.sent as usize * 37 % 700));
        self.unknown.push(payload.clone());
        let appended = broker.topic(topic)?.append(batch(&payload)).await?;
        self.unknown.pop();
        let before = self.records.insert((topic.clone(), appended.base.get()), payload);
        assert_eq!(before, None, "offset {} of {topic} was given twice", appended.base);
        let epoch = self.epochs.entry(topic.clone()).or_default();
        assert!(*epoch <= appended.epoch.get(), "{topic} went back to epoch {}", appended.epoch);
        *epoch = appended.epoch.get();
        Ok(())
    }

    async fn delete(&mut self, broker: &Broker) -> Result<()> {
        let topic = self.created.remove(0);
        self.deleting = Some(topic.clone());
        self.records.retain(|(of, _), _| *of != topic);
        broker.delete_topic(&topic).await?;
        assert!(matches!(broker.topic(&topic), Err(Error::TopicNotFound { .. })));
        self.deleting = None;
        Ok(())
    }

    /// Checks what is there after a start, and takes it as acknowledged.
    async fn check(&mut self, broker: &Broker, context: &str) {
        if let Some(topic) = self.creating.take()
            && broker.topic(&topic).is_ok()
        {
            self.created.push(topic);
        }
        if let Some(topic) = self.deleting.take()
            && broker.topic(&topic).is_ok()
        {
            broker.delete_topic(&topic).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        let listed = broker.list_topics(None, None, 100);
        let listed = listed.unwrap_or_else(|error| panic!("{context}: {error}"));
        let listed: Vec<_> = listed.into_iter().map(|topic| topic.name).collect();
        self.created.sort_unstable();
        assert_eq!(listed, self.created, "{context}");
        for topic in &self.created {
            let handle = broker.topic(topic).unwrap_or_else(|error| panic!("{context}: {error}"));
            let (found, missing) = read_all(&handle).await;
            assert!(missing.is_empty(), "{context}: {topic} lacks {missing:?}");
            for ((offset, payload), dense) in found.into_iter().zip(0..) {
                assert_eq!(offset, dense, "{context}: {topic} is not dense");
                let at = (topic.clone(), offset);
                match self.records.get(&at) {
                    Some(sent) => assert_eq!(payload, *sent, "{context}: {topic} at {offset}"),
                    None => {
                        assert!(
                            self.unknown.contains(&payload),
                            "{context}: nobody sent {payload}"
                        );
                        self.records.insert(at, payload);
                    }
                }
            }
            let of_topic = self.records.keys().filter(|(of, _)| of == topic);
            let last = of_topic.map(|(_, offset)| *offset).max();
            let end = handle.describe().await.map(|described| described.durable_end.get());
            let end = end.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(end, last.map_or(0, |last| last + 1), "{context}: {topic} lost its end");
        }
        self.unknown.clear();
        self.closing = false;
    }
}

async fn works(machine: &Machine, acknowledged: &mut Acknowledged, context: &str) {
    let opened = Broker::open(config(), machine.restart().await).await;
    let (broker, _) = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
    acknowledged.check(&broker, context).await;
    acknowledged.work(&broker).await.unwrap_or_else(|error| panic!("{context}: {error}"));
    let stray = machine.disk().files();
    let stray = stray.iter().filter(|path| path.ends_with("topic")).count();
    assert_eq!(stray, acknowledged.created.len(), "{context}: logs that no topic has");
}

/// False if there were not that many changes.
fn survives_crash_at(seed: u64, at: u64, crash: Crash) -> bool {
    let context = &format!("seed {seed}, {crash:?} at change {at}");
    sim::run(seed ^ (at << 20), |world| async move {
        let machine = world.machine("broker");
        let mut acknowledged = Acknowledged::default();
        let env = machine.env();
        machine.disk().crash_at(at, crash);
        let work = async {
            let (broker, _) = Broker::open(config(), env).await?;
            acknowledged.work(&broker).await
        };
        let crashed = tokio::select! {
            biased;
            () = machine.down() => true,
            worked = work => worked.is_err(),
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
    for (seed, crash) in
        [Crash::Kill, Crash::PowerCut(Survival::Chance), Crash::PowerCut(Survival::Nothing)]
            .into_iter()
            .enumerate()
    {
        let seed = seed as u64;
        let changes = (0..).take_while(|at| survives_crash_at(seed, *at, crash)).count();
        assert!(changes > 100, "seed {seed} has only {changes} changes");
    }
}

/// P7: after a failed sync nothing is acknowledged, the reason is told, and what was acknowledged before is there even if
/// the power goes at the next start.
#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    for (operation, least) in [(Operation::SyncData, 30), (Operation::SyncDir, 10)] {
        let failed = (0..).take_while(|nth| survives_failed_sync(operation, *nth)).count();
        assert!(failed > least, "{operation:?} fails only {failed} times");
    }
}

/// False if there were not that many syncs.
fn survives_failed_sync(operation: Operation, nth: u64) -> bool {
    let context = &format!("{operation:?} {nth}");
    sim::run(nth, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let mut acknowledged = Acknowledged::default();
        machine.disk().plan(Fault::nth(operation, nth));
        let failed = acknowledged.work(&broker).await.is_err();
        if failed && !acknowledged.closing {
            let reason = broker.failed().await;
            // The other half of the broker learns of it as soon as it is told.
            world.sleep(Duration::from_millis(1)).await;
            assert!(!reason.is_retryable(), "{context}: {reason}");
            if let Some(topic) = acknowledged.created.first().map(|topic| broker.topic(topic)) {
                let topic = topic.unwrap_or_else(|error| panic!("{context}: {error}"));
                let later = topic.append(batch("later")).await;
                assert!(later.is_err(), "{context}: something is acknowledged after {reason}");
            }
            let _ = broker.close().await;
        }
        machine.disk().clear_plan();
        works(&machine, &mut acknowledged, context).await;
        machine.crash(Crash::PowerCut(Survival::Nothing));
        works(&machine, &mut acknowledged, context).await;
        failed
    })
}
