//! What a file looks like that has no whole header of a segment.

use std::path::Path;

use danube_env::File;

use crate::segment::header;
use crate::{Error, Result, checkpoint, journal};

/// The first bytes of all files of Danube but the small ones in JSON.
const DANUBE: &[u8] = b"DANU";

/// Up to eight first bytes of a file.
pub(super) struct Look(Vec<u8>);

impl Look {
    pub(super) fn at(file: &dyn File, path: &Path) -> Result<Look> {
        let mut bytes = [0; 8];
        let read = file.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
        Ok(Look(bytes[..read].to_vec()))
    }

    /// Whether it begins as a segment.
    pub(super) fn is_segment(&self) -> bool {
        self.0 == header::MAGIC
    }

    /// Whether it can be a segment whose first bytes are damaged.
    pub(super) fn may_be_segment(&self) -> bool {
        self.is_segment() || !(self.0.is_empty() || self.0.starts_with(DANUBE))
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        let Look(bytes) = self;
        if self.is_segment() {
            return "neither header nor directory says whose segment it is".to_owned();
        }
        let found = if bytes.is_empty() {
            "it is empty".to_owned()
        } else if bytes == journal::round::FILE_MAGIC {
            "it begins as a file of the journal".to_owned()
        } else if bytes == checkpoint::MAGIC {
            "it begins as a checkpoint".to_owned()
        } else {
            // Whatever it is, it does no harm on a terminal.
            format!("it begins with \"{}\"", bytes.escape_ascii())
        };
        format!("not a segment: {found}")
    }
}
