//! Poison on its way into the dead-letter topic.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use danube_log::{Read, Start};
use danube_model::batch::{BatchBuilder, BatchLimits};
use danube_model::{Compression, Message, Offset, SubscriptionName, Text, TopicName, caps};

use crate::admin::NewTopic;
use crate::error::Result;
use crate::topic::Topic;

/// Delay before a failed append is tried again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The producer of a dead letter whose own gave no name.
const NAMELESS_PRODUCER: &str = "dead-letters";

/// Poison of one subscription. Records go one after the other; each is tried until it is appended.
pub(super) struct DeadLetters {
    topic: Topic,
    subscription: SubscriptionName,
    waiting: VecDeque<DeadLetter>,
    appending: Option<Pin<Box<dyn Future<Output = Offset> + Send>>>,
}

/// A record that is poison.
#[derive(Clone)]
pub(super) struct DeadLetter {
    /// Where it goes.
    pub(super) to: TopicName,
    pub(super) offset: Offset,
    pub(super) deliveries: u32,
    pub(super) reason: String,
}

impl DeadLetters {
    pub(super) fn new(topic: Topic, subscription: SubscriptionName) -> DeadLetters {
        DeadLetters { topic, subscription, waiting: VecDeque::new(), appending: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.appending.is_none()
    }

    /// Forgets what is not appended yet.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.appending = None;
    }

    pub(super) fn push(&mut self, letter: DeadLetter) {
        self.waiting.push_back(letter);
    }

    /// The next record that is appended at its topic's level. Cancel safe.
    pub(super) async fn appended(&mut self) -> Offset {
        if self.appending.is_none() {
            match self.waiting.pop_front() {
                Some(letter) => {
                    let (topic, subscription) = (self.topic.clone(), self.subscription.clone());
                    self.appending = Some(Box::pin(append(topic, subscription, letter)));
                }
                None => std::future::pending().await,
            }
        }
        let appending = self.appending.as_mut().expect("it was just put there");
        let offset = appending.await;
        self.appending = None;
        offset
    }
}

async fn append(topic: Topic, subscription: SubscriptionName, letter: DeadLetter) -> Offset {
    let (first, longest) = RETRY;
    let mut delay = first;
    while let Err(error) = try_append(&topic, &subscription, &letter).await {
        let (to, offset, topic_name) = (&letter.to, letter.offset, topic.name());
        tracing::warn!(%to, topic = %topic_name, %subscription, %offset, %error, "a dead letter can't be appended");
        topic.broker.inner.env.clock.sleep(delay).await;
        delay = longest.min(delay * 2);
    }
    letter.offset
}

async fn try_append(
    topic: &Topic,
    subscription: &SubscriptionName,
    letter: &DeadLetter,
) -> Result<()> {
    let Some(mut message) = load(topic, letter.offset).await? else {
        let (topic, offset) = (topic.name(), letter.offset);
        tracing::warn!(%topic, %subscription, %offset, "a dead letter is not in the log any more");
        return Ok(());
    };
    let (name, settings) = (letter.to.clone(), Default::default());
    let new = NewTopic { name, partitions: None, delivery: None, settings };
    topic.broker.ensure_topic(new).await?;
    letter.mark(&mut message, topic, subscription);
    let limits = BatchLimits::for_message_bytes(caps::MESSAGE_BYTES_MAX);
    let mut builder = BatchBuilder::new(Compression::None, limits);
    builder.append(&message.to_record()?)?;
    topic.broker.topic(&letter.to)?.append(builder.finish(None)?).await?;
    Ok(())
}

/// The message at an offset, if it is still there.
async fn load(topic: &Topic, offset: Offset) -> Result<Option<Message>> {
    let Read::Frame(frame) = topic.read(Start::Offset(offset)).await?.next().await? else {
        return Ok(None);
    };
    let Some(records) = frame.records(caps::DECOMPRESSED_BYTES_MAX) else { return Ok(None) };
    for record in records? {
        let (found, record) = record?;
        if found == offset {
            return Ok(Some(Message::from_record(&record)?));
        }
    }
    Ok(None)
}

impl DeadLetter {
    /// Says in attributes where the message comes from, in the words that existing clients know. What an earlier
    /// dead-letter topic said is replaced. The producer's name stays, if it has one.
    fn mark(&self, message: &mut Message, topic: &Topic, subscription: &SubscriptionName) {
        const REASON: &str = "x-failure-reason";
        // Native producers have no number, and don't say whom they talk to.
        let (producer_id, address) = match &message.sender {
            Some(sender) => (sender.producer_id, sender.broker_address.to_string()),
            None => (0, topic.broker.inner.config.address.clone()),
        };
        message.producer_name.get_or_insert(Text::from_static(NAMELESS_PRODUCER));
        let mut said = vec![
            ("x-original-topic", topic.name().to_string()),
            ("x-original-subscription", subscription.to_string()),
            ("x-original-topic-offset", self.offset.to_string()),
            ("x-original-producer-id", producer_id.to_string()),
            ("x-original-broker-addr", address),
            ("x-poison-policy", "dead_letter".to_owned()),
            ("x-delivery-attempt", self.deliveries.to_string()),
        ];
        if !self.reason.is_empty() {
            said.push((REASON, self.reason.clone()));
        }
        message.attributes.retain(|(name, _)| {
            name.as_str() != REASON && said.iter().all(|(ours, _)| name.as_str() != *ours)
        });
        let said = said.into_iter().map(|(name, value)| (Text::from_static(name), value.into()));
        message.attributes.extend(said);
    }
}
