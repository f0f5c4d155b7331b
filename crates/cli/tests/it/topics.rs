//! Looking after topics.

use danube_e2e::{Broker, Cli, Options};
use serde_json::json;

#[test]
fn topics_are_created_listed_changed_and_deleted() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    assert_eq!(cli.run(["topic", "list"]).success().text(), "");
    let words =
        ["topic", "create", "/default/a", "--retention-time", "7d", "--retention-size", "10GiB"];
    assert_eq!(cli.run(words).success().text(), "/default/a\n");
    let created = cli.run(["topic", "create", "/default/p", "--partitions", "2"]).success();
    assert_eq!(created.text(), "/default/p-part-0\n/default/p-part-1\n");
    let again = cli.run(["topic", "create", "/default/a"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("/default/a"), "{}", again.stderr);

    let listed = cli.run(["topic", "list"]).success();
    assert!(listed.text().lines().any(|line| line == "/default/a"), "{}", listed.text());
    assert_eq!(cli.run(["topic", "list", "--namespace", "system"]).success().text(), "");
    let unknown = cli.run(["topic", "list", "--namespace", "nope"]);
    assert_eq!((unknown.code, unknown.text()), (Some(1), ""));
    assert_eq!(unknown.stderr, "error: namespace nope does not exist\n");

    let _ = cli.run_with(["produce", "/default/a"], b"one\ntwo\n").success();
    let describe = ["topic", "describe", "/default/a", "--output", "json"];
    let topic = cli.run(describe).success().json_lines().remove(0);
    assert_eq!(topic["topic"], "/default/a");
    assert_eq!(topic["durability"], "disk");
    assert_eq!((&topic["start_offset"], &topic["end_offset"]), (&json!(0), &json!(2)));
    assert_eq!(topic["durable_end"], 2);
    assert_eq!(topic["topic_id"].as_str().unwrap().len(), 32);
    assert_eq!(
        (&topic["tiers"]["hot"]["start"], &topic["tiers"]["hot"]["end"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(topic["retention_time_ms"], 7 * 24 * 3600 * 1000);
    assert_eq!(topic["gaps"], json!([]));
    let text = cli.run(["topic", "describe", "/default/a"]).success();
    assert!(text.text().contains("\ndurable end     2\n"), "{}", text.text());

    let _ = cli.run(["topic", "update", "/default/a", "--durability", "page_cache"]).success();
    let topic = cli.run(describe).success().json_lines().remove(0);
    assert_eq!(topic["durability"], "page_cache");
    assert_eq!(cli.run(["topic", "update", "/default/a"]).code, Some(2));

    let partitioned = cli.run(["topic", "describe", "/default/p", "--output", "json"]).success();
    let partitioned = partitioned.json_lines().remove(0);
    assert_eq!(partitioned["partitions"][1]["topic"], "/default/p-part-1");

    let _ = cli.run(["topic", "delete", "/default/a", "--yes"]).success();
    let asked = cli.run(["topic", "delete", "/default/p"]);
    assert_eq!((asked.code, asked.text()), (Some(1), ""));
    let expected = "error: /default/p was not deleted\nhint: --yes deletes it without asking\n";
    assert!(asked.stderr.ends_with(expected), "{}", asked.stderr);
    assert_eq!(cli.run(["topic", "list"]).success().text(), "/default/p\n");
    let _ = cli.run(["topic", "delete", "/default/p", "--yes"]).success();
    assert_eq!(cli.run(["topic", "list"]).success().text(), "");
}

#[test]
fn a_sound_topic_needs_no_repair() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run_with(["produce", "/default/a"], b"one\n").success();
    let output = cli.run(["topic", "repair", "/default/a"]).success();
    assert_eq!((output.text(), output.stderr.as_str()), ("", ""));
    let _ = cli.run(["topic", "repair", "/default/a", "--accept-gap", "--yes"]).success();
    assert_eq!(cli.run(["read", "/default/a"]).success().text(), "one\n");
}

#[test]
fn levels_that_this_build_lacks_are_refused() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    for words in [
        &["topic", "create", "/default/a", "--durability", "cold"][..],
        &["topic", "create", "/default/a", "--max-message-size", "32MiB"],
        &["topic", "create", "/default/a", "--max-message-size", "1TB"],
        &["produce", "/default/a", "--durability", "warm"],
    ] {
        let output = cli.run(words);
        assert_eq!((output.code, output.text()), (Some(1), ""), "{words:?}");
        assert!(output.stderr.starts_with("error: "), "{words:?}: {}", output.stderr);
    }
}

#[test]
fn a_non_reliable_topic_passes_messages_to_whoever_listens() {
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run(["topic", "create", "/default/n", "--non-reliable"]).success();
    let consume =
        || cli.run(["consume", "/default/n", "--subscription", "s", "--count", "1"]).success();
    std::thread::scope(|scope| {
        let consuming = std::thread::Builder::new().spawn_scoped(scope, consume);
        let consuming = consuming.expect("a thread can be started");
        let produce = ["produce", "/default/n", "--non-reliable", "--print-offsets"];
        while !consuming.is_finished() {
            let produced = cli.run_with(produce, b"hello\n").success();
            assert_eq!(produced.text(), "/default/n\t0\n");
        }
        assert_eq!(consuming.join().expect("it consumes").text(), "hello\n");
    });
    let read = cli.run(["read", "/default/n"]);
    assert_eq!((read.code, read.text()), (Some(1), ""));
    assert!(read.stderr.contains("is not reliable and has no log"), "{}", read.stderr);
    assert!(read.stderr.contains("danube consume"), "{}", read.stderr);
}
