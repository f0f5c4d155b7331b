//! What an operator can tune.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of a hot tier.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory of the hot tier (`wal`).
    pub root: PathBuf,
    /// Bytes of the whole journal at most. The volume's size bounds it too: at most 1/16 of that.
    pub journal_bytes: u64,
    /// Bytes of frames in one round, about; a single larger batch is a round of its own.
    pub round_bytes: u64,
    /// Bytes of batches that may wait for a round; producers wait beyond it.
    pub queue_bytes: u64,
    /// Bytes of recent frames kept in memory. Half of it may be waiting to be written to segments.
    pub tail_bytes: u64,
    /// A segment is sealed before it grows beyond this many bytes; one larger batch may exceed it.
    pub segment_bytes: u64,
    /// A segment of at least [`Config::segment_worth_bytes`] is sealed when it is this old.
    pub segment_age: Duration,
    /// Bytes that make a segment worth a file of its own.
    pub segment_worth_bytes: u64,
    /// Any segment is sealed when it is this old.
    pub segment_age_max: Duration,
    /// How often `page_cache` topics are synced behind the ack.
    pub page_cache_sync: Duration,
    /// After a busy spell, the last synced round is entered in the journal this much later.
    pub quiet_sync: Duration,
    /// A checkpoint is taken when so many bytes of rounds are not in one. Bounds what a restart reads and writes.
    pub checkpoint_bytes: u64,
    /// Segment files that stay open between two uses; more are open only while they are read or written.
    pub open_files_max: usize,
    /// How often free space is looked at while the volume is full.
    pub space_check: Duration,
}

impl Config {
    /// The defaults, for a directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            journal_bytes: 512 << 20,
            round_bytes: 8 << 20,
            queue_bytes: 64 << 20,
            tail_bytes: 64 << 20,
            segment_bytes: 128 << 20,
            segment_age: Duration::from_secs(3600),
            segment_worth_bytes: 1 << 20,
            segment_age_max: Duration::from_secs(7 * 24 * 3600),
            page_cache_sync: Duration::from_secs(1),
            quiet_sync: Duration::from_millis(100),
            checkpoint_bytes: 128 << 20,
            open_files_max: 1024,
            space_check: Duration::from_secs(1),
        }
    }
}

/// Sizes of the journal and the reserve that follow from the settings and the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) file_bytes: u64,
    pub(crate) files_max: usize,
    pub(crate) checkpoint_bytes: u64,
    /// Bytes of the volume that messages leave unspent, so that what the journal holds can always be written to
    /// segments, and checkpoints, metadata and cursors saved.
    pub(crate) reserve: u64,
    /// Bytes of the file that holds room for a recovery on a volume that others have filled.
    pub(crate) reserve_file_bytes: u64,
}

/// A journal has at least this many files, so that one can be written while another waits for a checkpoint.
const FILES_MIN: u64 = 4;
const FILE_BYTES_MIN: u64 = 64 * 1024;
const FILE_BYTES_MAX: u64 = 32 << 20;
const RESERVE_FILE_BYTES_MIN: u64 = 64 * 1024;
/// Takes both copies of the checkpoint of many thousand logs.
const RESERVE_FILE_BYTES_MAX: u64 = 4 << 20;
/// Takes the largest batch.
const FILE_BYTES_WANTED: u64 = 12 << 20;

impl Sizes {
    /// For a volume of `volume_bytes`.
    pub(crate) fn new(config: &Config, volume_bytes: u64) -> Self {
        let journal = config.journal_bytes.min(volume_bytes / 16);
        let file_bytes = (journal / 16).max(FILE_BYTES_WANTED).min(journal / FILES_MIN);
        let file_bytes = file_bytes.clamp(FILE_BYTES_MIN, FILE_BYTES_MAX) / 4096 * 4096;
        let files_max = (journal / file_bytes).max(FILES_MIN);
        Self {
            file_bytes,
            files_max: usize::try_from(files_max).expect("at most some thousands"),
            checkpoint_bytes: config.checkpoint_bytes.min(files_max * file_bytes / 2),
            reserve: (files_max * file_bytes + (16 << 20)).min(volume_bytes / 8),
            reserve_file_bytes: (journal / 8).clamp(RESERVE_FILE_BYTES_MIN, RESERVE_FILE_BYTES_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_at_most_a_sixteenth_of_its_volume() {
        let config = Config::new("/");
        for volume in [64 << 20, 1 << 30, 4 << 30, 1 << 40] {
            let sizes = Sizes::new(&config, volume);
            let journal = sizes.file_bytes * sizes.files_max as u64;
            assert!(journal <= volume / 16 && journal <= 512 << 20, "{volume}: {sizes:?}");
            assert!(
                sizes.files_max >= 4 && sizes.file_bytes.is_multiple_of(4096),
                "{volume}: {sizes:?}"
            );
        }
    }

    #[test]
    fn a_tiny_disk_works() {
        let sizes = Sizes::new(&Config::new("/"), 1 << 20);
        assert_eq!((sizes.file_bytes, sizes.files_max), (64 * 1024, 4));
    }
}
