//! The replicated facts of the cluster.
//!
//! [`State::apply`] is the only way to change them. It is pure: no clock, no randomness, no order that depends on a
//! hash; so every member that applies the same commands has the same state, byte for byte.
//!
//! [`topic`] and [`subscription`] say what is known of those, [`apply`] and [`subscribing`] what each command does.

mod apply;
mod subscribing;
pub mod subscription;
pub mod topic;

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use danube_model::{
    BrokerId, ConsumerId, DiskId, Namespace, SubscriptionName, TimeMs, TopicId, TopicName,
};
use serde::{Deserialize, Serialize};

pub use subscription::{Consumer, Subscription};
pub use topic::{CEILING_STEP, Delivery, Ownership, Partition, Topic, TopicSettings};

/// The longest name of a cluster, in bytes.
pub const CLUSTER_NAME_BYTES_MAX: usize = 255;

/// All that the members of a cluster agree on. A clone shares the topics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    cluster: Option<Cluster>,
    namespaces: BTreeMap<Namespace, NamespaceEntry>,
    #[serde(with = "by_id")]
    topics: BTreeMap<TopicId, Arc<Topic>>,
    partitioned: BTreeMap<ByName, PartitionedTopic>,
    brokers: BTreeMap<BrokerId, Broker>,
    #[serde(with = "by_id")]
    deleted: BTreeMap<TopicId, DeletedTopic>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "by_topic")]
    subscriptions: BTreeMap<TopicId, BTreeMap<SubscriptionName, Arc<Subscription>>>,
    /// The subscription of each registered consumer. Made from `subscriptions` when a snapshot is read.
    #[serde(skip)]
    consumers: BTreeMap<ConsumerId, (TopicId, SubscriptionName)>,
    /// Where `topics` has each name. Made from `topics` when a snapshot is read.
    #[serde(skip)]
    names: BTreeMap<ByName, TopicId>,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Its identity.
    pub id: ClusterId,
    /// Its name, for people.
    pub name: String,
    /// Its life, from 1: one more at each restore.
    pub generation: u32,
    /// When it was formed.
    pub formed: TimeMs,
}

/// The identity of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId([u8; 16]);

impl ClusterId {
    /// The identity of these bytes.
    pub const fn new(bytes: [u8; 16]) -> ClusterId {
        ClusterId(bytes)
    }
}

impl fmt::Display for ClusterId {
    /// 32 lower-case hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceEntry {
    /// When it was created.
    pub created: TimeMs,
}

/// A topic with partitions. Each partition is a [`Topic`] of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionedTopic {
    /// How many: one more than the greatest number. Of those that come one by one, some may be missing yet.
    pub partitions: u32,
    /// When it was created.
    pub created: TimeMs,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broker {
    /// The disk that its hot tier was on at its last start.
    pub disk: DiskId,
    /// How often it started.
    pub sessions: u64,
    /// When it started for the first time.
    pub registered: TimeMs,
    /// When it last started.
    pub started: TimeMs,
}

/// A deleted topic of which something may still be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeletedTopic {
    /// Its identity.
    pub id: TopicId,
    /// The name that it had.
    pub name: TopicName,
    /// Its last owner.
    pub owner: Option<BrokerId>,
    /// The disk of its last opening.
    pub disk: Option<DiskId>,
    /// When it was deleted.
    pub deleted: TimeMs,
}

