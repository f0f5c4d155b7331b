//! What is found out before the first byte is changed: whether any file is of a later version, or stands against a start.
//!
//! [`look`] reads nothing of the journal, because reading makes pages resident: whether they were comes first
//! ([`super::residency`]). Then [`journal`] reads all of it that counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use danube_env::{Disk, Env, blocking};
use danube_model::{DiskId, FrameError, FrameHeader, Offset, TopicId};

use crate::checkpoint::{self, Checkpoint};
use crate::error::{Error, Result};
use crate::files;
use crate::identity::{self, TopicIdentity};
use crate::journal::round::Kind;
use crate::journal::scan::{self, After, Proof, Round, Scan, Step};
use crate::layout::{self, Layout, RootName};
use crate::segment::later_format;

/// Headers of each log that are looked at before a start, the newest ones; so that a start does not grow with the data. All
/// others are looked at when the log is opened.
const HEADERS_MAX: usize = 16;

/// A hot tier as it is outside its journal.
pub(super) struct Found {
    pub(super) checkpoint: Option<Checkpoint>,
    /// None: it is new.
    pub(super) disk_id: Option<DiskId>,
    /// First offsets of the segments in the directory of each log.
    pub(super) segments: BTreeMap<TopicId, Vec<Offset>>,
    pub(super) problems: Vec<Error>,
}

/// Looks at everything but the journal's files.
///
/// # Errors
///
/// [`Error::UnknownVersion`]; [`Error::Missing`] and [`Error::Corrupt`] where starting would hide a loss.
pub(super) fn look(disk: &dyn Disk, layout: &Layout) -> Result<Found> {
    let checkpoint::Read { checkpoint, mut problems } = checkpoint::read(disk, layout)?;
    problems.extend(strange_names(disk, layout)?);
    let known = checkpoint.as_ref().map(|checkpoint| checkpoint.disk_id);
    let disk_id = identity::find(disk, layout, known)?;
    Ok(Found { checkpoint, disk_id, segments: segments(disk, layout)?, problems })
}

fn strange_names(disk: &dyn Disk, layout: &Layout) -> Result<Vec<Error>> {
    let root = layout.root();
    let entries = layout::list(disk, root)?;
    let strange = entries
        .iter()
        .filter(|entry| matches!(layout::parse_root(&entry.name), RootName::Other))
        .map(|entry| Error::Strange {
            path: root.join(&entry.name),
            what: "not a file of a hot tier",
        });
    Ok(strange.collect())
}

fn segments(disk: &dyn Disk, layout: &Layout) -> Result<BTreeMap<TopicId, Vec<Offset>>> {
    let mut found = BTreeMap::new();
    for entry in layout::list(disk, &layout.topics_dir())? {
        let topic = layout::parse_topic(&entry.name).filter(|_| entry.is_dir);
        let Some(topic) = topic else { continue };
        // What it says is for people; the directory's name says the same.
        if let Err(error @ Error::UnknownVersion { .. }) = TopicIdentity::read(disk, layout, topic)
        {
            return Err(error);
        }
        let segments = files::segments(disk, layout, topic)?;
        for first in segments.iter().rev().take(HEADERS_MAX) {
            files::check_version(disk, &layout.segment(topic, *first))?;
        }
        found.insert(topic, segments);
    }
    Ok(found)
}

/// Whether the hot tier in `root` holds the logs of topics, by their directories and by the checkpoint. Changes nothing.
///
/// # Errors
///
/// [`Error::Io`]; what [`Store::open`](crate::Store::open) refuses of the checkpoint.
pub async fn holds_logs(root: &Path, env: &Env) -> Result<bool> {
    let (layout, disk) = (Layout::new(root), Arc::clone(&env.disk));
    let look = move || {
        let topics = layout::list(&*disk, &layout.topics_dir())?;
        if topics.iter().any(|entry| layout::parse_topic(&entry.name).is_some()) {
            return Ok(true);
        }
        let checkpoint = checkpoint::read(&*disk, &layout)?.checkpoint;
        Ok(checkpoint.is_some_and(|checkpoint| !checkpoint.logs.is_empty()))
    };
    blocking(&*env.spawn, look).await
}

/// Reads the journal from `after` on, and writes nothing.
///
/// # Errors
///
/// [`Error::UnknownVersion`] if a file, a round or a frame is of a later version; [`Error::Corrupt`] for the journal of
/// another disk; [`Error::Missing`] if there is one and no checkpoint.
pub(super) fn journal(
    disk: &dyn Disk,
    layout: &Layout,
    disk_id: Option<DiskId>,
    checkpoint: Option<&Checkpoint>,
    page_cache: Proof<'_>,
) -> Result<scan::Found> {
    let Some(disk_id) = disk_id else { return Ok(scan::Found::default()) };
    let found = scan::find(disk, layout, disk_id)?;
    if checkpoint.is_none() && found.files.iter().any(|file| file.header.is_some()) {
        let path = layout.checkpoint(layout::Copy::A);
        return Err(Error::Missing { path, what: NO_CHECKPOINT });
    }
    let after = checkpoint.map(After::checkpoint).unwrap_or_default();
    let mut scan = Scan::new(disk, layout, &found, after).believing(page_cache);
    loop {
        match scan.step()? {
            Step::Round(round) => check_frames(&round)?,
            Step::Lost { .. } | Step::Held { .. } => {}
            Step::End { .. } => return Ok(found),
        }
    }
}

const NO_CHECKPOINT: &str = "both copies of the checkpoint are gone while the journal is there; \
     restore one of them from a copy of this directory";

fn check_frames(round: &Round) -> Result<()> {
    for (entry, payload) in round.head.entries.iter().zip(&round.payloads) {
        if entry.kind == Kind::Frame
            && let Err(FrameError::Unknown { what, found, .. }) =
                FrameHeader::peek(entry.topic, payload)
        {
            return Err(later_format(&round.path, what, found));
        }
    }
    Ok(())
}
