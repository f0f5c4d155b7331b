//! Producing and reading.

use std::io::{BufRead, BufReader, Write};

use danube_e2e::{Broker, Cli, Options};
use serde_json::json;

#[test]
fn lines_become_messages_and_lines_again() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let produced = cli.run_with(["produce", "/default/a", "--print-offsets"], b"one\n\ntwo\r\nend");
    let produced = produced.success();
    let offsets = "/default/a\t0\n/default/a\t1\n/default/a\t2\n/default/a\t3\n";
    assert_eq!((produced.text(), produced.stderr.as_str()), (offsets, ""));
    let read = |words: &[&str]| {
        let all = ["read", "/default/a"].iter().chain(words);
        cli.run(all).success().text().to_owned()
    };
    assert_eq!(read(&[]), "one\n\ntwo\r\nend\n");
    assert_eq!(read(&["--output", "raw"]), "onetwo\rend");
    assert_eq!(read(&["--from", "offset:1", "--to", "offset:3"]), "\ntwo\r\n");
    assert_eq!(read(&["--count", "1"]), "one\n");
    assert_eq!(read(&["--from", "latest"]), "");
    assert_eq!(read(&["--from", "time:1970-01-01T00:00:00Z", "--count", "1"]), "one\n");
    assert_eq!(read(&["--count", "0"]), "");
}

#[test]
fn keys_attributes_and_files() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let words = ["produce", "/default/a", "--key-separator", ":", "--attr", "b=2", "--attr", "a=1"];
    let _ = cli.run_with(words, b"k:v:w\n").success();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("payload");
    write(&path, &[0xff, b'\n', 0]);
    let words = ["produce", "/default/a", "--key", "f", "--compression", "zstd", "--file"];
    let _ = cli.run(words.into_iter().chain([path.to_str().unwrap()])).success();
    let read = cli.run(["read", "/default/a", "--output", "json"]).success().json_lines();
    assert_eq!(read.len(), 2);
    assert_eq!((&read[0]["key"], &read[0]["payload"]), (&json!("k"), &json!("v:w")));
    assert_eq!(read[0]["attributes"], json!({ "a": "1", "b": "2" }));
    assert_eq!((&read[1]["key"], &read[1]["payload_base64"]), (&json!("f"), &json!("/woA")));
    assert_eq!((&read[1]["topic"], &read[1]["offset"]), (&json!("/default/a"), &json!(1)));
    assert!(read[1].get("payload").is_none());

    let output = cli.run_with(["produce", "/default/a", "--key-separator", ":"], b"k:v\nx\n");
    assert_eq!(output.code, Some(1));
    assert_eq!(output.stderr, "error: line 2: no key: there is no \":\" in it\n");
    // What came before the line that failed was waited for.
    assert_eq!(cli.run(["read", "/default/a", "--from", "offset:2"]).success().text(), "v\n");
    let output = cli.run(["produce", "/default/a", "--file", "/nowhere/x"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("cannot read /nowhere/x"), "{}", output.stderr);
}

#[expect(clippy::disallowed_methods, reason = "a test works on real files")]
fn write(path: &std::path::Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn offsets_and_messages_show_as_they_come() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run(["topic", "create", "/default/a"]).success();
    let mut reading = cli.command(["read", "/default/a", "--follow"]).spawn().unwrap();
    let mut messages = BufReader::new(reading.stdout.take().unwrap()).lines();
    let mut producing = cli.command(["produce", "/default/a", "--print-offsets"]).spawn().unwrap();
    let mut offsets = BufReader::new(producing.stdout.take().unwrap()).lines();
    let mut stdin = producing.stdin.take().unwrap();
    for (offset, line) in ["one", "two", "three"].into_iter().enumerate() {
        writeln!(stdin, "{line}").unwrap();
        assert_eq!(offsets.next().unwrap().unwrap(), format!("/default/a\t{offset}"));
        assert_eq!(messages.next().unwrap().unwrap(), line);
    }
    drop(stdin);
    assert_eq!(producing.wait().unwrap().code(), Some(0));
    reading.kill().unwrap();
    reading.wait().unwrap();
}

