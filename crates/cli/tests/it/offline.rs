//! Commands that need no broker.

use std::io::Read;
use std::path::PathBuf;

use danube_e2e::{Broker, Cli, Options};
use tempfile::TempDir;

fn file(dir: &TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    write(&path, text.as_bytes());
    path.to_str().unwrap().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "a test works on real files")]
fn write(path: &std::path::Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn misuse_is_exit_code_2_and_help_is_0() {
    let cli = Cli::offline();
    for words in [&["frobnicate"][..], &["read"], &["produce", "orders"], &[]] {
        let output = cli.run(words);
        assert_eq!((output.code, output.text()), (Some(2), ""), "{words:?}");
        assert!(output.stderr.contains("--help"), "{words:?}: {}", output.stderr);
    }
    let twice = cli.run(["produce", "/default/a", "--attr", "a=1", "--attr", "a=2"]);
    assert_eq!((twice.code, twice.stderr.as_str()), (Some(2), "error: --attr a is given twice\n"));
    let help = cli.run(["produce", "--help"]).success();
    assert!(help.text().starts_with("danube produce /default/orders"), "{}", help.text());
    assert_eq!(help.stderr, "");
    assert!(cli.run(["--version"]).success().text().starts_with("danube "));
}

#[test]
fn a_closed_pipe_is_success() {
    // Whether it closes before or while the reference is written.
    let mut child = Cli::offline().command(["config", "reference"]).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn settings_are_checked_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let good = file(&dir, "good.yml", "cluster_name: c\nstorage: {durable: {root: /x}}\n");
    let output = Cli::offline().run(["config", "check", &good]).success();
    let expected = format!(
        "{good}: ok\n  cluster_name = c\n  storage.durable.root = /x (without effect: it needs the cold tier, which this build lacks)\n"
    );
    assert_eq!((output.text(), output.stderr.as_str()), (expected.as_str(), ""));

    let bad = file(&dir, "bad.yml", "cluster_name: c\nstorge: {}\nstorage: {durability: cold}\n");
    let output = Cli::offline().run(["config", "check", &bad]);
    let expected = format!(
        "error: {bad}:2: unknown key `storge`, the nearest is `storage`\n\
         {bad}:3: `storage.durability`: `cold` needs the warm or the cold tier, which this build lacks\n"
    );
    assert_eq!((output.code, output.text(), output.stderr.clone()), (Some(1), "", expected));

    let output = Cli::offline().run(["config", "check", "/nowhere/danube.yml"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("cannot read /nowhere/danube.yml"), "{}", output.stderr);
}

#[test]
fn settings_in_force_are_shown_with_their_origin() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "danube.yml", "cluster_name: c\nauth: {jwt: {secret_key: hunter2}}\n");
    let cli = Cli::offline();
    let mut command = cli.command(["config", "show", "--config", &path]);
    command.env("DANUBE_STORAGE__DURABILITY", "page_cache").env("DANUBE_STORAGE_MODE", "local");
    let output = command.output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains(&format!("cluster_name: c # {path}:1\n")), "{stdout}");
    assert!(stdout.contains("  durability: page_cache # DANUBE_STORAGE__DURABILITY\n"), "{stdout}");
    assert!(stdout.contains("    client: 6650 # default\n"), "{stdout}");
    assert!(!stdout.contains("hunter2"), "{stdout}");
    let expected = "warning: DANUBE_STORAGE_MODE in the environment is no setting; did you mean DANUBE_STORAGE__MODE?\n";
    assert_eq!(stderr, expected);

    let shown = cli.run(["config", "show", "--output", "json"]).success().json_lines();
    let client = shown.iter().find(|line| line["key"] == "broker.ports.client").unwrap();
    assert_eq!(
        (client["value"].as_str(), client["origin"].as_str()),
        (Some("6650"), Some("default"))
    );
}

#[test]
fn a_server_with_wrong_settings_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "danube.yml", "cluster_name: c\nauth: {mode: tls}\n");
    let output = Cli::offline().run(["server", "--config", &path]);
    assert_eq!((output.code, output.text()), (Some(1), ""));
    let expected =
        format!("{path}:2: `auth.mode`: `tls` needs authentication, which this build lacks\n");
    assert!(output.stderr.contains(&expected), "{}", output.stderr);
    let output = Cli::offline().run(["server", "--join", "127.0.0.1:1"]);
    assert_eq!((output.code, output.text()), (Some(1), ""));
    assert!(output.stderr.contains("--join"), "{}", output.stderr);
    let output = Cli::offline().run(["server", "--advertise", "nonsense"]);
    assert_eq!((output.code, output.text()), (Some(1), ""));
    assert_eq!(output.stderr.matches("nonsense").count(), 1, "{}", output.stderr);
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    let output = Cli::offline().run(["topic", "list", "--url", "http://127.0.0.1:1"]);
    assert_eq!((output.code, output.text()), (Some(1), ""));
    assert!(
        output.stderr.starts_with("error: no answer from http://127.0.0.1:1"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("Connection refused"), "{}", output.stderr);
    assert!(output.stderr.contains("\nhint: is the broker running?"), "{}", output.stderr);
    for url in ["ftp://x", "http://127.0.0.1:99999"] {
        let output = Cli::offline().run(["topic", "list", "--url", url]);
        assert_eq!(output.code, Some(2), "{url}");
        assert!(output.stderr.contains("is not the URL of a broker"), "{}", output.stderr);
    }
}

/// The files below a directory whose name ends with `suffix`.
#[expect(clippy::disallowed_methods, reason = "a test works on real files")]
fn files(dir: &std::path::Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_str().is_some_and(|path| path.ends_with(suffix)) {
            found.push(path);
        }
    }
    found
}

#[test]
fn files_of_a_stopped_broker_are_verified() {
    let mut broker = Broker::start(Options::default());
    let lines = "a line of some length\n".repeat(1000);
    let _ = Cli::of(&broker).run_with(["produce", "/default/a"], lines.as_bytes()).success();
    broker.stop();
    let dir = broker.data_dir();
    let cli = Cli::offline();

    let journal = ["inspect", "journal", dir.to_str().unwrap()];
    assert_eq!(cli.run(journal).success().stderr, "");
    let found = cli.run(journal.into_iter().chain(["--output", "json"])).success().json_lines();
    assert_eq!(found.last().unwrap()["found"], "summary");
    let log = found.iter().find(|found| found["found"] == "log").unwrap();
    assert_eq!((log["end"].as_u64(), log["open"].as_bool()), (Some(1000), Some(false)));
    assert!(cli.run(journal).success().text().contains("\nsummary "));

    let segments = files(&dir.join("wal"), SEGMENT);
    let [segment] = &segments[..] else { panic!("{segments:?}") };
    let words = ["inspect", "segment", segment.to_str().unwrap(), "--output", "json"];
    let summary = cli.run(words).success().json_lines().pop().unwrap();
    assert_eq!((summary["records"].as_u64(), summary["problems"].as_u64()), (Some(1000), Some(0)));

    damage(segment);
    let output = cli.run(words.into_iter().chain(["--summary"]));
    assert_eq!(output.code, Some(1), "{output:?}");
    let found = output.json_lines();
    assert_eq!(found[0]["found"], "problem");
    assert!(found.last().unwrap()["damaged_bytes"].as_u64().unwrap() > 0, "{found:?}");
}

/// What names of segments end with.
const SEGMENT: &str = ".seg";

#[expect(clippy::disallowed_methods, reason = "a test works on real files")]
fn damage(path: &std::path::Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(path, bytes).unwrap();
}
