//! Who opens topics, closes and deletes them, as the metadata of a broker would have it.

use std::sync::Arc;
use std::time::Duration;

use danube_env::sim::Generator;
use danube_log::{EndProof, Error, Log, OpenLog, Read, Start};
use danube_model::{Durability, Epoch, GapReason, Offset, TopicId};

use super::life::Life;
use crate::options::Levels;
use crate::oracle::Rule;

/// A topic as the metadata have it. A re-created topic has another id.
pub(super) struct Topic {
    pub(super) number: usize,
    pub(super) id: TopicId,
    lives: u8,
    is_created: bool,
    epoch: Epoch,
    /// No offset at or above it was assigned.
    ceiling: u64,
    level: Durability,
    /// Earlier lives whose deletion was not confirmed.
    condemned: Vec<TopicId>,
}

impl Topic {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            id: topic_id(number, 0),
            lives: 0,
            is_created: false,
            epoch: Epoch::ZERO,
            ceiling: 0,
            level: Durability::Disk,
            condemned: Vec::new(),
        }
    }

    /// Stores a higher ceiling, and returns it.
    pub(super) fn raise(&mut self, step: u64) -> Offset {
        self.ceiling += step;
        Offset::new(self.ceiling)
    }

    /// The topic is deleted, and begins anew.
    fn condemn(&mut self) -> TopicId {
        let condemned = self.id;
        self.condemned.push(condemned);
        self.lives += 1;
        self.id = topic_id(self.number, self.lives);
        (self.is_created, self.epoch, self.ceiling) = (false, Epoch::ZERO, 0);
        condemned
    }
}

fn topic_id(number: usize, life: u8) -> TopicId {
    let mut id = [0; 16];
    id[0] = 0xa0 + number as u8;
    id[15] = life;
    TopicId::new(id)
}

/// Opens every topic, and reads most of them.
pub(super) async fn begin(life: &Life) {
    let random = life.scene.stage.random("begin", life.number);
    for number in 0..life.scene.topics.len() {
        let condemned = life.scene.topic(number).condemned.clone();
        for id in condemned {
            delete(life, number, id).await;
        }
        let level = choose_level(life, &random);
        if let Some(log) = open(life, number, level).await {
            if !random.one_in(4) || life.number >= life.scene.stage.options.lives {
                verify(life, number, &log).await;
            }
            life.set_log(number, Some(log));
        }
    }
}

/// Opens, closes and deletes now and then.
pub(super) async fn run(life: Arc<Life>) {
    let random = life.scene.stage.random("owner", life.number);
    let acts = random.below(life.scene.stage.options.acts + 1);
    for _ in 0..acts {
        life.scene.stage.world.sleep(Duration::from_micros(random.below(60_000))).await;
        let number = random.below(life.scene.topics.len() as u64) as usize;
        let level = choose_level(&life, &random);
        match random.below(8) {
            0 => recreate(&life, number, level).await,
            1 | 2 => reopen(&life, number, level).await,
            3 => {
                close(&life, number).await;
                life.scene.stage.world.sleep(Duration::from_micros(random.below(30_000))).await;
                reopen(&life, number, level).await;
            }
            _ => {
                close(&life, number).await;
                reopen(&life, number, level).await;
            }
        }
    }
}

fn choose_level(life: &Life, random: &Generator) -> Durability {
    match life.scene.stage.options.levels {
        Levels::Disk => Durability::Disk,
        Levels::PageCache => Durability::PageCache,
        Levels::Any if random.one_in(2) => Durability::Disk,
        Levels::Any => Durability::PageCache,
    }
}

/// Opens a topic under a new epoch, whether or not it is open under an older one.
async fn reopen(life: &Life, number: usize, level: Durability) {
    if let Some(log) = open(life, number, level).await {
        life.set_log(number, Some(log));
    }
}

async fn recreate(life: &Life, number: usize, level: Durability) {
    life.set_log(number, None);
    let condemned = life.scene.topic(number).condemn();
    delete(life, number, condemned).await;
    reopen(life, number, level).await;
}

async fn close(life: &Life, number: usize) {
    let Some(log) = life.log(number) else { return };
    life.set_log(number, None);
    life.scene.stage.note(format_args!("t{number} closes"));
    match life.within("a log closes", log.close()).await {
        Some(Ok(())) => life.scene.stage.oracle(|oracle| oracle.closed(log.topic())),
        Some(Err(error)) => failed(life, "a log does not close", &error),
        None => {}
    }
}

