//! Consuming: catching up with a topic, beside the published client; and how long messages take to many subscriptions.

use std::time::Duration;

use danube_client::{Client, Consumed, Consumer, Durability, Message, Start, SubscriptionType};
use tokio::task::JoinHandle;

use super::{Spread, messages};
use crate::broker::{Broker, Options};
use crate::wait::Stopwatch;
use crate::{Cli, Measured, Native, Peer, native};

const TOPIC: &str = "/default/backlog";
/// Messages of the backlog.
const BACKLOG: usize = 100_000;
/// Subscriptions of each topic of the fan-out.
const SUBSCRIPTIONS: usize = 10;
/// Between two messages of a topic.
const PAUSE: Duration = Duration::from_millis(20);
/// Connections of all the consumers.
const CONNECTIONS: usize = 4;
/// Messages that are not counted: connections and memory warm up.
const WARM_UP: Duration = Duration::from_secs(1);

/// Messages in a second while catching up, acknowledged one by one.
#[derive(Clone, Debug, Default)]
pub struct CatchingUp {
    native: Vec<f64>,
    peer: Vec<f64>,
}

/// Catches up with the same topic through the native client and the published one, in turn. `peer_messages` of the backlog are
/// enough for the latter.
///
/// # Panics
///
/// If a message does not come.
#[must_use]
pub fn catching_up(turns: usize, peer_messages: usize) -> CatchingUp {
    let broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let producer = native.producer(TOPIC, Durability::PageCache);
    let backlog = messages().into_iter().cycle().take(BACKLOG);
    native.send_all(&producer, backlog.map(|payload| Message { payload, ..Message::default() }));
    let mut figures = CatchingUp::default();
    for turn in 0..turns {
        let watch = Stopwatch::start();
        let consumer = native.wait(subscribe(native.client(), TOPIC, &format!("native{turn}")));
        let consumed = native.wait(consume(consumer, BACKLOG));
        assert_eq!(consumed, BACKLOG);
        figures.native.push(BACKLOG as f64 / watch.elapsed().as_secs_f64());
        figures.peer.push(peer_turn(&native, &broker, turn, peer_messages));
    }
    figures
}

fn peer_turn(native: &Native, broker: &Broker, turn: usize, count: usize) -> f64 {
    let subscription = format!("peer{turn}");
    let (topic, name) = (TOPIC.parse(), subscription.parse());
    let (topic, name) = (topic.expect("the name of a topic"), name.expect("a name"));
    let admin = native.client().admin();
    let creating =
        admin.create_subscription(&topic, &name, SubscriptionType::Exclusive, Start::Earliest);
    native.wait(creating).expect("a subscription can be made");
    let count = count.to_string();
    let arguments = ["drain", TOPIC, "--subscription", &subscription, "--count", &count];
    let said = Cli::of_peer(Peer::Rust, &broker.url()).run(arguments).success().json_lines();
    let field = |name: &str| said.last().and_then(|said| said[name].as_f64()).expect("a number");
    field("messages") / field("seconds")
}

async fn subscribe(client: &Client, topic: &str, subscription: &str) -> Consumer {
    let opening = client.consumer(topic, subscription).expect("good names");
    let opened = opening.start(Start::Earliest).open().await;
    opened.unwrap_or_else(|error| panic!("can't subscribe to {topic}: {error:?}"))
}

/// Takes and acknowledges so many messages, until the broker has noted that.
async fn consume(mut consumer: Consumer, count: usize) -> usize {
    let mut consumed = 0;
    while consumed < count {
        let next = consumer.next().await.expect("consuming goes on");
        if let Some(Consumed::Message(delivered)) = next {
            consumer.ack(delivered.place);
            consumed += 1;
        }
    }
    consumer.close().await.expect("the broker notes it");
    consumed
}

impl CatchingUp {
    /// The median of how many times as fast the native client is.
    #[must_use]
    pub fn native_to_peer(&self) -> f64 {
        self.ratio().median()
    }

    fn ratio(&self) -> Spread {
        Spread::of(self.native.iter().zip(&self.peer).map(|(native, peer)| native / peer))
    }

    /// All of it, for people.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let spread = |values: &[f64]| format!("{:.0}", Spread::of(values.iter().copied()));
        Measured::default()
            .with("catching up, native client, messages/s", spread(&self.native))
            .with("catching up, existing client, messages/s", spread(&self.peer))
            .with("catching up, native / existing", self.ratio())
    }
}

/// From before a message was sent until it was taken, in milliseconds.
#[derive(Clone, Debug)]
pub struct FanOut {
    subscriptions: usize,
    deliveries: usize,
    p50: f64,
    p99: f64,
    greatest: f64,
}

