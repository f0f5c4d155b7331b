//! Who creates topics, changes and deletes them; and who looks, after a start, at what has become of that.

use std::sync::Arc;
use std::time::Duration;

use danube_broker::{Change, Delivery, Effect, Error, NewTopic, TopicChange};
use danube_env::sim::Generator;
use danube_model::{Durability, Offset, TopicId, caps};

use super::life::Life;
use super::names::{self, Made};
use crate::options::Levels;
use crate::oracle::{Oracle, Rule};

/// Compares what a broker has after its start with what it may have, and takes it as known.
pub(super) fn check(life: &Life) {
    let stage = life.stage();
    let count = life.scene.names().all.len();
    for number in 0..count {
        let name = life.scene.names().all[number].name.clone();
        let found = match names::find(&life.broker, &name) {
            Ok(found) => found,
            Err(error) => {
                stage.broken(Rule::Alive, format!("{name} can't be looked at: {error}"));
                return;
            }
        };
        let mut names = life.scene.names();
        let known = &mut names.all[number];
        if !known.allows(found.as_ref()) {
            let rule = if found.is_none() { Rule::Durable } else { Rule::Deleted };
            let what = format!("{name} is {found:?}, not {known:?}");
            drop(names);
            stage.broken(rule, what);
            return;
        }
        let asked = known.asked.take();
        let before = std::mem::replace(&mut known.known, found.clone());
        drop(names);
        match (before, found) {
            (Some(before), None) => deleted(life, &before.ids),
            (None, Some(found)) => created(life, &found),
            (Some(_), Some(found)) => there(life, &found),
            (None, None) => {}
        }
        if asked.is_some() {
            stage.note(format_args!("{name} is settled"));
        }
    }
    let listed =
        life.broker.list_topics(None, None, 1000).expect("no namespace is asked for").len();
    let known = life.scene.names().all.iter().filter(|name| name.known.is_some()).count();
    if listed != known {
        stage.broken(Rule::Deleted, format!("{listed} topics are listed, there are {known}"));
    }
    no_strangers(life);
}

/// Files of topics are those of topics that there are.
fn no_strangers(life: &Life) {
    let stage = life.stage();
    let names = life.scene.names();
    let ids: Vec<TopicId> = names.all.iter().flat_map(|name| name.ids()).collect();
    drop(names);
    for path in stage.machine.disk().files() {
        let Ok(path) = path.strip_prefix(super::life::TOPICS) else { continue };
        let dir = path.iter().next().and_then(|dir| dir.to_str()).unwrap_or_default();
        if !ids.iter().any(|id| id.to_string() == dir) {
            stage.broken(Rule::Deleted, format!("{} is of no topic", path.display()));
            return;
        }
    }
}

/// Creates, changes and deletes now and then.
pub(super) async fn run(life: Arc<Life>) {
    let stage = life.stage();
    let random = stage.random("admin", life.number);
    let is_calm = stage.is_calm(life.number);
    let acts = 2 + random.below(stage.options.acts + 2);
    for _ in 0..acts {
        let number = random.below(life.scene.names().all.len() as u64) as usize;
        if life.scene.names().all[number].asked.is_none() {
            let known = life.scene.names().all[number].known.clone();
            match known {
                None => create(&life, number, &random).await,
                Some(known) if !is_calm && random.one_in(4) => delete(&life, number, &known).await,
                Some(known) => change(&life, number, known, &random).await,
            }
        }
        if life.is_dead() {
            return;
        }
        stage.world.sleep(Duration::from_micros(random.below(60_000))).await;
    }
}

async fn create(life: &Life, number: usize, random: &Generator) {
    let level = choose_level(life, random);
    let partitions = random.one_in(3).then(|| 1 + random.below(3) as u32);
    let bytes_max = caps::MESSAGE_BYTES_MAX as u64;
    let asked = Made { partitions, level, bytes_max, ids: Vec::new() };
    let name = ask(life, number, "is created", Some(asked));
    let delivery = Some(Delivery::Reliable(level));
    let new = NewTopic { name: name.clone(), partitions, delivery, settings: Default::default() };
    let created_now = life.stage().within("a topic is created", life.broker.create_topic(new));
    if !done(life, number, "a topic can't be created", created_now.await) {
        return;
    }
    match names::find(&life.broker, &name) {
        Ok(Some(made)) => {
            created(life, &made);
            life.scene.names().all[number].known = Some(made);
        }
        found => {
            let what = format!("{name} was created and is {found:?}");
            life.stage().broken(Rule::Durable, what);
        }
    }
}

