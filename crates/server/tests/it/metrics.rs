//! `/metrics` and `/api/v1/alarms` of a real server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use danube_client::Client;
use danube_client::admin::TopicSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{Directory, client, message, producer};

/// The body of what is at a path.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Names that have samples.
fn names(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
}

/// Names that the tables of the reference have.
fn referenced(reference: &str) -> BTreeSet<&str> {
    reference.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

#[tokio::test]
async fn a_busy_server_tells_all_that_the_reference_says() {
    let directory = Directory::new();
    let server = directory.start().await;
    let producer = producer(&server).await;
    producer.send(message("one")).await.unwrap().await.unwrap();
    let text = get(server.addresses().http, "/metrics").await;
    let reference = danube_server::metrics::reference();
    let (told, mut known) = (names(&text), referenced(&reference));
    // Nobody subscribed, and the topic is reliable.
    known.retain(|name| {
        !name.starts_with("danube_subscription_") && !name.starts_with("danube_consumer_")
    });
    known.remove("danube_topic_dropped_messages_total");
    assert_eq!(told, known);
    assert!(text.contains("\ndanube_topic_messages_in_total{topic=\"/default/t\"} 1\n"), "{text}");
    assert!(text.contains("\ndanube_alarm{name=\"storage_full\"} 0\n"), "{text}");
    assert_eq!(get(server.addresses().http, "/api/v1/alarms").await, "{\"alarms\":[]}");
    assert_eq!(get(server.addresses().http, "/healthz").await, "{\"status\":\"ok\"}");
    drop(producer);
    server.stop().await.unwrap();
}

async fn create(client: &Client, number: usize) {
    let name = format!("/default/many-{number}").parse().unwrap();
    client.admin().create_topic(&name, None, &TopicSettings::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_topics_are_told_in_well_below_a_second() {
    const TOPICS: usize = 10_000;
    let directory = Directory::new();
    let server = directory.start().await;
    let client = client(&server);
    for numbers in (0..TOPICS).collect::<Vec<_>>().chunks(500) {
        let creating = numbers.iter().map(|number| create(&client, *number));
        futures_util::future::join_all(creating).await;
    }
    let mut took = Duration::MAX;
    for _ in 0..3 {
        let begun = now();
        let text = get(server.addresses().http, "/metrics").await;
        took = took.min(begun.elapsed());
        assert_eq!(text.matches("\ndanube_topic_messages_in_total{").count(), TOPICS);
    }
    assert!(took < Duration::from_secs(1), "{took:?}");
    println!("{took:?}");
    server.stop().await.unwrap();
}

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn now() -> Instant {
    Instant::now()
}
