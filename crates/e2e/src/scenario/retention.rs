//! What retention removes, and what it leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use danube_client::{Client, Durability, Item, Message, Producer, Start};
use danube_model::{Offset, TimeMs};

use crate::broker::{Broker, Options};
use crate::wait::{Stopwatch, pause, within};
use crate::{Cli, Measured, Native};

const MESSAGE_BYTES: usize = 16 << 10;
/// In 2100.
const FUTURE_MS: u64 = 4_102_444_800_000;
/// In 1971.
const PAST_MS: u64 = 31_536_000_000;
/// Readers that begin at the start again and again.
const READERS: usize = 3;
/// HTTP/2 counts what comes for streams that were given up, and ends a connection with too much of it.
const READERS_OF_A_CONNECTION: usize = 50;
/// Messages that one of them reads before it begins anew.
const MESSAGES_AT_ONCE: usize = 100;

fn broker(segment_bytes: &str) -> Broker {
    let options = Options::default()
        .setting("storage.wal.rotation.max_bytes", segment_bytes)
        .setting("storage.local_retention.time_minutes", "0")
        .setting("storage.local_retention.check_interval_minutes", "200ms")
        .setting("storage.wal.advanced.cache_capacity", "1MiB");
    Broker::start(options)
}

fn send(native: &Native, producer: &Producer, mib: u64, published_ms: Option<u64>) {
    let message = |_| Message {
        payload: vec![7; MESSAGE_BYTES].into(),
        publish_time: TimeMs::new(published_ms.unwrap_or_default()),
        ..Message::default()
    };
    native.send_all(producer, (0..(mib << 20) / MESSAGE_BYTES as u64).map(message));
}

/// Messages are kept for `limit` by the broker's time, whatever their producer says the time is.
///
/// # Panics
///
/// If some go early, or stay.
#[must_use]
pub fn by_receive_time(limit: Duration) -> Measured {
    let mut broker = broker("1MiB");
    let (native, cli) = (Native::of(&broker), Cli::of(&broker));
    let time = format!("{}ms", limit.as_millis());
    let topics = ["/default/future", "/default/past"];
    for topic in topics {
        drop(cli.run(["topic", "create", topic, "--retention-time", &time]).success());
    }
    let [future, past] = topics.map(|topic| native.producer(topic, Durability::Disk));
    let watch = Stopwatch::start();
    send(&native, &past, 2, Some(PAST_MS));
    send(&native, &future, 2, None);
    send(&native, &future, 2, Some(FUTURE_MS));
    send(&native, &future, 2, None);
    // The stamps are the producer's.
    let published = |topic| {
        let messages = native.read(topic).messages;
        messages.iter().map(|read| read.message.publish_time.get()).collect::<Vec<_>>()
    };
    assert!(published(topics[1]).iter().all(|time| *time == PAST_MS));
    assert!(published(topics[0]).contains(&FUTURE_MS));
    // Nothing goes early.
    let mut looks = 0;
    loop {
        let starts = topics.map(|topic| native.describe(topic).start);
        if watch.elapsed() >= limit {
            break;
        }
        assert_eq!(starts, [Offset::ZERO; 2], "after {:?}", watch.elapsed());
        looks += 1;
        pause(limit / 50);
    }
    // All that is sealed goes, and then what nothing is added to.
    let end = native.describe(topics[0]).end;
    let gone = within(limit * 4, "all old messages are gone", || {
        let described = topics.map(|topic| native.describe(topic));
        let is_gone = described.iter().all(|topic| topic.start == topic.durable_end);
        is_gone.then(|| watch.elapsed())
    });
    assert_eq!(native.describe(topics[0]).end, end);
    let log = broker.log();
    assert!(log.contains("retention removes the oldest messages"), "{log}");
    // Who asks for what is gone is told, and gets what comes next.
    send(&native, &future, 1, None);
    let read = ["read", topics[0], "--from", "offset:0", "--output", "json"];
    let lines = cli.run(read).success().json_lines();
    let gap = &lines[0]["gap"];
    assert_eq!((&gap["from"], &gap["why"]), (&0.into(), &"retention".into()), "{gap}");
    assert_eq!(lines.len() as u64 - 1, (1 << 20) / MESSAGE_BYTES as u64);
    let told = cli.run(["read", topics[0], "--from", "offset:0"]).success();
    assert!(told.stderr.contains("retention"), "{}", told.stderr);
    broker.stop();
    broker.restart();
    assert_eq!(Native::of(&broker).describe(topics[0]).start, end);
    broker.stop();
    Measured::default()
        .with("looks before the limit", looks)
        .with("gone after, s", gone.as_secs_f64())
}

