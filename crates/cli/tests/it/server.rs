//! Starting and stopping a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use danube_e2e::{Broker, Cli, Options};

fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_says_where_it_listens() {
    let broker = Broker::start(Options::default());
    let ready = broker.ready().clone();
    let addresses = [&ready.client, &ready.admin, &ready.http, &ready.raft];
    let mut ports: Vec<u16> = addresses
        .iter()
        .map(|address| address.strip_prefix("127.0.0.1:").unwrap().parse().unwrap())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() == 4 && ports[0] > 0, "{ready:?}");
    for address in addresses {
        TcpStream::connect(address).unwrap();
    }
    assert_eq!(ready.data, broker.data_dir().to_str().unwrap());
    assert!(get(&ready.http, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(get(&ready.http, "/readyz").contains("{\"status\":\"ready\"}"));
    for dir in ["wal", "raft"] {
        assert!(broker.data_dir().join(dir).is_dir(), "{dir}");
    }
}

#[test]
fn a_stop_does_not_wait_for_open_streams() {
    let mut broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let _ = cli.run_with(["produce", "/default/a"], b"one\n").success();
    let mut reading = cli.command(["read", "/default/a", "--follow"]).spawn().unwrap();
    let mut lines = BufReader::new(reading.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one");
    let mut producing = cli.command(["produce", "/default/a", "--print-offsets"]).spawn().unwrap();
    let mut stdin = producing.stdin.take().unwrap();
    stdin.write_all(b"two\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "two");
    // In less than 3 s, with exit code 0, and nothing else on its standard output.
    broker.stop();
    for mut child in [reading, producing] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_broker_that_was_stopped_or_killed_has_what_it_acknowledged() {
    let mut broker = Broker::start(Options::default());
    let _ = Cli::of(&broker).run_with(["produce", "/default/a"], b"one\ntwo\n").success();
    broker.stop();
    broker.restart();
    let _ = Cli::of(&broker).run_with(["produce", "/default/a"], b"three\n").success();
    broker.kill9();
    broker.restart();
    let output = Cli::of(&broker).run(["read", "/default/a"]).success();
    assert_eq!((output.text(), output.stderr.as_str()), ("one\ntwo\nthree\n", ""));
}

#[test]
fn an_address_in_use_and_a_directory_in_use_are_named() {
    let broker = Broker::start(Options::default());
    let dir = broker.data_dir();
    let limit = Duration::from_secs(20);
    let words = ["server", "--data-dir", dir.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let free = ["--admin-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
    let words: Vec<&str> = words.into_iter().chain(free).chain(["--raft-listen"]).collect();
    let in_use = broker.ready().raft.clone();
    let output = Cli::offline().limit(limit).run(words.iter().chain([&in_use.as_str()]));
    assert_eq!((output.code, output.text()), (Some(1), ""));
    assert!(output.stderr.contains(&in_use), "{}", output.stderr);
    let output = Cli::offline().limit(limit).run(words.iter().chain([&"127.0.0.1:0"]));
    assert_eq!((output.code, output.text()), (Some(1), ""));
    assert!(output.stderr.contains(dir.to_str().unwrap()), "{}", output.stderr);
}
