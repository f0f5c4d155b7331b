//! A producer under load that writes its history: the command `danube produce`, fed line by line.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::checker::{History, MessageId};
use crate::cli::Cli;

/// Messages whose line was written and whose offset was not printed yet, oldest first.
type Pending = Arc<Mutex<VecDeque<MessageId>>>;

/// One running `danube produce`. Dropping it kills the command.
pub struct Producer {
    history: History,
    name: String,
    topic: String,
    key: Option<String>,
    next_sequence: u64,
    pending: Pending,
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: File,
    reader: Option<JoinHandle<()>>,
}

/// What a producer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Exit code of the command.
    pub code: Option<i32>,
    /// Messages that were sent.
    pub sent: u64,
    /// Those of which nobody knows whether they were stored.
    pub unknown: usize,
    /// Standard error of the command.
    pub stderr: String,
}

impl Producer {
    /// Starts producing to `topic`. `name` must be unique in the history. `arguments` are more arguments of the
    /// command, such as `--durability page_cache`; `--key` has its own parameter.
    ///
    /// # Panics
    ///
    /// If the command cannot be started.
    #[must_use]
    pub fn start(
        cli: &Cli,
        history: &History,
        name: &str,
        topic: &str,
        key: Option<&str>,
        arguments: &[&str],
    ) -> Self {
        let mut command = cli.command(["produce", topic, "--print-offsets"]);
        command.args(arguments).args(key.iter().flat_map(|key| ["--key", key]));
        let stderr = tempfile::tempfile().expect("temporary file can be created");
        command.stderr(Stdio::from(stderr.try_clone().expect("a file can be shared")));
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let pending = Pending::default();
        let reader = acks(stdout, topic.to_owned(), history.clone(), Arc::clone(&pending));
        Self {
            history: history.clone(),
            name: name.to_owned(),
            topic: topic.to_owned(),
            key: key.map(str::to_owned),
            next_sequence: 0,
            pending,
            child,
            stdin,
            stderr,
            reader: Some(reader),
        }
    }

    /// Sends the next message, of about `bytes` bytes. Blocks while the command takes no more. False when the command has ended.
    pub fn send(&mut self, bytes: usize) -> bool {
        let message = MessageId::new(&self.name, self.next_sequence);
        let mut line = self.history.payload(&message, self.key.as_deref(), bytes);
        line.push(b'\n');
        self.next_sequence += 1;
        // Before the call goes out: what is acknowledged must have been invoked.
        self.history.invoked(&message, &self.topic, self.key.as_deref());
        lock(&self.pending).push_back(message);
        self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(&line).is_ok())
    }

    /// Messages that are not acknowledged yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        lock(&self.pending).len()
    }

    /// Ends the input and waits for the command: what is then not acknowledged is unknown.
    ///
    /// # Panics
    ///
    /// If it printed what was not asked for.
    pub fn finish(mut self) -> Finished {
        drop(self.stdin.take());
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the command prints one offset for each line");
        }
        let status = self.child.wait().expect("a child of ours");
        let mut stderr = Vec::new();
        self.stderr.rewind().expect("a file can be read again");
        self.stderr.read_to_end(&mut stderr).expect("a file can be read");
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        let left: Vec<MessageId> = lock(&self.pending).drain(..).collect();
        for message in &left {
            self.history.unknown(message, "the producer ended without an acknowledgement");
        }
        Finished { code: status.code(), sent: self.next_sequence, unknown: left.len(), stderr }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Notes each printed offset as the acknowledgement of the oldest message that waits for one.
fn acks(stdout: ChildStdout, topic: String, history: History, pending: Pending) -> JoinHandle<()> {
    let read = move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let offset = offset_in(&line, &topic)
                .unwrap_or_else(|| panic!("not `{topic}<TAB>offset`: {line:?}"));
            let message = lock(&pending)
                .pop_front()
                .unwrap_or_else(|| panic!("nothing was sent for {line:?}"));
            history.ok(&message, offset);
        }
    };
    let thread = std::thread::Builder::new().name("acknowledgements".to_owned());
    thread.spawn(read).expect("a thread can be started")
}

fn offset_in(line: &str, topic: &str) -> Option<u64> {
    line.strip_prefix(topic)?.strip_prefix('\t')?.parse().ok()
}

/// A panic elsewhere has already failed the test.
fn lock(pending: &Pending) -> std::sync::MutexGuard<'_, VecDeque<MessageId>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_offsets_are_understood() {
        assert_eq!(offset_in("/default/a\t17", "/default/a"), Some(17));
        assert_eq!(offset_in("/default/ab\t17", "/default/a"), None);
        assert_eq!(offset_in("/default/a 17", "/default/a"), None);
    }
}
