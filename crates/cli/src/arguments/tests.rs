//! What words on the command line mean.

use clap::CommandFactory;

use super::*;

#[track_caller]
fn parse(words: &str) -> Command {
    match Arguments::of(words.split(' ')) {
        Ok(arguments) => arguments.command,
        Err(failure) => panic!("{words}: {failure:?}"),
    }
}

#[track_caller]
fn misuse(words: &str, expected: &str) {
    match Arguments::of(words.split(' ')) {
        Err(Failure::Misuse(text)) => assert!(text.contains(expected), "{words}: {text}"),
        other => panic!("{words}: {other:?}"),
    }
}

#[test]
fn the_definition_makes_sense() {
    Arguments::command().debug_assert();
}

#[test]
fn a_server_takes_its_addresses() {
    let words = "danube server --data-dir d --listen 127.0.0.1:0 --admin-listen a:1 --http-listen b:2 \
                 --raft-listen c:3 --advertise http://x --join p:1,q:2 --config f.yml";
    let Command::Server(options) = parse(words) else { panic!() };
    assert_eq!(options.data_dir.as_deref(), Some("d"));
    assert_eq!(options.listen.as_deref(), Some("127.0.0.1:0"));
    assert_eq!(options.join, ["p:1", "q:2"]);
    assert_eq!(options.config, Some("f.yml".into()));
    let Command::Server(options) = parse("danube server") else { panic!() };
    assert!(options.data_dir.is_none() && options.join.is_empty());
}

#[test]
fn positions_are_understood() {
    let from = |text: &str| {
        let words = format!("danube read /default/a --from {text}");
        let Command::Read(options) = parse(&words) else { panic!() };
        options.from
    };
    assert_eq!(from("earliest"), Start::Earliest);
    assert_eq!(from("latest"), Start::Latest);
    assert_eq!(from("offset:17"), Start::Offset(Offset::new(17)));
    let time = Start::Time(danube_client::TimeMs::new(1000));
    assert_eq!(from("time:1970-01-01T00:00:01Z"), time);
    assert_eq!(from("time:1970-01-01T01:00:01+01:00"), time);
    let Command::Read(options) = parse("danube read /default/a --to offset:5 --count 3") else {
        panic!()
    };
    assert_eq!((options.to, options.count), (Some(Offset::new(5)), Some(3)));
    for wrong in
        ["", "17", "offset:", "offset:-1", "offset:9223372036854775808", "time:now", "first"]
    {
        misuse(&format!("danube read /default/a --from {wrong}"), "--from");
    }
    misuse("danube read /default/a --to latest", "--to");
}

