//! Running `danube` commands: arguments and input in, exit code and both outputs back.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::Scope;
use std::time::Duration;

use serde_json::Value;

use crate::binary;
use crate::broker::Broker;
use crate::peer::Peer;
use crate::wait::try_within;

/// The command line of one broker.
#[derive(Clone, Debug)]
pub struct Cli {
    binary: PathBuf,
    /// Arguments before all others.
    leading: Vec<OsString>,
    url: Option<String>,
    limit: Duration,
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Cli {
    /// For a broker, wherever it listens at the moment.
    #[must_use]
    pub fn of(broker: &Broker) -> Self {
        Self { url: Some(broker.url()), ..Self::offline() }
    }

    /// For commands that need no broker.
    #[must_use]
    pub fn offline() -> Self {
        let (binary, leading) = (binary::danube(), Vec::new());
        Self { binary, leading, url: None, limit: Duration::from_secs(60) }
    }

    /// Of a program on a published client, which takes its commands in the same way, for a server at `url`.
    #[must_use]
    pub fn of_peer(peer: Peer, url: &str) -> Self {
        let (binary, leading) = peer.program();
        Self { binary, leading, url: Some(url.to_owned()), limit: Duration::from_secs(60) }
    }

    /// Lets commands run at most this long; 60 s otherwise.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs a command without input.
    ///
    /// # Panics
    ///
    /// If it takes too long.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        self.run_with(arguments, b"")
    }

    /// Runs a command with `input` on its standard input.
    ///
    /// # Panics
    ///
    /// If it takes too long.
    pub fn run_with<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Output {
        let mut command = self.command(arguments);
        let shown = format!("{command:?}");
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
        std::thread::scope(|scope| {
            let mut stdin = child.stdin.take().expect("standard input is a pipe");
            // A command may end without having read all of it.
            spawn(scope, move || drop(stdin.write_all(input)));
            let stdout = collect(scope, child.stdout.take().expect("standard output is a pipe"));
            let stderr = collect(scope, child.stderr.take().expect("standard error is a pipe"));
            let status = try_within(self.limit, || child.try_wait().expect("a child of ours"));
            if status.is_none() {
                end(&mut child);
            }
            let stdout = stdout.join().expect("reading a pipe does not panic");
            let stderr = stderr.join().expect("reading a pipe does not panic");
            let stderr = String::from_utf8_lossy(&stderr).into_owned();
            let Some(status) = status else {
                panic!("{shown} still ran after {:?}\n{stderr}", self.limit)
            };
            Output { code: status.code(), stdout, stderr }
        })
    }

    /// A command with pipes for its input and outputs, not started yet.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(&self.leading).args(arguments).env("NO_COLOR", "1");
        if let Some(url) = &self.url {
            command.env("DANUBE_URL", url);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Output {
    /// Returns itself if the command did what it was told.
    ///
    /// # Panics
    ///
    /// If its exit code is not 0.
    #[must_use]
    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "stderr:\n{}", self.stderr);
        self
    }

    /// Standard output as text.
    ///
    /// # Panics
    ///
    /// If it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text output is UTF-8")
    }

    /// Standard output as one JSON value a line.
    ///
    /// # Panics
    ///
    /// If a line is not JSON.
    #[must_use]
    pub fn json_lines(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        self.text().lines().map(parse).collect()
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn collect<'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut pipe: impl Read + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, Vec<u8>> {
    spawn(scope, move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> std::thread::ScopedJoinHandle<'scope, T> {
    let thread = std::thread::Builder::new().name("command pipe".to_owned());
    thread.spawn_scoped(scope, body).expect("a thread can be started")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cli(program: &str) -> Cli {
        Cli {
            binary: program.into(),
            leading: Vec::new(),
            url: Some("http://x".to_owned()),
            limit: Duration::from_secs(60),
        }
    }

    #[test]
    fn input_and_outputs_pass() {
        let output = cli("cat").run_with(["-"], b"in\n").success();
        assert_eq!(output.text(), "in\n");
        let script = "echo $DANUBE_URL; echo no >&2; exit 2";
        let output = cli("sh").run(["-c", script]);
        assert_eq!(
            (output.code, output.text(), output.stderr.as_str()),
            (Some(2), "http://x\n", "no\n")
        );
    }

    #[test]
    fn much_output_does_not_block() {
        let output =
            cli("sh").run_with(["-c", "cat; head -c 300000 /dev/zero >&2"], &[b'a'; 300_000]);
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
    }

    #[test]
    #[should_panic(expected = "still ran after")]
    fn a_command_that_hangs_is_ended() {
        cli("sh").limit(Duration::from_millis(50)).run(["-c", "exec tail -f /dev/null"]);
    }

    #[test]
    fn json_lines_are_parsed() {
        let output = Output {
            code: Some(0),
            stdout: b"{\"offset\":1}\n{\"offset\":2}\n".to_vec(),
            stderr: String::new(),
        };
        let offsets: Vec<_> =
            output.json_lines().iter().map(|line| line["offset"].clone()).collect();
        assert_eq!(offsets, [1, 2]);
    }
}
