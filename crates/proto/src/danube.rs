//! The messages of the package `danube`, and how they become the words of the model.

use std::str::FromStr;

use danube_model::{
    Error as ModelError, Message, Offset, SchemaRef, Sender, SubscriptionType, Text, TopicName,
};
use prost::Message as _;

use crate::generated::danube::consumer_request::SubscriptionType as WireType;
pub use crate::generated::danube::*;
use crate::{Error, Reliability, Result, convert};

/// Names that clients give to themselves, in bytes.
pub const CLIENT_NAME_BYTES_MAX: usize = 255;

/// What is sent in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The id that the broker gave to the producer, as the client says it.
    pub producer_id: u64,
    /// The topic, as the client says it.
    pub topic_name: String,
    /// The message. It has a sender.
    pub message: Message,
}

impl TryFrom<StreamMessage> for Sent {
    type Error = Error;

    fn try_from(sent: StreamMessage) -> Result<Sent> {
        let id = convert::required("msg_id", sent.msg_id)?;
        let producer_id = id.producer_id;
        let attributes = sent.attributes.into_iter();
        let schema = match (sent.schema_id, sent.schema_version) {
            (Some(id), version) => Some(SchemaRef { id, version }),
            (None, None) => None,
            (None, Some(_)) => return Err(Error::Missing { field: "schema_id" }),
        };
        let message = Message {
            payload: sent.payload,
            key: sent.routing_key.map(Text::from),
            publish_time: convert::time("publish_time", sent.publish_time)?,
            attributes: attributes.map(|(name, value)| (name.into(), value.into())).collect(),
            producer_name: Some(sent.producer_name).filter(|name| !name.is_empty()).map(Text::from),
            schema,
            sender: Some(Sender {
                producer_id,
                request_id: sent.request_id,
                broker_address: id.broker_addr.into(),
            }),
        };
        Ok(Sent { producer_id, topic_name: id.topic_name, message })
    }
}

/// A message as it is delivered.
pub fn delivered(topic: &TopicName, offset: Offset, message: Message) -> StreamMessage {
    let sender = message.sender.unwrap_or_default();
    let attributes = message.attributes.into_iter();
    StreamMessage {
        request_id: sender.request_id,
        msg_id: Some(MsgId {
            producer_id: sender.producer_id,
            topic_name: topic.to_string(),
            broker_addr: sender.broker_address.to_string(),
            topic_offset: offset.get(),
        }),
        payload: message.payload,
        publish_time: message.publish_time.get(),
        producer_name: message.producer_name.unwrap_or_default().to_string(),
        subscription_name: String::new(),
        attributes: attributes.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        schema_id: message.schema.map(|schema| schema.id),
        schema_version: message.schema.and_then(|schema| schema.version),
        routing_key: message.key.map(|key| key.to_string()),
    }
}

/// How many bytes a message has on the wire.
pub fn encoded_bytes(message: &StreamMessage) -> usize {
    message.encoded_len()
}

/// How many bytes what is sent here has when it is delivered, at most.
pub fn delivered_bytes_max(sent: &StreamMessage) -> usize {
    // The offset: one byte for its number, nine for itself, one that the length of the identity around it may grow by.
    const OFFSET_BYTES: usize = 1 + 9 + 1;
    sent.encoded_len() + OFFSET_BYTES
}

/// What a client calls itself: 1 to [`CLIENT_NAME_BYTES_MAX`] bytes without control characters.
pub fn client_name(field: &'static str, text: String) -> Result<String> {
    if text.is_empty() {
        return Err(Error::Missing { field });
    }
    if text.len() > CLIENT_NAME_BYTES_MAX {
        let (found, limit) = (text.len() as u64, CLIENT_NAME_BYTES_MAX as u64);
        let source = ModelError::Limit { what: "bytes of a name", found, limit };
        return Err(Error::Invalid { field, source });
    }
    if text.chars().any(char::is_control) {
        let reason = "control characters are not allowed";
        let source = ModelError::Parse { what: "name", found: text, reason };
        return Err(Error::Invalid { field, source });
    }
    Ok(text)
}

/// What a topic is to be.
pub fn dispatch_strategy(field: &'static str, number: i32) -> Result<Reliability> {
    match DispatchStrategy::try_from(number) {
        Ok(DispatchStrategy::NonReliable) => Ok(Reliability::NonReliable),
        Ok(DispatchStrategy::Reliable) => Ok(Reliability::Reliable),
        Err(_) => Err(Error::UnknownValue { field, found: number }),
    }
}

