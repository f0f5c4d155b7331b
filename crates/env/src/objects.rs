//! Bytes at keys: a bucket of an object store, or a directory that is used as one.
//!
//! # What may be assumed
//!
//! * A key has all of its bytes or none. Who reads sees what one write stored, never a part or a mixture.
//! * A write that returned without error is seen by every later read, from anywhere, and survives whatever the store survives.
//!   A listing may be behind.
//! * Of those who [`create`](Objects::create) one key, one stores it; the others are told [`Created::Taken`].
//! * An error leaves a write undone only if it [is definite](Error::is_definite). After any other it may have been done, or
//!   may be done at any time later, even after other requests that were made meanwhile.
//! * So `Taken` may be the answer to one's own write, whose first answer was lost (the transport may repeat a request): who
//!   needs to know puts something that only he can know into the body, and reads it.
//!
//! Nothing is tried again here, and nobody waits for longer than the time-out of one request: how long to go on, and at what
//! pace, is for those to say who know what depends on it. Dropping a future leaves a write in doubt, as an error does.
//!
//! Keys are made of the characters of [`is_key`]; `/` separates directories. No key is the directory of another.

#[cfg(feature = "sim")]
pub mod contract;

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use bytes::Bytes;

/// What a request comes to.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What became of a [`create`](Objects::create).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The key has these bytes.
    Stored,
    /// The key had bytes, which it keeps.
    Taken,
}

/// What is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key, whole.
    pub key: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was written, in milliseconds since the Unix epoch, by the clock of the store.
    pub modified_ms: u64,
}

/// Names an upload in parts that has begun. It outlives the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadId(pub String);

/// Which part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 0, without holes.
    pub number: usize,
    /// Of its first byte in the body.
    pub position: u64,
}

/// Names a part that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartId(pub String);

/// One bucket, or a directory in it. Any number of tasks may use it at once.
pub trait Objects: Send + Sync + 'static {
    /// Stores `body` under a key that nobody has.
    fn create<'a>(&'a self, key: &'a str, body: Bytes) -> Answer<'a, Created>;
    /// Stores `body` under a key, whatever it had.
    fn put<'a>(&'a self, key: &'a str, body: Bytes) -> Answer<'a, ()>;
    /// Begins to store a body in parts. Nothing is at the key before [`Objects::complete_upload`].
    fn begin_upload<'a>(&'a self, key: &'a str) -> Answer<'a, UploadId>;
    /// Stores a part of a body. All parts but the last have the same length, of [`PART_BYTES_MIN`] or more; they may come in any
    /// order and more than once.
    fn upload_part<'a>(
        &'a self,
        key: &'a str,
        upload: &'a UploadId,
        part: Part,
        body: Bytes,
    ) -> Answer<'a, PartId>;
    /// Puts the parts together, in order, whatever the key had. After an error that is not definite the upload may be gone, and
    /// the object there: see [`Objects::find`].
    fn complete_upload<'a>(
        &'a self,
        key: &'a str,
        upload: &'a UploadId,
        parts: Vec<PartId>,
    ) -> Answer<'a, ()>;
    /// Lets go of the parts of an upload. One that is not there is no error.
    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> Answer<'a, ()>;
    /// All bytes of a key, at most `bytes_max`: [`Kind::TooLarge`] if it has more.
    fn get<'a>(&'a self, key: &'a str, bytes_max: u64) -> Answer<'a, Bytes>;
    /// The bytes of a key at `range`, which lies within it and is not empty: [`Kind::Short`] if less came.
    fn read<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes>;
    /// A key without its bytes; `None` if it is not there.
    fn find<'a>(&'a self, key: &'a str) -> Answer<'a, Option<Listed>>;
    /// The first `at_most` of all that is in a directory and below it, which `directory` names without a `/` at its end, behind
    /// the key `after`; sorted by key. Less than `at_most`: there is no more.
    fn list<'a>(
        &'a self,
        directory: &'a str,
        after: Option<&'a str>,
        at_most: usize,
    ) -> Answer<'a, Vec<Listed>>;
    /// Removes a key. One that is not there is no error.
    fn remove<'a>(&'a self, key: &'a str) -> Answer<'a, ()>;
}

/// Every store takes parts of this length, in bytes.
pub const PART_BYTES_MIN: usize = 5 << 20;

/// Whether a text is a key: up to 900 bytes of letters, digits, `-`, `_`, `.`, `=` and single `/` between names that are not
/// made of dots alone. Every store takes these as they are.
#[must_use]
pub fn is_key(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte);
    let is_name = |name: &str| name.bytes().all(is_plain) && name.bytes().any(|byte| byte != b'.');
    text.len() <= 900 && text.split('/').all(is_name)
}

/// Refuses to ask for what is no key.
pub(crate) fn check_key(what: &'static str, key: &str) -> Result<(), Error> {
    if is_key(key) { Ok(()) } else { Err(Error::new(what, key, Kind::Unsupported)) }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[error("{what} {key}: {kind}")]
pub struct Error {
    /// What was asked for.
    pub what: &'static str,
    /// The key that it was about.
    pub key: String,
    /// What is wrong.
    pub kind: Kind,
    /// What the store or the transport said. Without credentials.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Kind {
    /// The key, the bucket or the upload is not there.
    #[error("not found")]
    NotFound,
    /// Credentials are missing or wrong, or don't allow it.
    #[error("not allowed")]
    Denied,
    /// The object has more bytes than were asked for.
    #[error("larger than expected")]
    TooLarge,
    /// Less came than the object is to have.
    #[error("shorter than expected")]
    Short,
    /// The store can't do it.
    #[error("not supported by the store")]
    Unsupported,
    /// No answer, or that the store can't do it at the moment, or anything else.
    #[error("failed")]
    Unavailable,
}

impl Error {
    pub(crate) fn new(what: &'static str, key: &str, kind: Kind) -> Error {
        Error { what, key: key.to_owned(), kind, source: None }
    }

    pub(crate) fn because(
        self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error { source: Some(source.into()), ..self }
    }

    /// Whether a write that failed so is known not to have been done, now or later.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        !matches!(self.kind, Kind::Unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_plain() {
        for key in ["a", "a/b-1_2.log=", "..a/b"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", "/a", "a/", "a//b", "a/../b", ".", "a b", "a%2e", "ä", "a\n", "a\\b"] {
            assert!(!is_key(key), "{key}");
        }
        assert!(!is_key(&"a".repeat(901)));
    }
}
