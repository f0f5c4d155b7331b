//! Consumers on the native client that write down what they see. Each has a connection of its own, which can be cut.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use danube_client::{Client, Consumed, Consumer, ConsumerBuilder, Delivered, Place};
use tokio::runtime::Runtime;

use crate::native;
use crate::wait::Stopwatch;

/// What a consumer did with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// It got it.
    Took,
    /// It acknowledged it.
    Acked,
}

/// One step of one consumer.
#[derive(Clone, Debug)]
pub struct Event {
    /// When, by the journal's clock.
    pub at: Duration,
    /// Who.
    pub consumer: &'static str,
    /// Of the message.
    pub offset: u64,
    /// Of the message; empty if it has none.
    pub key: String,
    /// What.
    pub did: Did,
}

/// What all consumers of a subscription did, in the order in which they did it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Journal {
    clock: Stopwatch,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Journal {
    /// An empty one.
    #[must_use]
    pub fn new(clock: Stopwatch) -> Self {
        Self { clock, events: Arc::default() }
    }

    /// Notes that a consumer got a message.
    pub fn took(&self, consumer: &'static str, delivered: &Delivered) {
        let key = delivered.received.message.key.as_ref();
        let key = key.map(|key| key.as_str().to_owned()).unwrap_or_default();
        self.note(consumer, delivered.received.offset.get(), key, Did::Took);
    }

    /// Acknowledges a message, and notes it before.
    pub fn ack(&self, name: &'static str, consumer: &Consumer, offset: u64, place: Place) {
        self.note(name, offset, String::new(), Did::Acked);
        consumer.ack(place);
    }

    fn note(&self, consumer: &'static str, offset: u64, key: String, did: Did) {
        let mut events = self.events();
        // Under the lock, so that times rise.
        let at = self.clock.elapsed();
        events.push(Event { at, consumer, offset, key, did });
    }

    /// All of it so far. Consumers wait while it is held.
    pub fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        // A panic elsewhere has already failed the test.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a message was taken last.
    #[must_use]
    pub fn taken_at(&self, offset: u64) -> Option<Duration> {
        let events = self.events();
        let mut events = events.iter().rev();
        events.find(|event| event.did == Did::Took && event.offset == offset).map(|event| event.at)
    }
}

/// A consumer at work. To the broker it is a process of its own: dropping it is a kill.
pub struct Worker {
    runtime: Option<Runtime>,
}

impl Worker {
    /// Opens a consumer and lets it work. Its panic is shown, and the worker then does nothing more.
    ///
    /// # Panics
    ///
    /// If it can't be opened.
    #[must_use]
    pub fn start<W: Future<Output = ()> + Send + 'static>(
        url: &str,
        opening: impl FnOnce(&Client) -> ConsumerBuilder,
        work: impl FnOnce(Consumer) -> W,
    ) -> Self {
        let runtime = native::runtime();
        let consumer = runtime.block_on(async {
            let client = Client::connect(url).expect("a ready line has an address");
            opening(&client).open().await
        });
        runtime.spawn(work(consumer.unwrap_or_else(|error| panic!("not opened: {error:?}"))));
        Self { runtime: Some(runtime) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Nothing that was given is sent any more, and its sockets close.
            runtime.shutdown_timeout(Duration::ZERO);
        }
    }
}

/// The next message. A kill takes hold before it.
///
/// # Panics
///
/// If something else comes, or nothing more.
pub async fn message(consumer: &mut Consumer) -> Delivered {
    tokio::task::yield_now().await;
    match consumer.next().await {
        Ok(Some(Consumed::Message(delivered))) => delivered,
        other => panic!("a message, not {other:?}"),
    }
}

/// Takes messages and acknowledges each at once.
pub async fn prompt(name: &'static str, mut consumer: Consumer, journal: Journal) {
    loop {
        let delivered = message(&mut consumer).await;
        journal.took(name, &delivered);
        journal.ack(name, &consumer, delivered.received.offset.get(), delivered.place);
    }
}
