//! What this crate refuses, and the kinds of error that all crates share.

use std::io;
use std::sync::Arc;

use crate::Compression;

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may conclude from an error, the same in every crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What was asked for does not exist.
    NotFound,
    /// The request can't be fulfilled as it is, now or later.
    Invalid,
    /// It contradicts what exists.
    Conflict,
    /// Another owner or session has taken over.
    Fenced,
    /// A limit or a resource is used up; it may work later.
    Exhausted,
    /// Something needed is away; it may work later.
    Unavailable,
    /// Stored bytes are not what was written.
    Corrupt,
    /// A fault of this program.
    Internal,
}

/// Why a value or a batch was refused.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text does not say what it should.
    #[error("invalid {what} {found:?}: {reason}")]
    Parse {
        /// What was expected.
        what: &'static str,
        /// The text, shortened where it is long.
        found: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A number is not one of its type.
    #[error("{what} {found} is out of range, the greatest is {limit}")]
    OutOfRange {
        /// What it should be.
        what: &'static str,
        /// The number.
        found: u64,
        /// The greatest that is allowed.
        limit: u64,
    },
    /// Something is larger than its limit.
    #[error("too many {what}: {found}, the limit is {limit}")]
    Limit {
        /// What is limited, with its unit.
        what: &'static str,
        /// What was found. Where it was not counted to its end, as far as it was.
        found: u64,
        /// The limit, inclusive.
        limit: u64,
    },
    /// The bytes of a batch contradict each other or its format.
    #[error("malformed batch: {what}, at byte {at}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Where: in the batch, or in its records as decompressed.
        at: usize,
    },
    /// A batch has something that Danube does not support.
    #[error("batch not supported: {what} {found}")]
    Unsupported {
        /// What.
        what: &'static str,
        /// Its value.
        found: u64,
    },
    /// A batch's checksum does not fit its bytes.
    #[error("batch checksum is {computed:#010x}, the batch says {stored:#010x}")]
    Checksum {
        /// What the batch says.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The compressed records of a batch can't be decompressed, or a batch can't be compressed.
    #[error("{compression} failed on the records of a batch")]
    Compression {
        /// Which.
        compression: Compression,
        /// What it said.
        #[source]
        source: Arc<io::Error>,
    },
    /// A record is not one of a Danube message.
    #[error("record is no message: {what}")]
    NotMessage {
        /// What is wrong.
        what: &'static str,
    },
    /// A record or message has a header that is ours to write, or ours in a form that we do not write.
    #[error("header {name:?} is reserved: names that begin with `danube.` are not for attributes")]
    ReservedHeader {
        /// Its name, shortened where it is long.
        name: String,
    },
}

impl Error {
    /// What a caller may conclude.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Checksum { .. } => ErrorKind::Corrupt,
            Error::Parse { .. }
            | Error::OutOfRange { .. }
            | Error::Limit { .. }
            | Error::Malformed { .. }
            | Error::Unsupported { .. }
            | Error::Compression { .. }
            | Error::NotMessage { .. }
            | Error::ReservedHeader { .. } => ErrorKind::Invalid,
        }
    }

    /// Whether the same call may succeed later. None of these do: the same bytes give the same answer.
    pub fn is_retryable(&self) -> bool {
        false
    }

    /// A refusal of text from outside; long text is shortened, so that an error is never larger than a line.
    pub(crate) fn parse(what: &'static str, found: &str, reason: &'static str) -> Error {
        Error::Parse { what, found: shorten(found), reason }
    }
}

/// The first characters of a text from outside, for an error.
pub(crate) fn shorten(text: &str) -> String {
    const CHARS: usize = 80;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
