//! Whether a consumer that has caught up is woken by every message.

use std::time::Duration;

use danube_client::{Durability, Message, Producer, Start, SubscriptionType};

use crate::broker::{Broker, Options};
use crate::consume::{self, Journal, Worker};
use crate::native::Native;
use crate::wait::{Stopwatch, pause, within};
use crate::{Generator, Measured};

const TOPIC: &str = "/default/wakeups";
const PRODUCERS: u64 = 8;
/// From confirmation to arrival, at most, and in the median.
const ARRIVAL_MAX: Duration = Duration::from_secs(1);
const ARRIVAL_MEDIAN_MAX: Duration = Duration::from_millis(20);

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How long the consumer has nothing to do before the first message.
    pub idle: Duration,
    /// Rounds of one to three messages at once.
    pub rounds: usize,
    /// Rounds in which the consumer comes at the moment of the message.
    pub coming: usize,
    /// A round comes up to this long after the one before.
    pub pause_max_ms: u64,
    /// Where the moments come from.
    pub seed: u64,
}

/// Lets a consumer wait, and sends it a few messages, again and again. None waits for the next one: a round ends when all of
/// its messages have come.
///
/// # Panics
///
/// If a message comes later than a second after its confirmation, or half of them later than 20 ms.
#[must_use]
pub fn run(extent: Extent) -> Measured {
    let chance = Generator::new(extent.seed);
    let mut broker = Broker::start(Options::default());
    let clients: Vec<_> = (0..PRODUCERS).map(|_| Native::of(&broker)).collect();
    let producer = |client: &Native| client.producer(TOPIC, Durability::PageCache);
    let producers: Vec<_> = clients.iter().map(producer).collect();
    let clock = Stopwatch::start();
    let journal = Journal::new(clock);
    let worker = Worker::start(
        &broker.url(),
        |client| client.consumer(TOPIC, "waiting").expect("names"),
        |consumer| consume::prompt("c", consumer, journal.clone()),
    );
    pause(extent.idle);
    let mut late = Vec::new();
    for _ in 0..extent.rounds {
        let (first, count) = (chance.below(PRODUCERS), 1 + chance.below(3));
        let sends: Vec<_> = (first..first + count)
            .map(|number| (number % PRODUCERS) as usize)
            .map(|number| clients[number].beside(confirmed(producers[number].clone(), clock)))
            .collect();
        for send in sends {
            let (offset, confirmed) = clients[0].wait(send).expect("a producer does not panic");
            let taken = within(ARRIVAL_MAX, "arrival", || journal.taken_at(offset));
            late.push(taken.saturating_sub(confirmed));
        }
        pause(Duration::from_millis(chance.below(extent.pause_max_ms)));
    }
    drop(worker);
    let (topic, subscription) = (TOPIC.parse().expect("a name"), "coming".parse().expect("a name"));
    let admin = clients[0].client().admin();
    let created = admin.create_subscription(
        &topic,
        &subscription,
        SubscriptionType::Exclusive,
        Start::Latest,
    );
    clients[0].wait(created).expect("it is new");
    for _ in 0..extent.coming {
        let send = clients[1].beside(confirmed(producers[1].clone(), clock));
        pause(Duration::from_micros(chance.below(2000)));
        clients[0].wait(come_and_go(&clients[0]));
        clients[0].wait(send).expect("a producer does not panic");
    }
    broker.stop();
    late.sort_unstable();
    let (median, max) = (late[late.len() / 2], late[late.len() - 1]);
    assert!(max < ARRIVAL_MAX && median < ARRIVAL_MEDIAN_MAX, "{median:?} and up to {max:?}");
    Measured::default()
        .with("messages", late.len())
        .with("median from confirmation to arrival, ms", median.as_secs_f64() * 1e3)
        .with("longest, ms", max.as_secs_f64() * 1e3)
        .with("rounds in which the consumer came", extent.coming)
}

/// Sends a message; its offset, and when it was confirmed.
async fn confirmed(producer: Producer, clock: Stopwatch) -> (u64, Duration) {
    let delivery = producer.send(Message::default()).await.expect("a message that can be sent");
    let receipt = delivery.await.unwrap_or_else(|error| panic!("not acknowledged: {error:?}"));
    (receipt.offset.get(), clock.elapsed())
}

/// Takes the one message of this moment, which may come before or after.
async fn come_and_go(client: &Native) {
    let opening = client.client().consumer(TOPIC, "coming").expect("names");
    let mut consumer = opening.open().await.expect("the one before has gone");
    let arrival = tokio::time::timeout(ARRIVAL_MAX, consume::message(&mut consumer)).await;
    consumer.ack(arrival.expect("a message that came by now arrives").place);
    consumer.close().await.expect("the broker has noted the acknowledgement");
}
