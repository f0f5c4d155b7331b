//! The published Rust client of Danube, unmodified, for tests: it sends what it is told, prints what was acknowledged,
//! and prints what it receives. `peer.py` does the same with the Python client.
//!
//! Message `n` of a producer `p` has the payload `p:n:`, filled up with `x` to the size asked for.

mod load;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};
use danube_client::{Consumer, DanubeClient, Producer, SubType};
use serde_json::json;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// What failed is tried again, as an application would do, for so long, with such pauses.
const AGAIN_MAX: Duration = Duration::from_secs(30);
const AGAIN_PAUSE: Duration = Duration::from_millis(100);

#[derive(Parser)]
struct Arguments {
    #[arg(long, env = "DANUBE_URL")]
    url: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sends, and prints `p:n` once a message is acknowledged.
    Produce(Produce),
    /// Receives, and prints each message as a JSON object, after `ready` once it is subscribed.
    Consume(Consume),
    /// Sends one message after the other for a time, and prints how many and how fast.
    Load(load::Load),
    /// Receives and acknowledges, and prints how fast.
    Drain(Consume),
}

#[derive(Args, Clone)]
struct Produce {
    topic: String,
    /// Of the producers: this and a number, if there are several.
    #[arg(long, default_value = "p")]
    name: String,
    #[arg(long, default_value_t = 1)]
    producers: u32,
    /// Messages of each producer.
    #[arg(long)]
    count: u64,
    /// Number of the first message.
    #[arg(long, default_value_t = 0)]
    start: u64,
    #[arg(long)]
    partitions: Option<usize>,
    /// Message `n` has the key `k<n modulo this>`.
    #[arg(long)]
    keys: Option<u64>,
    /// Message `n` has the attributes `n` and `empty`.
    #[arg(long)]
    attributes: bool,
    /// Payload in bytes; 0 is an empty one.
    #[arg(long)]
    size: Option<usize>,
    #[arg(long)]
    non_reliable: bool,
}

#[derive(Args)]
struct Consume {
    topic: String,
    #[arg(long, default_value = "s")]
    subscription: String,
    #[arg(long, default_value = "c")]
    name: String,
    #[arg(long, value_enum, default_value = "exclusive")]
    r#type: Kind,
    /// Ends after so many messages.
    #[arg(long)]
    count: u64,
    /// Ends, with an error, after so many seconds without a message.
    #[arg(long, default_value_t = 30)]
    idle: u64,
    #[arg(long)]
    no_ack: bool,
    /// Gives each message back when it comes for the first time, to be delivered again.
    #[arg(long)]
    nack_first: bool,
    #[arg(long)]
    filter: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Exclusive,
    Shared,
    Failover,
    KeyShared,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { url, command } = Arguments::parse();
    // Another provider may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match command {
        Command::Produce(produce) => produce_all(&url, produce).await,
        Command::Consume(consume) => consume_all(&url, consume).await,
        Command::Load(load) => load::produce(&url, load).await,
        Command::Drain(consume) => load::consume(&url, consume).await,
    }
}

async fn produce_all(url: &str, produce: Produce) -> Result<()> {
    let mut producers = Vec::new();
    for number in 0..produce.producers {
        let name = match produce.producers {
            1 => produce.name.clone(),
            _ => format!("{}{number}", produce.name),
        };
        let (url, produce) = (url.to_owned(), produce.clone());
        producers.push(tokio::spawn(async move { produce_one(&url, name, produce).await }));
    }
    for producer in producers {
        producer.await??;
    }
    Ok(())
}

async fn produce_one(url: &str, name: String, produce: Produce) -> Result<()> {
    let client = DanubeClient::builder().service_url(url).build().await?;
    let mut builder = client.new_producer().with_topic(&produce.topic).with_name(&name);
    if !produce.non_reliable {
        builder = builder.with_reliable_dispatch();
    }
    if let Some(partitions) = produce.partitions {
        builder = builder.with_partitions(partitions);
    }
    let mut producer = builder.build()?;
    producer.create().await?;
    for number in produce.start..produce.start + produce.count {
        let deadline = Instant::now() + AGAIN_MAX;
        while let Err(error) = send(&mut producer, &name, number, &produce).await {
            eprintln!("{name}:{number} failed: {error}");
            if Instant::now() > deadline {
                return Err(error);
            }
            tokio::time::sleep(AGAIN_PAUSE).await;
        }
        line(&format!("{name}:{number}"))?;
    }
    Ok(())
}

