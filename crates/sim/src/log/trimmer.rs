//! Retention, as a broker would have it: now and then the front of a log goes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use danube_log::Error;
use danube_model::Offset;

use super::life::Life;

/// Lets go of what lies before some offset, of one log after the other.
pub(super) async fn run(life: Arc<Life>) {
    let stage = &life.scene.stage;
    let random = stage.random("trimmer", life.number);
    for _ in 0..random.below(stage.options.trims + 1) {
        stage.world.sleep(Duration::from_micros(random.below(40_000))).await;
        let number = random.below(life.scene.topics.len() as u64) as usize;
        let Some(log) = life.log(number) else { continue };
        if random.one_in(2)
            && let Some(Err(error)) = life.within("a segment is sealed", log.seal()).await
        {
            failed(&life, "a segment can't be sealed", &error);
        }
        let before = Offset::new(random.below(log.ends().durable.get() + 1));
        stage.note(format_args!("t{number} is trimmed before {before}"));
        stage.oracle(|oracle| oracle.trimming(log.topic(), before));
        let trimming = life.store.trim(BTreeMap::from([(log.topic(), before)]));
        match life.within("a log is trimmed", trimming).await {
            Some(Ok(files)) => stage.note(format_args!("t{number}: {files} files went")),
            Some(Err(error)) => failed(&life, "a log can't be trimmed", &error),
            None => return,
        }
    }
}

/// A log may be deleted meanwhile.
fn failed(life: &Life, what: &str, error: &Error) {
    if !life.is_dead() && !matches!(error, Error::NoLog { .. }) {
        life.must_be_explained(what, error);
    }
}
