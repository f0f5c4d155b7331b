//! Messages, gaps and damage on a terminal.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use danube_client::reader::Received;
use danube_model::{Message, Offset, TopicName};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::arguments::MessageFormat;
use crate::failure::Result;
use crate::terminal::{self, Output};
use crate::time::rfc3339;

/// Writes a message that was delivered so often.
pub(super) fn message<W: Write>(
    output: &mut Output<W>,
    format: MessageFormat,
    received: &Received,
    delivery_count: u32,
) -> Result<()> {
    match format {
        MessageFormat::Text => output.line(&received.message.payload),
        MessageFormat::Raw => output.bytes(&received.message.payload),
        MessageFormat::Json => output.json(&JsonMessage::of(received, delivery_count)),
    }
}

/// Writes that offsets `[from, to)` are not there: as an object in JSON, else beside the messages.
pub(super) fn gap<W: Write>(
    output: &mut Output<W>,
    format: MessageFormat,
    gap: &Gap<'_>,
) -> Result<()> {
    match format {
        MessageFormat::Json => {
            output.json(&JsonGap { topic: gap.topic.as_str(), gap: gap.range() })
        }
        MessageFormat::Text | MessageFormat::Raw => {
            // In its place among the messages, where both go to one terminal.
            output.flush()?;
            let Gap { topic, from, to, why } = gap;
            terminal::note(&format!(
                "gap: {topic} has no messages from offset {from} to {to}: {why}"
            ));
            Ok(())
        }
    }
}

/// Writes that offsets `[from, to)` can't be read: as a gap in JSON, and beside the messages in any case.
pub(super) fn damage<W: Write>(
    output: &mut Output<W>,
    format: MessageFormat,
    damage: &Damage<'_>,
) -> Result<()> {
    let Damage { topic, from, to, file, message } = *damage;
    if format == MessageFormat::Json {
        gap(output, format, &Gap { topic, from, to, why: CORRUPT })?;
    }
    output.flush()?;
    terminal::note(&format!(
        "error: {topic} can't be read from offset {from} to {to}: {CORRUPT}: {file}: {message}\n\
         hint: danube topic repair {topic}"
    ));
    Ok(())
}

/// What a damaged range is called where a gap has its reason.
const CORRUPT: &str = "corrupt";

/// Offsets `[from, to)` that can't be read at present.
pub(super) struct Damage<'a> {
    pub(super) topic: &'a TopicName,
    pub(super) from: Offset,
    pub(super) to: Offset,
    pub(super) file: &'a str,
    pub(super) message: &'a str,
}

/// Offsets `[from, to)` that will never be readable.
pub(super) struct Gap<'a> {
    pub(super) topic: &'a TopicName,
    pub(super) from: Offset,
    pub(super) to: Offset,
    pub(super) why: &'a str,
}

impl Gap<'_> {
    fn range(&self) -> JsonRange<'_> {
        JsonRange { from: self.from.get(), to: self.to.get(), why: self.why }
    }
}

#[derive(Serialize)]
struct JsonGap<'a> {
    topic: &'a str,
    gap: JsonRange<'a>,
}

#[derive(Serialize)]
struct JsonRange<'a> {
    from: u64,
    to: u64,
    why: &'a str,
}

/// The fields that scripts rely on, in this order.
#[derive(Serialize)]
struct JsonMessage<'a> {
    topic: &'a str,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    attributes: Attributes<'a>,
    publish_time: String,
    receive_time: String,
    /// Empty if the producer has no name.
    producer: &'a str,
    delivery_count: u32,
    #[serde(flatten)]
    payload: Payload<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Payload<'a> {
    Payload(&'a str),
    PayloadBase64(String),
}

struct Attributes<'a>(&'a Message);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.attributes.len()))?;
        for (name, value) in &self.0.attributes {
            map.serialize_entry(name.as_str(), value.as_str())?;
        }
        map.end()
    }
}

impl<'a> JsonMessage<'a> {
    fn of(received: &'a Received, delivery_count: u32) -> JsonMessage<'a> {
        let message = &received.message;
        JsonMessage {
            topic: received.topic.as_str(),
            offset: received.offset.get(),
            key: message.key.as_ref().map(|key| key.as_str()),
            attributes: Attributes(message),
            publish_time: rfc3339(message.publish_time),
            receive_time: rfc3339(received.receive_time),
            producer: message.producer_name.as_ref().map_or("", |name| name.as_str()),
            delivery_count,
            payload: match std::str::from_utf8(&message.payload) {
                Ok(text) => Payload::Payload(text),
                Err(_) => Payload::PayloadBase64(STANDARD.encode(&message.payload)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use danube_model::{Epoch, Text, TimeMs};

    use super::*;

    fn received(message: Message) -> Received {
        Received {
            topic: "/default/a".parse().unwrap(),
            offset: Offset::new(9_007_199_254_740_993),
            epoch: Epoch::ZERO,
            receive_time: TimeMs::new(1),
            message,
        }
    }

    fn shown(format: MessageFormat, message: Message) -> String {
        let mut output = Output::to(Vec::new());
        super::message(&mut output, format, &received(message), 1).unwrap();
        String::from_utf8(output.into_written()).unwrap()
    }

    #[test]
    fn a_message_in_json_has_all_its_fields() {
        let message = Message {
            payload: "hi \"you\"\n".into(),
            key: Some("k".into()),
            publish_time: TimeMs::new(2),
            attributes: vec![("a".into(), "1".into()), ("b".into(), "ä".into())],
            producer_name: Some("p".into()),
            ..Message::default()
        };
        let expected = concat!(
            r#"{"topic":"/default/a","offset":9007199254740993,"key":"k","attributes":{"a":"1","b":"ä"},"#,
            r#""publish_time":"1970-01-01T00:00:00.002Z","receive_time":"1970-01-01T00:00:00.001Z","#,
            r#""producer":"p","delivery_count":1,"payload":"hi \"you\"\n"}"#,
            "\n"
        );
        assert_eq!(shown(MessageFormat::Json, message), expected);
    }

    #[test]
    fn what_a_message_lacks_is_absent_or_empty() {
        let message = Message { payload: vec![0xff, 0x00].into(), ..Message::default() };
        let expected = concat!(
            r#"{"topic":"/default/a","offset":9007199254740993,"attributes":{},"#,
            r#""publish_time":"1970-01-01T00:00:00.000Z","receive_time":"1970-01-01T00:00:00.001Z","#,
            r#""producer":"","delivery_count":1,"payload_base64":"/wA="}"#,
            "\n"
        );
        assert_eq!(shown(MessageFormat::Json, message), expected);
    }

    #[test]
    fn text_is_a_line_and_raw_is_nothing_but_bytes() {
        let message = Message {
            payload: "a\nb".into(),
            key: Some(Text::from_static("k")),
            ..Message::default()
        };
        assert_eq!(shown(MessageFormat::Text, message.clone()), "a\nb\n");
        assert_eq!(shown(MessageFormat::Raw, message), "a\nb");
    }

    #[test]
    fn a_gap_in_json_is_an_object() {
        let mut output = Output::to(Vec::new());
        let topic = "/default/a".parse().unwrap();
        let gap = Gap { topic: &topic, from: Offset::new(3), to: Offset::new(8), why: "corrupt" };
        super::gap(&mut output, MessageFormat::Json, &gap).unwrap();
        let expected =
            "{\"topic\":\"/default/a\",\"gap\":{\"from\":3,\"to\":8,\"why\":\"corrupt\"}}\n";
        assert_eq!(String::from_utf8(output.into_written()).unwrap(), expected);
    }
}
