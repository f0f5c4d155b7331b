//! Subscriptions of a topic, or of all partitions of one.

use std::collections::BTreeSet;

use danube_broker::{Broker, Error, SubscriptionDescription, Topic};
use danube_model::{SubscriptionName, SubscriptionType, TopicName};
use danube_proto::stream::Range;
use danube_proto::{admin as wire, convert};
use tonic::Status;

use crate::rpc::{status, topics};

pub(super) async fn create(
    broker: &Broker,
    request: wire::CreateSubscriptionRequest,
) -> Result<wire::CreateSubscriptionResponse, Status> {
    let decode = || {
        let start = request.start.map(|start| convert::start("start", Some(start))).transpose()?;
        let kind = convert::subscription_type("type", request.r#type)?;
        Ok((start, kind, subscription(&request.subscription)?))
    };
    let (start, kind, name) = decode().map_err(|error| status::invalid(&error))?;
    let start = topics::start(start.unwrap_or(convert::Start::Latest));
    let kind = kind.unwrap_or(SubscriptionType::Exclusive);
    let mut created = Vec::new();
    for topic in partitions(broker, &request.topic)? {
        created.push(topic.create_subscription(&name, kind, start).await);
    }
    all(created)?;
    Ok(wire::CreateSubscriptionResponse {})
}

pub(super) fn list(
    broker: &Broker,
    request: &wire::ListSubscriptionsRequest,
) -> Result<wire::ListSubscriptionsResponse, Status> {
    let topics = partitions(broker, &request.topic)?;
    let names: BTreeSet<_> = topics.iter().flat_map(Topic::subscriptions).collect();
    let subscriptions = names.iter().map(ToString::to_string).collect();
    Ok(wire::ListSubscriptionsResponse { subscriptions })
}

pub(super) async fn describe(
    broker: &Broker,
    request: wire::DescribeSubscriptionRequest,
) -> Result<wire::DescribeSubscriptionResponse, Status> {
    let name = subscription(&request.subscription).map_err(|error| status::invalid(&error))?;
    let mut subscriptions = Vec::new();
    for topic in partitions(broker, &request.topic)? {
        let description = topic.describe_subscription(&name).await;
        subscriptions.push(description.map(|description| described(topic.name(), description)));
    }
    Ok(wire::DescribeSubscriptionResponse { subscriptions: all(subscriptions)? })
}

pub(super) async fn delete(
    broker: &Broker,
    request: wire::DeleteSubscriptionRequest,
) -> Result<wire::DeleteSubscriptionResponse, Status> {
    let name = subscription(&request.subscription).map_err(|error| status::invalid(&error))?;
    let mut deleted = Vec::new();
    for topic in partitions(broker, &request.topic)? {
        deleted.push(topic.delete_subscription(&name).await);
    }
    all(deleted)?;
    Ok(wire::DeleteSubscriptionResponse {})
}

pub(super) async fn seek(
    broker: &Broker,
    request: wire::SeekSubscriptionRequest,
) -> Result<wire::SeekSubscriptionResponse, Status> {
    let decode = || Ok((subscription(&request.subscription)?, convert::start("to", request.to)?));
    let (name, to) = decode().map_err(|error| status::invalid(&error))?;
    let mut sought = Vec::new();
    for topic in partitions(broker, &request.topic)? {
        sought.push(topic.seek(&name, topics::start(to)).await);
    }
    all(sought)?;
    Ok(wire::SeekSubscriptionResponse {})
}

/// The topic of this name, or its partitions.
fn partitions(broker: &Broker, name: &str) -> Result<Vec<Topic>, Status> {
    let name = convert::topic_name("topic", name).map_err(|error| status::invalid(&error))?;
    let topics = broker.partitions(&name);
    let topics = topics.and_then(|names| names.iter().map(|name| broker.topic(name)).collect());
    topics.map_err(|error| status::status(&error))
}

/// All that was done, or the first failure.
fn all<T>(done: Vec<Result<T, Error>>) -> Result<Vec<T>, Status> {
    done.into_iter().collect::<Result<_, _>>().map_err(|error| status::status(&error))
}

fn subscription(text: &str) -> danube_proto::Result<SubscriptionName> {
    convert::subscription_name("subscription", text)
}

fn described(
    topic: &TopicName,
    subscription: SubscriptionDescription,
) -> wire::SubscriptionDescription {
    let settled = subscription.settled.iter();
    let consumers = subscription.consumers.into_iter();
    wire::SubscriptionDescription {
        topic: topic.to_string(),
        subscription: subscription.name.to_string(),
        r#type: convert::wire_subscription_type(subscription.kind),
        floor: subscription.floor.get(),
        acked_ranges: settled
            .map(|range| Range { from: range.start.get(), to: range.end.get() })
            .collect(),
        lag: subscription.lag,
        in_flight: subscription.in_flight,
        max_unacked_messages: subscription.max_unacked_messages,
        blocked: subscription.blocked.into_iter().map(|offset| offset.get()).collect(),
        consumers: consumers
            .map(|(name, in_flight)| wire::ConsumerDescription {
                name: name.to_string(),
                in_flight,
            })
            .collect(),
    }
}
