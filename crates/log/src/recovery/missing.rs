//! Segments that a checkpoint counts and that are gone. Their offsets read as damage, and an operator can accept the gap;
//! that they are gone is said at each start until then.

use std::collections::BTreeMap;

use danube_env::Disk;
use danube_env::disk::Open;
use danube_model::{Offset, TopicId};

use crate::checkpoint::CheckpointLog;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::reader::Damage;
use crate::segment::{HEADER_BYTES, SegmentHeader, Step, Walk, read_footer};

/// What is missing of `logs`, each with the segments that its directory has, if it has one.
pub(super) fn find_all<'a>(
    disk: &dyn Disk,
    layout: &Layout,
    logs: impl Iterator<Item = &'a CheckpointLog>,
    segments: &BTreeMap<TopicId, Vec<Offset>>,
) -> Result<Vec<(TopicId, Damage)>> {
    let mut missing = Vec::new();
    for log in logs {
        let segments = segments.get(&log.topic_id).map_or(&[][..], Vec::as_slice);
        for damage in find(disk, layout, log, segments)? {
            tracing::error!(topic = %log.topic_id, error = %Error::from(&damage), "messages are damaged");
            missing.push((log.topic_id, damage));
        }
    }
    Ok(missing)
}

/// What is missing of `log`, whose directory has `segments`. Reads them only if there are too few.
fn find(
    disk: &dyn Disk,
    layout: &Layout,
    log: &CheckpointLog,
    segments: &[Offset],
) -> Result<Vec<Damage>> {
    let state = &log.state;
    // Below the start may be some that retention let go of.
    let is_counted = |first: &Offset| state.start <= *first && *first <= log.last_segment;
    let counted = segments.iter().copied().filter(is_counted);
    let counted: Vec<_> = counted.collect();
    let mut missing = Vec::new();
    if counted.len() >= log.segments as usize {
        return Ok(missing);
    }
    let mut look_between = |end: Offset, next: Offset| {
        let is_known = state.gaps.iter().any(|gap| gap.from <= end && next <= gap.to);
        if end < next && !is_known {
            let why = format!("the segment is missing, offsets {end} to {next} are lost");
            let path = layout.segment(log.topic_id, end);
            missing.push(Damage { from: end, to: next, path, position: 0, why });
        }
    };
    let mut end = state.start;
    for first in counted {
        look_between(end, first);
        let is_gone_on_with = log.position > 0 && first == log.last_segment;
        end = if is_gone_on_with { state.end } else { end_of(disk, layout, log.topic_id, first)? };
    }
    look_between(end, state.end);
    Ok(missing)
}

/// Where the segment from `first` on ends, as far as it can be read.
fn end_of(disk: &dyn Disk, layout: &Layout, topic: TopicId, first: Offset) -> Result<Offset> {
    let path = layout.segment(topic, first);
    let file = disk.open(&path, Open::Read).map_err(Error::io("open", &path))?;
    let len = file.len().map_err(Error::io("read", &path))?;
    let header = SegmentHeader::read(&*file, &path, topic, first);
    if let Ok(Some(footer)) = header.and_then(|header| read_footer(&*file, &path, len, &header)) {
        return Ok(footer.summary.next);
    }
    let mut end = first;
    let mut walk = Walk::new(file, &path, topic, HEADER_BYTES, len);
    loop {
        match walk.step()? {
            Step::Frame { frame, .. } => end = frame.next(),
            Step::Damage(_) => {}
            Step::End => return Ok(end),
        }
    }
}
