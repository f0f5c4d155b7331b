//! Existing producers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use danube_e2e::broker::Options;
use danube_e2e::peer::Running;
use danube_e2e::{Broker, Cli, Peer, wait};
use serde_json::{Value, json};

use super::{LIMIT, complete_and_in_order, names, read};
use crate::beside_others;

#[test]
fn what_existing_clients_send_is_read_natively_with_all_its_fields() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        let topic = format!("/default/{peer:?}");
        let cli = Cli::of_peer(peer, &broker.url());
        let arguments = ["produce", &topic, "--count", "20", "--keys", "3", "--attributes"];
        assert_eq!(cli.run(arguments).success().text().lines().count(), 20);
        let empty = ["produce", &topic, "--count", "1", "--name", "q", "--size", "0"];
        assert_eq!(cli.run(empty).success().text(), "q:0\n");
        let messages = read(&broker, &topic);
        assert_eq!(messages.len(), 21);
        for (number, message) in messages[..20].iter().enumerate() {
            assert_eq!(message["offset"], json!(number));
            assert_eq!(message["key"], json!(format!("k{}", number % 3)));
            assert_eq!(message["attributes"], json!({ "empty": "", "n": number.to_string() }));
            assert_eq!(message["payload"], json!(format!("p:{number}:")));
            assert_eq!(message["producer"], json!("p"));
            // Of the same machine's clock, and before it was received.
            let times = ["publish_time", "receive_time"].map(|time| message[time].as_str());
            assert!(times[0] <= times[1] && times[0] > Some("2024"), "{message}");
        }
        assert_eq!((&messages[20]["payload"], &messages[20]["key"]), (&json!(""), &Value::Null));
        assert_eq!(messages[20]["attributes"], json!({}));
        let consume = ["consume", &topic, "--subscription", "s", "--from", "earliest"];
        let words = [&consume[..], &["--count", "21", "--output", "json"]].concat();
        let consumed = Cli::of(&broker).run(words).success().json_lines();
        assert_eq!(consumed, messages, "a subscription delivers what a reader sees");
    }
    broker.stop();
}

#[test]
fn partitions_of_existing_clients_are_ours() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        let cli = Cli::of_peer(peer, &broker.url());
        for (kind, keys) in [("turns", &[][..]), ("keyed", &["--keys", "7"])] {
            let topic = format!("/default/{peer:?}-{kind}");
            let arguments = ["produce", &topic, "--count", "60", "--partitions", "3"];
            drop(cli.run([&arguments[..], keys].concat()).success());
            let messages = read(&broker, &topic);
            let found: BTreeSet<_> = names(&messages).into_iter().collect();
            assert_eq!(found.len(), 60);
            let mut partitions: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
            for message in &messages {
                let key = message["key"].as_str().unwrap_or_default().to_owned();
                partitions.entry(key).or_default().push(&message["topic"]);
            }
            let spread = |topics: &[&Value]| topics.iter().map(|t| t.to_string()).collect();
            let spread = partitions.values().map(|topics| spread(topics));
            let spread: Vec<BTreeSet<String>> = spread.collect();
            match kind {
                "turns" => assert_eq!(spread[0].len(), 3, "every partition has its turn"),
                _ => assert!(spread.iter().all(|topics| topics.len() == 1), "{spread:?}"),
            }
        }
    }
    broker.stop();
}

#[test]
fn p1_sixty_four_producers_at_once_lose_nothing() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        let topic = format!("/default/{peer:?}");
        let arguments = ["produce", &topic, "--producers", "64", "--count", "20", "--name", "m"];
        let acknowledged = Cli::of_peer(peer, &broker.url()).run(arguments).success();
        assert_eq!(acknowledged.text().lines().count(), 64 * 20);
        let found = names(&read(&broker, &topic));
        assert_eq!(found.len(), 64 * 20);
        let producers: Vec<_> = (0..64).map(|number| format!("m{number}")).collect();
        complete_and_in_order(&found, &producers, 20);
    }
    broker.stop();
}

/// Nobody touches the application: it goes on by itself, and what was acknowledged is there.
fn goes_on(down: impl Fn(&mut Broker)) {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        let topic = format!("/default/{peer:?}");
        let mut producing = Running::start(peer, &broker, &["produce", &topic, "--count", "600"]);
        for _ in 0..2 {
            let before: Vec<_> = (0..100).filter_map(|_| producing.line(LIMIT)).collect();
            assert_eq!(before.len(), 100);
            down(&mut broker);
            wait::pause(Duration::from_secs(1));
            broker.restart();
        }
        assert_eq!(producing.end(LIMIT).len(), 400);
        complete_and_in_order(&names(&read(&broker, &topic)), &["p".to_owned()], 600);
    }
    broker.stop();
}

#[test]
fn p1_existing_producers_go_on_after_a_restart() {
    goes_on(Broker::stop);
}

#[test]
fn p1_existing_producers_go_on_after_a_kill() {
    goes_on(Broker::kill9);
}
