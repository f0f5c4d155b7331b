//! Frames that the journal lost and a segment still has.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use danube_env::Disk;
use danube_env::disk::names::{AGAIN, again};
use danube_env::disk::{Entry, Open};
use danube_model::{Epoch, Frame, Offset, TopicId};

use crate::error::{Error, Result};
use crate::layout::{self, Layout};
use crate::segment::{HEADER_BYTES, SegmentHeader, Step, Walk, read_footer};

/// What segments have of a log.
#[derive(Default)]
pub(super) struct Healed {
    /// Frames that follow each other.
    pub(super) frames: Vec<Frame>,
    /// Everything behind them is read, and nothing of it is damage.
    pub(super) is_whole: bool,
}

/// The frames that follow each other from `from` on, up to `to` if that is given, under epochs that rise from
/// `epoch`, of a log that begins at `start`. Fewer, or none, where no segment has them.
pub(super) fn frames(
    disk: &dyn Disk,
    layout: &Layout,
    topic: TopicId,
    (start, epoch): (Offset, Epoch),
    from: Offset,
    to: Option<Offset>,
) -> Result<Healed> {
    let dir = layout.topic_dir(topic);
    let entries = match disk.list(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Healed::default()),
        entries => entries.map_err(Error::io("list", &dir))?,
    };
    // One that was getting its name anew may still be under the other one.
    let name = |entry: &'_ Entry| entry.name.trim_end_matches(AGAIN).to_owned();
    let firsts: BTreeSet<_> =
        entries.iter().filter_map(|entry| layout::parse_segment(&name(entry))).collect();
    // Below the start may be some that retention let go of.
    let firsts: Vec<_> = firsts.range(start..).copied().collect();
    let at = firsts.partition_point(|first| *first <= from).saturating_sub(1);
    // A log that holds no message has no segment.
    let is_whole = firsts.is_empty() && from == start;
    let mut found = Healed { is_whole, ..Healed::default() };
    let (mut end, mut epoch) = (from, epoch);
    for first in &firsts[at..] {
        let path = layout.segment(topic, *first);
        let file = match disk.open(&path, Open::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                disk.open(&again(&path), Open::Read)
            }
            file => file,
        };
        let file = file.map_err(Error::io("open", &path))?;
        let len = file.len().map_err(Error::io("read", &path))?;
        // Behind damage at the end of one may have been more frames.
        found.is_whole = *first <= end;
        if !found.is_whole {
            return Ok(found);
        }
        let mut walk = Walk::new(Arc::clone(&file), &path, topic, HEADER_BYTES, len);
        loop {
            match walk.step()? {
                Step::Frame { frame, .. } if frame.base() == end && frame.epoch() >= epoch => {
                    if to.is_some_and(|to| frame.next() > to) {
                        return Ok(found);
                    }
                    (end, epoch) = (frame.next(), frame.epoch());
                    found.is_whole = true;
                    found.frames.push(frame);
                    if to == Some(end) {
                        return Ok(found);
                    }
                }
                Step::Frame { frame, .. } if frame.base() > end => {
                    found.is_whole = false;
                    return Ok(found);
                }
                Step::Frame { .. } => found.is_whole = true,
                Step::Damage(_) => found.is_whole = false,
                Step::End => break,
            }
        }
        let header = SegmentHeader::read(&*file, &path, topic, *first);
        if let Ok(Some(footer)) = header.and_then(|header| read_footer(&*file, &path, len, &header))
        {
            found.is_whole = footer.summary.next == end;
        }
    }
    Ok(found)
}
