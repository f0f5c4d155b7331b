//! How errors travel: as a message inside a stream, or as the status of a call.
//!
//! ```text
//!   error ─▶ Failure ─▶ stream.v1.Failure ─▶ Failure
//!                    └▶ status + metadata ─▶
//! ```
//!
//! Status codes say the kind again for clients that know nothing of our metadata.

use danube_model::ErrorKind;
use tonic::metadata::{BinaryMetadataValue, MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::stream;

/// Metadata: `definite` or `unknown`.
pub const OUTCOME_KEY: &str = "danube-outcome";
/// Metadata: the kind, in words such as `not_found`.
pub const KIND_KEY: &str = "danube-kind";
/// Metadata: `true` or `false`.
pub const RETRYABLE_KEY: &str = "danube-retryable";
/// Metadata: advice, UTF-8.
pub const HINT_KEY: &str = "danube-hint-bin";

/// Whether what failed may yet be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing was done and nothing will appear.
    Definite,
    /// It may have been done, or appear later.
    Unknown,
}

impl Outcome {
    /// Its word on the wire and in texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Definite => "definite",
            Outcome::Unknown => "unknown",
        }
    }
}

/// Why something did not work, as a broker tells it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of error, for callers that branch.
    pub kind: ErrorKind,
    /// Whether it may yet be done.
    pub outcome: Outcome,
    /// Whether the same may work later without anybody's help.
    pub is_retryable: bool,
    /// What failed, on what, seen and expected: one line.
    pub message: String,
    /// Advice, where there is some.
    pub hint: Option<String>,
}

impl From<Failure> for stream::Failure {
    fn from(failure: Failure) -> stream::Failure {
        stream::Failure {
            kind: wire_kind(failure.kind).into(),
            outcome: match failure.outcome {
                Outcome::Definite => stream::Outcome::Definite,
                Outcome::Unknown => stream::Outcome::Unknown,
            }
            .into(),
            retryable: failure.is_retryable,
            message: failure.message,
            hint: failure.hint.unwrap_or_default(),
        }
    }
}

/// Never fails: a kind that this build doesn't know is internal, an outcome that is not said is unknown.
impl From<stream::Failure> for Failure {
    fn from(failure: stream::Failure) -> Failure {
        Failure {
            kind: model_kind(failure.kind()),
            outcome: match failure.outcome() {
                stream::Outcome::Definite => Outcome::Definite,
                stream::Outcome::Unknown | stream::Outcome::Unspecified => Outcome::Unknown,
            },
            is_retryable: failure.retryable,
            message: failure.message,
            hint: Some(failure.hint).filter(|hint| !hint.is_empty()),
        }
    }
}

/// The status of a call that failed.
impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        let word = |text: &'static str| MetadataValue::from_static(text);
        let mut metadata = MetadataMap::new();
        metadata.insert(OUTCOME_KEY, word(failure.outcome.as_str()));
        metadata.insert(KIND_KEY, word(kind_word(failure.kind)));
        metadata.insert(RETRYABLE_KEY, word(if failure.is_retryable { "true" } else { "false" }));
        if let Some(hint) = &failure.hint {
            metadata.insert_bin(HINT_KEY, BinaryMetadataValue::from_bytes(hint.as_bytes()));
        }
        Status::with_metadata(code(failure.kind), failure.message, metadata)
    }
}

/// Never fails: what the metadata don't say is taken from the code. The outcome is unknown then, but of a message that the
/// transport found too large: it is the only one that says out of range, and nobody has looked at the message.
impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        let word = |key| status.metadata().get(key).and_then(|value| value.to_str().ok());
        let hint = status.metadata().get_bin(HINT_KEY).and_then(|value| value.to_bytes().ok());
        Failure {
            kind: word(KIND_KEY).and_then(kind_of_word).unwrap_or(kind_of_code(status.code())),
            outcome: match word(OUTCOME_KEY) {
                Some("definite") => Outcome::Definite,
                None if status.code() == Code::OutOfRange => Outcome::Definite,
                _ => Outcome::Unknown,
            },
            is_retryable: match word(RETRYABLE_KEY) {
                Some(text) => text == "true",
                None => is_retryable_code(status.code()),
            },
            message: match status.message() {
                "" => status.code().description().to_owned(),
                message => message.to_owned(),
            },
            hint: hint.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()),
        }
    }
}