#[test]
fn partitions_are_produced_to_and_read_together() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let lines: String = (0..100).map(|number| format!("key-{number}:{number}\n")).collect();
    let words = ["produce", "/default/p", "--partitions", "3", "--key-separator", ":"];
    let _ = cli.run_with(words, lines.as_bytes()).success();
    let read = cli.run(["read", "/default/p", "--output", "json"]).success().json_lines();
    let mut numbers: Vec<u32> =
        read.iter().map(|message| message["payload"].as_str().unwrap().parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<u32>>());
    for partition in 0..3 {
        let name = format!("/default/p-part-{partition}");
        assert!(read.iter().any(|message| message["topic"] == name.as_str()), "{name}");
    }
}

#[test]
fn a_topic_that_is_not_there_is_named() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    for words in [["read", "/default/gone"], ["topic", "describe"], ["topic", "delete"]] {
        let words = words.into_iter().chain((words[0] == "topic").then_some("/default/gone"));
        let output = cli.run(words);
        assert_eq!((output.code, output.text()), (Some(1), ""));
        assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
        assert!(output.stderr.contains("/default/gone"), "{}", output.stderr);
    }
    // Nobody created it by looking.
    assert_eq!(cli.run(["topic", "list"]).success().text(), "");
}

#[test]
fn a_topic_that_is_otherwise_is_not_produced_to() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ =
        cli.run_with(["produce", "/default/a", "--durability", "page_cache"], b"one\n").success();
    let _ =
        cli.run_with(["produce", "/default/a", "--durability", "page_cache"], b"two\n").success();
    for differs in [&["--durability", "disk"][..], &["--partitions", "2"]] {
        let words = ["produce", "/default/a"].iter().chain(differs);
        let output = cli.run_with(words, b"three\n");
        assert_eq!((output.code, output.text()), (Some(1), ""), "{differs:?}");
        assert!(output.stderr.contains("/default/a"), "{}", output.stderr);
    }
    assert_eq!(cli.run(["read", "/default/a"]).success().text(), "one\ntwo\n");
}

#[test]
fn a_message_that_is_too_large_ends_the_command_and_is_not_stored() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run(["topic", "create", "/default/a", "--max-message-size", "10B"]).success();
    let output = cli.run_with(["produce", "/default/a"], b"small\nfar too large for it\n");
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.starts_with("error: line 2: "), "{}", output.stderr);
    assert_eq!(cli.run(["read", "/default/a"]).success().text(), "small\n");
}

#[test]
fn a_start_beyond_the_end_is_an_error_but_not_where_other_partitions_go_on() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run(["topic", "create", "/default/p", "--partitions", "3"]).success();
    for (partition, input) in [(0, "a\n"), (2, "b\nc\n")] {
        let topic = format!("/default/p-part-{partition}");
        let _ = cli.run_with(["produce", &topic], input.as_bytes()).success();
    }
    let output = cli.run(["read", "/default/p", "--from", "offset:1"]).success();
    assert_eq!((output.text(), output.stderr.as_str()), ("c\n", ""));
    let output = cli.run(["read", "/default/p-part-2", "--from", "offset:7"]);
    assert_eq!((output.code, output.text()), (Some(1), ""));
    let expected = "error: topic /default/p-part-2 has no offset 7 yet, its end is 2\n";
    assert_eq!(output.stderr, expected);
}

#[test]
fn a_slip_in_the_name_of_a_partition_makes_no_topic() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run(["topic", "create", "/default/p", "--partitions", "1"]).success();
    for topic in ["/default/p-part-1", "/default/q-part-500"] {
        let output = cli.run_with(["produce", topic], b"x\n");
        assert_eq!((output.code, output.text()), (Some(1), ""), "{topic}");
        assert!(
            output.stderr.contains(&format!("{topic} is the name of a partition")),
            "{output:?}"
        );
        assert!(output.stderr.contains("\nhint: danube topic create"), "{output:?}");
    }
    assert_eq!(cli.run(["topic", "list"]).success().text(), "/default/p\n");
}
