//! Stopping while clients are connected.

use std::time::Duration;

use danube_client::{Error, Item, Start};
use danube_env::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{Directory, TOPIC, client, message, payloads, producer};

/// Streams that are open and idle don't hold up a stop, and what was confirmed is there afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_quick_whoever_is_connected_and_loses_nothing() {
    let directory = Directory::new();
    let server = directory.start().await;
    let idle_producer = producer(&server).await;
    let reader = client(&server).reader(TOPIC).unwrap().start(Start::Latest).follow(true);
    let mut idle_reader = reader.open().await.unwrap();
    assert!(matches!(idle_reader.next().await.unwrap(), Some(Item::CaughtUp { .. })));
    let silent = TcpStream::connect(server.addresses().client).await.unwrap();
    let silent_http = TcpStream::connect(server.addresses().http).await.unwrap();

    let url = format!("http://{}", server.addresses().client);
    let sender = danube_client::Client::connect(&url).unwrap();
    let sender = sender.producer(TOPIC).unwrap().timeout(Duration::from_secs(3));
    let sender = sender.open().await.unwrap();
    let mut deliveries = Vec::new();
    for number in 0..2_000 {
        deliveries.push(sender.send(message(number.to_string())).await.unwrap());
    }
    // The stop comes in the middle of these.
    deliveries.remove(0).await.unwrap();
    let clock = Env::real().clock;
    let before = clock.monotonic();
    server.stop().await.unwrap();
    let took = clock.monotonic() - before;
    assert!(took < Duration::from_secs(2), "{took:?}");

    let mut confirmed = 1;
    for delivery in deliveries {
        match delivery.await {
            Ok(receipt) => confirmed = receipt.offset.get() as usize + 1,
            Err(error) => assert!(matches!(error, Error::TimedOut { .. }), "{error:?}"),
        }
    }
    let server = directory.start().await;
    let stored = payloads(&server).await;
    assert!(stored.len() >= confirmed, "{} stored, {confirmed} confirmed", stored.len());
    let expected: Vec<String> = (0..stored.len()).map(|number| number.to_string()).collect();
    assert_eq!(stored, expected);
    server.stop().await.unwrap();
    drop((idle_producer, silent, silent_http));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_goes_on_after_a_restart_and_nothing_is_stored_twice() {
    let directory = Directory::new();
    let server = directory.start().await;
    let port = server.addresses().client.port();
    let producer = producer(&server).await;
    let mut deliveries = Vec::new();
    for number in 0..1_000 {
        deliveries.push(producer.send(message(number.to_string())).await.unwrap());
    }
    server.stop().await.unwrap();
    let mut config = directory.config("");
    config.listen.client.port = port;
    let server = danube_server::Server::start(&config, Env::real()).await.unwrap();
    for (number, delivery) in deliveries.into_iter().enumerate() {
        assert_eq!(delivery.await.unwrap().offset.get(), number as u64);
    }
    let expected: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    assert_eq!(payloads(&server).await, expected);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_started_is_ready() {
    let directory = Directory::new();
    let server = directory.start().await;
    let mut stream = TcpStream::connect(server.addresses().http).await.unwrap();
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: d\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named_and_the_disk_is_not_touched() {
    let directory = Directory::new();
    let server = directory.start().await;
    let other = Directory::new();
    let mut config = other.config("");
    config.listen.admin.port = server.addresses().admin.port();
    let Err(error) = danube_server::Server::start(&config, Env::real()).await else {
        panic!("started on a port that is taken")
    };
    let expected = format!("can't listen on 127.0.0.1:{} (admin)", config.listen.admin.port);
    assert_eq!(error.to_string(), expected);
    assert!(!Env::real().disk.exists(&config.storage.root).unwrap());
    server.stop().await.unwrap();
}
