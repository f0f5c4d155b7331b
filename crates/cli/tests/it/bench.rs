//! Measuring.

use std::io::{BufRead, BufReader, Read};

use danube_e2e::{Broker, Cli, Options};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Runs a measurement and returns its one line of JSON, whose fields agree with each other.
#[track_caller]
fn bench(cli: &Cli, words: &str) -> Value {
    let words = format!("bench {words} --output json");
    let output = cli.run(words.split(' ')).success();
    assert_eq!(output.stderr, "");
    let mut lines = output.json_lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let report = lines.remove(0);
    let number = |name: &str| report[name].as_f64().unwrap();
    let rate = number("messages") / number("seconds");
    assert!((number("messages_per_second") / rate - 1.0).abs() < 1e-6, "{report}");
    for latencies in ["ack_ms", "end_to_end_ms"].map(|name| &report[name]) {
        if latencies.is_null() {
            continue;
        }
        let names = ["p50", "p90", "p99", "p99_9", "p99_99", "max"];
        let values = names.map(|name| latencies[name].as_f64().unwrap());
        assert!(values.is_sorted() && values[0] > 0.0, "{report}");
        // A backlog was sent before.
        let is_backlog = words.starts_with("bench consume");
        assert!(is_backlog || values[5] <= number("seconds") * 1e3 + 1.0, "{report}");
    }
    report
}

fn topics(cli: &Cli) -> Vec<String> {
    cli.run(["topic", "list"]).success().text().lines().map(str::to_owned).collect()
}

#[test]
fn producing_is_measured_and_leaves_nothing() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let words = "produce --topics 2 --partitions 3 --producers 5 --message-size 100 --batch-size 1000 \
                 --in-flight 20 --durability page_cache --compression lz4 --payload text --count 1003";
    let report = bench(&cli, words);
    assert_eq!((&report["messages"], &report["bytes"]), (&1003.into(), &100_300.into()));
    assert!(report["ack_ms"].is_object() && report["end_to_end_ms"].is_null(), "{report}");
    assert_eq!(topics(&cli), [""; 0]);
}

#[test]
fn a_rate_and_a_duration_are_kept() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let report = bench(&cli, "produce --rate 200 --duration 500ms --producers 3");
    assert_eq!(report["messages"], 100);
    assert!(report["seconds"].as_f64().unwrap() >= 0.495, "{report}");
    let words = "produce --rate 200 --count 20 --duration 60s";
    assert_eq!(bench(&cli, words)["messages"], 20);
}

#[test]
fn consuming_takes_a_backlog() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let words = "consume --topics 2 --partitions 2 --consumers 5 --message-size 50 --count 2001";
    let report = bench(&cli, words);
    assert_eq!((&report["messages"], &report["bytes"]), (&2001.into(), &100_050.into()));
    assert!(report["ack_ms"].is_null() && report["end_to_end_ms"].is_null(), "{report}");
    assert_eq!(topics(&cli), [""; 0]);
}

#[test]
fn end_to_end_is_measured_from_producers_to_consumers() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let words = "end-to-end --partitions 2 --producers 2 --consumers 3 --message-size 24B --count 501 --rate 2000";
    let report = bench(&cli, words);
    assert_eq!((&report["messages"], &report["bytes"]), (&501.into(), &12_024.into()));
    assert!(report["ack_ms"].is_object() && report["end_to_end_ms"].is_object(), "{report}");
    assert_eq!(topics(&cli), [""; 0]);
}

#[test]
fn topics_that_are_there_keep_what_they_have() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run_with(["produce", "/default/a"], b"first\n").success();
    assert_eq!(bench(&cli, "produce /default/a --count 99 --message-size 30")["messages"], 99);
    // All that is there, whoever sent it; those that say when they were due have an age.
    let report = bench(&cli, "consume /default/a --count 60");
    assert_eq!((&report["messages"], &report["bytes"]), (&60.into(), &(5 + 59 * 30).into()));
    // What was there before does not count.
    assert_eq!(bench(&cli, "end-to-end /default/a --count 10")["messages"], 10);
    assert_eq!(cli.run(["subscription", "list", "/default/a"]).success().text(), "");
    let read = cli.run(["read", "/default/a", "--output", "json"]).success().json_lines();
    assert_eq!((read.len(), &read[0]["payload"]), (110, &"first".into()));

    let output = cli.run(["bench", "produce", "/default/gone", "--count", "1"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("/default/gone"), "{}", output.stderr);
    let output = cli.run(["bench", "produce", "--count", "1", "--keep"]).success();
    let kept = topics(&cli);
    assert_eq!(output.stderr, format!("{} is kept\n", kept[1]));
    assert_eq!((kept.len(), kept[0].as_str()), (2, "/default/a"));
    assert!(output.text().contains("messages/s") && output.text().contains("p99.99"));
}

#[test]
fn ctrl_c_ends_it_with_what_was_measured() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let words = "bench end-to-end --rate 100 --duration 60s --progress --output json";
    let mut child = cli.command(words.split(' ')).spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let note = notes.next().unwrap().unwrap();
    assert!(note.starts_with("1 s: sent ") && note.contains(" messages/s, "), "{note}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut report = String::new();
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let report: Value = serde_json::from_str(&report).unwrap();
    let messages = report["messages"].as_u64().unwrap();
    assert!((50..5000).contains(&messages), "{report}");
    assert_eq!(topics(&cli), [""; 0]);
}

#[test]
fn what_contradicts_itself_is_misuse() {
    for words in [
        "produce /default/a --topics 2",
        "produce /default/a --durability disk",
        "produce --topics 2 --producers 1",
        "end-to-end --message-size 10",
        "consume /default/a --producers 2",
        "consume --rate 10",
        "produce --count 0",
    ] {
        // Nobody is asked: there is no broker.
        let output = Cli::offline().run(["bench"].into_iter().chain(words.split(' ')));
        assert_eq!((output.code, output.text()), (Some(2), ""), "{words}: {}", output.stderr);
    }
}
