//! What clients did and saw, in real-time order.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::message::{self, MessageId};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A send went out; again for each retry by the application.
    Invoked {
        /// What was sent.
        message: MessageId,
        /// Where to.
        topic: String,
        /// Its routing key.
        key: Option<String>,
    },
    /// A send was acknowledged.
    Ok {
        /// What was sent.
        message: MessageId,
        /// The offset it was given.
        offset: u64,
    },
    /// A send was definitely refused.
    Failed {
        /// What was sent.
        message: MessageId,
        /// The error.
        why: String,
    },
    /// Nobody knows whether a send was stored.
    Unknown {
        /// What was sent.
        message: MessageId,
        /// The error.
        why: String,
    },
    /// A reader or consumer got a message, before the final drain.
    Received {
        /// Who got it.
        reader: String,
        /// From which topic.
        topic: String,
        /// At which offset.
        offset: u64,
        /// Which message it is, or what is wrong with its payload.
        message: Result<MessageId, String>,
    },
    /// A fault was caused.
    Fault {
        /// Which.
        what: String,
    },
}

/// A growing list of events, shared by all clients of a run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct History {
    run: u64,
    events: Arc<Mutex<Vec<Event>>>,
}

impl History {
    /// An empty history. `run` goes into every payload, so that what another run left is not taken for this one's.
    #[must_use]
    pub fn new(run: u64) -> Self {
        Self { run, events: Arc::default() }
    }

    /// The payload to send for a message: `bytes` long, or as long as it needs to be.
    #[must_use]
    pub fn payload(&self, message: &MessageId, key: Option<&str>, bytes: usize) -> Vec<u8> {
        message::encode(self.run, message, key, bytes)
    }

    /// Which message of this run a payload is; else what is wrong with it.
    pub fn identify(&self, payload: &[u8]) -> Result<(MessageId, Option<String>), String> {
        message::decode(self.run, payload)
    }

    /// A send is about to go out.
    pub fn invoked(&self, message: &MessageId, topic: &str, key: Option<&str>) {
        let key = key.map(str::to_owned);
        self.push(Event::Invoked { message: message.clone(), topic: topic.to_owned(), key });
    }

    /// A send was acknowledged.
    pub fn ok(&self, message: &MessageId, offset: u64) {
        self.push(Event::Ok { message: message.clone(), offset });
    }

    /// A send was definitely refused.
    pub fn failed(&self, message: &MessageId, why: &str) {
        self.push(Event::Failed { message: message.clone(), why: why.to_owned() });
    }

    /// Nobody knows whether a send was stored.
    pub fn unknown(&self, message: &MessageId, why: &str) {
        self.push(Event::Unknown { message: message.clone(), why: why.to_owned() });
    }

    /// A reader or consumer got a message.
    pub fn received(&self, reader: &str, topic: &str, offset: u64, payload: &[u8]) {
        let message = self.identify(payload).map(|(message, _)| message);
        self.push(Event::Received {
            reader: reader.to_owned(),
            topic: topic.to_owned(),
            offset,
            message,
        });
    }

    /// A fault is about to be caused.
    pub fn fault(&self, what: &str) {
        self.push(Event::Fault { what: what.to_owned() });
    }

    /// How many sends were acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.lock().iter().filter(|event| matches!(event, Event::Ok { .. })).count()
    }

    /// Everything so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    fn push(&self, event: Event) {
        self.lock().push(event);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        // A push cannot leave the list half changed.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invoked { message, topic, key: None } => write!(f, "send {message} to {topic}"),
            Self::Invoked { message, topic, key: Some(key) } => {
                write!(f, "send {message} to {topic} with key {key}")
            }
            Self::Ok { message, offset } => write!(f, "ok {message} at {offset}"),
            Self::Failed { message, why } => write!(f, "refused {message}: {why}"),
            Self::Unknown { message, why } => write!(f, "unknown {message}: {why}"),
            Self::Received { reader, topic, offset, message: Ok(message) } => {
                write!(f, "{reader} got {message} from {topic} at {offset}")
            }
            Self::Received { reader, topic, offset, message: Err(why) } => {
                write!(f, "{reader} got from {topic} at {offset}: {why}")
            }
            Self::Fault { what } => write!(f, "*** {what}"),
        }
    }
}
