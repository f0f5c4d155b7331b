//! `danube consume` while brokers and consumers are killed.

#![expect(clippy::unwrap_used, reason = "a test that finds no value fails, helpers included")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::time::Duration;

use danube_e2e::wait::{Stopwatch, within};
use danube_e2e::{Broker, Cli, Options};
use rustix::process::{Pid, Signal, kill_process};

use crate::{alone, beside_others};

const TOPIC: &str = "/default/a";

/// A command that is killed with the value.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(cli: &Cli, words: &[&str]) -> Running {
        let mut child = cli.command(words).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Running { child, output }
    }

    fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.strip_suffix('\n').expect("the command goes on").to_owned()
    }

    fn errors(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it still writes, and its exit code; none if a signal ended it.
    fn end(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }

    /// Kills it; the whole lines that it had written, and nobody read.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
        whole.lines().map(str::to_owned).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn consume<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["consume", TOPIC, "--subscription", "s", "--from", "earliest", "--name", name];
    words.iter().chain(more).copied().collect()
}

fn consumers(cli: &Cli) -> usize {
    let described = cli.run(["subscription", "describe", TOPIC, "s", "--output", "json"]);
    described.json_lines().first().map_or(0, |s| s["consumers"].as_array().unwrap().len())
}

#[test]
fn p4_nothing_is_lost_to_a_consumer_whose_broker_is_killed_and_stopped() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run(["topic", "create", TOPIC]).success();
    let mut consuming = Running::start(&cli, &consume("c", &[]));
    let mut producing = Running::start(&cli, &["produce", TOPIC]);
    let mut input = producing.input();
    let mut seen = BTreeSet::new();
    let mut number = 0;
    for round in 0..4 {
        for _ in 0..500 {
            writeln!(input, "{number}").unwrap();
            number += 1;
        }
        while seen.len() < number - 250 {
            seen.insert(consuming.line().parse::<usize>().unwrap());
        }
        if round % 2 == 0 {
            broker.kill9()
        } else {
            broker.stop()
        }
        broker.restart();
    }
    drop(input);
    while seen.len() < number {
        seen.insert(consuming.line().parse::<usize>().unwrap());
    }
    assert!(seen.iter().copied().eq(0..number), "{} of {number} came", seen.len());
    drop(consuming);
    let rest = cli.run(consume("c", &["--idle-exit", "1s"])).success();
    let again = rest.text().lines().count();
    assert!(again < 1_000, "{again} came again after what was acknowledged");
}

#[test]
fn p4_what_a_killed_consumer_has_not_shown_comes_again() {
    let _guard = beside_others();
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let lines: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    let _ = cli.run_with(["produce", TOPIC], lines.as_bytes()).success();
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let mut consuming = Running::start(&cli, &consume("c", &[]));
        for _ in 0..2_000 {
            seen.insert(consuming.line().parse::<usize>().unwrap());
        }
        seen.extend(consuming.kill().iter().map(|line| line.parse::<usize>().unwrap()));
    }
    let rest = cli.run(consume("c", &["--idle-exit", "2s"])).success();
    seen.extend(rest.text().lines().map(|line| line.parse::<usize>().unwrap()));
    assert!(seen.iter().copied().eq(0..20_000), "{} came", seen.len());
}

#[test]
fn an_exclusive_subscription_is_free_as_soon_as_its_consumer_is_killed() {
    let _guard = beside_others();
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run_with(["produce", TOPIC], b"one\n").success();
    for _ in 0..3 {
        let mut first = Running::start(&cli, &consume("first", &["--no-ack"]));
        assert_eq!(first.line(), "one");
        let refused = cli.run(consume("second", &["--count", "1"]));
        assert_eq!((refused.code, refused.text()), (Some(1), ""));
        assert!(refused.stderr.contains("exclusive"), "{}", refused.stderr);
        drop(first);
        let taken = cli.run(consume("second", &["--count", "1", "--no-ack"])).success();
        assert_eq!(taken.text(), "one\n");
    }
}

