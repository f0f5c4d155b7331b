//! The one way to the terminal. A closed pipe is no error.

use std::io::Write;

/// Writes to standard output, at once.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody reads any more: the exit code still tells.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes to standard error.
pub(crate) fn problem(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "danube-sim: {text}");
}
