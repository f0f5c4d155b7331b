//! `danube produce`: lines or files as messages.
//!
//! ```text
//!  standard input ─ thread ─▶ chunks of lines ─▶ send, in order ─▶ deliveries ─▶ offsets, in order
//! ```
//!
//! Lines are cut out of what was read without being copied, batches are made by the client, and no line has a task of its own.
//! The first message that fails ends the command; what was sent before it is waited for.

mod input;

use std::future::ready;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use danube_client::{Creation, Delivery, Message, Outcome, Producer, Receipt, Reliability, Text};
use danube_env::{Clock, Env};
use memchr::memmem;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use crate::arguments::{MessageFormat, ProduceOptions};
use crate::failure::{Failure, Result};
use crate::terminal::Output;

/// Messages that were handed to the client and whose acknowledgement was not looked at yet.
const DELIVERIES_MAX: usize = 64 << 10;

/// Sends everything, and returns when all of it is acknowledged.
pub(crate) async fn run(options: ProduceOptions) -> Result<()> {
    let template = Template::of(&options)?;
    let producer = open(&options).await?;
    let (deliveries, handed_over) = mpsc::channel(DELIVERIES_MAX);
    let names = Names::of(&options);
    let format = options.print_offsets.then_some(options.output);
    {
        let mut printing = pin!(print_all(handed_over, &names, format));
        let mut sending = pin!(send_all(options, template, &names, &producer, deliveries));
        tokio::select! {
            biased;
            // A failure: nobody waits for more input.
            printed = &mut printing => printed?,
            // The end of the input, or a message that can't be sent. What failed before it was sent earlier.
            sent = &mut sending => printing.await.and(sent)?,
        }
    }
    Ok(producer.close().await?)
}

async fn open(options: &ProduceOptions) -> Result<Producer> {
    let client = options.connection.client()?;
    let creation = Creation {
        partitions: options.partitions,
        reliability: options.non_reliable.then_some(Reliability::NonReliable),
        durability: options.durability,
    };
    let producer = client.producer(options.topic.as_str())?;
    let producer = producer.create(Some(creation)).compression(options.compression);
    Ok(producer.timeout(options.timeout).open().await?)
}

/// A message that was handed over: its number from 0, and its fate.
type HandedOver = (u64, Delivery);

/// Sends the input. Returns at its end, or at the first message that can't be sent.
async fn send_all(
    options: ProduceOptions,
    template: Template,
    names: &Names,
    producer: &Producer,
    deliveries: mpsc::Sender<HandedOver>,
) -> Result<()> {
    let env = Env::real();
    let mut pace = options.rate.map(|rate| Pace::new(env.clock.clone(), rate));
    let mut payloads = match options.file.is_empty() {
        true => input::lines(&env),
        false => input::files(&env, options.file),
    };
    let mut number = 0;
    while let Some(chunk) = payloads.recv().await {
        for payload in chunk? {
            let about = |failure: Failure| failure.about(&names.of_message(number));
            let message = template.message(payload).map_err(about)?;
            if let Some(pace) = &mut pace {
                pace.wait().await;
            }
            let sent = producer.send(message).await;
            let delivery = sent.map_err(|error| about(error.into()))?;
            if deliveries.send((number, delivery)).await.is_err() {
                return Ok(());
            }
            number += 1;
        }
    }
    Ok(())
}

/// Waits for all acknowledgements in the order of the input, and prints them where a format is given. Returns at the first failure.
async fn print_all(
    mut handed_over: mpsc::Receiver<HandedOver>,
    names: &Names,
    format: Option<MessageFormat>,
) -> Result<()> {
    let mut output = Output::new();
    loop {
        let (number, mut delivery) = match handed_over.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => return output.flush(),
            Err(TryRecvError::Empty) => {
                output.flush()?;
                match handed_over.recv().await {
                    Some(next) => next,
                    None => return Ok(()),
                }
            }
        };
        // What was acknowledged shows before anything is waited for.
        let acknowledged = tokio::select! {
            biased;
            acknowledged = &mut delivery => acknowledged,
            () = ready(()) => {
                output.flush()?;
                delivery.await
            }
        };
        let receipt = match acknowledged {
            Ok(receipt) => receipt,
            Err(error) => {
                output.flush()?;
                return Err(unsettled(error, &names.of_message(number)));
            }
        };
        match format {
            None => {}
            Some(MessageFormat::Json) => output.json(&JsonReceipt::of(&receipt))?,
            Some(MessageFormat::Text | MessageFormat::Raw) => {
                output.line(format!("{}\t{}", receipt.topic, receipt.offset))?;
            }
        }
    }
}