#[test]
fn a_standby_takes_over_from_a_killed_consumer_within_a_second() {
    let _guard = alone();
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run_with(["produce", TOPIC], b"one\ntwo\n").success();
    let failover = ["--type", "failover", "--no-ack"];
    let mut first = Running::start(&cli, &consume("first", &failover));
    assert_eq!((first.line(), first.line()), ("one".to_owned(), "two".to_owned()));
    let mut standby = Running::start(&cli, &consume("standby", &failover));
    within(Duration::from_secs(5), "standby", || (consumers(&cli) == 2).then_some(()));
    let watch = Stopwatch::start();
    drop(first);
    assert_eq!((standby.line(), standby.line()), ("one".to_owned(), "two".to_owned()));
    let took = watch.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn what_a_consumer_has_shown_by_a_signal_does_not_come_again() {
    let _guard = beside_others();
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let lines: String = (0..50_000).map(|number| format!("{number:099}\n")).collect();
    let _ = cli.run_with(["produce", TOPIC], lines.as_bytes()).success();
    let mut seen = Vec::new();
    for signal in [Signal::INT, Signal::TERM] {
        let mut consuming = Running::start(&cli, &consume("c", &[]));
        for _ in 0..300 {
            seen.push(consuming.line().parse::<usize>().unwrap());
        }
        consuming.signal(signal);
        let (rest, code) = consuming.end();
        assert_eq!(code, Some(0));
        seen.extend(rest.lines().map(|line| line.parse::<usize>().unwrap()));
    }
    assert!(seen.len() < 50_000, "all of it was shown before the signals");
    let rest = cli.run(consume("c", &["--idle-exit", "1s"])).success();
    seen.extend(rest.text().lines().map(|line| line.parse::<usize>().unwrap()));
    assert!(seen.iter().copied().eq(0..50_000), "{} came", seen.len());
}

/// It is stuck in output that nobody takes.
#[test]
fn a_second_signal_ends_a_consumer_at_once() {
    let _guard = beside_others();
    let broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let lines: String = (0..20_000).map(|number| format!("{number:099}\n")).collect();
    let _ = cli.run_with(["produce", TOPIC], lines.as_bytes()).success();
    let mut consuming = Running::start(&cli, &consume("c", &[]));
    let _ = consuming.line();
    let status = within(Duration::from_secs(10), "end", || {
        consuming.signal(Signal::INT);
        consuming.child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(1));
    let mut said = String::new();
    consuming.errors().read_to_string(&mut said).unwrap();
    assert!(said.starts_with("error: a second SIGINT: ended at once"), "{said}");
}

#[test]
fn a_consumer_without_a_broker_is_not_idle() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run_with(["produce", TOPIC], b"one\n").success();
    let idle = ["--idle-exit", "1s", "--no-ack"];
    let mut waiting = Running::start(&cli, &consume("c", &idle));
    assert_eq!(waiting.line(), "one");
    broker.kill9();
    let mut errors = waiting.errors();
    let mut said = String::new();
    errors.read_line(&mut said).unwrap();
    assert!(said.starts_with("the connection is lost: "), "{said}");
    broker.restart();
    assert_eq!(waiting.end(), ("one\n".to_owned(), Some(0)));
    said.clear();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(said, "the connection is back\n");

    let idle = ["--idle-exit", "200ms", "--timeout", "1s", "--no-ack"];
    let mut waiting = Running::start(&cli, &consume("c", &idle));
    assert_eq!(waiting.line(), "one");
    broker.kill9();
    let mut errors = waiting.errors();
    assert_eq!(waiting.end(), (String::new(), Some(1)));
    said.clear();
    errors.read_to_string(&mut said).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("the connection is lost: "), "{said}");
    assert!(lines[1].starts_with("error: "), "{said}");
}