const KINDS: [(ErrorKind, stream::Kind, &str, Code); 8] = [
    (ErrorKind::NotFound, stream::Kind::NotFound, "not_found", Code::NotFound),
    (ErrorKind::Invalid, stream::Kind::Invalid, "invalid", Code::InvalidArgument),
    (ErrorKind::Conflict, stream::Kind::Conflict, "conflict", Code::FailedPrecondition),
    (ErrorKind::Fenced, stream::Kind::Fenced, "fenced", Code::Aborted),
    (ErrorKind::Exhausted, stream::Kind::Exhausted, "exhausted", Code::ResourceExhausted),
    (ErrorKind::Unavailable, stream::Kind::Unavailable, "unavailable", Code::Unavailable),
    (ErrorKind::Corrupt, stream::Kind::Corrupt, "corrupt", Code::DataLoss),
    (ErrorKind::Internal, stream::Kind::Internal, "internal", Code::Internal),
];

fn row(kind: ErrorKind) -> &'static (ErrorKind, stream::Kind, &'static str, Code) {
    KINDS.iter().find(|row| row.0 == kind).expect("every kind has a row, a test says so")
}

fn wire_kind(kind: ErrorKind) -> stream::Kind {
    row(kind).1
}

fn kind_word(kind: ErrorKind) -> &'static str {
    row(kind).2
}

fn code(kind: ErrorKind) -> Code {
    row(kind).3
}

fn model_kind(kind: stream::Kind) -> ErrorKind {
    KINDS.iter().find(|row| row.1 == kind).map_or(ErrorKind::Internal, |row| row.0)
}

fn kind_of_word(word: &str) -> Option<ErrorKind> {
    KINDS.iter().find(|row| row.2 == word).map(|row| row.0)
}

fn kind_of_code(code: Code) -> ErrorKind {
    match code {
        Code::Cancelled | Code::DeadlineExceeded => ErrorKind::Unavailable,
        Code::AlreadyExists => ErrorKind::Conflict,
        Code::OutOfRange | Code::Unimplemented => ErrorKind::Invalid,
        code => KINDS.iter().find(|row| row.3 == code).map_or(ErrorKind::Internal, |row| row.0),
    }
}

/// What libraries and proxies on the way say when the connection or the peer is at fault.
fn is_retryable_code(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Unknown
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_failure() -> impl Strategy<Value = Failure> {
        let kind = (0..KINDS.len()).prop_map(|row| KINDS[row].0);
        let hint = prop::option::of("[a-zé;\n]{1,20}");
        (kind, any::<bool>(), any::<bool>(), "[a-z é\n]{1,40}", hint).prop_map(
            |(kind, is_definite, is_retryable, message, hint)| Failure {
                kind,
                outcome: if is_definite { Outcome::Definite } else { Outcome::Unknown },
                is_retryable,
                message,
                hint,
            },
        )
    }

    proptest! {
        #[test]
        fn failures_come_through_messages_and_statuses_unchanged(failure in any_failure()) {
            let message = stream::Failure::from(failure.clone());
            prop_assert_eq!(&Failure::from(message), &failure);
            let status = Status::from(failure.clone());
            prop_assert_eq!(&Failure::from(status), &failure);
        }
    }

    #[test]
    fn a_status_of_somebody_else_is_unknown() {
        let failure = Failure::from(Status::unavailable("connection refused"));
        assert_eq!(failure.kind, ErrorKind::Unavailable);
        assert_eq!(failure.outcome, Outcome::Unknown);
        assert!(failure.is_retryable);
        let failure = Failure::from(Status::unimplemented(""));
        assert!(!failure.is_retryable);
        assert!(!failure.message.is_empty());
        let failure = Failure::from(Status::out_of_range("decoded message length too large"));
        assert_eq!((failure.outcome, failure.is_retryable), (Outcome::Definite, false));
    }

    #[test]
    fn every_kind_has_a_row_of_its_own() {
        use ErrorKind::*;
        for kind in [NotFound, Invalid, Conflict, Fenced, Exhausted, Unavailable, Corrupt, Internal]
        {
            let (_, wire, word, code) = row(kind);
            assert_eq!(model_kind(*wire), kind);
            assert_eq!(kind_of_word(word), Some(kind));
            assert_eq!(kind_of_code(*code), kind);
        }
    }

    #[test]
    fn numbers_of_a_newer_version_do_not_panic() {
        let message = stream::Failure { kind: 99, outcome: 99, ..Default::default() };
        let failure = Failure::from(message);
        assert_eq!((failure.kind, failure.outcome), (ErrorKind::Internal, Outcome::Unknown));
    }
}