#[test]
fn a_producer_takes_what_messages_have_in_common() {
    let words = "danube produce /default/a --key k --attr a=1 --attr b=x=y --rate 0.5 --compression zstd \
                 --print-offsets --timeout 5s --partitions 3 --durability page_cache";
    let Command::Produce(options) = parse(words) else { panic!() };
    assert_eq!(options.key.as_deref(), Some("k"));
    let attributes = [("a", "1"), ("b", "x=y")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(options.attributes, attributes);
    assert_eq!(options.rate, Some(0.5));
    assert_eq!(options.compression, Compression::Zstd);
    assert_eq!(options.timeout, Duration::from_secs(5));
    assert_eq!((options.partitions, options.durability), (Some(3), Some(Durability::PageCache)));
    misuse("danube produce /default/a --attr a", "NAME=VALUE");
    misuse("danube produce /default/a --rate 0", "above 0");
    misuse("danube produce /default/a --compression gzip", "--compression");
    misuse("danube produce /default/a --durability safe", "--durability");
    misuse("danube produce /default/a --key k --key-separator :", "cannot be used with");
    misuse("danube produce /default/a --non-reliable --durability disk", "cannot be used with");
    misuse("danube produce orders", "expected /namespace/topic");
}

#[test]
fn a_measurement_takes_its_shape() {
    let words = "danube bench produce --topics 2 --partitions 3 --durability disk --producers 4 --message-size 2KiB \
                 --batch-size 65536 --in-flight 7 --rate 1.5 --duration 3s --count 9 --compression lz4 --payload text --keep";
    let Command::Bench(BenchCommand::Produce { topics, load, rate, run }) = parse(words) else {
        panic!()
    };
    assert_eq!((topics.topics, topics.partitions, topics.keep), (Some(2), Some(3), true));
    assert_eq!((load.producers, load.in_flight), (Some(4), Some(7)));
    assert_eq!(load.message_size, Some(ByteSize::new(2048)));
    assert_eq!(load.batch_size, Some(ByteSize::new(65536)));
    assert_eq!((load.compression, load.payload), (Some(Compression::Lz4), Some(PayloadKind::Text)));
    assert_eq!((rate, run.duration), (Some(1.5), Some(Duration::from_secs(3))));
    assert_eq!(run.count.map(u64::from), Some(9));
    misuse("danube bench produce /default/a --topics 2", "cannot be used with");
    misuse("danube bench produce --consumers 2", "--consumers");
    misuse("danube bench consume --rate 2", "--rate");
    misuse("danube bench end-to-end --payload zeros", "--payload");
}

#[test]
fn settings_of_topics_have_units() {
    let words = "danube topic create /default/a --partitions 4 --durability disk --retention-time 7d \
                 --retention-size 10GiB --max-message-size 1MiB";
    let Command::Topic(TopicCommand::Create { settings, partitions, .. }) = parse(words) else {
        panic!()
    };
    assert_eq!(partitions, Some(4));
    assert_eq!(settings.retention_time, Some(Kept::Of(Duration::from_secs(7 * 24 * 3600))));
    assert_eq!(settings.retention_size, Some(Kept::Of(ByteSize::new(10 << 30))));
    assert_eq!(settings.max_message_size, Some(ByteSize::new(1 << 20)));
    let words = "danube topic update /default/a --retention-time default --retention-size none";
    let Command::Topic(TopicCommand::Update { settings, .. }) = parse(words) else { panic!() };
    assert_eq!(settings.retention_time, Some(Kept::Default));
    assert_eq!(settings.retention_size, Some(Kept::Of(ByteSize::new(0))));
    misuse("danube topic create /default/a --retention-time 7", "--retention-time");
}

#[test]
fn what_makes_no_sense_is_misuse() {
    misuse("danube", "Usage");
    misuse("danube listen /default/a", "unrecognized subcommand");
    misuse("danube consume /default/a", "--subscription");
    misuse("danube topic", "Usage");
    misuse("danube read", "<TOPIC>");
    misuse("danube read /default/a --form earliest", "--from");
    misuse("danube server --data-dir ", "expected some text");
    misuse("danube topic create /default/a --partitions 0", "1..=10000");
    misuse("danube produce /default/a --partitions 100000", "1..=10000");
    misuse("danube produce /default/a --timeout 0s", "above 0");
    misuse("danube topic list --output yaml", "[possible values: text, json]");
}

#[test]
fn help_opens_with_an_example() {
    for command in [
        "server",
        "produce",
        "read",
        "topic create",
        "bench produce",
        "config check",
        "inspect segment",
    ] {
        let words = format!("danube {command} --help");
        match Arguments::of(words.split(' ')) {
            Err(Failure::Help(text)) => {
                assert!(text.starts_with(&format!("danube {command} ")), "{text}");
            }
            other => panic!("{command}: {other:?}"),
        }
    }
}

#[test]
fn what_needs_authentication_is_refused_by_name() {
    let words = "danube topic list --token t";
    let Command::Topic(TopicCommand::List { common, .. }) = parse(words) else { panic!() };
    let failure = common.connection.client().expect_err("it should be refused");
    let expected = Failure::new("--token needs authentication, which this build lacks");
    assert_eq!(failure, expected.hint("leave it out, in the environment too"));
}
