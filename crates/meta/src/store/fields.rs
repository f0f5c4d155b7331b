//! Reading numbers out of fixed layouts, and what can be wrong with them.

use std::path::Path;

use crate::Error;

/// What is wrong with some bytes, before it is known in which file they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// They are not what was written.
    Damaged(&'static str),
    /// They are of a later version.
    Version {
        /// What has the version.
        what: &'static str,
        /// The version.
        found: u16,
        /// The newest known.
        supported: u16,
    },
    /// They contain what only a later version can have written.
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// What was found.
        found: String,
    },
}

impl Flaw {
    /// The error for this flaw at a place.
    pub(crate) fn at(self, file: &Path, at: u64) -> Error {
        let file = file.to_owned();
        match self {
            Flaw::Damaged(what) => Error::Damaged { file, at, what: what.to_owned() },
            Flaw::Version { what, found, supported } => {
                Error::UnknownVersion { file, at, what, found, supported }
            }
            Flaw::Unknown { what, found } => Error::UnknownContent { file, at, what, found },
        }
    }
}

/// Bytes with big-endian numbers at known places. The places must lie within.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }

    pub(crate) fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    /// Refuses anything but zeroes: only a later version can have put it there.
    pub(crate) fn zero(&self, at: usize, bytes: usize) -> Result<(), Flaw> {
        match self.0[at..at + bytes].iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(offset) => Err(Flaw::Unknown {
                what: "value in a field that must be zero",
                found: format!("{} in byte {}", self.0[at + offset], at + offset),
            }),
        }
    }

    /// Checks the beginning that headers share: magic (8 bytes), version (2), zero (2), and a checksum (4) over all
    /// other bytes. The version comes before the checksum, which a later version may compute in its own way.
    pub(crate) fn header(
        &self,
        magic: &[u8; 8],
        what: &'static str,
        version: u16,
    ) -> Result<(), Flaw> {
        if self.0[..8] != magic[..] {
            return Err(Flaw::Damaged("the magic number is wrong"));
        }
        let found = self.u16(8);
        if found != version {
            return Err(Flaw::Version { what, found, supported: version });
        }
        if self.u32(12) != header_checksum(self.0) {
            return Err(Flaw::Damaged("the checksum is wrong"));
        }
        self.zero(10, 2)
    }
}

/// The beginning that [`Fields::header`] checks; [`seal`] must follow when the rest is there.
pub(crate) fn begin(magic: &[u8; 8], version: u16, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity);
    out.extend_from_slice(magic);
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&[0; 6]);
    out
}

/// Enters the checksum.
pub(crate) fn seal(bytes: &mut [u8]) {
    let checksum = header_checksum(bytes);
    bytes[12..16].copy_from_slice(&checksum.to_be_bytes());
}

fn header_checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}
