//! The files of a log, found when it is opened for the first time in a run of the broker.

use std::io::ErrorKind;

use danube_env::Disk;
use danube_env::disk::Open;
use danube_model::{Offset, TopicId};

use crate::error::{Error, Result};
use crate::layout::{self, Layout};
use crate::shared::{Segment, SegmentKind, Shared};

/// What stands behind a log's end may be removed only where the end is proven; else it is kept under another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Remove,
    SetAside,
}

/// Removes all files of a log, durably. It may have none.
pub(crate) fn remove(disk: &dyn Disk, layout: &Layout, topic: TopicId) -> Result<()> {
    let (dir, topics) = (layout.topic_dir(topic), layout.topics_dir());
    match disk.remove_dir_all(&dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &dir)(error)),
        _ => disk.sync_dir(&topics).map_err(Error::io("sync", &topics)),
    }
}

/// Lists a log's files into its view, and takes away what lies behind its end: bytes that neither a checkpoint nor the
/// journal counts. Returns what was odd, for the operator. Blocks; the log is not open.
pub(crate) fn find(
    disk: &dyn Disk,
    layout: &Layout,
    shared: &Shared,
    behind: Behind,
) -> Result<Vec<Error>> {
    let topic = shared.topic;
    let dir = layout.topic_dir(topic);
    let mut odd = Vec::new();
    let (end, active) = {
        let view = shared.view();
        (view.filled, view.segments.last().cloned())
    };
    let mut segments = Vec::new();
    let mut taken = false;
    for entry in disk.list(&dir).map_err(Error::io("list", &dir))? {
        let Some(first) = layout::parse_segment(&entry.name) else {
            let path = dir.join(&entry.name);
            if path != layout.topic_file(topic) && !layout::is_temporary(&entry.name) {
                odd.push(Error::corrupt(path, 0, "not a file of a log"));
            }
            continue;
        };
        if first >= end {
            odd.push(take_away(disk, layout, shared, first, behind)?);
            taken = true;
            continue;
        }
        let kind = match &active {
            Some(active) if active.first == first => active.kind.clone(),
            _ => SegmentKind::Finished,
        };
        segments.push(Segment { first, kind });
    }
    if taken {
        // Else a power cut could bring them back among the files that come next.
        disk.sync_dir(&dir).map_err(Error::io("sync", &dir))?;
    }
    if let Some(Segment { first, kind: SegmentKind::Filling { position, .. } }) = active {
        odd.extend(cut(disk, layout, shared, first, position)?);
    }
    shared.view().segments = segments;
    Ok(odd)
}

fn take_away(
    disk: &dyn Disk,
    layout: &Layout,
    shared: &Shared,
    first: Offset,
    behind: Behind,
) -> Result<Error> {
    let path = layout.segment(shared.topic, first);
    match behind {
        Behind::Remove => {
            disk.remove_file(&path).map_err(Error::io("remove", &path))?;
            Ok(Error::corrupt(&path, 0, "a segment behind the end of the log was removed"))
        }
        Behind::SetAside => {
            let aside = path.with_extension("seg.aside");
            disk.rename(&path, &aside).map_err(Error::io("set aside", &path))?;
            Ok(Error::corrupt(
                &aside,
                0,
                "a segment behind the damaged end of the log was set aside",
            ))
        }
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
