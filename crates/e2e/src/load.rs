//! Producers under load on the native client, which go on across restarts of the broker and write down what they see.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use danube_client::{Client, Delivery, Durability, Message, Outcome, Producer, Text};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::broker::Broker;
use crate::checker::{History, MessageId};
use crate::native;
use crate::wait::within;

/// A producer that can't be opened is opened again after this time.
const REOPEN_PAUSE: Duration = Duration::from_millis(20);
/// After its end load takes no longer to settle what is in flight.
const SETTLE_MAX: Duration = Duration::from_secs(90);

/// What load there is.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How many producers; they take the topics in turn.
    pub producers: usize,
    /// The topics, created where they are missing.
    pub topics: Vec<String>,
    /// The level at which they are created.
    pub durability: Durability,
    /// Messages are up to this size, in bytes, or as large as they need to be.
    pub bytes_max: u64,
    /// How many messages a producer has in flight.
    pub in_flight: usize,
    /// How many keys there are.
    pub keys: u64,
    /// How long a producer waits after each message.
    pub pause: Duration,
    /// How long a producer tries a message again before its fate is unknown.
    pub timeout: Duration,
}

impl Shape {
    /// Load of eight producers on three topics.
    #[must_use]
    pub fn of(durability: Durability) -> Self {
        Self {
            producers: 8,
            topics: ["a", "b", "c"].map(|name| format!("/default/load-{name}")).to_vec(),
            durability,
            bytes_max: 2048,
            in_flight: 32,
            keys: 3,
            pause: Duration::ZERO,
            timeout: Duration::from_secs(60),
        }
    }
}

/// Load that is on. Dropping it ends it at once.
pub struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    producers: Vec<JoinHandle<()>>,
    runtime: Runtime,
}

impl Load {
    /// Begins. `name` must be unique in the history.
    ///
    /// # Panics
    ///
    /// If there are no threads to be had.
    #[must_use]
    pub fn start(broker: &Broker, history: &History, name: &str, shape: &Shape) -> Self {
        let runtime = native::runtime();
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let producers = (0..shape.producers).map(|number| {
            let _entered = runtime.enter();
            let lane = Lane {
                // A connection for each, so that they fail one by one.
                client: Client::connect(&broker.url()).expect("a ready line has an address"),
                history: history.clone(),
                name: format!("{name}{number}"),
                topic: shape.topics[number % shape.topics.len()].clone(),
                shape: shape.clone(),
                next: 0,
                stop: Arc::clone(&stop),
                acknowledged: Arc::clone(&acknowledged),
            };
            runtime.spawn(lane.produce())
        });
        let producers = producers.collect();
        Self { stop, acknowledged, producers, runtime }
    }

    /// How many messages were acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until so many more were acknowledged.
    ///
    /// # Panics
    ///
    /// If that takes longer than half a minute.
    pub fn progress(&self, messages: u64) {
        let before = self.acknowledged();
        within(Duration::from_secs(30), "acknowledgement", || {
            (self.acknowledged() >= before + messages).then_some(())
        });
    }

    /// Ends it: what is in flight is settled first.
    ///
    /// # Panics
    ///
    /// If that takes too long, or a producer failed.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for producer in self.producers.drain(..) {
            let ended =
                self.runtime.block_on(async { tokio::time::timeout(SETTLE_MAX, producer).await });
            ended.expect("load settles in time").expect("a producer does not panic");
        }
        self.acknowledged()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for producer in &self.producers {
            producer.abort();
        }
    }
}

/// One producer and its numbers.
struct Lane {
    client: Client,
    history: History,
    name: String,
    topic: String,
    shape: Shape,
    next: u64,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
}

impl Lane {
    async fn produce(mut self) {
        while !self.is_stopped() {
            match self.open().await {
                Some(producer) => self.run(&producer).await,
                None => pause(REOPEN_PAUSE).await,
            }
        }
    }

    async fn open(&self) -> Option<Producer> {
        let opening = self.client.producer(&self.topic).expect("the name of a topic");
        let create = Some(native::creation(self.shape.durability));
        opening.name(&self.name).create(create).timeout(self.shape.timeout).open().await.ok()
    }

    /// Sends until load ends or a message fails, and settles what was sent.
    async fn run(&mut self, producer: &Producer) {
        let mut in_flight: VecDeque<(MessageId, Delivery)> = VecDeque::new();
        let mut failed = false;
        loop {
            while !failed && !self.is_stopped() && in_flight.len() < self.shape.in_flight {
                in_flight.push_back(self.send(producer).await);
            }
            let Some((message, delivery)) = in_flight.pop_front() else { return };
            failed |= !self.settle(&message, delivery).await;
            if !self.shape.pause.is_zero() {
                pause(self.shape.pause).await;
            }
        }
    }

    async fn send(&mut self, producer: &Producer) -> (MessageId, Delivery) {
        let id = MessageId::new(&self.name, self.next);
        let key = format!("k{}", self.next % self.shape.keys);
        // Sizes that jump about, the same in each run.
        let bytes = self.next.wrapping_mul(2_654_435_761) % self.shape.bytes_max;
        self.next += 1;
        let payload = self.history.payload(&id, Some(&key), bytes as usize);
        // Before the call goes out: what is acknowledged must have been invoked.
        self.history.invoked(&id, &self.topic, Some(&key));
        let key = Text::new(key.into());
        let message = Message { payload: payload.into(), key, ..Message::default() };
        let delivery = producer.send(message).await.expect("a message that can be sent");
        (id, delivery)
    }

    /// Notes what became of a message. False unless it was acknowledged.
    async fn settle(&self, message: &MessageId, delivery: Delivery) -> bool {
        match delivery.await {
            Ok(receipt) => {
                self.history.ok(message, receipt.offset.get());
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(error) => {
                match error.outcome() {
                    Outcome::Definite => self.history.failed(message, &error.to_string()),
                    Outcome::Unknown => self.history.unknown(message, &error.to_string()),
                }
                false
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[expect(clippy::disallowed_methods, reason = "real time; nothing tells when a broker is back")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
