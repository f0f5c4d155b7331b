//! Logs of this process, to standard error.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::arguments::{Command, Format, ServerOptions};

/// Says what is logged: a level, or levels by module, as in `info,danube_log=debug`.
pub(crate) const VARIABLE: &str = "DANUBE_LOG";

/// What libraries say is for those who look for a fault in them: an ordinary start of openraft warns.
const LIBRARIES: [&str; 4] = ["openraft", "h2", "hyper", "tonic"];
const LIBRARY_LEVEL: LevelFilter = LevelFilter::ERROR;

/// Starts logging: of a server from `info` on, of other commands from `warn` on, of `inspect` nothing, unless [`VARIABLE`]
/// says otherwise.
pub(crate) fn start(command: &Command) {
    let level = match command {
        Command::Server(_) => LevelFilter::INFO,
        // It shows all that is found itself.
        Command::Inspect(_) => LevelFilter::OFF,
        _ => LevelFilter::WARN,
    };
    let wanted = std::env::var(VARIABLE).ok();
    let parsed = wanted.as_deref().map(understand);
    let targets = match &parsed {
        Some(Ok(targets)) if targets.default_level().is_none() => {
            targets.clone().with_default(level)
        }
        Some(Ok(targets)) => targets.clone(),
        Some(Err(_)) | None => Targets::new()
            .with_default(level)
            .with_targets(LIBRARIES.map(|name| (name, LIBRARY_LEVEL))),
    };
    let lines = tracing_subscriber::fmt::layer().with_ansi(false);
    let subscriber = tracing_subscriber::registry().with(targets);
    match command {
        Command::Server(ServerOptions { log_format: Format::Json, .. }) => {
            subscriber.with(lines.json().flatten_event(true).with_writer(io::stderr)).init();
        }
        _ => subscriber.with(lines.with_writer(|| OneLine(io::stderr()))).init(),
    }
    if let Some(Err(error)) = parsed {
        tracing::warn!(error, "{VARIABLE} is not understood");
    }
}

/// Writes each event as one line: what clients have named with a line break in it can't look like a line of ours.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// Takes a whole event, as the layer writes it.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        let mut line = Vec::with_capacity(event.len());
        for byte in text {
            match byte {
                byte if byte.is_ascii_control() && *byte != b'\t' => {
                    line.extend(byte.escape_ascii());
                }
                byte => line.push(*byte),
            }
        }
        line.push(b'\n');
        self.0.write_all(&line)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A word alone is a level: as the name of a module, a level with a slip in it would silence all others.
fn understand(text: &str) -> Result<Targets, String> {
    let is_level = |word: &str| word.contains('=') || word.parse::<LevelFilter>().is_ok();
    match text.split(',').map(str::trim).find(|word| !is_level(word)) {
        Some(word) => Err(format!("{word:?} is no level")),
        None => text.parse().map_err(|error: ParseError| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let mut line = OneLine(Vec::new());
        line.write_all("a\tname=x\n2026 ERROR \u{1b}[2Jö\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(line.0).unwrap(), "a\tname=x\\n2026 ERROR \\x1b[2Jö\n");
    }

    #[test]
    fn a_word_that_is_no_level_is_not_taken_for_a_module() {
        assert_eq!(understand("info,nonsense").unwrap_err(), "\"nonsense\" is no level");
        assert!(understand("danube_log=loud").is_err());
        let targets = understand("warn,danube_log=debug").unwrap();
        assert_eq!(targets.default_level(), Some(LevelFilter::WARN));
        assert_eq!(understand("danube_log=debug").unwrap().default_level(), None);
    }
}
