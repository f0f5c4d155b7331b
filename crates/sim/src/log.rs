//! The first layer: one broker's logs, under crashes.
//!
//! What outlives a process stands in the [`Scene`]: the topics as the metadata would have them, the producers with what
//! they have not heard of yet, and the oracle. Each process is a `life`: it recovers, opens its topics, serves producers
//! and readers, and comes to an end, by plan or before.
//!
//! Reading order: this module, `life`, then who acts in one: `owner` (opens, closes, deletes), `producer`, `reader`.

mod life;
mod owner;
mod producer;
mod reader;
mod rot;
mod trimmer;

use std::sync::{Arc, Mutex, MutexGuard};

use danube_env::sim::World;

use self::owner::Topic;
use crate::faults::Plan;
use crate::options::Options;
use crate::producer::Producer;
use crate::runner::Outcome;
use crate::stage::{Stage, lock};

/// What outlives the processes of one world.
struct Scene {
    stage: Stage,
    topics: Vec<Mutex<Topic>>,
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
        let topics = (0..options.topics).map(|number| Mutex::new(Topic::new(number))).collect();
        let producers = (0..options.topics as u64 * options.producers)
            .map(|number| Mutex::new(Producer::new(number, number as usize % options.topics)))
            .collect();
        Self { stage: Stage::new(world, options), topics, producers }
    }

    fn topic(&self, number: usize) -> MutexGuard<'_, Topic> {
        lock(&self.topics[number])
    }

    fn producer(&self, number: usize) -> MutexGuard<'_, Producer> {
        lock(&self.producers[number])
    }
}
