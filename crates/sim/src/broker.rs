//! The second layer: a whole broker, its metadata and its logs on one disk, under crashes.
//!
//! What outlives a process stands in the [`Scene`]: what was acknowledged of each name, and what is not known of it; the
//! producers; and the oracle, which hears of every log by the id of its topic.
//!
//! Reading order: this module, `names` (what the metadata promise), `life`, then who acts in one: `admin`, `producer`.

mod admin;
mod life;
mod names;
mod producer;

use std::sync::{Arc, Mutex, MutexGuard};

use danube_env::sim::World;

use self::names::Names;
use crate::faults::{BROKER_PARTS, Plan};
use crate::options::{Faults, LARGE_VOLUME, Options};
use crate::producer::Producer;
use crate::runner::Outcome;
use crate::stage::{Stage, lock};

/// What outlives the processes of one world.
struct Scene {
    stage: Stage,
    names: Mutex<Names>,
    producers: Vec<Mutex<Producer>>,
}

/// Runs the world that the options describe.
pub(crate) async fn run(world: World, options: Options) -> Outcome {
    let scene = Arc::new(Scene::new(world, options));
    let live = async |number, env, plan: &Plan| life::live(&scene, number, env, plan).await;
    scene.stage.run(live).await
}

impl Scene {
    fn new(world: World, options: Options) -> Self {
        // Damaged metadata refuse the start, and a broker needs more room than its smallest log.
        let faults = Faults { rot: 0, parts: BROKER_PARTS, ..options.faults };
        let options = Options { faults, volume_bytes: LARGE_VOLUME, ..options };
        let names = Names::new(options.topics);
        let producers = (0..options.topics as u64 * options.producers)
            .map(|number| Mutex::new(Producer::new(number, number as usize % options.topics)))
            .collect();
        Self { stage: Stage::new(world, options), names: Mutex::new(names), producers }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        lock(&self.names)
    }

    fn producer(&self, number: usize) -> MutexGuard<'_, Producer> {
        lock(&self.producers[number])
    }
}
