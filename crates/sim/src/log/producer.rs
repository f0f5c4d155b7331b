//! Producers: they send batches, several at once, and send again what they have not heard of.
//!
//! An idempotent producer sends again under the same sequences after an unknown outcome, in any later life of the
//! broker. After a definite refusal it may give the sequences to other batches: then the refused ones must never appear.

use std::sync::Arc;
use std::time::Duration;

use danube_env::sim::Generator;
use danube_log::{Appended, Error, Log};
use danube_model::Batch;

use super::life::Life;
use crate::batches;
use crate::oracle::{Attempt, Rule};
use crate::producer::{pause, value_bytes};
use crate::stage::full;

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

/// Sends batches until it has sent enough and heard of all.
pub(super) async fn run(life: Arc<Life>, number: usize) {
    let random = life.scene.stage.random(&format!("producer {number}"), life.number);
    let options = &life.scene.stage.options;
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
            life.scene.stage.world.sleep(Duration::from_millis(2)).await;
            continue;
        };
        life.scene.producer(number).meet(log.topic());
        let wave = gather(&life, number, &random, &mut left);
        let Some(then) = send(&life, number, &log, wave).await else { return };
        match then {
            None => life.scene.stage.world.sleep(pause(&random)).await,
            Some(Then::Raise) => {
                let ceiling = life.scene.topic(topic).raise(options.ceiling_step);
                life.scene.stage.note(format_args!("t{topic} ceiling {ceiling}"));
                if log.raise_ceiling(ceiling).await.is_err() {
                    return;
                }
            }
            Some(then) => {
                settle(&life, number, then, &random);
                life.scene.stage.world.sleep(Duration::from_millis(1 + random.below(20))).await;
            }
        }
    }
    if is_calm {
        life.scene.stage.broken(Rule::Alive, format!("producer {number} is never done"));
    }
}

/// What is sent at once: what is pending, and new batches.
fn gather(life: &Life, number: usize, random: &Generator, left: &mut u64) -> Vec<Batch> {
    let options = &life.scene.stage.options;
    let mut producer = life.scene.producer(number);
    let depth = 1 + random.below(options.depth);
    while *left > 0 && (producer.pending.len() as u64) < depth {
        *left -= 1;
        let count = 1 + random.below(options.records_max);
        let sizes: Vec<_> = (0..count).map(|_| value_bytes(options, random)).collect();
        let batch = producer.next(life.scene.stage.next_batch(), &sizes);
        let topic = producer.topic_id.expect("it has met its log");
        life.scene.stage.oracle(|oracle| oracle.send(topic, &batch));
        producer.pending.push_back(batch);
    }
    producer.pending.iter().cloned().collect()
}

/// Sends a wave and hears of it; what is to be done about the first that was not acknowledged. None: the end.
async fn send(life: &Life, number: usize, log: &Log, wave: Vec<Batch>) -> Option<Option<Then>> {
    let scene = &life.scene;
    let mut sent = Vec::new();
    let mut refusal = None;
    for batch in wave {
        let id = batches::id(&batch);
        let attempt = scene.stage.oracle(|oracle| oracle.attempt(id));
        scene.stage.note(format_args!("p{number} sends {id} under epoch {}", log.epoch()));
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
                .stage
                .note(format_args!("p{number} {id} is at {base}..{next}, {epoch}, {level}{again}"));
            scene.stage.oracle(|oracle| oracle.acked(attempt, &appended));
            scene.producer(number).pending.retain(|pending| batches::id(pending) != id);
            return None;
        }
        Err(error) => error,
    };
    let effect = error.effect();
    scene.stage.note(format_args!("p{number} {id} is refused, {effect:?}: {}", full(&error)));
    scene.stage.oracle(|oracle| oracle.refused(&attempt, effect));
    let then = match &error {
        Error::NotOpen { .. } | Error::NoLog { .. } | Error::Closing => Then::Again,
        Error::Ceiling { .. } => Then::Raise,
        Error::TooLarge { .. } => Then::Drop,
        Error::OutOfOrder { .. }
        | Error::UnknownProducer { .. }
        | Error::ProducerFenced { .. }
        | Error::DuplicateForgotten { .. } => {
            let topic = scene.producer(number).topic_id.expect("it has met its log");
            if is_first && !scene.stage.oracle(|oracle| oracle.may_forget_producers(topic)) {
                scene.stage.broken(Rule::Once, format!("{id}: {error}"));
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
        .all(|batch| scene.stage.oracle(|oracle| oracle.never_appears(batches::id(batch))));
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
        let never = |id| life.scene.stage.oracle(|oracle| oracle.never_appears(id));
        producer.pending.retain(|batch| never(batches::id(batch)));
    }
}
