//! The producers that are registered.
//!
//! Nobody says when a producer goes: one that has not been heard of for some minutes is forgotten. Should it come back, it
//! registers again by itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use danube_broker::{Attached, Topic};
use danube_env::Env;
use danube_model::TopicId;
use tonic::Status;

use crate::caps;
use crate::rpc::status;
use crate::sessions::Stopping;

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Producers {
    registered: Arc<Mutex<Registered>>,
    env: Env,
}

#[derive(Default)]
struct Registered {
    by_id: HashMap<u64, Arc<Producer>>,
    by_name: HashMap<(TopicId, String), u64>,
}

/// One of them.
pub(crate) struct Producer {
    pub(crate) topic: Topic,
    pub(crate) is_reliable: bool,
    name: String,
    /// Whether it was heard of since the last look.
    is_alive: AtomicBool,
    _attached: Attached,
}

impl Producers {
    pub(crate) fn new(env: Env) -> Producers {
        Producers { registered: Arc::default(), env }
    }

    /// The id of a producer, 1 to 2^63 - 1: a new one unless there is one of this name on this topic.
    pub(crate) fn register(&self, topic: Topic, name: &str) -> Result<u64, Status> {
        let mut registered = self.lock();
        let key = (topic.id(), name.to_owned());
        if let Some(id) = registered.by_name.get(&key) {
            registered.by_id[id].is_alive.store(true, Ordering::Relaxed);
            return Ok(*id);
        }
        if registered.by_id.len() >= caps::PRODUCERS_MAX {
            let failure =
                status::exhausted("too many producers on this broker", caps::PRODUCERS_MAX);
            return Err(failure.into());
        }
        let attached = topic.attach(name.to_owned()).map_err(|error| status::status(&error))?;
        // An id from before a restart must not be another producer's, so it is no small number.
        let random = || self.env.random.next_u64() >> 1;
        let is_free = |id: &u64| *id > 0 && !registered.by_id.contains_key(id);
        let id = std::iter::repeat_with(random).find(is_free).expect("there is no end of them");
        let producer = Producer {
            is_reliable: topic.is_reliable(),
            topic,
            name: name.to_owned(),
            is_alive: AtomicBool::new(true),
            _attached: attached,
        };
        registered.by_id.insert(id, Arc::new(producer));
        registered.by_name.insert(key, id);
        Ok(id)
    }

    /// The producer of this id, which has just been heard of.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Producer>> {
        let producer = Arc::clone(self.lock().by_id.get(&id)?);
        producer.is_alive.store(true, Ordering::Relaxed);
        Some(producer)
    }

    /// Its topic is gone.
    pub(crate) fn forget(&self, id: u64) {
        let mut registered = self.lock();
        if let Some(producer) = registered.by_id.remove(&id) {
            registered.by_name.remove(&producer.key());
        }
    }

    /// Forgets from time to time those that are not heard of, until the broker stops.
    pub(crate) async fn run(self, mut stopping: Stopping) {
        loop {
            tokio::select! {
                biased;
                () = stopping.wait() => return,
                () = self.env.clock.sleep(caps::PRODUCER_IDLE_TIMEOUT) => self.forget_idle(),
            }
        }
    }

    /// Forgets those that were not heard of since the last call.
    fn forget_idle(&self) {
        let mut registered = self.lock();
        let Registered { by_id, by_name } = &mut *registered;
        by_id.retain(|_, producer| {
            let is_alive = producer.is_alive.swap(false, Ordering::Relaxed);
            if !is_alive {
                by_name.remove(&producer.key());
            }
            is_alive
        });
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.registered.lock().expect("nothing panics while it holds the producers")
    }
}

impl Producer {
    fn key(&self) -> (TopicId, String) {
        (self.topic.id(), self.name.clone())
    }
}
