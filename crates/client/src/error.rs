//! What can go wrong.

use std::sync::Arc;
use std::time::Duration;

use danube_model::{ErrorKind, TopicName};
use danube_proto::{Failure, Outcome, failure};
use tonic::Status;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call, a message or a read failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The broker refused.
    #[error("{failure}")]
    Refused {
        /// What it said.
        failure: Failure,
    },
    /// The broker could not be asked, or its answer got lost.
    #[error("no answer from {url}")]
    Connection {
        /// Whom the client was talking to.
        url: Arc<str>,
        /// What the connection said.
        #[source]
        source: Arc<Status>,
    },
    /// Time ran out before the broker said yes.
    #[error("{topic} did not confirm within {after:?}")]
    TimedOut {
        /// The topic.
        topic: TopicName,
        /// The time that was allowed.
        after: Duration,
        /// Whether it may yet be stored.
        outcome: Outcome,
        /// What the last attempt said, if it said something.
        #[source]
        last: Option<Box<Error>>,
    },
    /// The broker can no longer tell whether a message is stored: it does not remember the producer, or the topic was
    /// deleted and made anew.
    #[error("{topic} can no longer tell whether a message was stored")]
    Untraceable {
        /// The topic.
        topic: TopicName,
    },
    /// The producer was closed or dropped before the message was confirmed.
    #[error("the producer was closed before {topic} confirmed")]
    Closed {
        /// The topic.
        topic: TopicName,
        /// Whether the message may be stored.
        outcome: Outcome,
    },
    /// A message or a name that can't be.
    #[error(transparent)]
    Model(#[from] danube_model::Error),
    /// The broker said something that makes no sense.
    #[error("{url} broke the protocol: {what}")]
    Protocol {
        /// Whom the client was talking to.
        url: Arc<str>,
        /// What did not make sense.
        what: &'static str,
    },
    /// The broker sent a message that can't be understood.
    #[error("the broker sent what can't be understood")]
    Malformed(#[from] danube_proto::Error),
    /// The URL of a broker can't be used.
    #[error("{url:?} is not the URL of a broker, such as http://127.0.0.1:6650")]
    Url {
        /// The URL.
        url: String,
    },
    /// A topic is not as it was to be created.
    #[error("{topic} exists with {found} partitions, not {expected}")]
    Partitions {
        /// The topic.
        topic: TopicName,
        /// How many it has; 0 if it is not partitioned.
        found: u32,
        /// How many were asked for.
        expected: u32,
    },
}

impl Error {
    /// What kind of error this is, for callers that branch.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Refused { failure } => failure.kind,
            Error::Connection { source, .. } => Failure::from(Status::clone(source)).kind,
            Error::TimedOut { last: Some(last), .. } => last.kind(),
            Error::TimedOut { last: None, .. }
            | Error::Closed { .. }
            | Error::Untraceable { .. } => ErrorKind::Unavailable,
            Error::Model(error) => error.kind(),
            Error::Malformed(_) | Error::Protocol { .. } => ErrorKind::Internal,
            Error::Url { .. } => ErrorKind::Invalid,
            Error::Partitions { .. } => ErrorKind::Conflict,
        }
    }

    /// Whether what was asked for may yet be done.
    pub fn outcome(&self) -> Outcome {
        match self {
            Error::Refused { failure } => failure.outcome,
            Error::TimedOut { outcome, .. } | Error::Closed { outcome, .. } => *outcome,
            Error::Connection { .. }
            | Error::Untraceable { .. }
            | Error::Protocol { .. }
            | Error::Malformed(_) => Outcome::Unknown,
            Error::Model(_) | Error::Url { .. } | Error::Partitions { .. } => Outcome::Definite,
        }
    }

    /// Whether the same may work later without anybody's help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Refused { failure } => failure.is_retryable,
            Error::Connection { source, .. } => Failure::from(Status::clone(source)).is_retryable,
            Error::TimedOut { .. } => true,
            Error::Untraceable { .. }
            | Error::Closed { .. }
            | Error::Model(_)
            | Error::Protocol { .. }
            | Error::Malformed(_)
            | Error::Url { .. }
            | Error::Partitions { .. } => false,
        }
    }

    /// Advice, where the broker gave some.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Error::Refused { failure } => failure.hint.as_deref(),
            Error::TimedOut { last: Some(last), .. } => last.hint(),
            _ => None,
        }
    }

    /// A call that ended with this status: the broker's word, or that of something on the way.
    pub(crate) fn from_status(url: &Arc<str>, status: Status) -> Error {
        if status.metadata().contains_key(failure::OUTCOME_KEY) {
            Error::Refused { failure: Failure::from(status) }
        } else {
            Error::Connection { url: url.clone(), source: Arc::new(status) }
        }
    }

    /// The same, said of something that may or may not be stored.
    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Error {
        if let Error::Refused { failure } = &mut self {
            failure.outcome = outcome;
        }
        self
    }
}
