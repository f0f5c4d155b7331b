//! Consumers that are expected, come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use danube_dispatch::{Engine, Filter, Joining, Promise};
use danube_meta::State;
use danube_meta::state::Subscription;
use danube_model::{ConsumerId, ConsumerName, SubscriptionType};

use super::{Attached, Next, Task};
use crate::error::{Error, Result};
use crate::subscription::Window;
use crate::subscription::live::{Absences, Arriving};

impl Task {
    /// The name and the filters under which a consumer is registered.
    fn registration(&self, id: ConsumerId) -> Option<(ConsumerName, Vec<Filter>)> {
        self.topic.broker.inner.meta.read(|state| {
            let consumers = &state.subscription_of(id)?.consumers;
            let (name, known) = consumers.iter().find(|(_, known)| known.id == id)?;
            Some((name.clone(), filters(&known.filters)))
        })
    }

    /// A consumer will attach; the one that had its name has gone.
    pub(super) fn registered(&mut self, id: ConsumerId, replaced: Option<ConsumerId>) {
        if let Some(replaced) = replaced {
            self.remove(replaced, Error::Replaced);
        }
        // It may have been replaced meanwhile, too.
        if let Some((name, filters)) = self.registration(id) {
            self.engine.expect(name.as_str(), filters, self.now());
        }
    }

    pub(super) fn attach(&mut self, arriving: Arriving) -> Result<()> {
        let Arriving { id, window, outbox } = arriving;
        let (name, filters) =
            self.registration(id).ok_or(Error::ConsumerUnknown { consumer: id })?;
        // An older stream of the same consumer, and an older consumer of the same name, have gone.
        let of_name = self.consumers.iter().filter(|(_, attached)| attached.name == name);
        for older in of_name.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove(older, Error::Replaced);
        }
        let broker = &self.topic.broker;
        broker.inner.subscriptions.arrive(broker, &self.key, &name, id, self.kind)?;
        let credit = match window {
            Window::Unlimited => u64::MAX,
            Window::Credit(records) => records,
        };
        self.engine.join(Joining { id, name: name.as_str(), credit, filters }, self.now());
        self.consumers.insert(id, Attached { name, outbox });
        self.source.set_open(true);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: ConsumerId, reason: Error) {
        let Some(attached) = self.consumers.remove(&id) else { return };
        attached.outbox.end(reason);
        self.engine.leave(id, self.now());
        self.topic.broker.inner.subscriptions.depart(&self.key, &attached.name, id);
        self.source.set_open(!self.consumers.is_empty());
        self.idle_since = self.now();
    }

    /// What is left of the times of those that are registered, for the next task. One that was not told to this task yet
    /// counts as present, and has its whole time.
    pub(super) fn absences(&self) -> Absences {
        if self.kind != SubscriptionType::KeyShared || self.promise != Promise::AtLeastOnce {
            return Absences::new();
        }
        let inner = &self.topic.broker.inner;
        let known =
            |state: &State| state.subscription(&self.key.topic, &self.key.subscription).cloned();
        let Some(known) = inner.meta.read(known) else { return Absences::new() };
        let absent: BTreeMap<_, _> = self.engine.absences().collect();
        let (now, mut absences) = (self.now(), Absences::new());
        for (name, consumer) in &known.consumers {
            if !inner.subscriptions.is_present(&self.key, name, now) {
                let left = absent.get(name.as_str()).copied().unwrap_or_default();
                absences.insert(consumer.id, left);
            }
        }
        absences
    }

    pub(super) async fn look_at_consumers(&mut self) -> Next {
        // What a consumer said before it went counts.
        for _ in 0..self.commands.len() {
            let Ok(command) = self.commands.try_recv() else { break };
            if let Next::End = self.command(command).await {
                return Next::End;
            }
        }
        for id in self.touched.take() {
            let Some(attached) = self.consumers.get(&id) else { continue };
            let seen = attached.outbox.look();
            if seen.has_gone {
                self.remove(id, Error::Replaced);
                continue;
            }
            self.engine.grant(id, seen.granted);
            self.engine.set_room(id, seen.has_room);
        }
        Next::GoOn
    }
}

/// Whoever is registered may come. Of too many, those are kept that have the most time left, and of these the newest.
pub(super) fn expect_all(
    engine: &mut Engine,
    known: &Subscription,
    absences: Absences,
    now: Duration,
) {
    let whole = engine.absence();
    let mut expected: Vec<_> = known.consumers.iter().collect();
    let left = |id: &ConsumerId| absences.get(id).copied().unwrap_or(whole);
    expected.sort_by_key(|(_, consumer)| (left(&consumer.id), consumer.registered));
    for (name, consumer) in expected {
        let (left, filters) = (left(&consumer.id), filters(&consumer.filters));
        engine.expect_for(left, name.as_str(), filters, now);
    }
}

fn filters(patterns: &[String]) -> Vec<Filter> {
    patterns.iter().map(|pattern| Filter::new(pattern)).collect()
}
