//! Consuming, and looking after subscriptions.

use danube_e2e::{Broker, Cli, Options};
use serde_json::json;

const CONSUME: [&str; 6] = ["consume", "/default/a", "--subscription", "s", "--from", "earliest"];

fn consume<'a>(more: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    CONSUME.into_iter().chain(more.iter().copied())
}

fn broker_with_lines() -> (Broker, Cli) {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run_with(["produce", "/default/a"], b"one\ntwo\nthree\n").success();
    (broker, cli)
}

#[test]
fn lines_are_consumed_once_and_the_subscription_remembers() {
    let (mut broker, cli) = broker_with_lines();
    let first = cli.run(consume(&["--count", "2"])).success();
    assert_eq!((first.text(), first.stderr.as_str()), ("one\ntwo\n", ""));
    broker.stop();
    broker.restart();
    // Where it began counts only when it is new.
    let rest = cli.run(consume(&["--idle-exit", "500ms", "--output", "json"])).success();
    let rest = rest.json_lines();
    assert_eq!(rest.len(), 1);
    assert_eq!((&rest[0]["payload"], &rest[0]["offset"]), (&json!("three"), &json!(2)));
    assert_eq!(rest[0]["delivery_count"], 1);
    assert_eq!(cli.run(consume(&["--idle-exit", "300ms"])).success().text(), "");
}

#[test]
fn what_is_not_acknowledged_comes_again_and_is_counted() {
    let (_broker, cli) = broker_with_lines();
    for count in 1..3 {
        let all = cli.run(consume(&["--count", "3", "--no-ack", "--output", "json"])).success();
        let counts: Vec<_> =
            all.json_lines().iter().map(|line| line["delivery_count"].clone()).collect();
        assert_eq!(counts, [count, count, count]);
    }
    assert_eq!(
        cli.run(consume(&["--count", "3", "--output", "raw"])).success().text(),
        "onetwothree"
    );
}

#[test]
fn subscriptions_are_created_listed_described_sought_and_deleted() {
    let (_broker, cli) = broker_with_lines();
    let on = |verb, more: &[&'static str]| {
        let words = ["subscription", verb, "/default/a"];
        cli.run(words.into_iter().chain(more.iter().copied()))
    };
    let create = ["b", "--type", "key-shared", "--from", "earliest"];
    assert_eq!(on("create", &create).success().text(), "");
    let again = on("create", &create);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("exists"), "{}", again.stderr);
    let _ = on("create", &["a"]).success();
    assert_eq!(on("list", &[]).success().text(), "a\nb\n");
    let described = on("describe", &["b", "--output", "json"]).success().json_lines();
    let expected = json!({
        "topic": "/default/a", "subscription": "b", "type": "key-shared", "floor": 0, "lag": 3,
        "in_flight": 0, "max_unacked_messages": 1000, "acked_ranges": [], "blocked": [],
        "consumers": [],
    });
    assert_eq!(described, [expected]);
    let floor = |name: &'static str| {
        on("describe", &[name, "--output", "json"]).success().json_lines()[0]["floor"].clone()
    };
    assert_eq!(floor("a"), 3);
    let _ = on("seek", &["a", "--to", "offset:1"]).success();
    assert_eq!(floor("a"), 1);
    let _ = on("seek", &["a", "--to", "latest"]).success();
    assert_eq!(floor("a"), 3);
    let topic = cli.run(["topic", "describe", "/default/a", "--output", "json"]).success();
    assert_eq!(topic.json_lines()[0]["subscriptions"], json!(["a", "b"]));
    let kept = on("delete", &["b"]);
    assert_eq!(kept.code, Some(1));
    assert!(kept.stderr.contains("--yes"), "{}", kept.stderr);
    assert_eq!(on("list", &[]).success().text(), "a\nb\n");
    let _ = on("delete", &["b", "--yes"]).success();
    assert_eq!(on("list", &[]).success().text(), "a\n");
    let gone = on("describe", &["b"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("no subscription b"), "{}", gone.stderr);
}

#[test]
fn a_consumer_is_refused_by_name() {
    let (_broker, cli) = broker_with_lines();
    let _ = cli.run(["subscription", "create", "/default/a", "s", "--type", "shared"]).success();
    let output = cli.run(consume(&["--count", "1"]));
    assert_eq!((output.code, output.text()), (Some(1), ""));
    assert!(output.stderr.contains("shared"), "{}", output.stderr);
    let output = cli.run(["consume", "/default/gone", "--subscription", "s"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("/default/gone"), "{}", output.stderr);
    assert_eq!(cli.run(["consume", "/default/a"]).code, Some(2));
}

#[test]
fn partitions_are_consumed_together() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let lines: String = (0..100).map(|number| format!("key-{number}:{number}\n")).collect();
    let words = ["produce", "/default/a", "--partitions", "3", "--key-separator", ":"];
    let _ = cli.run_with(words, lines.as_bytes()).success();
    let all = cli.run(consume(&["--count", "100"])).success();
    let mut numbers: Vec<u32> = all.text().lines().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<u32>>());
    let described = cli.run(["subscription", "describe", "/default/a", "s", "--output", "json"]);
    let described = described.success().json_lines();
    assert_eq!(described.len(), 3);
    assert!(described.iter().all(|partition| partition["lag"] == 0), "{described:?}");
}