/// Who of a subscription's consumers gets which messages.
pub fn subscription_type(field: &'static str, number: i32) -> Result<SubscriptionType> {
    match WireType::try_from(number) {
        Ok(WireType::Exclusive) => Ok(SubscriptionType::Exclusive),
        Ok(WireType::Shared) => Ok(SubscriptionType::Shared),
        Ok(WireType::Failover) => Ok(SubscriptionType::Failover),
        Ok(WireType::KeyShared) => Ok(SubscriptionType::KeyShared),
        Err(_) => Err(Error::UnknownValue { field, found: number }),
    }
}

/// A name of the model.
pub fn name<T: FromStr<Err = ModelError>>(field: &'static str, text: &str) -> Result<T> {
    text.parse().map_err(|source| Error::Invalid { field, source })
}

/// Accepted where it is a mode at all.
pub fn access_mode(field: &'static str, number: i32) -> Result<ProducerAccessMode> {
    ProducerAccessMode::try_from(number).map_err(|_| Error::UnknownValue { field, found: number })
}

#[cfg(test)]
mod tests {
    use danube_model::TimeMs;

    use super::*;

    fn sent() -> StreamMessage {
        StreamMessage {
            request_id: 7,
            msg_id: Some(MsgId {
                producer_id: 8,
                topic_name: "/default/t".to_owned(),
                broker_addr: "http://b:1/".to_owned(),
                topic_offset: 9,
            }),
            payload: "hello".into(),
            publish_time: i64::MAX as u64,
            producer_name: "p-0".to_owned(),
            subscription_name: "unused".to_owned(),
            attributes: [("b", "2"), ("a", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            schema_id: Some(1),
            schema_version: Some(2),
            routing_key: Some("k".to_owned()),
        }
    }

    /// Through the record that is stored.
    fn round(sent: StreamMessage) -> StreamMessage {
        let Sent { topic_name, message, .. } = sent.try_into().unwrap();
        let message = Message::from_record(&message.to_record().unwrap()).unwrap();
        delivered(&topic_name.parse().unwrap(), Offset::MAX, message)
    }

    #[test]
    fn a_message_comes_back_as_it_was_sent() {
        let absent = StreamMessage {
            schema_id: None,
            schema_version: None,
            routing_key: None,
            producer_name: String::new(),
            payload: Default::default(),
            ..sent()
        };
        let empty = StreamMessage { routing_key: Some(String::new()), ..absent.clone() };
        let unversioned = StreamMessage { schema_version: None, ..sent() };
        for sent in
            [sent(), absent, empty, unversioned, StreamMessage { publish_time: 0, ..sent() }]
        {
            let mut expected = sent.clone();
            expected.subscription_name.clear();
            expected.msg_id.as_mut().unwrap().topic_offset = Offset::MAX.get();
            let bytes_max = delivered_bytes_max(&sent);
            let found = round(sent);
            assert_eq!(found, expected);
            assert!(found.encoded_len() <= bytes_max, "{} > {bytes_max}", found.encoded_len());
        }
    }

    #[test]
    fn what_a_native_client_sent_has_an_identity_all_the_same() {
        let message = Message { publish_time: TimeMs::new(3), ..Message::default() };
        let topic = "/default/t".parse().unwrap();
        let found = delivered(&topic, Offset::new(5), message);
        let id = found.msg_id.unwrap();
        assert_eq!((id.topic_name.as_str(), id.topic_offset, id.producer_id), ("/default/t", 5, 0));
        assert_eq!((found.routing_key, found.schema_id), (None, None));
    }

    #[test]
    fn what_can_t_be_sent_is_refused_by_the_field_s_name() {
        let cases = [
            (StreamMessage { msg_id: None, ..sent() }, "msg_id"),
            (StreamMessage { publish_time: 1 << 63, ..sent() }, "publish_time"),
            (StreamMessage { schema_id: None, ..sent() }, "schema_id"),
        ];
        for (sent, field) in cases {
            let error = Sent::try_from(sent).unwrap_err();
            assert!(error.to_string().starts_with(field), "{error}");
        }
        assert!(dispatch_strategy("dispatch_strategy", 2).is_err());
        assert!(access_mode("producer_access_mode", -1).is_err());
        assert!(subscription_type("subscription_type", 4).is_err());
    }

    #[test]
    fn names_of_clients_can_be_shown() {
        for name in ["p", "..", "ä/b c", &"x".repeat(CLIENT_NAME_BYTES_MAX)] {
            assert_eq!(client_name("producer_name", name.to_owned()).unwrap(), name);
        }
        for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(CLIENT_NAME_BYTES_MAX + 1)] {
            assert!(client_name("producer_name", name.to_owned()).is_err(), "{name:?}");
        }
    }
}
