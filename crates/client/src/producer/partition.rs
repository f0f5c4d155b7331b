//! What the driver has of one partition: its machine, and the bytes that the machine decides about.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use danube_model::{Batch, BatchProducer, ProducerId, TopicName};

use super::gather::{Gather, Gathered};
use super::machine::{BatchId, Machine, Number};
use super::settlement::Settlement;
use crate::Error;
use crate::backoff::Backoff;
use crate::world::random;

/// Producer epochs that fit into a batch; behind them the next producer id is used.
const EPOCHS_PER_ID: u32 = 1 << 15;

/// One topic that the producer sends to.
pub(crate) struct Partition {
    pub(crate) topic: TopicName,
    pub(crate) machine: Machine,
    pub(crate) state: State,
    pub(crate) backoff: Backoff,
    /// What the machine holds, by id.
    pub(crate) batches: VecDeque<Held>,
    pub(crate) last_error: Option<Error>,
    pub(crate) was_open: bool,
}

/// Whether batches can be sent.
pub(crate) enum State {
    /// Not to be opened before `until`; while dormant, only for a message that wants it.
    Closed {
        until: Duration,
        is_dormant: bool,
    },
    Opening {
        since: Duration,
    },
    Open {
        alias: u32,
    },
}

/// A batch that is not settled, or still holds a place in the sequence.
pub(crate) struct Held {
    pub(crate) id: BatchId,
    pub(crate) number: Number,
    pub(crate) batch: Batch,
    pub(crate) settlement: Arc<Settlement>,
    pub(crate) room_bytes: usize,
}

impl Partition {
    pub(crate) fn new(topic: TopicName) -> Partition {
        Partition {
            topic,
            machine: Machine::new(Backoff::new(random())),
            state: State::Closed { until: Duration::ZERO, is_dormant: false },
            backoff: Backoff::new(random()),
            batches: VecDeque::new(),
            last_error: None,
            was_open: false,
        }
    }

    /// Whether it has nothing to send, here or in its lane.
    pub(crate) fn is_idle(&self, gather: &Gather, lane: usize) -> bool {
        self.batches.is_empty() && gather.open_since(lane).is_none()
    }

    pub(crate) fn is_dormant(&self) -> bool {
        matches!(self.state, State::Closed { is_dormant: true, .. })
    }

    /// Takes a batch from its lane.
    pub(crate) fn push(
        &mut self,
        gathered: Gathered,
        timeout: Duration,
        gather: &Gather,
        producer_id: u64,
    ) {
        let messages = gathered.builder.record_count();
        let number = self.machine.next_number();
        match gathered.builder.finish(Some(on_wire(producer_id, number))) {
            Ok(batch) => {
                self.machine.push(gathered.id, messages, gathered.began + timeout);
                self.batches.push_back(Held {
                    id: gathered.id,
                    number,
                    batch,
                    settlement: gathered.settlement,
                    room_bytes: gathered.room_bytes,
                });
            }
            Err(error) => {
                gathered.settlement.settle(Err(error.into()));
                gather.release(messages, gathered.room_bytes);
            }
        }
    }

    /// The bytes of a batch under this number.
    pub(crate) fn numbered(
        &mut self,
        id: BatchId,
        number: Number,
        producer_id: u64,
    ) -> bytes::Bytes {
        let held = self.held(id);
        if held.number != number {
            held.batch = held.batch.with_producer(on_wire(producer_id, number));
            held.number = number;
        }
        held.batch.bytes().clone()
    }

    pub(crate) fn held(&mut self, id: BatchId) -> &mut Held {
        let at = self.position(id);
        &mut self.batches[at]
    }

    pub(crate) fn let_go(&mut self, id: BatchId) -> Held {
        let at = self.position(id);
        self.batches.remove(at).expect("the position was just found")
    }

    fn position(&self, id: BatchId) -> usize {
        let found = self.batches.binary_search_by_key(&id, |held| held.id);
        found.expect("what the machine holds is held here")
    }
}

fn on_wire(producer_id: u64, number: Number) -> BatchProducer {
    let id = (producer_id + u64::from(number.epoch / EPOCHS_PER_ID)) & ProducerId::MAX.get();
    BatchProducer {
        id: ProducerId::new(id).expect("it was cut to 63 bits"),
        epoch: (number.epoch % EPOCHS_PER_ID) as u16,
        base_sequence: number.base,
    }
}
