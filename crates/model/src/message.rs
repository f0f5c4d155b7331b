//! What an application sends and receives, as a record.
//!
//! | message | record |
//! |---|---|
//! | payload | value |
//! | routing key | key; none is null |
//! | publish time | timestamp |
//! | attributes | headers |
//! | producer's name | header `danube.producer`, UTF-8 |
//! | schema | header `danube.schema`: id (8 bytes), version (4 bytes, 0 for none) |
//! | sender | header `danube.sender`: producer id (8 bytes), request id (8 bytes), broker's address (UTF-8) |
//!
//! Header names that begin with `danube.` are ours; attributes can't have them.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::batch::RecordHeader;
use crate::error::shorten;
use crate::{Error, Record, Result, Text, TimeMs};

/// What every reserved header's name begins with.
pub const RESERVED_PREFIX: &str = "danube.";
/// The header with the producer's name.
pub const PRODUCER_HEADER: &str = "danube.producer";
/// The header with the schema.
pub const SCHEMA_HEADER: &str = "danube.schema";
/// The header with the sender.
pub const SENDER_HEADER: &str = "danube.sender";

/// A message as applications know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its content.
    pub payload: Bytes,
    /// Its routing key.
    pub key: Option<Text>,
    /// When it was published, by the producer's clock.
    pub publish_time: TimeMs,
    /// Names and values; what sends a map of them sorts it first, so that equal messages have equal bytes.
    pub attributes: Vec<(Text, Text)>,
    /// The name of who produced it.
    pub producer_name: Option<Text>,
    /// The schema that its payload follows.
    pub schema: Option<SchemaRef>,
    /// How it was sent, if that was over the protocol `danube`.
    pub sender: Option<Sender>,
}

/// A registered schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SchemaRef {
    /// Its id: 1 to 2^63 - 1.
    pub id: u64,
    /// Its version from 1 on, where the message says one.
    pub version: Option<u32>,
}

/// What a client of the protocol `danube` says of itself when it sends. It means nothing to a broker, which hands it to
/// those who receive the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// The id that the broker gave to the producer.
    pub producer_id: u64,
    /// The client's number of the call.
    pub request_id: u64,
    /// The broker that it thought to be talking to.
    pub broker_address: Text,
}

impl Message {
    /// The record of this message.
    ///
    /// # Errors
    /// [`Error::ReservedHeader`] for an attribute whose name is reserved; [`Error::OutOfRange`] for a schema id or version
    /// that can't exist.
    pub fn to_record(&self) -> Result<Record> {
        let mut headers = Vec::with_capacity(self.attributes.len() + 3);
        for (name, value) in &self.attributes {
            if is_reserved(name.as_str()) {
                return Err(reserved(name.as_str()));
            }
            headers.push(RecordHeader { name: name.clone(), value: Some(value.bytes().clone()) });
        }
        let mut reserved = |name, value| {
            headers.push(RecordHeader { name: Text::from_static(name), value: Some(value) });
        };
        if let Some(producer_name) = &self.producer_name {
            reserved(PRODUCER_HEADER, producer_name.bytes().clone());
        }
        if let Some(schema) = self.schema {
            reserved(SCHEMA_HEADER, encode_schema(schema)?);
        }
        if let Some(sender) = &self.sender {
            reserved(SENDER_HEADER, encode_sender(sender));
        }
        Ok(Record {
            timestamp: self.publish_time,
            key: self.key.clone().map(Text::into_bytes),
            value: Some(self.payload.clone()),
            headers,
        })
    }

    /// The message of a record. A null value is an empty payload.
    ///
    /// # Errors
    /// For records that [`crate::batch::RecordContent::Message`] does not let in.
    pub fn from_record(record: &Record) -> Result<Message> {
        let mut message = Message {
            payload: record.value.clone().unwrap_or_default(),
            key: record.key.clone().map(|key| text("key is not UTF-8", key)).transpose()?,
            publish_time: record.timestamp,
            attributes: Vec::with_capacity(record.headers.len()),
            producer_name: None,
            schema: None,
            sender: None,
        };
        let mut seen = ReservedHeaders::default();
        for header in &record.headers {
            let value = header.value.clone().ok_or(not_a_message("header without a value"))?;
            match ReservedName::of(header.name.as_str())? {
                None => {
                    let value = text("header value is not UTF-8", value)?;
                    message.attributes.push((header.name.clone(), value));
                }
                Some(name) => {
                    seen.take(name, &value)?;
                    match name {
                        ReservedName::Producer => message.producer_name = Text::new(value),
                        ReservedName::Schema => message.schema = decode_schema(&value),
                        ReservedName::Sender => message.sender = decode_sender(&value),
                    }
                }
            }
        }
        Ok(message)
    }
}

