//! Reads what `cargo test` prints: which suite runs, what it counted, what its failures said.

use crate::console;
use crate::run::{Failure, Tally};

/// What is kept of the output of one suite's failures, in lines.
const FAILURE_LINES_MAX: usize = 120;

/// The suites of one run of `cargo test`, in order.
#[derive(Default)]
pub(crate) struct Suites {
    suites: Vec<Suite>,
    /// Set when cargo failed and no suite tells why, such as code that does not compile.
    failed_otherwise: bool,
    /// Lines outside any suite that tell of an error.
    errors: Vec<String>,
}

/// One test binary, or the documentation tests of a crate.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    name: String,
    passed: u64,
    failed: u64,
    seconds: String,
    /// The summary line was seen; without it the binary died.
    ended: bool,
    /// Inside the list of failures.
    failing: bool,
    output: Vec<String>,
}

impl Suites {
    /// Takes the next line of the output.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(name) = suite_name(line) {
            self.suites.push(Suite::new(name));
        } else if let Some(suite) = self.suites.last_mut().filter(|suite| !suite.ended) {
            suite.line(line);
        } else if line.starts_with("error") {
            self.errors.push(line.to_owned());
        }
    }

    /// Ends the run, with cargo's own verdict.
    pub(crate) fn end(&mut self, success: bool) {
        self.failed_otherwise = !success && self.suites.iter().all(|suite| suite.failures() == 0);
    }

    /// Adds what was counted to the tally.
    pub(crate) fn count(&self, tally: &mut Tally) {
        for suite in &self.suites {
            tally.passed += suite.passed;
            tally.failed += suite.failures();
            if suite.failures() > 0 {
                let text = suite.output.join("\n");
                tally.failures.push(Failure { name: suite.name.clone(), text });
            }
        }
        if self.failed_otherwise {
            tally.fail("cargo test", self.errors.join("\n"));
        } else if self.suites.iter().all(|suite| suite.passed + suite.failures() == 0) {
            tally.fail("tests", "no test ran".to_owned());
        }
    }

    /// Shows a line for each suite that has tests.
    pub(crate) fn show(&self) {
        for suite in &self.suites {
            if suite.passed + suite.failures() > 0 {
                console::line(&format!(
                    "{:<40} {:>5} passed {:>4} failed  {}",
                    suite.name,
                    suite.passed,
                    suite.failures(),
                    suite.seconds
                ));
            }
        }
    }
}

impl Suite {
    fn new(name: String) -> Self {
        let seconds = String::new();
        Self { name, passed: 0, failed: 0, seconds, ended: false, failing: false, output: vec![] }
    }

    fn line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed = number_before(result, " passed");
            self.failed = number_before(result, " failed");
            self.seconds = result.rsplit("finished in ").next().unwrap_or_default().to_owned();
            self.ended = true;
        } else if line == "failures:" {
            self.failing = true;
        }
        if !self.ended && (self.failing || !line.ends_with(" ... ok")) {
            self.output.push(line.to_owned());
            if !self.failing && self.output.len() > FAILURE_LINES_MAX {
                self.output.remove(0);
            }
            self.output.truncate(FAILURE_LINES_MAX);
        }
    }

    /// Failed tests; a binary that died without a summary is one.
    fn failures(&self) -> u64 {
        if self.ended { self.failed } else { 1 }
    }
}

/// `Running unittests src/lib.rs (target/debug/deps/danube_log-0123abcd)` is `danube_log src/lib.rs`.
fn suite_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(krate) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{krate} documentation"));
    }
    let (source, binary) = line.strip_prefix("Running ")?.split_once(" (")?;
    let file = binary.strip_suffix(')')?.rsplit('/').next()?;
    let (krate, _hash) = file.rsplit_once('-')?;
    Some(format!("{krate} {}", source.strip_prefix("unittests ").unwrap_or(source)))
}

/// The number that stands before `unit`, 0 if there is none.
fn number_before(text: &str, unit: &str) -> u64 {
    text.split(unit)
        .next()
        .and_then(|before| before.rsplit(' ').next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
     Running unittests src/lib.rs (/t/debug/deps/danube_model-0123456789abcdef)

running 2 tests
test batch::round_trip ... ok
test frame::round_trip ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s

   Doc-tests danube_model

running 1 test
test crates/model/src/lib.rs - (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.10s
";

    fn tally(output: &str, success: bool) -> Tally {
        let mut suites = Suites::default();
        output.lines().for_each(|line| suites.line(line));
        suites.end(success);
        let mut tally = Tally::default();
        suites.count(&mut tally);
        tally
    }

    #[test]
    fn suites_are_summed() {
        let tally = tally(GOOD, true);
        assert_eq!((tally.passed, tally.failed), (3, 0));
    }

    #[test]
    fn a_failed_test_is_counted_and_its_words_are_kept() {
        let output = "\
     Running tests/it/main.rs (target/debug/deps/it-0123)

running 2 tests
test a ... ok
test b ... FAILED

failures:

---- b stdout ----
thread 'b' panicked at tests/it/main.rs:3:5:
the end is 3, not 4

failures:
    b

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: test failed, to rerun pass `-p danube-log --test it`
";
        let tally = tally(output, false);
        assert_eq!((tally.passed, tally.failed), (1, 1));
        let [failure] = tally.failures.as_slice() else { panic!("one failure") };
        assert_eq!(failure.name, "it tests/it/main.rs");
        assert!(failure.text.contains("the end is 3, not 4"), "{}", failure.text);
    }

    #[test]
    fn a_binary_that_dies_is_a_failure() {
        let output = "\
     Running unittests src/lib.rs (target/debug/deps/danube_log-0123)

running 2 tests
test a ... ok
error: test failed, to rerun pass `-p danube-log --lib`

Caused by:
  process didn't exit successfully: `danube_log-0123` (signal: 6, SIGABRT: process abort signal)
";
        let tally = tally(output, false);
        assert_eq!((tally.passed, tally.failed), (0, 1));
        assert!(tally.failures[0].text.contains("SIGABRT"));
    }

    #[test]
    fn code_that_does_not_compile_is_a_failure() {
        let tally =
            tally("error[E0308]: mismatched types\n --> crates/log/src/lib.rs:1:1\n", false);
        assert_eq!((tally.passed, tally.failed), (0, 1));
        assert!(tally.failures[0].text.contains("E0308"));
    }

    #[test]
    fn a_run_without_tests_is_a_failure() {
        let output = "     Running unittests src/lib.rs (d/danube_log-0123)\n\nrunning 0 tests\n\n\
            test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(tally(output, true).failed, 1);
        assert_eq!(tally("", true).failed, 1);
    }
}
