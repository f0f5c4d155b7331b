//! What can be wrong with a message of a peer.

use danube_model::ErrorKind;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A message that can't be turned into the model's words. Always definite: nothing was done with it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field that must be set is not.
    #[error("{field} is missing")]
    Missing {
        /// The field's name in the `.proto` file.
        field: &'static str,
    },
    /// An enum's number that this build doesn't know.
    #[error("{field} has the unknown value {found}")]
    UnknownValue {
        /// The field's name in the `.proto` file.
        field: &'static str,
        /// What it says.
        found: i32,
    },
    /// An identity of the wrong length.
    #[error("{field} has {found} bytes, expected {expected}")]
    Length {
        /// The field's name in the `.proto` file.
        field: &'static str,
        /// Its bytes.
        found: usize,
        /// What they must be.
        expected: usize,
    },
    /// Text that is not the number it must be.
    #[error("{field} is {found:?}, expected a number")]
    NotNumber {
        /// The field's name in the `.proto` file.
        field: &'static str,
        /// What it says.
        found: String,
    },
    /// A value that the model refuses.
    #[error("{field} is not valid")]
    Invalid {
        /// The field's name in the `.proto` file.
        field: &'static str,
        /// Why.
        #[source]
        source: danube_model::Error,
    },
}

impl Error {
    /// What kind of error this is, for callers that branch.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    /// Whether the same may work later without anybody's help: never.
    pub fn is_retryable(&self) -> bool {
        false
    }
}