async fn change(life: &Life, number: usize, known: Made, random: &Generator) {
    let durability = random.one_in(2).then(|| choose_level(life, random));
    let bytes_max = 200_000 + random.below(100_000);
    let level = durability.unwrap_or(known.level);
    let changed = Made { level, bytes_max, ..known };
    there(life, &changed);
    let name = ask(life, number, "is changed", Some(changed.clone()));
    let change = TopicChange {
        durability,
        message_bytes_max: Change::Set(bytes_max),
        ..TopicChange::default()
    };
    let ends: Vec<_> = life
        .stage()
        .oracle(|oracle| changed.ids.iter().map(|id| (*id, oracle.acked_end(*id))).collect());
    let result = life.stage().within("a topic is changed", life.broker.update_topic(&name, change));
    if !done(life, number, "a topic can't be changed", result.await) {
        return;
    }
    if durability.is_some() {
        // Their logs were closed for it.
        life.stage().oracle(|oracle| {
            ends.iter().for_each(|(id, end)| oracle.closed_meanwhile(*id, *end));
        });
    }
    there(life, &changed);
    life.scene.names().all[number].known = Some(changed);
}

async fn delete(life: &Life, number: usize, known: &Made) {
    let stage = life.stage();
    stage.oracle(|oracle| known.ids.iter().for_each(|id| oracle.deleting(*id)));
    let name = ask(life, number, "is deleted", None);
    let result = stage.within("a topic is deleted", life.broker.delete_topic(&name)).await;
    if !done(life, number, "a topic can't be deleted", result) {
        if life.scene.names().all[number].asked.is_none() {
            stage.oracle(|oracle| known.ids.iter().for_each(|id| oracle.created(*id)));
        }
        return;
    }
    life.scene.names().all[number].known = None;
    deleted(life, &known.ids);
    for path in stage.machine.disk().files() {
        let path = path.to_string_lossy();
        if known.ids.iter().any(|id| path.contains(&id.to_string())) {
            stage.broken(Rule::Deleted, format!("{name} was deleted, {path} is left"));
            return;
        }
    }
}

fn ask(life: &Life, number: usize, what: &str, asked: Option<Made>) -> danube_model::TopicName {
    let mut names = life.scene.names();
    let name = names.all[number].name.clone();
    life.stage().note(format_args!("{name} {what}: {asked:?}"));
    names.all[number].asked = Some(asked);
    name
}

/// Whether it was done. If it was definitely refused, nothing of it will appear.
fn done(life: &Life, number: usize, what: &str, result: Option<Result<(), Error>>) -> bool {
    if life.is_dead() {
        return false;
    }
    let error = match result {
        Some(Ok(())) => None,
        Some(Err(error)) => Some(error),
        None => return false,
    };
    if error.as_ref().is_none_or(|error| error.effect() == Effect::Definite) {
        life.scene.names().all[number].asked = None;
    }
    if let Some(error) = &error
        && !matches!(error, Error::Stopping)
    {
        life.must_be_explained(what, error);
    }
    error.is_none()
}

fn choose_level(life: &Life, random: &Generator) -> Durability {
    match life.stage().options.levels {
        Levels::Disk => Durability::Disk,
        Levels::PageCache => Durability::PageCache,
        Levels::Any if random.one_in(2) => Durability::Disk,
        Levels::Any => Durability::PageCache,
    }
}

fn created(life: &Life, made: &Made) {
    let names = life.scene.names();
    let again = made.ids.iter().find(|id| names.gone.contains(id)).copied();
    drop(names);
    if let Some(id) = again {
        life.stage().broken(Rule::Deleted, format!("topic id {id} was deleted and is given again"));
    }
    life.stage().oracle(|oracle| made.ids.iter().for_each(|id| oracle.creating(*id)));
    if life.stage().options.trims > 0 {
        // Retention by size does not ask how far readers are.
        let trimming = |oracle: &mut Oracle| {
            made.ids.iter().for_each(|id| oracle.trimming(*id, Offset::MAX));
        };
        life.stage().oracle(trimming);
    }
    there(life, made);
    life.stage().oracle(|oracle| made.ids.iter().for_each(|id| oracle.created(*id)));
}

/// It is there, and may be opened at its level from here on.
fn there(life: &Life, made: &Made) {
    life.stage().oracle(|oracle| {
        for id in &made.ids {
            oracle.opened_unheard(*id, made.level);
            oracle.created(*id);
        }
    });
}

fn deleted(life: &Life, ids: &[TopicId]) {
    life.scene.names().gone.extend(ids);
    life.stage().oracle(|oracle| ids.iter().for_each(|id| oracle.deleted(*id)));
}
