//! How long a start takes (design, sections 7 and 11: start-up does not grow with the data stored).

use std::time::Duration;

use danube_client::{Durability, Message};

use crate::broker::{Broker, Options};
use crate::wait::Stopwatch;
use crate::{Generator, Measured, Native};

/// An empty broker is ready within this time.
pub const EMPTY_MAX: Duration = Duration::from_secs(1);
/// A broker that was killed is ready within this time.
pub const KILLED_MAX: Duration = Duration::from_secs(3);

/// Starts a broker in an empty directory.
///
/// # Panics
///
/// If it takes [`EMPTY_MAX`] or longer.
#[must_use]
pub fn empty() -> Measured {
    let watch = Stopwatch::start();
    let mut broker = Broker::start(Options::default());
    let ready = watch.elapsed();
    assert!(ready < EMPTY_MAX, "ready after {ready:?}");
    broker.stop();
    Measured::default().with("ready on an empty directory, ms", ready.as_millis())
}

/// Kills a broker with many topics that have a few messages each, and starts it again.
///
/// # Panics
///
/// If that takes [`KILLED_MAX`] or longer, or a topic has lost something.
#[must_use]
pub fn many_topics(topics: usize) -> Measured {
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let name = |number: usize| format!("/default/topic-{number}");
    let watch = Stopwatch::start();
    for number in 0..topics {
        let producer = native.producer(&name(number), Durability::Disk);
        let messages =
            (0..3).map(|_| Message { payload: name(number).into(), ..Message::default() });
        assert_eq!(native.send_all(&producer, messages), [0, 1, 2]);
    }
    let creating = watch.elapsed();
    let ready = killed_and_started(&mut broker);
    for number in (0..topics).step_by(topics.div_ceil(50)) {
        let read = native.read(&name(number)).messages;
        assert_eq!(read.len(), 3, "{}", name(number));
        assert!(read.iter().all(|read| read.message.payload == name(number)));
    }
    assert!(ready < KILLED_MAX, "ready after {ready:?} with {topics} topics");
    broker.stop();
    Measured::default()
        .with("topics", topics)
        .with("creating and filling one, ms", creating.as_secs_f64() * 1000.0 / topics as f64)
        .with("ready after SIGKILL, ms", ready.as_millis())
}

/// Kills a broker that holds so much in one topic, and starts it again.
///
/// # Panics
///
/// If that takes [`KILLED_MAX`] or longer, or something is lost.
#[must_use]
pub fn much_data(bytes: u64) -> Measured {
    const MESSAGE_BYTES: usize = 64 << 10;
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let topic = "/default/much";
    let producer = native.producer(topic, Durability::Disk);
    let chance = Generator::new(bytes);
    let noise: Vec<u8> = (0..MESSAGE_BYTES + 4096).map(|_| chance.below(256) as u8).collect();
    let noise = bytes::Bytes::from(noise);
    let count = bytes / MESSAGE_BYTES as u64;
    let watch = Stopwatch::start();
    let messages = (0..count).map(|number| {
        // The same bytes from another place: different messages, and nothing to copy here.
        let from = (number % 4096) as usize;
        Message { payload: noise.slice(from..from + MESSAGE_BYTES), ..Message::default() }
    });
    let offsets = native.send_all(&producer, messages);
    let filling = watch.elapsed();
    assert!(offsets.iter().copied().eq(0..count));
    let ready = killed_and_started(&mut broker);
    let described = native.describe(topic);
    assert_eq!(described.durable_end.get(), count);
    assert!(ready < KILLED_MAX, "ready after {ready:?} with {bytes} bytes");
    broker.stop();
    Measured::default()
        .with("bytes", bytes)
        .with("filling, MB/s", bytes as f64 / 1e6 / filling.as_secs_f64())
        .with("ready after SIGKILL, ms", ready.as_millis())
}

fn killed_and_started(broker: &mut Broker) -> Duration {
    broker.kill9();
    let watch = Stopwatch::start();
    broker.restart();
    watch.elapsed()
}
