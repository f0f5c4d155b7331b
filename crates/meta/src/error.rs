//! What this crate answers when it cannot do what it was asked.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use danube_env::disk::names::DirError;
use danube_model::{BrokerId, ErrorKind};

use crate::refusal::Refusal;

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command was committed and refused: it contradicts the state, and changed nothing.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A command is larger than a Raft entry may be.
    #[error("command {command} has {found} bytes, the limit is {limit}")]
    CommandTooLarge {
        /// Its name.
        command: &'static str,
        /// Its size in bytes, as encoded.
        found: usize,
        /// The limit, inclusive.
        limit: usize,
    },
    /// Another broker leads the metadata group, or none does. The command was not taken.
    #[error("this broker does not lead the metadata group (leader: {})", leader_text(*leader))]
    NotLeader {
        /// Who leads, if that is known.
        leader: Option<BrokerId>,
    },
    /// The volume is full. The command was not taken.
    #[error("storage full: no room for metadata in {dir}")]
    StorageFull {
        /// The directory of the metadata.
        dir: PathBuf,
    },
    /// The metadata were closed. The command was not taken.
    #[error("metadata are closed")]
    Closed,
    /// The metadata stopped while the command was under way: it may have been committed, or not.
    #[error("metadata failed while a command was under way")]
    Interrupted(#[source] Arc<Error>),
    /// The Raft engine stopped by itself.
    #[error("raft stopped: {reason}")]
    Raft {
        /// What it said.
        reason: String,
    },
    /// Reading or writing failed.
    #[error("cannot {operation} {path}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// Stored bytes are not what was written.
    #[error("metadata file {file} is damaged at byte {at}: {what}")]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// Where in it.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// A file that has to be there is not.
    #[error("metadata file {file} is missing: {why}")]
    Missing {
        /// Which file.
        file: PathBuf,
        /// How that is known.
        why: &'static str,
    },
    /// A file was written by a later version of Danube.
    #[error(
        "metadata file {file} has {what} version {found} at byte {at}, the newest known is {supported}"
    )]
    UnknownVersion {
        /// Which file.
        file: PathBuf,
        /// Where in it.
        at: u64,
        /// What has the version.
        what: &'static str,
        /// The version that was found.
        found: u16,
        /// The newest that this program knows.
        supported: u16,
    },
    /// A file contains something that this version of Danube does not know.
    #[error("metadata file {file} has an unknown {what} at byte {at}: {found}")]
    UnknownContent {
        /// Which file.
        file: PathBuf,
        /// Where in it.
        at: u64,
        /// What kind of thing.
        what: &'static str,
        /// What was found.
        found: String,
    },
}

impl Error {
    /// What a caller may conclude.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Refused(refusal) => refusal.kind(),
            Error::CommandTooLarge { .. } => ErrorKind::Invalid,
            Error::NotLeader { .. }
            | Error::Closed
            | Error::Interrupted(_)
            | Error::Raft { .. }
            | Error::Io { .. } => ErrorKind::Unavailable,
            Error::StorageFull { .. } => ErrorKind::Exhausted,
            Error::Damaged { .. }
            | Error::Missing { .. }
            | Error::UnknownVersion { .. }
            | Error::UnknownContent { .. } => ErrorKind::Corrupt,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::NotLeader { .. } | Error::StorageFull { .. } | Error::Interrupted(_) => true,
            Error::Refused(_)
            | Error::CommandTooLarge { .. }
            | Error::Closed
            | Error::Raft { .. }
            | Error::Io { .. }
            | Error::Damaged { .. }
            | Error::Missing { .. }
            | Error::UnknownVersion { .. }
            | Error::UnknownContent { .. } => false,
        }
    }

    /// Whether it is unknown what became of a command that got this answer; after any other error it changed nothing.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Error::Interrupted(_))
    }

    /// What an operator can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Error::Damaged { .. } | Error::Missing { .. } => Some(
                "nothing was changed; restore the metadata directory from a copy, or, if other brokers hold the \
                 cluster's metadata, remove this broker there and join it anew with an empty data directory",
            ),
            Error::UnknownVersion { .. } | Error::UnknownContent { .. } => Some(
                "nothing was changed; start the version of danube that wrote this directory, or a later one",
            ),
            Error::StorageFull { .. } => Some("free space on the volume; no restart is needed"),
            Error::Io { .. } => Some("check the disk and its kernel log before starting again"),
            Error::Refused(_)
            | Error::CommandTooLarge { .. }
            | Error::NotLeader { .. }
            | Error::Closed
            | Error::Interrupted(_)
            | Error::Raft { .. } => None,
        }
    }

    /// For `map_err` of a disk operation.
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { operation, path, source: Arc::new(source) }
    }

    pub(crate) fn dir(error: DirError) -> Error {
        let DirError { action, path, source } = error;
        Error::Io { operation: action, path, source: Arc::new(source) }
    }
}

fn leader_text(leader: Option<BrokerId>) -> String {
    leader.map_or_else(|| "none known".to_owned(), |leader| format!("broker {leader}"))
}
