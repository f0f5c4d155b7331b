//! The settings of subscriptions.

use std::time::Duration;

use danube_broker::SubscriptionConfig;
use danube_model::{Backoff, FailurePolicy, PoisonPolicy, TopicName};

use super::HAS_DEFAULT;
use super::problem::Problem;
use super::settings::Settings;

const POISON_POLICY: &str = "dispatch.failure_policy.poison_policy";
const DEAD_LETTER_TOPIC: &str = "dispatch.failure_policy.dead_letter_topic";

pub(super) fn of(settings: &Settings, problems: &mut Vec<Problem>) -> SubscriptionConfig {
    let policy = |key: &str| format!("dispatch.failure_policy.{key}");
    let milliseconds =
        |key| u64::try_from(settings.time(&policy(key)).as_millis()).unwrap_or(u64::MAX);
    let count = |key| settings.number(key);
    let redeliveries = settings.number(&policy("max_redelivery_count"));
    let failure_policy = FailurePolicy {
        max_redelivery_count: u32::try_from(redeliveries).expect("the table says so"),
        ack_timeout_ms: milliseconds("ack_timeout_ms"),
        base_redelivery_delay_ms: milliseconds("base_redelivery_delay_ms"),
        max_redelivery_delay_ms: milliseconds("max_redelivery_delay_ms"),
        backoff: match settings.text(&policy("backoff_strategy")).expect(HAS_DEFAULT) {
            "fixed" => Backoff::Fixed,
            _ => Backoff::Exponential,
        },
        poison: poison(settings, problems),
    };
    SubscriptionConfig {
        max_unacked_messages: count("dispatch.max_unacked_messages"),
        cursor_flush_interval: settings
            .time("dispatch.cursor_flush_interval")
            .max(Duration::from_millis(1)),
        consumer_absence: settings.time("dispatch.consumer_absence"),
        failure_policy,
        subscriptions_per_topic_max: count("policies.max_subscriptions_per_topic"),
        consumers_per_topic_max: count("policies.max_consumers_per_topic"),
        consumers_per_subscription_max: count("policies.max_consumers_per_subscription"),
        rate_max: count("policies.max_subscription_dispatch_rate"),
    }
}

/// What becomes of poison; a dead-letter topic must be named where it is wanted, and be a name.
fn poison(settings: &Settings, problems: &mut Vec<Problem>) -> PoisonPolicy {
    let topic = settings.text(DEAD_LETTER_TOPIC).map(str::parse::<TopicName>);
    if let Some(Err(error)) = &topic {
        let place = settings.place(DEAD_LETTER_TOPIC).cloned();
        problems.push(Problem { place, what: format!("`{DEAD_LETTER_TOPIC}`: {error}") });
    }
    match (settings.text(POISON_POLICY).expect(HAS_DEFAULT), topic) {
        ("drop", _) => PoisonPolicy::Drop,
        ("dead_letter", Some(Ok(topic))) => PoisonPolicy::DeadLetter(topic),
        ("dead_letter", None) => {
            let what = format!("`{POISON_POLICY}`: `dead_letter` needs a `{DEAD_LETTER_TOPIC}`");
            problems.push(Problem { place: settings.place(POISON_POLICY).cloned(), what });
            PoisonPolicy::Block
        }
        _ => PoisonPolicy::Block,
    }
}
