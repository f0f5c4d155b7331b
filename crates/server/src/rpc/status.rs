//! How errors are told to clients: the one place where they become failures and statuses.

use danube_broker::{Effect, Error};
use danube_model::ErrorKind;
use danube_proto::{Failure, Outcome};
use tonic::Status;

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

/// A call that this build does not have.
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
    Status::from(Failure {
        kind: ErrorKind::Invalid,
        outcome: Outcome::Unknown,
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
