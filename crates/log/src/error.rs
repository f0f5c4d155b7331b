//! What can go wrong with a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use danube_env::disk::names::DirError;
use danube_model::{Durability, Epoch, ErrorKind, Offset, TopicId};

/// Whether something of a failed call may still appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing of it will ever appear.
    Definite,
    /// It may have happened, or may appear after a restart.
    Unknown,
}

/// What is tried without changing anything on the disk.
const READS: [&str; 6] = ["read", "open", "list", "look for", "measure", "find the boot id for"];

/// Errors of Linux that say that a device or its file system is broken: EIO, ENXIO, ENODEV, EBADMSG and EUCLEAN (damaged
/// structures), ESTALE, EREMOTEIO, ENOMEDIUM.
const BROKEN: [i32; 8] = [5, 6, 19, 74, 116, 117, 121, 123];
/// A file system that went read-only by itself, most often. Only who wants to change something is told so.
const EROFS: i32 = 30;

/// A failure of the log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// Bytes on disk are not what was written.
    #[error("{path} is damaged at byte {position}: {what}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        position: u64,
        /// What is wrong there.
        what: String,
    },
    /// A file or directory that no rule explains. It is left as it is.
    #[error("{path} is {what}; it is left as it is")]
    Strange {
        /// Its path.
        path: PathBuf,
        /// What it is not.
        what: &'static str,
    },
    /// A file of a newer version than this build knows.
    #[error("{path}: {what} has version {found}, this build knows versions up to {known}")]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Which part of it carries the version.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// A file or directory that must be there is not.
    #[error("{path} is missing: {what}")]
    Missing {
        /// Its path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Another process uses the directory.
    #[error("{path} is in use by another process")]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The log is not open here under this epoch.
    #[error("log {topic} is not open under epoch {epoch}")]
    NotOpen {
        /// Whose log.
        topic: TopicId,
        /// The epoch of the caller.
        epoch: Epoch,
    },
    /// A log is opened under an epoch that is not above its last one.
    #[error("log {topic} was opened under epoch {current}, epoch {epoch} is not above it")]
    Fenced {
        /// Whose log.
        topic: TopicId,
        /// The epoch asked for.
        epoch: Epoch,
        /// The epoch it has.
        current: Epoch,
    },
    /// There is no such log in this directory.
    #[error("there is no log {topic} on this disk")]
    NoLog {
        /// Whose log.
        topic: TopicId,
    },
    /// The volume has no room for more messages.
    #[error("storage full: {path} has {available} bytes left, {reserve} are kept in reserve")]
    StorageFull {
        /// A directory on the volume.
        path: PathBuf,
        /// Bytes left.
        available: u64,
        /// Bytes that stay unspent.
        reserve: u64,
    },
    /// The log has used up its offset ceiling.
    #[error("log {topic} has reached its offset ceiling {ceiling}")]
    Ceiling {
        /// Whose log.
        topic: TopicId,
        /// The ceiling, exclusive.
        ceiling: Offset,
    },
    /// A batch that this directory can't take.
    #[error(
        "batch of {bytes} bytes is larger than the {limit} bytes that the journal on this volume takes"
    )]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// What would fit.
        limit: u64,
    },
    /// A producer's sequence does not follow its last one.
    #[error("sequence {found} does not follow: {expected} was expected")]
    OutOfOrder {
        /// The next sequence of this producer.
        expected: u32,
        /// The batch's base sequence.
        found: u32,
    },
    /// A newer instance of this producer writes.
    #[error("producer epoch {found} is older than {current}")]
    ProducerFenced {
        /// The batch's producer epoch.
        found: u16,
        /// The newest one seen.
        current: u16,
    },
    /// A producer that is not known here goes on in the middle.
    #[error("producer is not known here, its sequence must begin at 0, not {found}")]
    UnknownProducer {
        /// The batch's base sequence.
        found: u32,
    },
    /// A batch was stored so long ago that its offsets are forgotten.
    #[error("batch at sequence {found} was stored before, at an offset that is no longer known")]
    DuplicateForgotten {
        /// The batch's base sequence.
        found: u32,
    },
    /// Nobody can prove where the log ended: it is opened at its ceiling, or not at all.
    #[error("the end of log {topic} behind offset {end} is not proven")]
    UnprovenEnd {
        /// Whose log.
        topic: TopicId,
        /// Up to where the log is known.
        end: Offset,
    },
    /// An offset beyond the end.
    #[error("log {topic} holds offsets {start} to {end}, {offset} is beyond them")]
    OutOfRange {
        /// Whose log.
        topic: TopicId,
        /// The offset asked for.
        offset: Offset,
        /// First offset still held.
        start: Offset,
        /// The durable end.
        end: Offset,
    },
    /// A level that this build can't give.
    #[error("durability {level} needs a tier that is not configured")]
    Level {
        /// The level asked for.
        level: Durability,
    },
    /// The disk failed once and is not trusted again; nothing is acknowledged any more.
    #[error("storage stopped: {why}")]
    Stopped {
        /// What happened.
        why: Arc<str>,
    },
    /// The store is being closed.
    #[error("storage is closing")]
    Closing,
    /// A clean stop ran out of time. Nothing is lost: the next start recovers what it has not finished.
    #[error("storage was not closed within {limit:?}, the next start has more to recover")]
    Unfinished {
        /// How long a stop may take.
        limit: Duration,
    },
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps what the file system said.
    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.as_ref().to_owned(), source: Arc::new(source) }
    }

    /// A damaged place in a file.
    pub(crate) fn corrupt(path: impl AsRef<Path>, position: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { path: path.as_ref().to_owned(), position, what: what.into() }
    }

    /// Why a directory can't be made.
    pub(crate) fn dir(error: DirError) -> Self {
        let DirError { action, path, source } = error;
        Self::io(action, path)(source)
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::Stopped { .. } | Self::Closing | Self::Unfinished { .. } => {
                ErrorKind::Unavailable
            }
            Self::Corrupt { .. } | Self::Strange { .. } => ErrorKind::Corrupt,
            Self::Missing { .. } | Self::NoLog { .. } => ErrorKind::NotFound,
            Self::Busy { .. }
            | Self::OutOfOrder { .. }
            | Self::UnknownProducer { .. }
            | Self::UnprovenEnd { .. } => ErrorKind::Conflict,
            Self::NotOpen { .. } | Self::Fenced { .. } | Self::ProducerFenced { .. } => {
                ErrorKind::Fenced
            }
            Self::StorageFull { .. } | Self::Ceiling { .. } => ErrorKind::Exhausted,
            Self::UnknownVersion { .. }
            | Self::TooLarge { .. }
            | Self::OutOfRange { .. }
            | Self::Level { .. }
            | Self::DuplicateForgotten { .. } => ErrorKind::Invalid,
        }
    }

    /// Whether the disk is not trusted after it (promise P7): a sync failed, for whatever reason, or something could not be
    /// changed because the device or its file system is broken. What can't be read is an error of its own.
    pub(crate) fn is_disk_failure(&self) -> bool {
        match self {
            Self::Io { action: "sync", .. } => true,
            Self::Io { action, source, .. } => {
                let is_read = READS.contains(action);
                source.raw_os_error().is_some_and(|errno| match errno {
                    EROFS => true,
                    errno => !is_read && BROKEN.contains(&errno),
                })
            }
            _ => false,
        }
    }

    /// Whether the volume had no room for something. A sync that says so has failed like any other.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Io { action, source, .. } => {
                let kind = source.kind();
                *action != "sync"
                    && matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::StorageFull { .. }
            | Self::Closing
            | Self::Stopped { .. }
            | Self::Ceiling { .. } => true,
            Self::NotOpen { .. } | Self::OutOfOrder { .. } => true,
            Self::Io { .. }
            | Self::Corrupt { .. }
            | Self::Strange { .. }
            | Self::UnknownVersion { .. }
            | Self::Missing { .. }
            | Self::Busy { .. }
            | Self::Fenced { .. }
            | Self::NoLog { .. }
            | Self::TooLarge { .. }
            | Self::ProducerFenced { .. }
            | Self::UnknownProducer { .. }
            | Self::DuplicateForgotten { .. }
            | Self::UnprovenEnd { .. }
            | Self::OutOfRange { .. }
            | Self::Unfinished { .. }
            | Self::Level { .. } => false,
        }
    }

    /// Whether something of a failed append may appear. Only what happens after an append has entered a round is unknown.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Stopped { .. } | Self::Io { .. } | Self::Unfinished { .. } => Effect::Unknown,
            // It is stored; only where is not known.
            Self::DuplicateForgotten { .. } => Effect::Unknown,
            _ => Effect::Definite,
        }
    }
}
