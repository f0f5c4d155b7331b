//! Readers: they begin anywhere and follow the log while it grows.

use std::sync::Arc;
use std::time::Duration;

use danube_env::sim::Generator;
use danube_log::{Error, Log, Read, Start};
use danube_model::{Offset, TimeMs};

use super::life::Life;

/// Reads a topic again and again until the life is over.
pub(super) async fn run(life: Arc<Life>, topic: usize, number: u64) {
    let random = life.scene.stage.random(&format!("reader {topic} {number}"), life.number);
    while !life.is_over() {
        if let Some(log) = life.log(topic)
            && follow(&life, topic, &log, &random).await.is_none()
        {
            return;
        }
        life.scene.stage.world.sleep(Duration::from_micros(random.below(20_000))).await;
    }
}

/// Reads from somewhere on, for a while. None: the end.
async fn follow(life: &Life, topic: usize, log: &Log, random: &Generator) -> Option<()> {
    let scene = &life.scene;
    let durable = log.ends().durable;
    let start = choose_start(life, durable, random);
    let mut reader = match life.within("a reader opens", log.read(start)).await? {
        _ if life.is_dead() => return None,
        Ok(reader) => reader,
        Err(error) => return failed(life, log, &error),
    };
    let offset = reader.offset();
    scene.stage.note(format_args!("t{topic} is read from {start:?}, {offset}"));
    let mut reading =
        scene.stage.oracle(|oracle| oracle.reading(log.topic(), start, offset, durable));
    for _ in 0..random.below(60) {
        scene.stage.oracle(|oracle| oracle.asking(&mut reading));
        let read = match life.within("something is read", reader.next()).await? {
            _ if life.is_dead() => return None,
            Ok(read) => read,
            Err(error) => return failed(life, log, &error),
        };
        scene.stage.oracle(|oracle| oracle.read(&mut reading, &read));
        match read {
            Read::Frame(frame) => scene.stage.note(format_args!(
                "t{topic} {}..{} is read, epoch {}",
                frame.base(),
                frame.next(),
                frame.epoch()
            )),
            Read::Damage(damage) => {
                scene.stage.note(format_args!("t{topic} damage: {damage:?}"));
                if log.ends().closed {
                    return Some(());
                }
            }
            Read::Trimmed { .. } => {}
            Read::CaughtUp(_) => {
                if life.is_over() || log.ends().closed || random.one_in(4) {
                    return Some(());
                }
                tokio::select! {
                    biased;
                    () = life.over() => return Some(()),
                    _ = reader.more() => {}
                }
            }
        }
    }
    Some(())
}

fn choose_start(life: &Life, durable: Offset, random: &Generator) -> Start {
    match random.below(4) {
        0 => Start::Earliest,
        1 => Start::Latest,
        2 => Start::Offset(Offset::new(random.below(durable.get() + 1))),
        _ => {
            let now = danube_env::sim::WALL_START_MS
                + life.scene.stage.world.elapsed().as_millis() as u64;
            let ago = random.below([10, 1_000, 7_200_000][random.below(3) as usize]);
            Start::Time(TimeMs::new(now - ago))
        }
    }
}

/// A reader of a log that goes away may fail; any other may not without a fault.
fn failed(life: &Life, log: &Log, error: &Error) -> Option<()> {
    if life.is_dead() {
        return None;
    }
    if !log.ends().closed {
        life.must_be_explained("reading fails", error);
    }
    Some(())
}