/// A message that was handed over and has failed; whether it may be stored all the same is a part of that.
fn unsettled(error: danube_client::Error, name: &str) -> Failure {
    let outcome = match error.outcome() {
        Outcome::Definite => "it is not stored",
        Outcome::Unknown => "it may be stored all the same",
    };
    Failure::from(error).about(&format!("{name}: {outcome}"))
}

#[derive(Serialize)]
struct JsonReceipt<'a> {
    topic: &'a str,
    offset: u64,
}

impl JsonReceipt<'_> {
    fn of(receipt: &Receipt) -> JsonReceipt<'_> {
        JsonReceipt { topic: receipt.topic.as_str(), offset: receipt.offset.get() }
    }
}

/// What messages are called in errors.
enum Names {
    Lines,
    Files(Vec<PathBuf>),
}

impl Names {
    fn of(options: &ProduceOptions) -> Names {
        match options.file.is_empty() {
            true => Names::Lines,
            false => Names::Files(options.file.clone()),
        }
    }

    fn of_message(&self, number: u64) -> String {
        match self {
            Names::Lines => format!("line {}", number + 1),
            Names::Files(files) => files[number as usize].display().to_string(),
        }
    }
}

/// What all messages have in common.
struct Template {
    key: Option<Text>,
    separator: Option<String>,
    /// Sorted, so that equal messages have equal bytes.
    attributes: Vec<(Text, Text)>,
}

impl Template {
    fn of(options: &ProduceOptions) -> Result<Template> {
        let text = |text: &String| Text::from(text.as_str());
        let attributes = options.attributes.iter();
        let mut attributes: Vec<(Text, Text)> =
            attributes.map(|(name, value)| (text(name), text(value))).collect();
        attributes.sort();
        if let Some(twice) = attributes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Failure::Misuse(format!("error: --attr {} is given twice", twice[0].0)));
        }
        Ok(Template {
            key: options.key.as_ref().map(text),
            separator: options.key_separator.clone(),
            attributes,
        })
    }

    fn message(&self, input: Bytes) -> Result<Message> {
        let (key, payload) = match &self.separator {
            None => (self.key.clone(), input),
            Some(separator) => {
                let Some(at) = memmem::find(&input, separator.as_bytes()) else {
                    return Err(Failure::new(format!("no key: there is no {separator:?} in it")));
                };
                let key = Text::new(input.slice(..at));
                let key = key.ok_or_else(|| Failure::new("its key is not UTF-8"))?;
                (Some(key), input.slice(at + separator.len()..))
            }
        };
        Ok(Message { payload, key, attributes: self.attributes.clone(), ..Message::default() })
    }
}

/// Keeps messages at a rate: each is due at its time since the start, so that a pause is made up for.
struct Pace {
    clock: Arc<dyn Clock>,
    per_second: f64,
    start: Duration,
    messages: f64,
}

impl Pace {
    fn new(clock: Arc<dyn Clock>, per_second: f64) -> Pace {
        let start = clock.monotonic();
        Pace { clock, per_second, start, messages: 0.0 }
    }

    /// Waits until the next message is due.
    async fn wait(&mut self) {
        // A rate near zero may be due beyond all time.
        let due = Duration::try_from_secs_f64(self.messages / self.per_second);
        let due = self.start.saturating_add(due.unwrap_or(Duration::MAX));
        self.messages += 1.0;
        let now = self.clock.monotonic();
        if due > now {
            self.clock.sleep(due - now).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(separator: Option<&str>) -> Template {
        Template {
            key: None,
            separator: separator.map(str::to_owned),
            attributes: vec![("a".into(), "1".into())],
        }
    }

    #[test]
    fn a_line_is_split_at_the_first_separator() {
        let template = template(Some("::"));
        let message = template.message("k::v::w".into()).unwrap();
        assert_eq!((message.key, &message.payload[..]), (Some("k".into()), &b"v::w"[..]));
        let message = template.message("::".into()).unwrap();
        assert_eq!((message.key, &message.payload[..]), (Some("".into()), &b""[..]));
        let failure = template.message("v".into()).unwrap_err();
        assert_eq!(failure, Failure::new("no key: there is no \"::\" in it"));
        let failure = template.message(vec![0xff, b':', b':'].into()).unwrap_err();
        assert_eq!(failure, Failure::new("its key is not UTF-8"));
    }

    #[test]
    fn without_a_separator_a_line_is_a_payload() {
        let message = template(None).message("k::v".into()).unwrap();
        assert_eq!((message.key, &message.payload[..]), (None, &b"k::v"[..]));
        assert_eq!(message.attributes, [("a".into(), "1".into())]);
    }

    #[test]
    fn messages_have_names() {
        assert_eq!(Names::Lines.of_message(0), "line 1");
        assert_eq!(Names::Files(vec!["a".into(), "b".into()]).of_message(1), "b");
    }
}
