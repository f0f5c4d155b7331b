//! Why bytes are not a frame.

use crate::{ErrorKind, Offset};

/// Why bytes are not a frame of a topic.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FrameError {
    /// There are not enough bytes to tell. Where more can't be had, the frame is cut short.
    #[error("frame needs {bytes} bytes, {available} are there")]
    NeedMore {
        /// How many bytes from its beginning the frame needs; for the frame as a whole only once its header has been
        /// verified, so that a damaged length never asks for more than [`super::GAP_FRAME_BYTES`].
        bytes: usize,
        /// How many there were.
        available: usize,
    },
    /// It does not begin as a frame does.
    #[error("not a frame: it begins with {found:#010x}")]
    NotFrame {
        /// Its first four bytes.
        found: u32,
    },
    /// The header's checksum does not fit: damage, or a frame of another topic. Its length is not to be believed.
    #[error("frame checksum is {computed:#010x} for this topic, the frame says {stored:#010x}")]
    Checksum {
        /// What the frame says.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The header is undamaged, and what it says is of a later format.
    #[error("frame has {what} {found}, this version knows {known}")]
    Unknown {
        /// What it has.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What is known.
        known: &'static str,
    },
    /// The header is undamaged, and contradicts itself: a fault of what wrote it.
    #[error("malformed frame: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// The header is undamaged, and the batch behind it is not.
    #[error("damaged batch in the frame of {frame_bytes} bytes at offset {base}")]
    Batch {
        /// The offset that the frame begins with.
        base: Offset,
        /// The bytes of the whole frame: where the next one begins.
        frame_bytes: usize,
        /// What is wrong with it.
        #[source]
        source: crate::Error,
    },
}

impl FrameError {
    /// What a caller may conclude.
    pub fn kind(&self) -> ErrorKind {
        match self {
            FrameError::NeedMore { .. }
            | FrameError::NotFrame { .. }
            | FrameError::Checksum { .. }
            | FrameError::Malformed { .. }
            | FrameError::Batch { .. } => ErrorKind::Corrupt,
            FrameError::Unknown { .. } => ErrorKind::Invalid,
        }
    }

    /// Whether the same bytes may be a frame later. They never are.
    pub fn is_retryable(&self) -> bool {
        false
    }
}