async fn delete(life: &Life, number: usize, id: TopicId) {
    life.scene.stage.note(format_args!("t{number} is deleted: {id}"));
    life.scene.stage.oracle(|oracle| oracle.deleting(id));
    match life.within("a log is deleted", life.store.delete(&[id])).await {
        Some(Ok(())) if !life.is_dead() => {
            life.scene.topic(number).condemned.retain(|condemned| *condemned != id);
            life.scene.stage.oracle(|oracle| oracle.deleted(id));
            let left = life.scene.stage.machine.disk().files();
            if let Some(path) =
                left.iter().find(|path| path.to_string_lossy().contains(&id.to_string()))
            {
                let what = format!("log {id} was deleted, {} is left", path.display());
                life.scene.stage.broken(Rule::Deleted, what);
            }
        }
        Some(Err(error)) => failed(life, "a log can't be deleted", &error),
        Some(Ok(())) | None => {}
    }
}

/// An error of a call of the owner; it tries again later.
fn failed(life: &Life, what: &str, error: &Error) {
    if !life.is_dead() {
        life.must_be_explained(what, error);
    }
}

async fn open(life: &Life, number: usize, level: Durability) -> Option<Log> {
    let scene = &life.scene;
    if !scene.topic(number).is_created {
        let id = scene.topic(number).id;
        scene.stage.oracle(|oracle| oracle.creating(id));
        let creating = life.store.create(id, format!("/default/t{number}"));
        match life.within("a log is created", creating).await? {
            Ok(()) if life.is_dead() => return None,
            Ok(()) => {
                scene.topic(number).is_created = true;
                scene.stage.oracle(|oracle| oracle.created(id));
            }
            Err(error) => {
                failed(life, "a log can't be created", &error);
                return None;
            }
        }
    }
    let open = plan(life, number, level)?;
    let OpenLog { topic, epoch, .. } = open;
    scene.stage.note(format_args!(
        "t{number} opens: epoch {epoch}, {level}, ceiling {}, {:?}",
        open.ceiling, open.resume
    ));
    scene.stage.oracle(|oracle| oracle.opening(topic, epoch, level));
    match life.within("a log opens", life.store.open_log(open)).await? {
        Ok(_) if life.is_dead() => None,
        Ok(log) => {
            let end = log.ends().durable;
            scene.stage.note(format_args!("t{number} is open: epoch {epoch}, ends at {end}"));
            scene.stage.oracle(|oracle| oracle.opened(topic, epoch, level, end));
            Some(log)
        }
        Err(error) => {
            failed(life, "a log does not open", &error);
            None
        }
    }
}

/// Takes the next epoch, and a ceiling, before the log is opened.
fn plan(life: &Life, number: usize, level: Durability) -> Option<OpenLog> {
    let step = life.scene.stage.options.ceiling_step;
    let mut topic = life.scene.topic(number);
    let Some(facts) = life.store.facts(topic.id) else {
        let what = format!("log {} was created and is not known", topic.id);
        drop(topic);
        life.scene.stage.broken(Rule::Alive, what);
        return None;
    };
    topic.epoch = topic.epoch.next().expect("few openings");
    topic.level = level;
    let end = Offset::new(topic.ceiling);
    let resume = match facts.end_proof {
        EndProof::Proven => None,
        EndProof::Unproven => Some((end, GapReason::UnprovenEnd)),
        EndProof::Damaged => Some((end, GapReason::Corrupt)),
    };
    if resume.is_some() || end <= facts.end {
        topic.raise(step);
    }
    let (epoch, ceiling) = (topic.epoch, Offset::new(topic.ceiling));
    Some(OpenLog { topic: topic.id, epoch, level, ceiling, resume })
}

/// Reads all of a log.
async fn verify(life: &Life, number: usize, log: &Log) {
    let scene = &life.scene;
    let durable = log.ends().durable;
    let opened = life.within("a reader opens", log.read(Start::Earliest)).await;
    let mut reader = match opened {
        Some(Ok(reader)) => reader,
        Some(Err(error)) => return failed(life, "a log can't be read", &error),
        None => return,
    };
    let mut reading = scene
        .stage
        .oracle(|oracle| oracle.reading(log.topic(), Start::Earliest, reader.offset(), durable));
    loop {
        scene.stage.oracle(|oracle| oracle.asking(&mut reading));
        let read = match life.within("something is read", reader.next()).await {
            _ if life.is_dead() => return,
            Some(Ok(read)) => read,
            Some(Err(error)) => return failed(life, "reading fails", &error),
            None => return,
        };
        scene.stage.oracle(|oracle| oracle.read(&mut reading, &read));
        match read {
            Read::CaughtUp(end) => {
                return scene.stage.note(format_args!("t{number} read up to {end}"));
            }
            Read::Damage(damage) => scene.stage.note(format_args!("t{number} damage: {damage:?}")),
            Read::Frame(_) | Read::Trimmed { .. } => {}
        }
    }
}
