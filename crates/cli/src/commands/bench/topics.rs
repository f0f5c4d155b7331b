//! The topics of a measurement: its own, which it removes, or those of others, which it leaves.

use danube_client::admin::{Admin, TopicSettings};
use danube_client::{Client, SubscriptionName, TopicName};

use crate::arguments::BenchTopics;
use crate::failure::Result;
use crate::terminal;

/// See the module's text.
pub(super) struct Topics {
    admin: Admin,
    pub(super) names: Vec<TopicName>,
    /// Whether they are its own.
    pub(super) are_own: bool,
    keep: bool,
    /// What it consumes them by.
    pub(super) subscription: SubscriptionName,
    /// Whether that was made.
    pub(super) is_subscribed: bool,
}

impl Topics {
    /// Creates topics, unless some are named. `run` goes into all names.
    pub(super) async fn open(client: &Client, options: &BenchTopics, run: u64) -> Result<Topics> {
        let mut topics = Topics {
            admin: client.admin(),
            names: options.named.clone(),
            are_own: options.named.is_empty(),
            keep: options.keep,
            subscription: format!("bench-{run:016x}")
                .parse()
                .map_err(danube_client::Error::from)?,
            is_subscribed: false,
        };
        if !topics.are_own {
            return Ok(topics);
        }
        let settings = TopicSettings { durability: options.durability, ..TopicSettings::default() };
        for number in 0..options.topics.unwrap_or(1) {
            let name = format!("/default/bench-{run:016x}-{number}");
            let name: TopicName = name.parse().map_err(danube_client::Error::from)?;
            let created = topics.admin.create_topic(&name, options.partitions, &settings).await;
            if let Err(error) = created {
                topics.close().await?;
                return Err(error.into());
            }
            topics.names.push(name);
        }
        Ok(topics)
    }

    /// Removes what was made: its own topics unless they are to be kept, else its subscription.
    pub(super) async fn close(&self) -> Result<()> {
        let mut result = Ok(());
        for name in &self.names {
            let removed = match (self.are_own, self.keep) {
                (true, false) => self.admin.delete_topic(name).await,
                (false, _) if self.is_subscribed => {
                    self.admin.delete_subscription(name, &self.subscription).await
                }
                _ => Ok(()),
            };
            if let Err(error) = removed {
                result = Err(error.into());
            }
        }
        if self.are_own && self.keep {
            self.names.iter().for_each(|name| terminal::note(&format!("{name} is kept")));
        }
        result
    }
}
