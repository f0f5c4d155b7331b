//! Running steps: each is a line of progress with its seconds, and ends as passed or failed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::console;

/// What came of all the steps so far.
#[derive(Default)]
pub(crate) struct Tally {
    /// Tests and steps that passed.
    pub(crate) passed: u64,
    /// Tests and steps that failed.
    pub(crate) failed: u64,
    /// For each failure, what to show again at the end.
    pub(crate) failures: Vec<Failure>,
}

/// A failed step or test suite.
pub(crate) struct Failure {
    /// The step.
    pub(crate) name: String,
    /// What it said, shortened.
    pub(crate) text: String,
}

impl Tally {
    /// Runs one step and counts it.
    pub(crate) fn step(&mut self, name: &str, body: impl FnOnce() -> Result<(), String>) {
        match timed(name, body) {
            Ok(()) => self.passed += 1,
            Err(text) => self.fail(name, text),
        }
    }

    /// Runs something that is no test itself: only its failure counts. Returns its value if it passed.
    pub(crate) fn prepare<T>(
        &mut self,
        name: &str,
        body: impl FnOnce() -> Result<T, String>,
    ) -> Option<T> {
        timed(name, body).map_err(|text| self.fail(name, text)).ok()
    }

    /// Counts one failure.
    pub(crate) fn fail(&mut self, name: &str, text: String) {
        self.failed += 1;
        self.failures.push(Failure { name: name.to_owned(), text });
    }

    /// Shows the failures again.
    pub(crate) fn show_failures(&self) {
        for Failure { name, text } in &self.failures {
            console::line(&format!("\nFAILED {name}\n{}", text.trim_end()));
        }
    }
}

/// Runs `body` between a line that names it and a line with the result and the seconds.
fn timed<T>(name: &str, body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    console::line(&format!("==> {name}"));
    let watch = Stopwatch::start();
    let result = body();
    let verdict = if result.is_ok() { "ok" } else { "FAILED" };
    console::line(&format!("    {name}: {verdict} ({:.1} s)", watch.seconds()));
    result
}

/// Measures how long a step takes.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    #[expect(clippy::disallowed_methods, reason = "a development tool that times real programs")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Runs a program, shows its output as it comes, and fails with the end of it.
pub(crate) fn program(command: &mut Command) -> Result<(), String> {
    let mut last = Tail::default();
    let success = stream(command, |line| last.push(line))?;
    if success { Ok(()) } else { Err(last.text()) }
}

/// Runs a program with both its outputs as one stream, shows each line and hands it to `each`. Returns whether the
/// program succeeded; an error means that it could not be run.
pub(crate) fn stream(command: &mut Command, mut each: impl FnMut(&str)) -> Result<bool, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| format!("cannot run {name}: {error}");
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let mut child = command.spawn().map_err(failed)?;
    // The command holds the write ends; the stream would never end with them open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).map_err(failed)? > 0 {
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        console::line(line);
        each(line);
        bytes.clear();
    }
    Ok(child.wait().map_err(failed)?.success())
}

/// The last lines of an output.
#[derive(Default)]
struct Tail(std::collections::VecDeque<String>);

impl Tail {
    const LINES_MAX: usize = 60;

    fn push(&mut self, line: &str) {
        if self.0.len() == Self::LINES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    fn text(&self) -> String {
        Vec::from_iter(self.0.iter().map(String::as_str)).join("\n")
    }
}