/// Sends 50 messages a second to each of some topics at `disk`, whose ten subscriptions each take and acknowledge all of them.
///
/// # Panics
///
/// If a message does not come.
#[must_use]
pub fn fan_out(topics: usize, time: Duration) -> FanOut {
    let broker = Broker::start(Options::default());
    let runtime = native::runtime();
    let watch = Stopwatch::start();
    let latencies = runtime.block_on(async {
        let clients: Vec<Client> = (0..CONNECTIONS)
            .map(|_| Client::connect(&broker.url()).expect("where a broker listens"))
            .collect();
        let count = ((WARM_UP + time).as_micros() / PAUSE.as_micros()) as usize;
        let (mut consumers, mut producers) = (Vec::new(), Vec::new());
        for number in 0..topics {
            let topic = format!("/default/fan-out-{number}");
            let client = &clients[number % CONNECTIONS];
            let opening = client.producer(&topic).expect("the name of a topic");
            let creation = native::creation(Durability::Disk);
            let producer = opening.create(Some(creation)).open().await.expect("it can be opened");
            for subscription in 0..SUBSCRIPTIONS {
                let consumer = subscribe(client, &topic, &format!("s{subscription}")).await;
                consumers.push(runtime.spawn(take(consumer, count, watch)));
            }
            producers.push(producer);
        }
        let begin = watch.elapsed();
        let sending = producers.into_iter().enumerate().map(|(number, producer)| {
            // Not all at the same moment.
            let first = begin + PAUSE * number as u32 / topics as u32;
            runtime.spawn(send(producer, count, watch, first))
        });
        let sending: Vec<JoinHandle<()>> = sending.collect();
        for sent in sending {
            sent.await.expect("a producer does not panic");
        }
        let mut latencies = Vec::new();
        for consumer in consumers {
            let taken = consumer.await.expect("a consumer does not panic").into_iter();
            let counts = taken.filter(|(sent, _)| *sent >= begin + WARM_UP);
            latencies.extend(counts.map(|(_, latency)| latency));
        }
        latencies
    });
    FanOut::of(topics * SUBSCRIPTIONS, latencies)
}

/// Sends a message at each of its times, whose payload says when that was: what comes late counts as late.
async fn send(producer: danube_client::Producer, count: usize, watch: Stopwatch, first: Duration) {
    let mut deliveries = Vec::new();
    for number in 0..count {
        let due = first + PAUSE * number as u32;
        sleep(due.saturating_sub(watch.elapsed())).await;
        let mut payload = vec![0; 1024];
        payload[..8].copy_from_slice(&(due.as_micros() as u64).to_le_bytes());
        let message = Message { payload: payload.into(), ..Message::default() };
        deliveries.push(producer.send(message).await.expect("a message that can be sent"));
    }
    for delivery in deliveries {
        delivery.await.expect("it is acknowledged");
    }
}

#[expect(clippy::disallowed_methods, reason = "a load with a rate in real time")]
async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// When each message was sent, and how long it took.
async fn take(mut consumer: Consumer, count: usize, watch: Stopwatch) -> Vec<(Duration, Duration)> {
    let mut taken = Vec::with_capacity(count);
    while taken.len() < count {
        let next = consumer.next().await.expect("consuming goes on");
        if let Some(Consumed::Message(delivered)) = next {
            let payload = &delivered.received.message.payload;
            let sent = payload[..8].try_into().map(u64::from_le_bytes).expect("eight bytes");
            let sent = Duration::from_micros(sent);
            taken.push((sent, watch.elapsed().saturating_sub(sent)));
            consumer.ack(delivered.place);
        }
    }
    consumer.close().await.expect("the broker notes it");
    taken
}

impl FanOut {
    fn of(subscriptions: usize, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        let last = latencies.len().checked_sub(1).expect("messages have come");
        let at = |hundredths: usize| latencies[last * hundredths / 100].as_secs_f64() * 1e3;
        let (deliveries, p50, p99) = (latencies.len(), at(50), at(99));
        Self { subscriptions, deliveries, p50, p99, greatest: at(100) }
    }

    /// The 99th percentile.
    #[must_use]
    pub fn p99(&self) -> Duration {
        Duration::from_secs_f64(self.p99 / 1e3)
    }

    /// All of it, for people.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let Self { subscriptions, deliveries, p50, p99, greatest } = self;
        Measured::default()
            .with(&format!("{subscriptions} subscriptions, deliveries"), deliveries)
            .with(
                &format!("{subscriptions} subscriptions, end to end, p50, p99 and greatest, ms"),
                format!("{p50:.1}, {p99:.1}, {greatest:.1}"),
            )
    }
}
