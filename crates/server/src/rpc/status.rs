//! How errors are told to clients: the one place where they become failures and statuses.

use danube_broker::{Effect, Error};
use danube_model::{ErrorKind, TopicName};
use danube_proto::{Failure, Outcome};
use tonic::{Code, Status};

/// What the broker says of an error.
pub(crate) fn failure(error: &Error) -> Failure {
    Failure {
        kind: error.kind(),
        outcome: match error.effect() {
            Effect::Definite => Outcome::Definite,
            Effect::Unknown => Outcome::Unknown,
        },
        is_retryable: error.is_retryable(),
        message: with_sources(error),
        hint: error.hint().map(str::to_owned),
    }
}

/// The status of a call that the broker failed.
pub(crate) fn status(error: &Error) -> Status {
    failure(error).into()
}

/// A message that can't be understood, or asks for what there is not.
pub(crate) fn invalid(error: &danube_proto::Error) -> Status {
    Status::from(invalid_failure(error))
}

/// The same inside a stream.
pub(crate) fn invalid_failure(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure {
        kind: ErrorKind::Invalid,
        outcome: Outcome::Definite,
        is_retryable: false,
        message: with_sources(error),
        hint: None,
    }
}

/// The same of a value.
pub(crate) fn invalid_value(error: &danube_model::Error) -> Status {
    Status::from(invalid_failure(error))
}

/// A call that this build does not have, or that makes no sense.
pub(crate) fn unsupported(what: &str) -> Status {
    Status::from(Failure {
        kind: ErrorKind::Invalid,
        outcome: Outcome::Definite,
        is_retryable: false,
        message: what.to_owned(),
        hint: None,
    })
}

/// A client that breaks the rules of a stream; the stream ends.
pub(crate) fn protocol(what: &str) -> Status {
    broken(what, Outcome::Unknown)
}

/// The same before anything was done.
pub(crate) fn not_opened(what: &str) -> Status {
    broken(what, Outcome::Definite)
}

fn broken(what: &str, outcome: Outcome) -> Status {
    Status::from(Failure {
        kind: ErrorKind::Invalid,
        outcome,
        is_retryable: false,
        message: format!("protocol broken: {what}"),
        hint: None,
    })
}

/// A stream that ends because the broker stops. What was not answered on it was not looked at or may have been done.
pub(crate) fn stopping() -> Status {
    Status::from(Failure {
        kind: ErrorKind::Unavailable,
        outcome: Outcome::Unknown,
        is_retryable: true,
        message: "the broker is stopping".to_owned(),
        hint: Some("retry; clients do so by themselves".to_owned()),
    })
}

/// A read that ends because its log was closed: to be opened again at another level, say, or deleted.
pub(crate) fn log_closed() -> Status {
    Status::from(Failure {
        kind: ErrorKind::Unavailable,
        outcome: Outcome::Definite,
        is_retryable: true,
        message: "the log was closed while it was read".to_owned(),
        hint: Some("read again from where it ended; clients do so by themselves".to_owned()),
    })
}

/// A limit on what one client may hold.
pub(crate) fn exhausted(what: &str, limit: usize) -> Failure {
    Failure {
        kind: ErrorKind::Exhausted,
        outcome: Outcome::Definite,
        is_retryable: false,
        message: format!("{what}, the limit is {limit}"),
        hint: None,
    }
}

/// Something beyond a limit that does not change.
pub(crate) fn too_large(what: &'static str, found: usize, limit: usize) -> Status {
    let (found, limit) = (found as u64, limit as u64);
    invalid_value(&danube_model::Error::Limit { what, found, limit })
}

/// A look-up of the protocol `danube`. A topic with partitions is nowhere; they are.
pub(crate) fn lookup(error: &Error) -> Status {
    match error {
        Error::Partitioned { .. } => told_as(error, ErrorKind::NotFound),
        _ => status(error),
    }
}

/// What keeps a client of the protocol `danube` from registering.
pub(crate) fn registering(error: &Error) -> Status {
    if error.kind() == ErrorKind::Fenced {
        return told_as(error, ErrorKind::Unavailable);
    }
    let status = status(error);
    if error.is_name_taken() {
        return Status::with_metadata(
            Code::AlreadyExists,
            status.message(),
            status.metadata().clone(),
        );
    }
    status
}

/// What fails a client of the protocol `danube` that is registered. Only at this status does it look its topic up and
/// register again, so that is what it is told where its topic is gone from here.
pub(crate) fn registered(error: &Error) -> Status {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::Fenced => told_as(error, ErrorKind::Unavailable),
        _ => status(error),
    }
}

/// A client of the protocol `danube` that must register again.
pub(crate) fn unknown_producer(id: u64) -> Status {
    Status::from(Failure {
        kind: ErrorKind::Unavailable,
        outcome: Outcome::Definite,
        is_retryable: true,
        message: format!("producer {id} is not registered"),
        hint: Some("register again; clients do so by themselves".to_owned()),
    })
}

/// The same of a consumer.
pub(crate) fn unknown_consumer(id: u64) -> Status {
    Status::from(Failure {
        kind: ErrorKind::Unavailable,
        outcome: Outcome::Definite,
        is_retryable: true,
        message: format!("consumer {id} is not registered"),
        hint: Some("subscribe again; clients do so by themselves".to_owned()),
    })
}

/// A consumer of the protocol `danube` that is not to be asked for any more.
pub(crate) fn forgotten_consumer(id: u64) -> Status {
    Status::from(Failure {
        kind: ErrorKind::NotFound,
        outcome: Outcome::Definite,
        is_retryable: false,
        message: format!("consumer {id} is no more"),
        hint: None,
    })
}

/// What ends the stream of a consumer of the protocol `danube`, or keeps it from beginning. One whose place another has is
/// to give up.
pub(crate) fn consuming(error: &Error) -> Status {
    match error {
        Error::Replaced => told_as(error, ErrorKind::Conflict),
        _ => registered(error),
    }
}

/// A message for another topic than its producer's.
pub(crate) fn other_topic(producer: u64, topic: &TopicName, found: &str) -> Status {
    let shown: String = found.chars().take(topic.as_str().len()).collect();
    unsupported(&format!("producer {producer} is on topic {topic}, not on {shown:?}"))
}

/// A schema that nobody has registered, since nobody can.
pub(crate) fn no_such_subject(subject: &str) -> Status {
    let shown: String = subject.chars().take(80).collect();
    Status::from(Failure {
        kind: ErrorKind::Conflict,
        outcome: Outcome::Definite,
        is_retryable: false,
        message: format!("there is no schema {shown:?}: this version has no schemas"),
        hint: None,
    })
}

/// The same error of another kind, for clients that take the kinds in their own way.
fn told_as(error: &Error, kind: ErrorKind) -> Status {
    let is_retryable = kind == ErrorKind::Unavailable;
    Status::from(Failure { kind, is_retryable, ..failure(error) })
}

/// On the wire there is one line: the error and what caused it.
fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
