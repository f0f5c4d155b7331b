//! Existing consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use danube_e2e::broker::Options;
use danube_e2e::native::Read;
use danube_e2e::peer::Running;
use danube_e2e::{Broker, Cli, Native, Peer, wait, within};
use serde_json::{Value, json};

use super::{LIMIT, names};
use crate::beside_others;

/// A consumer that has subscribed.
fn consumer(peer: Peer, broker: &Broker, topic: &str, more: &[&str]) -> Running {
    let mut consumer = Running::start(peer, broker, &[&["consume", topic], more].concat());
    assert_eq!(consumer.line(LIMIT).as_deref(), Some("ready"));
    consumer
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).expect("peers print JSON")
}

/// Gathers what consumers print until each of these messages has come to one of them.
fn gather(consumers: &mut [Running], expected: &BTreeSet<String>) -> Vec<Vec<Value>> {
    let mut found = vec![Vec::new(); consumers.len()];
    let mut missing = expected.clone();
    within(LIMIT, "message that is missing", || {
        for (consumer, found) in consumers.iter_mut().zip(&mut found) {
            while let Some(line) = consumer.printed() {
                let message = parsed(&line);
                missing.remove(&names(std::slice::from_ref(&message))[0]);
                found.push(message);
            }
        }
        missing.is_empty().then_some(())
    });
    found
}

/// `p:0` to `p:<count - 1>`, sent by the Rust client.
fn produce(broker: &Broker, topic: &str, count: u64, more: &[&str]) -> BTreeSet<String> {
    let count = count.to_string();
    let arguments = [&["produce", topic, "--count", &count], more].concat();
    let produced = Cli::of_peer(Peer::Rust, &broker.url()).run(arguments).success();
    produced.text().lines().map(str::to_owned).collect()
}

fn create(broker: &Broker, topic: &str, more: &[&str]) {
    drop(Cli::of(broker).run([&["topic", "create", topic], more].concat()).success());
}

/// A message as a peer prints it.
fn object(topic: &str, read: &Read) -> Value {
    let message = &read.message;
    let attributes = message.attributes.iter();
    let attributes: BTreeMap<_, _> =
        attributes.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let sender = message.sender.as_ref();
    json!({
        "topic": topic, "offset": read.offset, "key": message.key.as_ref().map(|key| key.as_str()),
        "attributes": attributes, "publish_time": message.publish_time.get(),
        "producer": message.producer_name.as_ref().map_or("", |name| name.as_str()),
        "producer_id": sender.map_or(0, |sender| sender.producer_id),
        "request_id": sender.map_or(0, |sender| sender.request_id),
        "payload": String::from_utf8_lossy(&message.payload),
    })
}

#[test]
fn existing_consumers_get_what_anyone_sends_with_all_its_fields() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        let topic = format!("/default/{peer:?}");
        create(&broker, &topic, &[]);
        let consumer = consumer(peer, &broker, &topic, &["--count", "15"]);
        let native = ["produce", &topic, "--key-separator", ":", "--attr", "a=1"];
        drop(Cli::of(&broker).run_with(native, b"k1:one\nk2:\n:no key\n").success());
        for sender in Peer::ALL {
            let cli = Cli::of_peer(sender, &broker.url());
            let full = ["produce", &topic, "--count", "5", "--keys", "2", "--attributes"];
            drop(cli.run(full).success());
            drop(cli.run(["produce", &topic, "--count", "1", "--size", "0"]).success());
        }
        let found: Vec<_> = consumer.end(LIMIT).iter().map(|line| parsed(line)).collect();
        let contents = Native::of(&broker).read(&topic);
        let expected: Vec<_> = contents.messages.iter().map(|read| object(&topic, read)).collect();
        assert_eq!(found, expected);
    }
    broker.stop();
}

#[test]
fn every_type_of_subscription_serves_existing_consumers() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        for kind in ["exclusive", "shared", "failover", "key-shared"] {
            let topic = format!("/default/{peer:?}-{kind}");
            create(&broker, &topic, &[]);
            let start = |name| {
                let more = ["--type", kind, "--name", name, "--count", "10000"];
                consumer(peer, &broker, &topic, &more)
            };
            let mut consumers = vec![start("a")];
            if kind != "exclusive" {
                consumers.push(start("b"));
            }
            let expected = produce(&broker, &topic, 200, &["--keys", "20"]);
            let found = gather(&mut consumers, &expected);
            assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 200, "each comes once");
            let keys = |found: &[Value]| -> BTreeSet<String> {
                found.iter().map(|message| message["key"].to_string()).collect()
            };
            match kind {
                "shared" => assert!(found.iter().all(|found| !found.is_empty())),
                "key-shared" => {
                    assert!(
                        keys(&found[0]).is_disjoint(&keys(&found[1])),
                        "a key has one consumer"
                    );
                }
                _ => {
                    let offsets = found[0].iter().map(|message| message["offset"].as_u64());
                    assert!(offsets.eq((0..200).map(Some)), "one gets all, in order");
                }
            }
            if kind == "failover" {
                drop(consumers.remove(0));
                let expected = produce(&broker, &topic, 20, &["--name", "q"]);
                gather(&mut consumers, &expected);
            }
        }
    }
    broker.stop();
}

