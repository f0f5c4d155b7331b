//! A broker as a process: started, killed, stopped, started again on what it left.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::binary;
use crate::wait::{Stopwatch, try_within};

/// A clean stop takes no longer.
const STOP_MAX: Duration = Duration::from_secs(3);
/// What is shown of the log of a broker that failed, in bytes.
const LOG_SHOWN: usize = 8 * 1024;

/// How a broker is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it keeps its state; none: a directory that goes with the [`Broker`].
    pub data_dir: Option<PathBuf>,
    /// Arguments behind `danube server` and the harness's own.
    pub arguments: Vec<String>,
    /// More environment.
    pub environment: Vec<(String, String)>,
    /// A program that runs the broker, with its arguments; such as `strace -D …`. The process it is started as must
    /// become the broker (that is what `-D` is for), because signals go there.
    pub wrapper: Vec<String>,
    /// How long it may take until it is ready.
    pub ready_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_dir: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            wrapper: Vec::new(),
            ready_max: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// Adds arguments.
    #[must_use]
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments.extend(arguments.into_iter().map(str::to_owned));
        self
    }

    /// Adds a setting by its path, as `storage.wal.rotation.max_bytes`.
    #[must_use]
    pub fn setting(mut self, path: &str, value: &str) -> Self {
        let name = format!("DANUBE_{}", path.replace('.', "__").to_uppercase());
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Keeps the state in `dir`, which outlives the broker.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }
}

/// What the ready line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Address for clients.
    pub client: String,
    /// Address for administration by existing tools.
    pub admin: String,
    /// Address for HTTP.
    pub http: String,
    /// Address for other brokers.
    pub raft: String,
    /// The data directory as the broker names it.
    pub data: String,
}

impl Ready {
    /// Reads a ready line; none if it is another line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("danube ready client=")?;
        let (client, rest) = rest.split_once(" admin=")?;
        let (admin, rest) = rest.split_once(" http=")?;
        let (http, rest) = rest.split_once(" raft=")?;
        let (raft, data) = rest.split_once(" data=")?;
        let [client, admin, http, raft, data] =
            [client, admin, http, raft, data].map(str::to_owned);
        Some(Self { client, admin, http, raft, data })
    }
}

/// A broker that did not become ready.
#[derive(Debug)]
pub struct Refused {
    /// How it ended; none if it had to be killed because it took too long.
    pub status: Option<ExitStatus>,
    /// Its standard error.
    pub log: String,
}

/// A running broker, or one that was ended and can be started again. Dropping it kills the process.
pub struct Broker {
    options: Options,
    /// Holds the log, and the data directory where no other was named.
    scratch: TempDir,
    running: Option<Running>,
    /// Where it listens, or is to listen at the next start.
    ready: Ready,
}

struct Running {
    child: Child,
    stdout: Receiver<String>,
}

impl Broker {
    /// Starts a broker on free ports and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If it does not become ready.
    #[must_use]
    pub fn start(options: Options) -> Self {
        Self::try_start(options).unwrap_or_else(|refused| refused.panic())
    }

    /// Starts a broker on free ports; what it said if it does not become ready.
    pub fn try_start(options: Options) -> Result<Self, Refused> {
        let scratch = tempfile::Builder::new()
            .prefix("danube-e2e-")
            .tempdir()
            .expect("temporary directory can be created");
        let [client, admin, http, raft] = ["127.0.0.1:0"; 4].map(str::to_owned);
        let ready = Ready { client, admin, http, raft, data: String::new() };
        let mut broker = Self { options, scratch, running: None, ready };
        broker.launch()?;
        Ok(broker)
    }

    /// Starts it again, with the same options, state and ports.
    ///
    /// # Panics
    ///
    /// If it still runs, or does not become ready.
    pub fn restart(&mut self) {
        self.try_restart().unwrap_or_else(|refused| refused.panic());
    }

    /// Starts it again; what it said if it does not become ready.
    ///
    /// # Panics
    ///
    /// If it still runs.
    pub fn try_restart(&mut self) -> Result<(), Refused> {
        assert!(self.running.is_none(), "the broker still runs");
        self.launch()
    }

    /// The options for the next start.
    pub fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Kills it with `SIGKILL`, and waits until it is gone.
    pub fn kill9(&mut self) {
        drop(self.running.take());
    }

    /// Stops it with `SIGTERM`.
    ///
    /// # Panics
    ///
    /// If it does not end with exit code 0 in less than 3 s, or said more than its ready line on standard output.
    pub fn stop(&mut self) {
        let watch = Stopwatch::start();
        self.signal(Signal::TERM);
        let status = self.exit_within(STOP_MAX);
        let log = self.log_end();
        assert!(
            status.success(),
            "a stopped broker ended with {status} after {:?}\n{log}",
            watch.elapsed()
        );
    }