impl State {
    /// The cluster, once it is formed.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// All namespaces, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Namespace, &NamespaceEntry)> {
        self.namespaces.iter()
    }

    /// Whether there is such a namespace.
    pub fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.namespaces.contains_key(namespace)
    }

    /// The topic or partition of this name.
    pub fn topic(&self, name: &TopicName) -> Option<&Arc<Topic>> {
        self.topics.get(self.names.get(name.as_str())?)
    }

    /// The topic or partition of this identity.
    pub fn topic_by_id(&self, id: &TopicId) -> Option<&Arc<Topic>> {
        self.topics.get(id)
    }

    /// Topics and partitions whose names come behind `after`, by name.
    pub fn topics_after<'a>(
        &'a self,
        after: &str,
    ) -> impl Iterator<Item = &'a Arc<Topic>> + use<'a> {
        let range = self.names.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        range.filter_map(|(_, id)| self.topics.get(id))
    }

    /// All topics and partitions, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.names.values().filter_map(|id| self.topics.get(id))
    }

    /// How many topics and partitions there are.
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// Topics and partitions of a namespace, by name.
    pub fn topics_in<'a>(
        &'a self,
        namespace: &'a Namespace,
    ) -> impl Iterator<Item = &'a Arc<Topic>> {
        let prefix = format!("/{namespace}/");
        self.names
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while(|(name, _)| name.0.is_in(namespace))
            .filter_map(|(_, id)| self.topics.get(id))
    }

    /// The topic with partitions of this name.
    pub fn partitioned(&self, name: &TopicName) -> Option<&PartitionedTopic> {
        self.partitioned.get(name.as_str())
    }

    /// Topics with partitions whose names come behind `after`, by name.
    pub fn partitioned_after<'a>(
        &'a self,
        after: &str,
    ) -> impl Iterator<Item = (&'a TopicName, &'a PartitionedTopic)> + use<'a> {
        let range = self.partitioned.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        range.map(|(name, topic)| (&name.0, topic))
    }

    /// All topics with partitions, by name.
    pub fn partitioned_topics(&self) -> impl Iterator<Item = (&TopicName, &PartitionedTopic)> {
        self.partitioned.iter().map(|(name, topic)| (&name.0, topic))
    }

    /// The partitions of a topic, by number; none if there is no such topic or it has no partitions.
    pub fn partitions<'a>(&'a self, name: &'a TopicName) -> impl Iterator<Item = &'a Arc<Topic>> {
        let count = self.partitioned.get(name.as_str()).map_or(0, |topic| topic.partitions);
        (0..count).filter_map(|index| self.topic(&name.partition(index).ok()?))
    }

    /// All brokers, by number.
    pub fn brokers(&self) -> impl Iterator<Item = (BrokerId, &Broker)> {
        self.brokers.iter().map(|(id, broker)| (*id, broker))
    }

    /// Topics that were deleted and of which something may still be stored.
    pub fn deleted(&self) -> impl Iterator<Item = &DeletedTopic> {
        self.deleted.values()
    }

    /// The subscriptions of a topic, by name.
    pub fn subscriptions(&self, topic: &TopicId) -> impl Iterator<Item = &Arc<Subscription>> {
        self.subscriptions.get(topic).into_iter().flat_map(BTreeMap::values)
    }

    /// How many subscriptions there are.
    pub fn subscription_count(&self) -> usize {
        self.subscriptions.values().map(BTreeMap::len).sum()
    }

    /// A subscription of a topic.
    pub fn subscription(
        &self,
        topic: &TopicId,
        name: &SubscriptionName,
    ) -> Option<&Arc<Subscription>> {
        self.subscriptions.get(topic)?.get(name)
    }

    /// The subscription that a consumer is registered with.
    pub fn subscription_of(&self, consumer: ConsumerId) -> Option<&Arc<Subscription>> {
        let (topic, name) = self.consumers.get(&consumer)?;
        self.subscription(topic, name)
    }

    fn insert(&mut self, topic: Topic) {
        self.names.insert(ByName(topic.name.clone()), topic.id);
        self.topics.insert(topic.id, Arc::new(topic));
    }

    fn remove(&mut self, id: &TopicId) -> Option<Arc<Topic>> {
        let topic = self.topics.remove(id)?;
        self.names.remove(topic.name.as_str());
        let subscriptions = self.subscriptions.remove(id).unwrap_or_default();
        for consumer in subscriptions.values().flat_map(|known| known.consumers.values()) {
            self.consumers.remove(&consumer.id);
        }
        Some(topic)
    }

    /// Makes what is not stored; false if two topics have one name, or two consumers one identity.
    pub(crate) fn rebuild_indexes(&mut self) -> bool {
        let name_and_id = |topic: &Arc<Topic>| (ByName(topic.name.clone()), topic.id);
        self.names = self.topics.values().map(name_and_id).collect();
        let subscriptions = self.subscriptions.values().flat_map(BTreeMap::values);
        let mut count = 0;
        for subscription in subscriptions {
            count += subscription.consumers.len();
            let of = (subscription.topic, subscription.name.clone());
            let ids = subscription.consumers.values().map(|consumer| (consumer.id, of.clone()));
            self.consumers.extend(ids);
        }
        self.names.len() == self.topics.len() && self.consumers.len() == count
    }
}

/// A topic's name as the key of a map that is also searched by the beginnings of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
struct ByName(TopicName);

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

/// Maps whose values know their key, stored as a list of the values.
mod by_id {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use danube_model::TopicId;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{DeletedTopic, Topic};

    pub(super) trait HasId {
        fn id(&self) -> TopicId;
    }

    impl HasId for Arc<Topic> {
        fn id(&self) -> TopicId {
            self.id
        }
    }

    impl HasId for DeletedTopic {
        fn id(&self) -> TopicId {
            self.id
        }
    }

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        map: &BTreeMap<TopicId, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map.values())
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de> + HasId, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<TopicId, T>, D::Error> {
        let values = Vec::<T>::deserialize(deserializer)?;
        let count = values.len();
        let map: BTreeMap<_, _> = values.into_iter().map(|value| (value.id(), value)).collect();
        if map.len() != count {
            return Err(D::Error::custom("two topics have one id"));
        }
        Ok(map)
    }
}

/// Subscriptions by topic and name, stored as a list of them.
mod by_topic {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use danube_model::{SubscriptionName, TopicId};
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Subscription;

    type Map = BTreeMap<TopicId, BTreeMap<SubscriptionName, Arc<Subscription>>>;

    pub(super) fn serialize<S: Serializer>(map: &Map, serializer: S) -> Result<S::Ok, S::Error> {
        // Collected first, so that the list says its length as all others do.
        let subscriptions: Vec<_> = map.values().flat_map(BTreeMap::values).collect();
        serializer.collect_seq(subscriptions)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map, D::Error> {
        let mut map = Map::new();
        for subscription in Vec::<Arc<Subscription>>::deserialize(deserializer)? {
            let of_topic = map.entry(subscription.topic).or_default();
            if of_topic.insert(subscription.name.clone(), subscription).is_some() {
                return Err(D::Error::custom("two subscriptions of a topic have one name"));
            }
        }
        Ok(map)
    }
}