async fn send(producer: &mut Producer, name: &str, number: u64, produce: &Produce) -> Result<()> {
    let mut payload = format!("{name}:{number}:").into_bytes();
    if let Some(size) = produce.size {
        payload.resize(size, b'x');
    }
    let attributes = produce.attributes.then(|| {
        HashMap::from([("n".to_owned(), number.to_string()), ("empty".to_owned(), String::new())])
    });
    match produce.keys {
        Some(keys) => {
            let key = format!("k{}", number % keys);
            producer.send_with_key(payload, attributes, &key).await?
        }
        None => producer.send(payload, attributes).await?,
    };
    Ok(())
}

async fn consume_all(url: &str, consume: Consume) -> Result<()> {
    let client = DanubeClient::builder().service_url(url).build().await?;
    let mut consumer = subscribe(&client, &consume).await?;
    line("ready")?;
    let mut seen = HashSet::new();
    let mut left = consume.count;
    loop {
        left = receive(&mut consumer, &consume, left, &mut seen).await?;
        if left == 0 {
            consumer.close().await;
            return Ok(());
        }
        // The client gives up when a connection breaks in the middle of a call; an application begins anew.
        eprintln!("the consumer has ended, {left} messages are left");
        let deadline = Instant::now() + AGAIN_MAX;
        consumer = loop {
            match subscribe(&client, &consume).await {
                Err(_) if Instant::now() < deadline => tokio::time::sleep(AGAIN_PAUSE).await,
                subscribed => break subscribed?,
            }
        };
    }
}

async fn subscribe(client: &DanubeClient, consume: &Consume) -> Result<Consumer> {
    let kind = match consume.r#type {
        Kind::Exclusive => SubType::Exclusive,
        Kind::Shared => SubType::Shared,
        Kind::Failover => SubType::FailOver,
        Kind::KeyShared => SubType::KeyShared,
    };
    let mut consumer = client
        .new_consumer()
        .with_topic(&consume.topic)
        .with_consumer_name(&consume.name)
        .with_subscription(&consume.subscription)
        .with_subscription_type(kind)
        .with_key_filters(consume.filter.clone())
        .build()?;
    consumer.subscribe().await?;
    Ok(consumer)
}

/// Receives until no messages are left, or the consumer has ended; returns how many are left.
async fn receive(
    consumer: &mut Consumer,
    consume: &Consume,
    mut left: u64,
    seen: &mut HashSet<(String, u64)>,
) -> Result<u64> {
    let mut messages = consumer.receive().await?;
    while left > 0 {
        let message = tokio::time::timeout(Duration::from_secs(consume.idle), messages.recv());
        let Some(message) = message.await? else { return Ok(left) };
        let id = (message.msg_id.topic_name.clone(), message.msg_id.topic_offset);
        let object = json!({
            "topic": id.0, "offset": id.1, "key": message.routing_key,
            "attributes": message.attributes, "publish_time": message.publish_time,
            "producer": message.producer_name, "producer_id": message.msg_id.producer_id,
            "request_id": message.request_id, "payload": String::from_utf8(message.payload.to_vec())?,
        });
        let settled = if consume.nack_first && seen.insert(id) {
            consumer.nack(&message, Some(0), Some("not yet".to_owned())).await
        } else if !consume.no_ack {
            consumer.ack(&message).await
        } else {
            Ok(())
        };
        // It comes again then.
        if let Err(error) = settled {
            eprintln!("{object} is not settled: {error}");
        }
        line(&object.to_string())?;
        left -= 1;
    }
    Ok(left)
}

/// At once, so that what was printed before a kill has been done.
fn line(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}
