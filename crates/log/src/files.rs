//! The files of a log, found when it is opened for the first time in a run of the broker.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use danube_env::Disk;
use danube_env::disk::Open;
use danube_model::{Offset, TopicId};

use crate::error::{Error, Result};
use crate::layout::{self, Layout};
use crate::segment::SegmentHeader;
use crate::shared::{Segment, SegmentKind, Shared};

/// What stands behind a log's end may be removed only where the end is proven; else it is kept under another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Remove,
    SetAside,
}

/// Removes all files of logs, durably.
pub(crate) fn remove(disk: &dyn Disk, layout: &Layout, logs: &[TopicId]) -> Result<()> {
    for topic in logs {
        remove_dir(disk, &layout.topic_dir(*topic))?;
    }
    let topics = layout.topics_dir();
    disk.sync_dir(&topics).map_err(Error::io("sync", &topics))
}

/// A log may have no files because they were removed before a sync that failed, and the disk has them still. So there is
/// always something to remove, and to sync.
fn remove_dir(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.create_dir_all(dir).map_err(Error::io("create", dir)) {
        // A full volume has no room for a directory that is removed at once.
        Err(error) if error.is_full() => {}
        created => created?,
    }
    match disk.remove_dir_all(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", dir)),
    }
}

/// Removes segments that lie below the durable starts of their logs. What a power cut brings back of them is removed when
/// their log is listed.
pub(crate) fn remove_segments(
    disk: &dyn Disk,
    layout: &Layout,
    segments: &[(TopicId, Offset)],
) -> Result<()> {
    for (topic, first) in segments {
        let path = layout.segment(*topic, *first);
        match disk.remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(Error::io("remove", &path))?,
        }
    }
    Ok(())
}

/// First offsets of the segments in a log's directory, rising; none if it does not exist.
pub(crate) fn segments(disk: &dyn Disk, layout: &Layout, topic: TopicId) -> Result<Vec<Offset>> {
    let entries = layout::list(disk, &layout.topic_dir(topic))?;
    Ok(entries.iter().filter_map(|entry| layout::parse_segment(&entry.name)).collect())
}