    /// Sends a signal to the broker.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn signal(&self, signal: Signal) {
        kill_process(pid(&self.running().child), signal).expect("a child that was not waited for");
    }

    /// Waits for the broker to end by itself.
    ///
    /// # Panics
    ///
    /// If it takes longer, does not run, or said more than its ready line on standard output.
    pub fn exit_within(&mut self, limit: Duration) -> ExitStatus {
        let running = self.running.as_mut().expect("the broker runs");
        let status = try_within(limit, || running.child.try_wait().expect("a child of ours"));
        let Some(status) = status else {
            panic!("the broker still runs after {limit:?}\n{}", self.log_end());
        };
        let running = self.running.take().expect("it just ran");
        let said: Vec<String> = running.stdout.iter().collect();
        assert!(said.is_empty(), "a server's standard output is for its ready line, not {said:?}");
        status
    }

    /// What the ready line said.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Where clients connect.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.ready.client)
    }

    /// The data directory.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.options.data_dir.clone().unwrap_or_else(|| self.scratch.path().join("data"))
    }

    /// Process id, for looking at it from outside.
    ///
    /// # Panics
    ///
    /// If it does not run.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.running().child.id()
    }

    /// Everything it has written to standard error, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    fn log_end(&self) -> String {
        end_of(&self.log()).to_owned()
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the broker runs")
    }

    fn launch(&mut self) -> Result<(), Refused> {
        let log_before = self.log().len();
        let mut command = self.command();
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let stdout = lines_of(child.stdout.take().expect("standard output is a pipe"));
        let running = Running { child, stdout };
        let line = running.stdout.recv_timeout(self.options.ready_max);
        match line.as_deref().map(Ready::parse) {
            Ok(Some(ready)) => {
                self.ready = ready;
                self.running = Some(running);
                Ok(())
            }
            Ok(None) => panic!("a server's first line is its ready line, not {line:?}"),
            Err(error) => {
                let status = ended(running, *error);
                let log = self.log();
                Err(Refused { status, log: log.get(log_before..).unwrap_or_default().to_owned() })
            }
        }
    }

    fn command(&self) -> Command {
        let binary = binary::danube();
        let mut words: Vec<&std::ffi::OsStr> =
            self.options.wrapper.iter().map(AsRef::as_ref).collect();
        words.push(binary.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("server").arg("--data-dir").arg(self.data_dir());
        for (flag, address) in [
            ("--listen", &self.ready.client),
            ("--admin-listen", &self.ready.admin),
            ("--http-listen", &self.ready.http),
            ("--raft-listen", &self.ready.raft),
        ] {
            command.args([flag, address]);
        }
        command.args(&self.options.arguments).envs(self.options.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(append_to(&self.log_path()));
        // A group of its own, so that a wrapper goes with the broker.
        command.process_group(0);
        command
    }
}

impl Refused {
    fn panic(self) -> ! {
        let how =
            self.status.map_or("in time".to_owned(), |status| format!("but ended with {status}"));
        panic!("the broker did not become ready {how}\n{}", end_of(&self.log))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = kill_process_group(pid(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// How a broker ended that never became ready; none if it was only slow.
fn ended(mut running: Running, error: RecvTimeoutError) -> Option<ExitStatus> {
    match error {
        RecvTimeoutError::Timeout => None,
        RecvTimeoutError::Disconnected => {
            try_within(STOP_MAX, || running.child.try_wait().expect("a child of ours"))
        }
    }
}

fn end_of(log: &str) -> &str {
    let start = log.len().saturating_sub(LOG_SHOWN);
    let start = (start..log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(log.len());
    &log[start..]
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[expect(clippy::disallowed_methods, reason = "the harness works on real files")]
fn append_to(path: &Path) -> File {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()))
}

/// The lines of a pipe, read by a thread that ends with it.
fn lines_of(pipe: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1024);
    let read = move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("server output".to_owned()).spawn(read);
    drop(thread.expect("a thread can be started"));
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_line_is_understood() {
        let line = "danube ready client=127.0.0.1:6650 admin=127.0.0.1:50051 http=127.0.0.1:9040 \
                    raft=127.0.0.1:7650 data=./my data";
        let ready = Ready::parse(line).unwrap();
        assert_eq!(ready.client, "127.0.0.1:6650");
        assert_eq!(ready.raft, "127.0.0.1:7650");
        assert_eq!(ready.data, "./my data");
        assert_eq!(Ready::parse("danube is nearly ready"), None);
    }

    #[test]
    fn a_setting_becomes_its_variable() {
        let options = Options::default().setting("storage.wal.rotation.max_bytes", "65536");
        let expected = ("DANUBE_STORAGE__WAL__ROTATION__MAX_BYTES".to_owned(), "65536".to_owned());
        assert_eq!(options.environment, [expected]);
    }

    #[test]
    fn the_end_of_a_log_is_cut_between_characters() {
        assert_eq!(end_of("short"), "short");
        let long = "ä".repeat(LOG_SHOWN);
        assert!(end_of(&long).len() <= LOG_SHOWN);
        let odd = format!("a{long}");
        assert!(end_of(&odd).starts_with('ä'));
    }
}
