//! `danube subscription`: looking after subscriptions.

use std::fmt::Write;

use danube_client::admin::{Admin, SubscriptionDescription};
use danube_client::{SubscriptionName, TopicName};
use serde_json::{Value, json};

use crate::arguments::{Common, Format, SubscriptionCommand};
use crate::failure::{Failure, Result};
use crate::terminal::{self, Output};

pub(crate) async fn run(command: SubscriptionCommand) -> Result<()> {
    match command {
        SubscriptionCommand::Create { topic, subscription, kind, from, common } => {
            let admin = admin(&common)?;
            Ok(admin.create_subscription(&topic, &subscription, kind.into(), from).await?)
        }
        SubscriptionCommand::List { topic, common } => list(&topic, &common).await,
        SubscriptionCommand::Describe { topic, subscription, common } => {
            describe(&topic, &subscription, &common).await
        }
        SubscriptionCommand::Delete { topic, subscription, yes, common } => {
            delete(&topic, &subscription, yes, &common).await
        }
        SubscriptionCommand::Seek { topic, subscription, to, common } => {
            Ok(admin(&common)?.seek_subscription(&topic, &subscription, to).await?)
        }
    }
}

fn admin(common: &Common) -> Result<Admin> {
    Ok(common.connection.client()?.admin())
}

async fn list(topic: &TopicName, common: &Common) -> Result<()> {
    let subscriptions = admin(common)?.list_subscriptions(topic).await?;
    let mut output = Output::new();
    for subscription in &subscriptions {
        match common.output {
            Format::Text => output.line(subscription.as_str())?,
            Format::Json => {
                output.json(&json!({ "topic": topic, "subscription": subscription }))?;
            }
        }
    }
    output.flush()
}

async fn describe(
    topic: &TopicName,
    subscription: &SubscriptionName,
    common: &Common,
) -> Result<()> {
    let descriptions = admin(common)?.describe_subscription(topic, subscription).await?;
    let mut output = Output::new();
    match common.output {
        Format::Json => {
            for description in &descriptions {
                output.json(&object(description))?;
            }
        }
        Format::Text => {
            let texts: Vec<String> = descriptions.iter().map(text).collect();
            output.bytes(texts.join("\n").as_bytes())?;
        }
    }
    output.flush()
}

/// Deletes a subscription. What will be lost is shown and asked for first, without `yes`.
async fn delete(
    topic: &TopicName,
    subscription: &SubscriptionName,
    yes: bool,
    common: &Common,
) -> Result<()> {
    let admin = admin(common)?;
    if !yes {
        for description in admin.describe_subscription(topic, subscription).await? {
            terminal::note(text(&description).trim_end());
        }
        if !terminal::confirm(&format!("Delete {subscription} of {topic} and where it is?")) {
            let failure = Failure::new(format!("{subscription} of {topic} was not deleted"));
            return Err(failure.hint("--yes deletes it without asking"));
        }
    }
    Ok(admin.delete_subscription(topic, subscription).await?)
}

fn kind(description: &SubscriptionDescription) -> &'static str {
    description.kind.map_or("unknown", |kind| kind.as_str())
}

/// The fields that scripts rely on.
fn object(description: &SubscriptionDescription) -> Value {
    let ranges = description.acked_ranges.iter();
    let consumers = description.consumers.iter();
    json!({
        "topic": description.topic,
        "subscription": description.subscription,
        "type": kind(description),
        "floor": description.floor.get(),
        "lag": description.lag,
        "in_flight": description.in_flight,
        "max_unacked_messages": description.max_unacked_messages,
        "acked_ranges": ranges
            .map(|range| json!({ "from": range.start.get(), "to": range.end.get() }))
            .collect::<Vec<_>>(),
        "blocked": description.blocked.iter().map(|offset| offset.get()).collect::<Vec<_>>(),
        "consumers": consumers
            .map(|consumer| json!({ "name": consumer.name, "in_flight": consumer.in_flight }))
            .collect::<Vec<_>>(),
    })
}

/// One fact a line.
fn text(description: &SubscriptionDescription) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        writeln!(text, "{name:<22}{value}").expect("a string takes all");
    };
    line("topic", &description.topic);
    line("subscription", &description.subscription);
    line("type", &kind(description));
    line("floor", &description.floor);
    line("lag", &description.lag);
    line("in flight", &description.in_flight);
    line("max unacked messages", &description.max_unacked_messages);
    for range in &description.acked_ranges {
        line("acked range", &format_args!("{} to {}", range.start, range.end));
    }
    for offset in &description.blocked {
        line("blocked", offset);
    }
    for consumer in &description.consumers {
        line("consumer", &format_args!("{}, {} in flight", consumer.name, consumer.in_flight));
    }
    text
}

#[cfg(test)]
mod tests {
    use danube_client::admin::ConsumerDescription;
    use danube_client::{Offset, SubscriptionType};

    use super::*;

    fn description() -> SubscriptionDescription {
        SubscriptionDescription {
            topic: "/default/a".parse().unwrap(),
            subscription: "s".parse().unwrap(),
            kind: Some(SubscriptionType::KeyShared),
            floor: Offset::new(3),
            acked_ranges: vec![Offset::new(5)..Offset::new(7)],
            lag: 4,
            in_flight: 1,
            max_unacked_messages: 1000,
            blocked: vec![Offset::new(3)],
            consumers: vec![ConsumerDescription { name: "c".parse().unwrap(), in_flight: 1 }],
        }
    }

    #[test]
    fn a_subscription_in_json_has_all_its_fields() {
        let expected = json!({
            "topic": "/default/a", "subscription": "s", "type": "key-shared", "floor": 3,
            "lag": 4, "in_flight": 1, "max_unacked_messages": 1000, "blocked": [3],
            "acked_ranges": [{ "from": 5, "to": 7 }],
            "consumers": [{ "name": "c", "in_flight": 1 }],
        });
        assert_eq!(object(&description()), expected);
    }

    #[test]
    fn a_subscription_in_text_is_one_fact_a_line() {
        let expected = "\
topic                 /default/a
subscription          s
type                  key-shared
floor                 3
lag                   4
in flight             1
max unacked messages  1000
acked range           5 to 7
blocked               3
consumer              c, 1 in flight
";
        assert_eq!(text(&description()), expected);
    }
}
