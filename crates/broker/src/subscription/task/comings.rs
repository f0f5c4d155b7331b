//! Consumers that are expected, come and go.

use danube_dispatch::{Filter, Joining};
use danube_model::{ConsumerId, ConsumerName};

use super::{Attached, Next, Task};
use crate::error::{Error, Result};
use crate::subscription::Window;
use crate::subscription::live::Arriving;

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

pub(super) fn filters(patterns: &[String]) -> Vec<Filter> {
    patterns.iter().map(|pattern| Filter::new(pattern)).collect()
}
