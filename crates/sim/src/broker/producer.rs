//! Producers: each sends to one topic, or one of its partitions, and sends again what it has not heard of.

use std::sync::Arc;
use std::time::Duration;

use danube_broker::{Appended, Error, Topic};
use danube_env::sim::Generator;
use danube_model::Batch;

use super::life::Life;
use crate::batches;
use crate::oracle::{Attempt, Rule};
use crate::producer::{pause, value_bytes};
use crate::stage::full;

/// Tries of a life after the faults, at most.
const TRIES_MAX: u64 = 200;

/// Sends batches until it has sent enough and heard of all.
pub(super) async fn run(life: Arc<Life>, number: usize) {
    let stage = life.stage();
    let random = stage.random(&format!("producer {number}"), life.number);
    let name = life.scene.producer(number).topic;
    let is_calm = stage.is_calm(life.number);
    let mut left = if is_calm { 2 } else { random.below(stage.options.batches + 1) };
    forget_unknown(&life, number);
    for _ in 0..TRIES_MAX {
        if left == 0 && life.scene.producer(number).pending.is_empty() {
            return;
        }
        stage.world.sleep(pause(&random)).await;
        let Some((topic_name, id)) = life.scene.names().target(name, number) else {
            stage.world.sleep(Duration::from_millis(2)).await;
            continue;
        };
        let Some(topic) = life.topic(name, &topic_name, id) else {
            stage.world.sleep(Duration::from_millis(2)).await;
            continue;
        };
        life.scene.producer(number).meet(id);
        let wave = gather(&life, number, &random, &mut left);
        if send(&life, number, &topic, wave).await.is_none() {
            return;
        }
    }
    if is_calm && life.scene.names().all[name].known.is_some() {
        stage.broken(Rule::Alive, format!("producer {number} is never done"));
    }
}

/// What is sent at once: what is pending, and new batches.
fn gather(life: &Life, number: usize, random: &Generator, left: &mut u64) -> Vec<Batch> {
    let stage = life.stage();
    let mut producer = life.scene.producer(number);
    let depth = 1 + random.below(stage.options.depth);
    while *left > 0 && (producer.pending.len() as u64) < depth {
        *left -= 1;
        let count = 1 + random.below(stage.options.records_max);
        let sizes: Vec<_> = (0..count).map(|_| value_bytes(&stage.options, random)).collect();
        let batch = producer.next(stage.next_batch(), &sizes);
        let topic = producer.topic_id.expect("it has met its topic");
        stage.oracle(|oracle| oracle.send(topic, &batch));
        producer.pending.push_back(batch);
    }
    producer.pending.iter().cloned().collect()
}

/// Sends a wave and hears of it. None: the end.
async fn send(life: &Life, number: usize, topic: &Topic, wave: Vec<Batch>) -> Option<()> {
    let stage = life.stage();
    let mut sent = Vec::new();
    let mut refused = None;
    for batch in wave {
        let attempt = stage.oracle(|oracle| oracle.attempt(batches::id(&batch)));
        stage.note(format_args!("p{number} sends {} to {}", batches::id(&batch), topic.name()));
        match stage.within("a batch is taken", topic.submit(batch.clone())).await? {
            Ok(appending) => sent.push((batch, attempt, appending)),
            Err(error) => {
                refused = Some((batch, attempt, error));
                break;
            }
        }
    }
    let mut is_first = true;
    for (batch, attempt, appending) in sent {
        let result = stage.within("a batch is answered", appending.wait()).await?;
        if life.is_dead() {
            return None;
        }
        is_first &= hear(life, number, &batch, attempt, result, is_first);
    }
    if let Some((batch, attempt, error)) = refused.filter(|_| !life.is_dead()) {
        hear(life, number, &batch, attempt, Err(error), is_first);
    }
    forget_unknown(life, number);
    Some(())
}

/// Without a sequence a batch can't be sent again once it may be there.
fn forget_unknown(life: &Life, number: usize) {
    let mut producer = life.scene.producer(number);
    if !producer.is_idempotent {
        let never = |id| life.stage().oracle(|oracle| oracle.never_appears(id));
        producer.pending.retain(|batch| never(batches::id(batch)));
    }
}

/// A batch has an outcome; whether it was acknowledged.
fn hear(
    life: &Life,
    number: usize,
    batch: &Batch,
    attempt: Attempt,
    result: Result<Appended, Error>,
    is_first: bool,
) -> bool {
    let (stage, id) = (life.stage(), batches::id(batch));
    let error = match result {
        Ok(appended) => {
            let Appended { base, next, epoch, level, .. } = appended;
            stage.note(format_args!("p{number} {id} is at {base}..{next}, {epoch}, {level}"));
            stage.oracle(|oracle| oracle.acked(attempt, &appended));
            let mut producer = life.scene.producer(number);
            producer.pending.retain(|pending| batches::id(pending) != id);
            return true;
        }
        Err(error) => error,
    };
    let effect = error.effect();
    stage.note(format_args!("p{number} {id} is refused, {effect:?}: {}", full(&error)));
    stage.oracle(|oracle| oracle.refused(&attempt, effect));
    let mut producer = life.scene.producer(number);
    let topic = producer.topic_id.expect("it has met its topic");
    match &error {
        Error::Log(
            danube_log::Error::NotOpen { .. }
            | danube_log::Error::NoLog { .. }
            | danube_log::Error::Closing,
        )
        | Error::Stopping => {}
        // Larger than a round of this small journal, or than it may be.
        Error::Log(danube_log::Error::TooLarge { .. }) => producer.renew(),
        Error::Log(
            danube_log::Error::OutOfOrder { .. }
            | danube_log::Error::UnknownProducer { .. }
            | danube_log::Error::ProducerFenced { .. }
            | danube_log::Error::DuplicateForgotten { .. },
        ) => {
            if is_first && !stage.oracle(|oracle| oracle.may_forget_producers(topic)) {
                stage.broken(Rule::Once, format!("{id}: {error}"));
            }
            producer.renew();
        }
        _ if !life.scene.names().is_settled(producer.topic, topic) => {}
        error => life.must_be_explained("a batch is refused", error),
    }
    false
}