/// Whether a header's name is ours.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX)
}

/// The reserved headers that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReservedName {
    Producer,
    Schema,
    Sender,
}

impl ReservedName {
    /// Which one this name is: `None` for an attribute's, an error for one that is reserved and not in use.
    pub(crate) fn of(name: &str) -> Result<Option<ReservedName>> {
        match name {
            PRODUCER_HEADER => Ok(Some(ReservedName::Producer)),
            SCHEMA_HEADER => Ok(Some(ReservedName::Schema)),
            SENDER_HEADER => Ok(Some(ReservedName::Sender)),
            _ if is_reserved(name) => Err(reserved(name)),
            _ => Ok(None),
        }
    }
}

/// Holds each reserved header of a record to its form, and to appearing once.
#[derive(Debug, Default)]
pub(crate) struct ReservedHeaders {
    producer: bool,
    schema: bool,
    sender: bool,
}

impl ReservedHeaders {
    pub(crate) fn take(&mut self, name: ReservedName, value: &[u8]) -> Result<()> {
        let (seen, text, is_well_formed) = match name {
            ReservedName::Producer => {
                (&mut self.producer, PRODUCER_HEADER, std::str::from_utf8(value).is_ok())
            }
            ReservedName::Schema => {
                (&mut self.schema, SCHEMA_HEADER, decode_schema(value).is_some())
            }
            ReservedName::Sender => {
                (&mut self.sender, SENDER_HEADER, decode_sender(value).is_some())
            }
        };
        if *seen || !is_well_formed {
            return Err(reserved(text));
        }
        *seen = true;
        Ok(())
    }
}

fn encode_schema(schema: SchemaRef) -> Result<Bytes> {
    const ID_MAX: u64 = i64::MAX as u64;
    if schema.id == 0 || schema.id > ID_MAX {
        return Err(Error::OutOfRange { what: "schema id", found: schema.id, limit: ID_MAX });
    }
    if schema.version == Some(0) {
        let limit = u64::from(u32::MAX);
        return Err(Error::OutOfRange { what: "schema version", found: 0, limit });
    }
    let mut value = BytesMut::with_capacity(12);
    value.put_u64(schema.id);
    value.put_u32(schema.version.unwrap_or(0));
    Ok(value.freeze())
}

fn decode_schema(mut value: &[u8]) -> Option<SchemaRef> {
    if value.len() != 12 {
        return None;
    }
    let (id, version) = (value.get_u64(), value.get_u32());
    let is_valid = id != 0 && id <= i64::MAX as u64;
    is_valid.then_some(SchemaRef { id, version: (version != 0).then_some(version) })
}

/// Bytes of a sender before its broker's address.
const SENDER_IDS_BYTES: usize = 16;

fn encode_sender(sender: &Sender) -> Bytes {
    let broker_address = sender.broker_address.bytes();
    let mut value = BytesMut::with_capacity(SENDER_IDS_BYTES + broker_address.len());
    value.put_u64(sender.producer_id);
    value.put_u64(sender.request_id);
    value.put_slice(broker_address);
    value.freeze()
}

fn decode_sender(mut value: &[u8]) -> Option<Sender> {
    if value.len() < SENDER_IDS_BYTES {
        return None;
    }
    let (producer_id, request_id) = (value.get_u64(), value.get_u64());
    let broker_address = Text::from(std::str::from_utf8(value).ok()?);
    Some(Sender { producer_id, request_id, broker_address })
}

fn reserved(name: &str) -> Error {
    Error::ReservedHeader { name: shorten(name) }
}

fn not_a_message(what: &'static str) -> Error {
    Error::NotMessage { what }
}

fn text(what: &'static str, bytes: Bytes) -> Result<Text> {
    Text::new(bytes).ok_or(not_a_message(what))
}

#[cfg(test)]
mod tests;
