//! Producers: they send batches, several at once, and send again what they have not heard of.
//!
//! An idempotent producer sends again under the same sequences after an unknown outcome, in any later life of the
//! broker. After a definite refusal it may give the sequences to other batches: then the refused ones must never appear.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use danube_env::sim::Generator;
use danube_log::{Appended, Error, Log};
use danube_model::{Batch, BatchProducer, ProducerId, Sequence, TopicId};

use super::life::{Life, full};
use crate::batches::{self, BatchId, VALUE_BYTES_MAX};
use crate::options::{Options, Values};
use crate::oracle::{Attempt, Rule};

/// A producer, as it outlives the broker.
pub(super) struct Producer {
    number: u64,
    topic: usize,
    /// The life of the topic that it knows.
    topic_id: Option<TopicId>,
    is_idempotent: bool,
    epoch: u16,
    sequence: Sequence,
    /// Batches without an outcome, in their order.
    pending: VecDeque<Batch>,
}

/// What is done after a batch was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It is sent again, a little later.
    Again,
    /// A higher ceiling is stored first.
    Raise,
    /// It will never fit.
    Drop,
    /// The log does not know the producer as it was.
    Renew,
}

impl Producer {
    pub(super) fn new(number: u64, topic: usize) -> Self {
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
    fn renew(&mut self) {
        self.epoch += 1;
        self.sequence = Sequence::ZERO;
        self.pending.clear();
    }

    /// The log that it sends to from here on.
    fn meet(&mut self, topic: TopicId) {
        if self.topic_id.replace(topic).is_some_and(|known| known != topic) {
            self.renew();
        }
    }

    fn next(&mut self, id: BatchId, value_bytes: &[usize]) -> Batch {
        let producer = self.is_idempotent.then(|| BatchProducer {
            id: ProducerId::new(100 + self.number).expect("it is small"),
            epoch: self.epoch,
            base_sequence: self.sequence,
        });
        self.sequence = self.sequence.plus(value_bytes.len() as u32);
        batches::build(id, value_bytes, producer)
    }

    /// Forgets all that is pending, and gives its sequences to others.
    fn rewind(&mut self) {
        if let Some(first) = self.pending.front().and_then(Batch::producer) {
            self.sequence = first.base_sequence;
        }
        self.pending.clear();
    }
}

/// Sends batches until it has sent enough and heard of all.
pub(super) async fn run(life: Arc<Life>, number: usize) {
    let random = life.scene.random(&format!("producer {number}"), life.number);
    let options = &life.scene.options;
    let topic = life.scene.producer(number).topic;
    let is_calm = life.number >= options.lives;
    let mut left = if is_calm { 2 } else { random.below(options.batches + 1) };
    forget_unknown(&life, number);
    let mut tries = 0;
    while tries < 200 {
        tries += 1;
        if left == 0 && life.scene.producer(number).pending.is_empty() {
            return;
        }
        let Some(log) = life.log(topic) else {
            life.scene.world.sleep(Duration::from_millis(2)).await;
            continue;
        };
        life.scene.producer(number).meet(log.topic());
        let wave = gather(&life, number, &random, &mut left);
        let Some(then) = send(&life, number, &log, wave).await else { return };
        match then {
            None => life.scene.world.sleep(pause(&random)).await,
            Some(Then::Raise) => {
                let ceiling = life.scene.topic(topic).raise(options.ceiling_step);
                life.scene.note(format_args!("t{topic} ceiling {ceiling}"));
                if log.raise_ceiling(ceiling).await.is_err() {
                    return;
                }
            }
            Some(then) => {
                settle(&life, number, then, &random);
                life.scene.world.sleep(Duration::from_millis(1 + random.below(20))).await;
            }
        }
    }
    if is_calm {
        life.scene.broken(Rule::Alive, format!("producer {number} is never done"));
    }
}

/// What is sent at once: what is pending, and new batches.
fn gather(life: &Life, number: usize, random: &Generator, left: &mut u64) -> Vec<Batch> {
    let options = &life.scene.options;
    let mut producer = life.scene.producer(number);
    let depth = 1 + random.below(options.depth);
    while *left > 0 && (producer.pending.len() as u64) < depth {
        *left -= 1;
        let count = 1 + random.below(options.records_max);
        let sizes: Vec<_> = (0..count).map(|_| value_bytes(options, random)).collect();
        let batch = producer.next(life.scene.next_batch(), &sizes);
        let topic = producer.topic_id.expect("it has met its log");
        life.scene.oracle(|oracle| oracle.send(topic, &batch));
        producer.pending.push_back(batch);
    }
    producer.pending.iter().cloned().collect()
}

fn value_bytes(options: &Options, random: &Generator) -> usize {
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

fn pause(random: &Generator) -> Duration {
    match random.below(8) {
        0 => Duration::from_millis(random.below(150)),
        1..4 => Duration::from_micros(random.below(5_000)),
        _ => Duration::ZERO,
    }
}

/// Sends a wave and hears of it; what is to be done about the first that was not acknowledged. None: the end.
async fn send(life: &Life, number: usize, log: &Log, wave: Vec<Batch>) -> Option<Option<Then>> {
    let scene = &life.scene;
    let mut sent = Vec::new();
    let mut refusal = None;
    for batch in wave {
        let id = batches::id(&batch);
        let attempt = scene.oracle(|oracle| oracle.attempt(id));
        scene.note(format_args!("p{number} sends {id} under epoch {}", log.epoch()));
        match life.within("a batch is taken", log.submit(batch.clone())).await? {
            Ok(appending) => sent.push((batch, attempt, appending)),
            Err(error) => {
                refusal = Some((batch, attempt, error));
                break;
            }
        }
    }
    let mut then = None;
    for (batch, attempt, appending) in sent {
        let result = life.within("a batch is answered", appending.wait()).await?;
        if life.is_dead() {
            return None;
        }
        let refused = hear(life, number, &batch, attempt, result, then.is_none());
        then = then.or(refused);
    }
    if let Some((batch, attempt, error)) = refusal.filter(|_| !life.is_dead()) {
        let refused = hear(life, number, &batch, attempt, Err(error), then.is_none());
        then = then.or(refused);
    }
    Some(then)
}

/// A batch has an outcome.
fn hear(
    life: &Life,
    number: usize,
    batch: &Batch,
    attempt: Attempt,
    result: Result<Appended, Error>,
    is_first: bool,
) -> Option<Then> {
    let scene = &life.scene;
    let id = batches::id(batch);
    let error = match result {
        Ok(appended) => {
            let Appended { base, next, epoch, level, duplicate } = appended;
            let again = if duplicate { ", stored before" } else { "" };
            scene
                .note(format_args!("p{number} {id} is at {base}..{next}, {epoch}, {level}{again}"));
            scene.oracle(|oracle| oracle.acked(attempt, &appended));
            scene.producer(number).pending.retain(|pending| batches::id(pending) != id);
            return None;
        }
        Err(error) => error,
    };
    let effect = error.effect();
    scene.note(format_args!("p{number} {id} is refused, {effect:?}: {}", full(&error)));
    scene.oracle(|oracle| oracle.refused(&attempt, effect));
    let then = match &error {
        Error::NotOpen { .. } | Error::NoLog { .. } | Error::Closing => Then::Again,
        Error::Ceiling { .. } => Then::Raise,
        Error::TooLarge { .. } => Then::Drop,
        Error::OutOfOrder { .. }
        | Error::UnknownProducer { .. }
        | Error::ProducerFenced { .. }
        | Error::DuplicateForgotten { .. } => {
            let topic = scene.producer(number).topic_id.expect("it has met its log");
            if is_first && !scene.oracle(|oracle| oracle.may_forget_producers(topic)) {
                scene.broken(Rule::Once, format!("{id}: {error}"));
            }
            Then::Renew
        }
        error => {
            life.must_be_explained("a batch is refused", error);
            Then::Again
        }
    };
    Some(then)
}

/// What becomes of the pending batches after the first of them was refused.
fn settle(life: &Life, number: usize, then: Then, random: &Generator) {
    let scene = &life.scene;
    let mut producer = scene.producer(number);
    let never = producer
        .pending
        .iter()
        .all(|batch| scene.oracle(|oracle| oracle.never_appears(batches::id(batch))));
    let replaces = never && random.one_in(4);
    match then {
        Then::Renew => producer.renew(),
        Then::Drop if producer.is_idempotent && !never => producer.renew(),
        Then::Drop => producer.rewind(),
        Then::Again | Then::Raise if replaces => producer.rewind(),
        Then::Again | Then::Raise => {
            drop(producer);
            forget_unknown(life, number);
        }
    }
}

/// Without a sequence a batch can't be sent again once it may be there.
fn forget_unknown(life: &Life, number: usize) {
    let mut producer = life.scene.producer(number);
    if !producer.is_idempotent {
        let never = |id| life.scene.oracle(|oracle| oracle.never_appears(id));
        producer.pending.retain(|batch| never(batches::id(batch)));
    }
}
