//! Producers, as they outlive the broker: what they send next, and what they have not heard of.

use std::collections::VecDeque;
use std::time::Duration;

use danube_env::sim::Generator;
use danube_model::{Batch, BatchProducer, ProducerId, Sequence, TopicId};

use crate::batches::{self, BatchId, VALUE_BYTES_MAX};
use crate::options::{Options, Values};

/// A producer, as it outlives the broker.
pub(crate) struct Producer {
    pub(crate) number: u64,
    pub(crate) topic: usize,
    /// The life of the topic that it knows.
    pub(crate) topic_id: Option<TopicId>,
    pub(crate) is_idempotent: bool,
    pub(crate) epoch: u16,
    pub(crate) sequence: Sequence,
    /// Batches without an outcome, in their order.
    pub(crate) pending: VecDeque<Batch>,
}

impl Producer {
    pub(crate) fn new(number: u64, topic: usize) -> Self {
        Self {
            number,
            topic,
            topic_id: None,
            is_idempotent: number % 4 != 3,
            epoch: 0,
            sequence: Sequence::ZERO,
            pending: VecDeque::new(),
        }
    }

    /// Begins anew: what was pending stays unknown.
    pub(crate) fn renew(&mut self) {
        self.epoch += 1;
        self.sequence = Sequence::ZERO;
        self.pending.clear();
    }

    /// The log that it sends to from here on.
    pub(crate) fn meet(&mut self, topic: TopicId) {
        if self.topic_id.replace(topic).is_some_and(|known| known != topic) {
            self.renew();
        }
    }

    pub(crate) fn next(&mut self, id: BatchId, value_bytes: &[usize]) -> Batch {
        let producer = self.is_idempotent.then(|| BatchProducer {
            id: ProducerId::new(100 + self.number).expect("it is small"),
            epoch: self.epoch,
            base_sequence: self.sequence,
        });
        self.sequence = self.sequence.plus(value_bytes.len() as u32);
        batches::build(id, value_bytes, producer)
    }

    /// Forgets all that is pending, and gives its sequences to others.
    pub(crate) fn rewind(&mut self) {
        if let Some(first) = self.pending.front().and_then(Batch::producer) {
            self.sequence = first.base_sequence;
        }
        self.pending.clear();
    }
}

/// How large the next value is.
pub(crate) fn value_bytes(options: &Options, random: &Generator) -> usize {
    let below = match (options.values, random.below(16)) {
        (_, 0) => 1,
        (Values::Tiny, _) => 24,
        (Values::Small, 1) => 5_000,
        (Values::Small, _) => 600,
        (Values::Any, 1) => VALUE_BYTES_MAX as u64,
        (Values::Any, 2..5) => 12_000,
        (Values::Any, _) => 2_000,
    };
    random.below(below) as usize
}

/// How long a producer waits before it sends more.
pub(crate) fn pause(random: &Generator) -> Duration {
    match random.below(8) {
        0 => Duration::from_millis(random.below(150)),
        1..4 => Duration::from_micros(random.below(5_000)),
        _ => Duration::ZERO,
    }
}
