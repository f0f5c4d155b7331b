//! Consumers that are slow, do nothing, or are frozen.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use danube_client::{Consumer, Durability, Message, Producer, Start};
use danube_proto::danube::ConsumerRequest;
use danube_proto::danube::consumer_service_client::ConsumerServiceClient;
use rustix::process::{Pid, Signal, kill_process};
use tonic::transport::Endpoint;

use crate::broker::{Broker, Options};
use crate::consume::{self, Did, Journal, Worker};
use crate::usage::resident_kib;
use crate::wait::{Stopwatch, pause, try_within};
use crate::{Cli, Measured, Native};

const MESSAGE_BYTES: usize = 8 << 10;
/// How long a slow consumer works at a message.
const WORK: Duration = Duration::from_millis(1);
/// What the broker's memory may grow by meanwhile: buffers of the network, but not what waits for a consumer.
const GROWTH_MAX_MIB: u64 = 32;

/// Sends so many messages as fast as possible to a consumer that needs a millisecond for each. It misses none, each comes
/// once and in its order, and the broker's memory does not grow.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn behind(messages: u64) -> Measured {
    let options = Options::default().setting("storage.wal.advanced.cache_capacity", "16MiB");
    let mut broker = Broker::start(options);
    let native = Native::of(&broker);
    // What grows once has grown.
    let warm = native.producer("/default/warm", Durability::PageCache);
    native.send_all(&warm, (0..messages.max(4000)).map(|_| message()));
    let topic = "/default/slow";
    let producer = native.producer(topic, Durability::PageCache);
    let journal = Journal::new(Stopwatch::start());
    let _worker = Worker::start(
        &broker.url(),
        |client| client.consumer(topic, "s").expect("names"),
        |consumer| slowly(consumer, journal.clone()),
    );
    let before = resident_mib(&broker);
    let watch = Stopwatch::start();
    native.send_all(&producer, (0..messages).map(|_| message()));
    let sending = watch.elapsed();
    let mut most = before;
    let all = try_within(Duration::from_secs(10) + WORK * 10 * messages as u32, || {
        most = most.max(resident_mib(&broker));
        journal.taken_at(messages - 1)
    });
    let taken: Vec<_> = {
        let events = journal.events();
        let taken = events.iter().filter(|event| event.did == Did::Took);
        taken.map(|event| event.offset).collect()
    };
    assert!(all.is_some() && taken.iter().copied().eq(0..messages), "{} came", taken.len());
    assert!(most < before + GROWTH_MAX_MIB, "from {before} to {most} MiB");
    broker.stop();
    Measured::default()
        .with("messages", messages)
        .with("sending, s", sending.as_secs_f64())
        .with("memory of the broker before, MiB", before)
        .with("at most, MiB", most)
}

fn message() -> Message {
    Message { payload: vec![7; MESSAGE_BYTES].into(), ..Message::default() }
}

async fn slowly(mut consumer: Consumer, journal: Journal) {
    loop {
        let delivered = consume::message(&mut consumer).await;
        journal.took("slow", &delivered);
        pause(WORK);
        consumer.ack(delivered.place);
    }
}

fn resident_mib(broker: &Broker) -> u64 {
    resident_kib(broker) >> 10
}

/// What a producer sees.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// From a lone message to its acknowledgement, in the median.
    median: Duration,
    /// Of many messages at once.
    messages_per_second: f64,
}

/// Compares what a producer sees alone, and beside three consumers: one that is subscribed and never asks for messages, one
/// that acknowledges none, and one whose process is frozen. It may be `tolerance` times as slow.
///
/// # Panics
///
/// If the producer notices them.
#[must_use]
pub fn beside(messages: u64, tolerance: f64) -> Measured {
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let topic = "/default/beside";
    let producer = native.producer(topic, Durability::PageCache);
    // The first messages of all take longer.
    speed(&native, &producer, messages);
    let alone = speed(&native, &producer, messages);
    subscribe_only(&native, &broker, topic);
    let _idle = Worker::start(
        &broker.url(),
        |client| client.consumer(topic, "idle").expect("names").start(Start::Earliest),
        |mut consumer| async move {
            loop {
                drop(consume::message(&mut consumer).await);
            }
        },
    );
    let _frozen = Frozen::start(&broker, topic);
    // They fill up what they are given first.
    speed(&native, &producer, messages);
    let beside = speed(&native, &producer, messages);
    let later = alone.median.mul_f64(tolerance) + Duration::from_millis(1);
    let is_as_fast = beside.messages_per_second * tolerance > alone.messages_per_second;
    assert!(beside.median < later && is_as_fast, "{beside:?}, alone {alone:?}");
    broker.stop();
    Measured::default()
        .with("median alone, ms", alone.median.as_secs_f64() * 1e3)
        .with("median beside them, ms", beside.median.as_secs_f64() * 1e3)
        .with("messages/s alone", alone.messages_per_second as u64)
        .with("messages/s beside them", beside.messages_per_second as u64)
}

fn speed(native: &Native, producer: &Producer, messages: u64) -> Speed {
    let mut times: Vec<_> = (0..messages / 10)
        .map(|_| {
            let watch = Stopwatch::start();
            native.send_all(producer, [Message::default()]);
            watch.elapsed()
        })
        .collect();
    times.sort_unstable();
    let watch = Stopwatch::start();
    native.send_all(producer, (0..messages).map(|_| message()));
    let messages_per_second = messages as f64 / watch.elapsed().as_secs_f64();
    Speed { median: times[times.len() / 2], messages_per_second }
}

/// A consumer of an existing client that never opens its stream.
fn subscribe_only(native: &Native, broker: &Broker, topic: &str) {
    let request = ConsumerRequest {
        request_id: 1,
        topic_name: topic.to_owned(),
        consumer_name: "c".to_owned(),
        subscription: "unopened".to_owned(),
        ..ConsumerRequest::default()
    };
    let subscribed = native.wait(async {
        let endpoint = Endpoint::from_shared(broker.url()).expect("a ready line has an address");
        ConsumerServiceClient::new(endpoint.connect_lazy()).subscribe(request).await
    });
    subscribed.expect("the subscription is new");
}

/// A process that consumed a message and then stopped in the middle of it all.
struct Frozen(Child);

impl Frozen {
    fn start(broker: &Broker, topic: &str) -> Self {
        let words = ["consume", topic, "--subscription", "frozen", "--from", "earliest"];
        let mut command = Cli::of(broker).command(words);
        let mut child = command.stderr(Stdio::inherit()).spawn().expect("the command can be run");
        let output = child.stdout.as_mut().expect("standard output is a pipe");
        let mut line = Vec::new();
        BufReader::new(output).read_until(b'\n', &mut line).expect("it consumes");
        kill_process(Pid::from_child(&child), Signal::STOP).expect("a child of ours");
        Self(child)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