/// Refuses a segment of a later version. What else may be wrong with it is for whoever reads it.
pub(crate) fn check_version(disk: &dyn Disk, path: &Path) -> Result<()> {
    let file = disk.open(path, Open::Read).map_err(Error::io("open", path));
    match file.and_then(|file| SegmentHeader::read_any(&*file, path)) {
        Err(error @ Error::UnknownVersion { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Lists a log's files into its view, and takes away what lies below its start, of which a stop left the files, or behind its
/// end: bytes that neither a checkpoint nor the journal counts. Returns what was odd, for the operator. Blocks; the log is not open.
///
/// # Errors
///
/// [`Error::UnknownVersion`] if a segment is of a later version; then nothing is taken away.
pub(crate) fn find(
    disk: &dyn Disk,
    layout: &Layout,
    shared: &Shared,
    behind: Behind,
) -> Result<Vec<Error>> {
    let topic = shared.topic;
    let dir = layout.topic_dir(topic);
    for first in segments(disk, layout, topic)? {
        check_version(disk, &layout.segment(topic, first))?;
    }
    let (start, end, active) = {
        let view = shared.view();
        (view.start, view.filled, view.segments.last().cloned())
    };
    let mut segments = Vec::new();
    let mut taking = Taking { disk, layout, topic, gone: BTreeSet::new(), odd: Vec::new() };
    let mut names = BTreeSet::new();
    for entry in disk.list(&dir).map_err(Error::io("list", &dir))? {
        match layout::parse_segment(&entry.name) {
            Some(first) if first < start => remove_segments(disk, layout, &[(topic, first)])?,
            Some(first) if first >= end => taking.take(first, behind)?,
            Some(first) => {
                let kind = match &active {
                    Some(active) if active.first == first => active.kind.clone(),
                    _ => SegmentKind::Finished,
                };
                segments.push(Segment { first, kind });
            }
            None => {
                if !layout::is_of_topic(&entry.name) {
                    let path = dir.join(&entry.name);
                    taking.odd.push(Error::Strange { path, what: "not a file of a topic" });
                }
                names.insert(entry.name);
            }
        }
    }
    taking.finish(&names, end)?;
    let mut odd = taking.odd;
    if let Some(Segment { first, kind: SegmentKind::Filling { position, .. } }) = active {
        odd.extend(cut(disk, layout, shared, first, position)?);
    }
    shared.view().segments = segments;
    Ok(odd)
}

/// Takes segments away that lie behind the end of a log.
///
/// A power cut must not bring them back among the files that come next, so their names are gone before the log goes on. One
/// that is to be removed is a `.tmp` file until then: who finds it after a restart, or one that was set aside, knows that
/// the sync may have failed, and takes the name away anew.
struct Taking<'a> {
    disk: &'a dyn Disk,
    layout: &'a Layout,
    topic: TopicId,
    /// What was taken away now.
    gone: BTreeSet<Offset>,
    odd: Vec<Error>,
}

impl Taking<'_> {
    fn take(&mut self, first: Offset, behind: Behind) -> Result<()> {
        let path = self.layout.segment(self.topic, first);
        let (to, what) = match behind {
            Behind::Remove => {
                (layout::temporary(&path), "a segment behind the end of the log was removed")
            }
            Behind::SetAside => {
                (layout::aside(&path), "a segment behind the damaged end of the log was set aside")
            }
        };
        self.disk.rename(&path, &to).map_err(Error::io("take away", &path))?;
        self.gone.insert(first);
        self.odd.push(Error::corrupt(path, 0, what));
        Ok(())
    }

    /// Makes it durable. `names` are those in the log's directory that are not of segments.
    fn finish(&mut self, names: &BTreeSet<String>, end: Offset) -> Result<()> {
        let dir = self.layout.topic_dir(self.topic);
        let mut removed = self.gone.clone();
        let mut is_synced = self.gone.is_empty();
        for name in names {
            let path = dir.join(name);
            let Some(first) = layout::parse_taken(name) else {
                if path != self.layout.topic_file(self.topic) && !layout::is_temporary(name) {
                    self.odd.push(Error::corrupt(path, 0, "not a file of a log"));
                }
                continue;
            };
            // Has the log grown beyond it, its name was gone by then.
            if first >= end && self.gone.insert(first) {
                let path = self.layout.segment(self.topic, first);
                self.disk.open(&path, Open::Create).map_err(Error::io("create", &path))?;
                self.disk.remove_file(&path).map_err(Error::io("remove", &path))?;
                is_synced = false;
            }
            removed.insert(first);
        }
        if !is_synced {
            self.disk.sync_dir(&dir).map_err(Error::io("sync", &dir))?;
        }
        for first in removed {
            let path = layout::temporary(&self.layout.segment(self.topic, first));
            match self.disk.remove_file(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(Error::io("remove", &path))?,
            }
        }
        Ok(())
    }
}

/// Cuts the segment that is gone on with where the log ends.
fn cut(
    disk: &dyn Disk,
    layout: &Layout,
    shared: &Shared,
    first: Offset,
    position: u64,
) -> Result<Option<Error>> {
    let path = layout.segment(shared.topic, first);
    let file = match disk.open(&path, Open::Write) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Some(Error::Missing { path, what: "a segment that was not finished" }));
        }
        file => file.map_err(Error::io("open", &path))?,
    };
    let len = file.len().map_err(Error::io("read", &path))?;
    if len > position {
        file.set_len(position).map_err(Error::io("cut", &path))?;
        let what = format!("{} bytes behind the end of the log were cut", len - position);
        return Ok(Some(Error::corrupt(path, position, what)));
    }
    let what = || format!("the segment ends here, {position} bytes of it were synced");
    Ok((len < position).then(|| Error::corrupt(&path, len, what())))
}
