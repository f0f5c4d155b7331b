//! What the commands about subscriptions do. As in `apply`, every function checks first and changes then.

use std::sync::Arc;

use danube_model::{ConsumerId, Offset, SubscriptionName, TopicId};

use crate::command::*;
use crate::refusal::Refusal;
use crate::state::State;
use crate::state::subscription::{Consumer, Subscription};

impl State {
    pub(super) fn create_subscription(
        &mut self,
        create: &CreateSubscription,
    ) -> Result<(), Refusal> {
        let CreateSubscription { topic, subscription: name, .. } = create;
        let known = self.topics.get(topic).ok_or(Refusal::TopicIdNotFound { topic: *topic })?;
        require_offset(*topic, create.start)?;
        if let Some(subscription) = self.subscription(topic, name) {
            return Err(Refusal::SubscriptionExists {
                topic: known.name.clone(),
                subscription: name.clone(),
                kind: subscription.kind,
            });
        }
        let limit = create.subscriptions_max;
        if limit > 0 && self.subscriptions(topic).count() as u64 >= limit {
            return Err(Refusal::TooManySubscriptions { topic: known.name.clone(), limit });
        }
        let subscription = Subscription {
            topic: *topic,
            name: name.clone(),
            kind: create.kind,
            floor: create.start,
            settled: Default::default(),
            incarnation: 1,
            policy: create.policy.clone(),
            max_unacked_messages: None,
            consumers: Default::default(),
            created: create.at,
        };
        let of_topic = self.subscriptions.entry(*topic).or_default();
        of_topic.insert(name.clone(), Arc::new(subscription));
        Ok(())
    }

    pub(super) fn delete_subscription(
        &mut self,
        delete: &DeleteSubscription,
    ) -> Result<(), Refusal> {
        let DeleteSubscription { topic, subscription: name } = delete;
        self.subscription_mut(topic, name)?;
        let of_topic = self.subscriptions.get_mut(topic);
        let of_topic = of_topic.expect("the subscription was found there");
        let deleted = of_topic.remove(name).expect("it was found");
        if of_topic.is_empty() {
            self.subscriptions.remove(topic);
        }
        for consumer in deleted.consumers.values() {
            self.consumers.remove(&consumer.id);
        }
        Ok(())
    }

    pub(super) fn update_subscription(
        &mut self,
        update: &UpdateSubscription,
    ) -> Result<(), Refusal> {
        let subscription = self.subscription_mut(&update.topic, &update.subscription)?;
        if let Some(policy) = &update.policy {
            subscription.policy = policy.clone();
        }
        match update.max_unacked_messages {
            Change::Keep => {}
            Change::Reset => subscription.max_unacked_messages = None,
            Change::Set(messages) => subscription.max_unacked_messages = Some(messages),
        }
        Ok(())
    }

    pub(super) fn seek_subscription(&mut self, seek: &SeekSubscription) -> Result<u64, Refusal> {
        require_offset(seek.topic, seek.floor)?;
        let subscription = self.subscription_mut(&seek.topic, &seek.subscription)?;
        subscription.seek(seek.floor);
        Ok(subscription.incarnation)
    }

    pub(super) fn save_cursors(&mut self, save: &SaveCursors) -> Vec<bool> {
        save.cursors.iter().map(|saved| self.save_cursor(saved)).collect()
    }

    fn save_cursor(&mut self, saved: &SaveCursor) -> bool {
        let epoch = self.topics.get(&saved.topic).map(|topic| topic.epoch);
        match self.subscription_mut(&saved.topic, &saved.subscription) {
            Ok(subscription)
                if subscription.incarnation == saved.incarnation
                    && epoch == Some(saved.epoch)
                    && saved.floor <= Offset::MAX =>
            {
                subscription.save(saved);
                true
            }
            _ => false,
        }
    }

    pub(super) fn register_consumer(
        &mut self,
        register: &RegisterConsumer,
    ) -> Result<Option<ConsumerId>, Refusal> {
        let RegisterConsumer { topic, subscription: name, consumer: id, .. } = register;
        if self.consumers.contains_key(id) {
            return Err(Refusal::ConsumerIdTaken { consumer: *id });
        }
        let subscription = self.subscription_mut(topic, name)?;
        let consumer =
            Consumer { id: *id, filters: register.filters.clone(), registered: register.at };
        let before = subscription.consumers.insert(register.name.clone(), consumer);
        let replaced = before.map(|consumer| consumer.id);
        if let Some(replaced) = replaced {
            self.consumers.remove(&replaced);
        }
        self.consumers.insert(*id, (*topic, name.clone()));
        Ok(replaced)
    }

    pub(super) fn forget_consumers(&mut self, forget: &ForgetConsumers) -> u64 {
        let mut forgotten = 0;
        for id in &forget.consumers {
            let Some((topic, name)) = self.consumers.remove(id) else { continue };
            if let Ok(subscription) = self.subscription_mut(&topic, &name) {
                subscription.consumers.retain(|_, consumer| consumer.id != *id);
            }
            forgotten += 1;
        }
        forgotten
    }

    fn subscription_mut(
        &mut self,
        topic: &TopicId,
        name: &SubscriptionName,
    ) -> Result<&mut Subscription, Refusal> {
        let known = self.topics.get(topic).ok_or(Refusal::TopicIdNotFound { topic: *topic })?;
        let of_topic = self.subscriptions.get_mut(topic);
        let subscription = of_topic.and_then(|of_topic| of_topic.get_mut(name));
        let missing = || Refusal::SubscriptionNotFound {
            topic: known.name.clone(),
            subscription: name.clone(),
        };
        subscription.map(Arc::make_mut).ok_or_else(missing)
    }
}

fn require_offset(topic: TopicId, offset: Offset) -> Result<(), Refusal> {
    if offset <= Offset::MAX { Ok(()) } else { Err(Refusal::NotAnOffset { topic, offset }) }
}
