//! The one way to the terminal: data to standard output, everything else to standard error, plain text without colours.

use std::io::{self, BufRead, BufWriter, Stdout, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::failure::{Failure, Result};

/// Bytes that are gathered before they are written, unless they are flushed.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output. What is written shows after [`Output::flush`].
pub(crate) struct Output<W: Write = Stdout> {
    writer: BufWriter<W>,
}

impl Output {
    /// Standard output of this process.
    pub(crate) fn new() -> Output {
        Output { writer: BufWriter::with_capacity(BUFFER_BYTES, io::stdout()) }
    }
}

impl<W: Write> Output<W> {
    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(refused)
    }

    /// Writes bytes and a newline.
    pub(crate) fn line(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        self.bytes(line.as_ref())?;
        self.bytes(b"\n")
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.writer, value).map_err(|error| refused(error.into()))?;
        self.bytes(b"\n")
    }

    /// Shows what was written.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(refused)
    }

    #[cfg(test)]
    pub(crate) fn to(writer: W) -> Output<W> {
        Output { writer: BufWriter::new(writer) }
    }

    #[cfg(test)]
    pub(crate) fn into_written(self) -> W {
        self.writer.into_inner().map_err(|error| error.into_error()).expect("memory takes it")
    }
}

fn refused(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::new(format!("cannot write to standard output: {error}")),
    }
}

/// Says something on standard error.
pub(crate) fn note(text: &str) {
    // Where nobody listens, the exit code still tells.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Asks on standard error and takes the answer from standard input; no answer is a no.
pub(crate) fn confirm(question: &str) -> bool {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Says how a command ended, and what its exit code is.
pub(crate) fn finish(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(Failure::Help(text)) => {
            let mut output = Output::new();
            match output.bytes(text.as_bytes()).and_then(|()| output.flush()) {
                Err(Failure::ClosedPipe) | Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(Failure::Misuse(text)) => {
            note(text.trim_end());
            ExitCode::from(2)
        }
        Err(Failure::Said) => ExitCode::FAILURE,
        Err(Failure::Failed { text, hint }) => {
            note(&format!("error: {text}"));
            if let Some(hint) = hint {
                note(&format!("hint: {hint}"));
            }
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refusing(io::ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let mut output = Output::to(Refusing(io::ErrorKind::BrokenPipe));
        output.line("x").expect("it is gathered");
        assert_eq!(output.flush(), Err(Failure::ClosedPipe));
        let mut output = Output::to(Refusing(io::ErrorKind::StorageFull));
        output.line("x").expect("it is gathered");
        assert!(matches!(output.flush(), Err(Failure::Failed { .. })));
    }

    #[test]
    fn json_is_one_line() {
        let mut output = Output::to(Vec::new());
        output.json(&serde_json::json!({ "a": "b\nc" })).expect("memory takes it");
        assert_eq!(output.into_written(), b"{\"a\":\"b\\nc\"}\n");
    }
}
