//! A file of a log: a header, frames without holes between them, and when it takes no more, a footer.
//!
//! ```text
//! 0        64                                        position of the footer        end of the file
//! ├ header ┼ frame ┼ frame ┼ … ┼ frame ┼ index │ epochs │ producers │ summary ┼ trailer ┤
//! └──────────────── body ──────────────┘└──────────────── footer, once sealed ──────────┘
//! ```
//!
//! Reading order: [`header`]; [`index`], how a place is found; [`footer`]; [`builder`], which knows what the footer
//! will say while frames come in; [`walk`], which reads the frames of a file and steps over damage. Nothing here
//! decides which frames belong to a log: that is `recovery`.
//!
//! The bytes are described in `docs/format.md`, section 4.

pub(crate) mod builder;
pub(crate) mod footer;
pub(crate) mod header;
pub(crate) mod index;
pub(crate) mod walk;

pub(crate) use builder::SegmentBuilder;
pub(crate) use footer::{Footer, read_footer};
pub(crate) use header::{HEADER_BYTES, SegmentHeader};
pub(crate) use index::{Index, IndexEntry};
pub(crate) use walk::{Damage, Place, Step, Walk, later_format};

#[cfg(test)]
pub(crate) mod tests;
