//! `danube inspect`: files of a broker, offline.
//!
//! What is found is shown piece by piece: in JSON as the log says it, in text as its name and fields. The sum comes last. Damage is
//! exit code 1.

use std::ops::ControlFlow;
use std::sync::Arc;

use danube_env::Disk;
use danube_env::real::RealDisk;
use danube_log::inspect;
use danube_log::inspect::journal::Found as InJournal;
use danube_log::inspect::segment::Found as InSegment;
use danube_model::TimeMs;
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{Format, InspectCommand, InspectOptions};
use crate::failure::{Failure, Result};
use crate::terminal::Output;
use crate::time::rfc3339;

/// Fields that hold milliseconds since 1970.
const TIMES: [&str; 4] = ["created", "receive_time", "max_timestamp", "written"];

pub(crate) fn run(command: InspectCommand) -> Result<()> {
    match command {
        InspectCommand::Segment { file, options } => {
            let mut printer = Printer::new(&options);
            let summary = inspect::segment(&RealDisk::new(), &file, &mut |found| {
                let is_wrong = matches!(found, InSegment::Problem(_));
                printer.found(&found, is_wrong)
            });
            let summary = printer.summary(summary?)?;
            if summary.problems > 0 { Err(Failure::Said) } else { Ok(()) }
        }
        InspectCommand::Journal { dir, options } => {
            let mut printer = Printer::new(&options);
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
            let summary = inspect::journal(&disk, &dir, &mut |found| {
                let is_wrong = match &found {
                    InJournal::Finding(_) | InJournal::Lost(_) => true,
                    InJournal::Record(record) => record.problem.is_some(),
                    _ => false,
                };
                printer.found(&found, is_wrong)
            });
            let summary = printer.summary(summary?)?;
            if summary.damaged + summary.problems > 0 { Err(Failure::Said) } else { Ok(()) }
        }
    }
}

/// Shows what is found.
struct Printer {
    output: Output,
    format: Format,
    only_wrong: bool,
    /// Why printing ended early.
    ended: Result<()>,
}

impl Printer {
    fn new(options: &InspectOptions) -> Printer {
        Printer {
            output: Output::new(),
            format: options.output,
            only_wrong: options.summary,
            ended: Ok(()),
        }
    }

    fn found(&mut self, found: &impl Serialize, is_wrong: bool) -> ControlFlow<()> {
        if self.only_wrong && !is_wrong {
            return ControlFlow::Continue(());
        }
        self.ended = match self.format {
            Format::Json => self.output.json(found),
            Format::Text => self.output.line(as_text(found)),
        };
        if self.ended.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Shows the sum, and hands it on.
    fn summary<S: Serialize>(mut self, summary: S) -> Result<S> {
        self.ended?;
        #[derive(Serialize)]
        struct Last<'a, S> {
            found: &'static str,
            #[serde(flatten)]
            summary: &'a S,
        }
        let last = Last { found: "summary", summary: &summary };
        match self.format {
            Format::Json => self.output.json(&last)?,
            Format::Text => self.output.line(as_text(&last))?,
        }
        self.output.flush()?;
        Ok(summary)
    }
}

/// What was found, as its name and its fields: `batch base=0 bytes=97 …`. What is absent is left out.
fn as_text(found: &impl Serialize) -> String {
    let value = serde_json::to_value(found).expect("what is found has names for fields");
    let Value::Object(fields) = value else { return value.to_string() };
    let mut text = fields["found"].as_str().unwrap_or_default().to_owned();
    field_texts(&fields, "", &mut text);
    text
}

fn field_texts(fields: &serde_json::Map<String, Value>, prefix: &str, text: &mut String) {
    for (name, value) in fields.iter().filter(|(name, _)| *name != "found") {
        let shown = match value {
            Value::Null => continue,
            Value::Object(inner) => {
                field_texts(inner, &format!("{prefix}{name}."), text);
                continue;
            }
            Value::Number(number) if TIMES.contains(&name.as_str()) => {
                rfc3339(TimeMs::new(number.as_u64().unwrap_or(u64::MAX)))
            }
            Value::String(word) if word.contains(' ') => format!("{word:?}"),
            Value::String(word) => word.clone(),
            other => other.to_string(),
        };
        text.push_str(&format!(" {prefix}{name}={shown}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_found_becomes_a_line() {
        let batch = json!({
            "found": "batch", "base": 7, "receive_time": 0, "footer": null, "what": "two words",
            "producer": { "id": 1, "epoch": 0 },
        });
        let expected = "batch base=7 producer.epoch=0 producer.id=1 receive_time=1970-01-01T00:00:00.000Z \
                        what=\"two words\"";
        assert_eq!(as_text(&batch), expected);
    }
}
