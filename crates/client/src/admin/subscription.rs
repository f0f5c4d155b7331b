//! Subscriptions of a topic. Of the name of a topic with partitions, one is meant in each partition.

use std::ops::Range;

use danube_model::{ConsumerName, Offset, SubscriptionName, SubscriptionType, TopicName};
use danube_proto::{admin as wire, convert};

use super::Admin;
use crate::{Result, Start};

/// A subscription of a topic, or of one partition, as the broker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionDescription {
    /// The topic, or the partition.
    pub topic: TopicName,
    /// Its name.
    pub subscription: SubscriptionName,
    /// Who of its consumers gets what; `None` for a type that only a newer broker knows.
    pub kind: Option<SubscriptionType>,
    /// The first offset that is not settled.
    pub floor: Offset,
    /// What is settled above it.
    pub acked_ranges: Vec<Range<Offset>>,
    /// Offsets below the durable end that are not settled.
    pub lag: u64,
    /// Messages at consumers.
    pub in_flight: u64,
    /// At most so many may be in flight, waiting for another delivery, or poison.
    pub max_unacked_messages: u64,
    /// Messages that failed too often and hold it up, or a key of it.
    pub blocked: Vec<Offset>,
    /// Who is there.
    pub consumers: Vec<ConsumerDescription>,
}

/// A consumer that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerDescription {
    /// Its name.
    pub name: ConsumerName,
    /// Messages that it has.
    pub in_flight: u64,
}

impl Admin {
    /// Creates a subscription.
    pub async fn create_subscription(
        &self,
        topic: &TopicName,
        subscription: &SubscriptionName,
        kind: SubscriptionType,
        start: Start,
    ) -> Result<()> {
        let request = wire::CreateSubscriptionRequest {
            topic: topic.to_string(),
            subscription: subscription.to_string(),
            r#type: convert::wire_subscription_type(kind),
            start: Some(convert::wire_start(start)),
        };
        self.answer(self.client.admin_calls().create_subscription(request).await).map(drop)
    }

    /// Names of the subscriptions of a topic, sorted.
    pub async fn list_subscriptions(&self, topic: &TopicName) -> Result<Vec<SubscriptionName>> {
        let request = wire::ListSubscriptionsRequest { topic: topic.to_string() };
        let response = self.answer(self.client.admin_calls().list_subscriptions(request).await)?;
        response.subscriptions.iter().map(|name| subscription_name(name)).collect()
    }

    /// All about a subscription: one, or one of each partition by number.
    pub async fn describe_subscription(
        &self,
        topic: &TopicName,
        subscription: &SubscriptionName,
    ) -> Result<Vec<SubscriptionDescription>> {
        let (topic, subscription) = (topic.to_string(), subscription.to_string());
        let request = wire::DescribeSubscriptionRequest { topic, subscription };
        let response = self.client.admin_calls().describe_subscription(request).await;
        self.answer(response)?.subscriptions.into_iter().map(description).collect()
    }

    /// Deletes a subscription. Its consumers get an error.
    pub async fn delete_subscription(
        &self,
        topic: &TopicName,
        subscription: &SubscriptionName,
    ) -> Result<()> {
        let (topic, subscription) = (topic.to_string(), subscription.to_string());
        let request = wire::DeleteSubscriptionRequest { topic, subscription };
        self.answer(self.client.admin_calls().delete_subscription(request).await).map(drop)
    }

    /// Sets a subscription anew; its consumers get what is there.
    pub async fn seek_subscription(
        &self,
        topic: &TopicName,
        subscription: &SubscriptionName,
        to: Start,
    ) -> Result<()> {
        let request = wire::SeekSubscriptionRequest {
            topic: topic.to_string(),
            subscription: subscription.to_string(),
            to: Some(convert::wire_start(to)),
        };
        self.answer(self.client.admin_calls().seek_subscription(request).await).map(drop)
    }
}

fn subscription_name(name: &str) -> Result<SubscriptionName> {
    Ok(convert::subscription_name("subscription", name)?)
}

fn description(subscription: wire::SubscriptionDescription) -> Result<SubscriptionDescription> {
    let ranges = subscription.acked_ranges.iter();
    let ranges = ranges.map(|range| convert::range("acked_ranges", range.from, range.to));
    let blocked = subscription.blocked.iter();
    let consumers = subscription.consumers.iter();
    Ok(SubscriptionDescription {
        topic: convert::topic_name("topic", &subscription.topic)?,
        subscription: subscription_name(&subscription.subscription)?,
        kind: convert::subscription_type("type", subscription.r#type).ok().flatten(),
        floor: convert::offset("floor", subscription.floor)?,
        acked_ranges: ranges.collect::<Result<_, _>>()?,
        lag: subscription.lag,
        in_flight: subscription.in_flight,
        max_unacked_messages: subscription.max_unacked_messages,
        blocked: blocked
            .map(|offset| convert::offset("blocked", *offset))
            .collect::<Result<_, _>>()?,
        consumers: consumers.map(consumer).collect::<Result<_>>()?,
    })
}

fn consumer(consumer: &wire::ConsumerDescription) -> Result<ConsumerDescription> {
    let name = convert::consumer_name("consumers", &consumer.name)?;
    Ok(ConsumerDescription { name, in_flight: consumer.in_flight })
}