/// Readers begin at the start again and again, and one reads all, while a producer writes and retention follows it closely:
/// each gets one offset after the other, or is told what was removed.
///
/// # Panics
///
/// If one gets an error or less.
#[must_use]
pub fn prune_race(time: Duration) -> Measured {
    let mut broker = broker("256KiB");
    let (native, cli) = (Native::of(&broker), Cli::of(&broker));
    let topic = "/default/race";
    drop(cli.run(["topic", "create", topic, "--retention-size", "1MiB"]).success());
    let producer = native.producer(topic, Durability::Disk);
    send(&native, &producer, 1, None);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut reading = Vec::new();
    for at_once in [MESSAGES_AT_ONCE; READERS].into_iter().chain([usize::MAX]) {
        let (url, is_over) = (broker.url(), Arc::clone(&is_over));
        reading.push(native.beside(async move {
            let mut told = Told::default();
            while !is_over.load(Ordering::Relaxed) {
                let client = Client::connect(&url).expect("the URL of a broker");
                for _ in 0..READERS_OF_A_CONNECTION {
                    told.read(&client, topic, at_once, &is_over).await;
                }
            }
            told
        }));
    }
    let watch = Stopwatch::start();
    let mut mib = 0;
    while watch.elapsed() < time {
        send(&native, &producer, 1, None);
        mib += 1;
        pause(Duration::from_millis(200));
    }
    is_over.store(true, Ordering::Relaxed);
    // What ends a reader that waits.
    send(&native, &producer, 1, None);
    let told: Vec<Told> =
        reading.into_iter().map(|task| native.wait(task).expect("a reader goes on")).collect();
    let described = native.describe(topic);
    let bytes = described.hot.map_or(0, |hot| hot.bytes);
    assert!(described.start > Offset::ZERO && bytes < 8 << 20, "{described:?}");
    let sum = |of: fn(&Told) -> u64| told.iter().map(of).sum::<u64>();
    broker.stop();
    Measured::default()
        .with("written, MiB", mib)
        .with("readers opened", sum(|told| told.opened))
        .with("messages read", sum(|told| told.messages))
        .with("gaps told", sum(|told| told.gaps))
        .with("start in the end", described.start)
}

#[derive(Default)]
struct Told {
    opened: u64,
    messages: u64,
    gaps: u64,
}

impl Told {
    /// Reads so many messages from the start on.
    async fn read(&mut self, client: &Client, topic: &str, at_once: usize, is_over: &AtomicBool) {
        let name = topic.parse().expect("the name of a topic");
        let start = client.admin().describe_topic(&name).await.expect("it is there").start;
        let reader = client.reader(topic).expect("the name of a topic");
        let reader = reader.start(Start::Offset(start)).follow(true);
        let mut reader = reader.open().await.expect("the start can be read");
        self.opened += 1;
        let (mut next, mut got) = (start, 0);
        while got < at_once && !is_over.load(Ordering::Relaxed) {
            match reader.next().await.expect("there is no error") {
                Some(Item::Message(message)) => {
                    assert_eq!(message.offset, next, "one offset after the other");
                    next += 1;
                    got += 1;
                    self.messages += 1;
                }
                Some(Item::Gap { from, to, why, .. }) => {
                    assert_eq!((from, why.as_str()), (next, "retention"));
                    assert!(from < to);
                    next = to;
                    self.gaps += 1;
                }
                Some(Item::CaughtUp { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
