//! Programs on the published clients of Danube, unmodified: what existing applications are to a broker.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::binary;
use crate::broker::Broker;
use crate::cli::Cli;
use crate::wait::try_within;

/// Whose client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// `danube-client` of crates.io.
    Rust,
    /// `danube-client` of PyPI.
    Python,
}

impl Peer {
    /// All of them.
    pub const ALL: [Peer; 2] = [Peer::Rust, Peer::Python];

    /// What is run, and its first arguments.
    pub(crate) fn program(self) -> (PathBuf, Vec<OsString>) {
        let built = binary::peers();
        match self {
            Peer::Rust => (there(built.join("release").join("danube-peer")), Vec::new()),
            Peer::Python => {
                let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/python");
                let program = there(built.join("python").join("bin").join("python"));
                (program, vec![source.join("peer.py").into()])
            }
        }
    }
}

fn there(path: PathBuf) -> PathBuf {
    assert!(
        path.exists(),
        "{} is missing\nhint: cargo xtask peers, or name the directory in {}",
        path.display(),
        binary::PEERS_VARIABLE
    );
    path
}

/// A peer at work. Dropping it kills the process. What it says on standard error is the test's.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    shown: String,
}

impl Running {
    /// Starts a command of a peer.
    ///
    /// # Panics
    ///
    /// If it can't be run.
    #[must_use]
    pub fn start(peer: Peer, broker: &Broker, arguments: &[&str]) -> Running {
        let mut command = Cli::of_peer(peer, &broker.url()).command(arguments);
        let shown = format!("{command:?}");
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        let output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let (sender, lines) = sync_channel(64);
        let read = move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("peer output".to_owned()).spawn(read);
        drop(thread.expect("a thread can be started"));
        Running { child, lines, shown }
    }

    /// The next line that it prints; none once it has ended.
    ///
    /// # Panics
    ///
    /// If it takes longer.
    pub fn line(&mut self, limit: Duration) -> Option<String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{} printed nothing for {limit:?}", self.shown)
            }
        }
    }

    /// The next line, if it has printed one already.
    pub fn printed(&mut self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// All other lines, until it ends by itself.
    ///
    /// # Panics
    ///
    /// If it prints nothing for so long, or ends with an error.
    pub fn end(mut self, limit: Duration) -> Vec<String> {
        let lines = std::iter::from_fn(|| self.line(limit)).collect();
        let status = try_within(limit, || self.child.try_wait().expect("a child of ours"));
        assert!(status.is_some_and(|status| status.success()), "{}: {status:?}", self.shown);
        lines
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
