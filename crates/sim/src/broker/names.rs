//! What was acknowledged of each topic's name: created, changed, deleted; and what is not known.
//!
//! ```text
//!  known ── asked ──┬▶ done       known is what was asked for
//!                   ├▶ refused    definite: known is as before
//!                   └▶ unknown    the next start tells: as before, or as asked
//! ```

use std::collections::BTreeSet;

use danube_broker::{Broker, Delivery, Listed};
use danube_model::{Durability, TopicId, TopicName};

/// A topic as it was created and changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) partitions: Option<u32>,
    pub(super) level: Durability,
    /// The largest message.
    pub(super) bytes_max: u64,
    /// Of the topic, or of its partitions in order.
    pub(super) ids: Vec<TopicId>,
}

/// One name.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) name: TopicName,
    pub(super) known: Option<Made>,
    /// What somebody asked to make of it, and has not heard of. The ids of what is created are not known then.
    pub(super) asked: Option<Option<Made>>,
}

/// All names of a world.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) all: Vec<Name>,
    /// Ids of topics that were deleted.
    pub(super) gone: BTreeSet<TopicId>,
}

impl Names {
    pub(super) fn new(count: usize) -> Self {
        let name = |number| format!("/default/t{number}").parse().expect("a good name");
        let all = (0..count).map(|number| Name { name: name(number), known: None, asked: None });
        Self { all: all.collect(), gone: BTreeSet::new() }
    }

    /// The topic, or its partition, that a producer may send to: its name and id.
    pub(super) fn target(&self, number: usize, partition: usize) -> Option<(TopicName, TopicId)> {
        let Name { name, known, .. } = &self.all[number];
        let known = known.as_ref()?;
        let index = partition % known.ids.len();
        let name = match known.partitions {
            Some(_) => format!("{name}-part-{index}").parse().expect("a good name"),
            None => name.clone(),
        };
        Some((name, known.ids[index]))
    }

    /// Whether this id is that of a topic, or may become it.
    pub(super) fn is_settled(&self, number: usize, id: TopicId) -> bool {
        let Name { known, asked, .. } = &self.all[number];
        asked.is_none() && known.as_ref().is_some_and(|known| known.ids.contains(&id))
    }
}

impl Name {
    /// Ids of what is known to be there.
    pub(super) fn ids(&self) -> Vec<TopicId> {
        self.known.as_ref().map_or_else(Vec::new, |known| known.ids.clone())
    }

    /// Whether what was found is what may be there.
    pub(super) fn allows(&self, found: Option<&Made>) -> bool {
        let is = |expected: &Option<Made>, has_ids: bool| match (expected, found) {
            (None, None) => true,
            (Some(expected), Some(found)) if has_ids => expected == found,
            (Some(expected), Some(found)) => *expected == Made { ids: Vec::new(), ..found.clone() },
            _ => false,
        };
        is(&self.known, true)
            || self.asked.as_ref().is_some_and(|asked| is(asked, self.known.is_some()))
    }
}

/// What a broker has under a name.
pub(super) fn find(broker: &Broker, name: &TopicName) -> danube_broker::Result<Option<Made>> {
    let Listed { partitions, delivery, .. } = match broker.listed(name) {
        Err(danube_broker::Error::TopicNotFound { .. }) => return Ok(None),
        listed => listed?,
    };
    let Delivery::Reliable(level) = delivery else { unreachable!("all topics are reliable") };
    let names = broker.partitions(name)?;
    let topics = names.iter().map(|name| broker.topic(name));
    let topics = topics.collect::<danube_broker::Result<Vec<_>>>()?;
    let bytes_max = topics.first().map_or(0, danube_broker::Topic::message_bytes_max);
    let ids = topics.iter().map(danube_broker::Topic::id).collect();
    Ok(Some(Made { partitions, level, bytes_max, ids }))
}