#[test]
fn partitions_are_consumed_by_existing_consumers() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        for keys in [&[][..], &["--keys", "7"]] {
            let topic = format!("/default/{peer:?}-{}", keys.len());
            create(&broker, &topic, &["--partitions", "3"]);
            let mut consumers = [consumer(peer, &broker, &topic, &["--count", "10000"])];
            let more = [&["--partitions", "3"], keys].concat();
            let expected = produce(&broker, &topic, 100, &more);
            let found = gather(&mut consumers, &expected);
            assert_eq!(found[0].len(), 100, "each comes once");
            let mut next = BTreeMap::new();
            for message in &found[0] {
                let next = next.entry(message["topic"].to_string()).or_insert(0);
                assert_eq!(message["offset"].as_u64(), Some(*next), "in the partition's order");
                *next += 1;
            }
            assert_eq!(next.len(), 3);
        }
    }
    broker.stop();
}

#[test]
fn what_existing_consumers_give_back_comes_again() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        let topic = format!("/default/{peer:?}");
        create(&broker, &topic, &[]);
        let consumer = consumer(peer, &broker, &topic, &["--nack-first", "--count", "20"]);
        produce(&broker, &topic, 10, &[]);
        let found: Vec<_> = consumer.end(LIMIT).iter().map(|line| parsed(line)).collect();
        let mut times = BTreeMap::new();
        for message in &found {
            *times.entry(message["offset"].as_u64()).or_insert(0) += 1;
        }
        assert_eq!(times, (0..10).map(|offset| (Some(offset), 2)).collect());
    }
    broker.stop();
}

#[test]
fn non_reliable_topics_pass_on_between_existing_clients() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        let topic = format!("/default/{peer:?}");
        create(&broker, &topic, &["--non-reliable"]);
        let mut consumer = consumer(peer, &broker, &topic, &["--count", "10000"]);
        let produce = ["produce", &topic, "--non-reliable", "--count", "5", "--keys", "2"];
        // What is sent before the client asks for its stream is for nobody.
        let line = within(LIMIT, "message", || {
            drop(Cli::of_peer(peer, &broker.url()).run(produce).success());
            consumer.printed()
        });
        assert_eq!(parsed(&line)["offset"], 0, "clients take that as not reliable");
    }
    broker.stop();
}

/// Nobody touches the applications, each with these arguments: they go on by themselves, and miss nothing.
fn go_on(applications: &[&[&str]], down: impl Fn(&mut Broker)) {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    for peer in Peer::ALL {
        let topic = format!("/default/{peer:?}");
        create(&broker, &topic, &[]);
        let start = |more: &&[&str]| {
            consumer(peer, &broker, &topic, &[&["--count", "10000"], *more].concat())
        };
        let mut consumers: Vec<_> = applications.iter().map(start).collect();
        let produce = ["produce", &topic, "--count", "400", "--keys", "2"];
        let producing = Running::start(Peer::Rust, &broker, &produce);
        let first = (0..100).map(|number| format!("p:{number}")).collect();
        let before = names(&gather(&mut consumers, &first).concat());
        down(&mut broker);
        wait::pause(Duration::from_secs(1));
        broker.restart();
        assert_eq!(producing.end(LIMIT).len(), 400);
        let mut expected: BTreeSet<_> = (0..400).map(|number| format!("p:{number}")).collect();
        expected.retain(|name| !before.contains(name));
        gather(&mut consumers, &expected);
    }
    broker.stop();
}

#[test]
fn p4_existing_consumers_go_on_after_a_restart() {
    go_on(&[&[]], Broker::stop);
}

#[test]
fn p4_existing_consumers_go_on_after_a_kill() {
    go_on(&[&[]], Broker::kill9);
}

/// What only one of them takes waits for it while the other is back already.
#[test]
fn p4_existing_consumers_with_filters_go_on_after_a_kill() {
    let filtered = |name, filter| ["--type", "key-shared", "--name", name, "--filter", filter];
    go_on(&[&filtered("a", "k0"), &filtered("b", "k1")], Broker::kill9);
}
