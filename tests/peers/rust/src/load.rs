//! Going as fast as the client can. Both commands end with one JSON object that says how fast that was.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use danube_client::{DanubeClient, Producer};
use serde_json::json;
use tokio::sync::Barrier;

use crate::{Consume, Result, line, subscribe};

#[derive(Args)]
pub(crate) struct Load {
    topic: String,
    /// Each has a connection of its own, and one message on its way.
    #[arg(long, default_value_t = 1)]
    producers: usize,
    /// Payload in bytes.
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// How long messages are sent.
    #[arg(long)]
    milliseconds: u64,
}

/// Sends for a time, once all producers are there.
pub(crate) async fn produce(url: &str, load: Load) -> Result<()> {
    let mut producers = Vec::new();
    for number in 0..load.producers {
        producers.push(producer(url, &load.topic, format!("load{number}")).await?);
    }
    let all = Arc::new(Barrier::new(load.producers));
    let time = Duration::from_millis(load.milliseconds);
    let payload = vec![b'x'; load.size];
    let lanes = producers.into_iter().map(|producer| {
        let (all, payload) = (Arc::clone(&all), payload.clone());
        tokio::spawn(async move {
            all.wait().await;
            send(producer, payload, time).await
        })
    });
    let lanes: Vec<_> = lanes.collect();
    let watch = Instant::now();
    let mut latencies = Vec::new();
    for lane in lanes {
        latencies.extend(lane.await??);
    }
    let seconds = watch.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 100].as_secs_f64() * 1e3;
    let (messages, p50, p99) = (latencies.len(), at(50), at(99));
    line(&json!({ "messages": messages, "seconds": seconds, "p50": p50, "p99": p99 }).to_string())
}

async fn producer(url: &str, topic: &str, name: String) -> Result<Producer> {
    let client = DanubeClient::builder().service_url(url).build().await?;
    let builder = client.new_producer().with_topic(topic).with_name(&name);
    let mut producer = builder.with_reliable_dispatch().build()?;
    producer.create().await?;
    Ok(producer)
}

/// One message after the other; how long each took.
async fn send(producer: Producer, payload: Vec<u8>, time: Duration) -> Result<Vec<Duration>> {
    let watch = Instant::now();
    let mut latencies = Vec::new();
    while watch.elapsed() < time {
        let sent = Instant::now();
        producer.send(payload.clone(), None).await?;
        latencies.push(sent.elapsed());
    }
    Ok(latencies)
}

/// Receives and acknowledges so many messages, from the first one on.
pub(crate) async fn consume(url: &str, consume: Consume) -> Result<()> {
    let client = DanubeClient::builder().service_url(url).build().await?;
    let mut consumer = subscribe(&client, &consume).await?;
    let watch = Instant::now();
    let mut messages = consumer.receive().await?;
    for _ in 0..consume.count {
        let message = messages.recv().await.ok_or("the consumer has ended")?;
        consumer.ack(&message).await?;
    }
    let seconds = watch.elapsed().as_secs_f64();
    consumer.close().await;
    line(&json!({ "messages": consume.count, "seconds": seconds }).to_string())
}
