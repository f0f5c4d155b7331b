//! The names of everything in the hot tier's directory: the one module that builds and parses them.
//!
//! ```text
//! root/
//! ├── lock
//! ├── disk
//! ├── checkpoint.a  .b
//! ├── residency
//! ├── reserve
//! ├── journal/00000001.jnl …
//! └── topics/<topic id>/
//!     ├── topic
//!     └── 00000000000000000000.seg …
//! ```
//!
//! A name that ends in `.tmp` is a file that was never finished; nothing reads it. A name counts only if it is spelled
//! exactly as this module would spell it.

use std::path::{Path, PathBuf};

use danube_env::Disk;
use danube_env::disk::names::AGAIN;
use danube_env::disk::{Entry, Open};
use danube_model::{Offset, TopicId};

use crate::Error;

const TEMPORARY: &str = ".tmp";
const ASIDE: &str = ".aside";
const JOURNAL: &str = ".jnl";
const SEGMENT: &str = ".seg";

/// Which of the two copies of the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copy {
    /// Written first.
    A,
    /// Written when `A` is durable.
    B,
}

/// Builds names below the root of a hot tier.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The names below `root`.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory of the hot tier.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Held by the broker that uses the directory.
    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Identity of the hot tier.
    pub(crate) fn disk(&self) -> PathBuf {
        self.root.join("disk")
    }

    /// A copy of the checkpoint.
    pub(crate) fn checkpoint(&self, copy: Copy) -> PathBuf {
        self.root.join(match copy {
            Copy::A => "checkpoint.a",
            Copy::B => "checkpoint.b",
        })
    }

    /// There while a recovery runs: which blocks of the journal were in the page cache before it read any.
    pub(crate) fn residency(&self) -> PathBuf {
        self.root.join("residency")
    }

    /// Room that is given up to a recovery on a full volume.
    pub(crate) fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }

    /// The directory of the journal's files.
    pub(crate) fn journal_dir(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// A file of the journal.
    pub(crate) fn journal_file(&self, index: u32) -> PathBuf {
        self.journal_dir().join(journal_name(index))
    }

    /// The directory with one directory for each topic.
    pub(crate) fn topics_dir(&self) -> PathBuf {
        self.root.join("topics")
    }

    /// The directory of a topic.
    pub(crate) fn topic_dir(&self, topic: TopicId) -> PathBuf {
        self.topics_dir().join(topic.to_string())
    }

    /// Says which topic a directory belongs to.
    pub(crate) fn topic_file(&self, topic: TopicId) -> PathBuf {
        self.topic_dir(topic).join("topic")
    }

    /// The segment that begins at `first`.
    pub(crate) fn segment(&self, topic: TopicId, first: Offset) -> PathBuf {
        self.topic_dir(topic).join(segment_name(first))
    }
}

/// What a name in the directory of the hot tier stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootName {
    /// A file or directory that this module names.
    Known,
    /// A file that was never finished.
    Temporary,
    /// Nothing of ours.
    Other,
}

/// Parses a name in the root directory.
pub(crate) fn parse_root(name: &str) -> RootName {
    match name {
        "lock" | "disk" | "checkpoint.a" | "checkpoint.b" | "residency" | "reserve" | "journal"
        | "topics" => RootName::Known,
        _ if is_temporary(name) => RootName::Temporary,
        _ => RootName::Other,
    }
}

/// The index of a journal file, from its name.
pub(crate) fn parse_journal(name: &str) -> Option<u32> {
    let index = name.strip_suffix(JOURNAL)?.parse().ok()?;
    (journal_name(index) == name).then_some(index)
}

/// The topic id, from the name of a topic's directory.
pub(crate) fn parse_topic(name: &str) -> Option<TopicId> {
    let topic: TopicId = name.parse().ok()?;
    (topic.to_string() == name).then_some(topic)
}

/// The first offset of a segment, from its name.
pub(crate) fn parse_segment(name: &str) -> Option<Offset> {
    let first = Offset::new(name.strip_suffix(SEGMENT)?.parse().ok()?);
    (first <= Offset::MAX && segment_name(first) == name).then_some(first)
}

/// The first offset of a segment that was taken away, from the name that it has then.
pub(crate) fn parse_taken(name: &str) -> Option<Offset> {
    parse_segment(name.strip_suffix(TEMPORARY).or_else(|| name.strip_suffix(ASIDE))?)
}

/// Whether a name in the directory of a topic is one of ours.
pub(crate) fn is_of_topic(name: &str) -> bool {
    let has_another_suffix = name.ends_with(AGAIN) || is_temporary(name);
    has_another_suffix
        || name == "topic"
        || parse_segment(name).is_some()
        || parse_taken(name).is_some()
}

/// The name under which the segment at `path` is kept that can't be part of its log.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ASIDE);
    name.into()
}

/// Whether a name is that of a file that was never finished.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.ends_with(TEMPORARY)
}

/// The name under which the file at `path` is made before it gets its own.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    name.into()
}

/// Writes a whole file so that after a power cut either the old file or the new one is there: a temporary name, a
/// sync, a rename, a sync of the directory.
///
/// # Errors
///
/// [`Error::Io`] with the path on which it failed. The old file is still there, or the new one, or after a failed sync
/// of the directory either.
pub(crate) fn write_atomically(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let unfinished = temporary(path);
    let file = disk.open(&unfinished, Open::Replace).map_err(Error::io("create", &unfinished))?;
    file.write_at(&[bytes], 0).map_err(Error::io("write", &unfinished))?;
    file.sync_data().map_err(Error::io("sync", &unfinished))?;
    disk.rename(&unfinished, path).map_err(Error::io("replace", path))?;
    let dir = path.parent().unwrap_or(Path::new("."));
    disk.sync_dir(dir).map_err(Error::io("sync", dir))
}

/// The entries of a directory, sorted by name; none if it does not exist.
///
/// # Errors
///
/// [`Error::Io`].
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<Entry>, Error> {
    match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries.map_err(Error::io("list", dir)),
    }
}

/// Reads a whole file of at most `len_max` bytes; `None` if it does not exist.
///
/// # Errors
///
/// [`Error::Io`] where reading fails, [`Error::Corrupt`] if the file is longer than it can be.
pub(crate) fn read_whole(
    disk: &dyn Disk,
    path: &Path,
    len_max: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    let len = file.len().map_err(Error::io("read", path))?;
    if len > len_max {
        return Err(Error::corrupt(path, len_max, "longer than such a file can be"));
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

fn journal_name(index: u32) -> String {
    format!("{index:08}{JOURNAL}")
}

fn segment_name(first: Offset) -> String {
    format!("{:020}{SEGMENT}", first.get())
}

#[cfg(test)]
mod tests {
    use danube_env::real::RealDisk;

    use super::*;

    fn name_of(path: &Path) -> &str {
        path.file_name().unwrap().to_str().unwrap()
    }

    #[test]
    fn names_are_those_of_the_format() {
        let layout = Layout::new("/data/wal");
        let topic = TopicId::new([0xab; 16]);
        let dir = format!("/data/wal/topics/{}", "ab".repeat(16));
        for (path, expected) in [
            (layout.lock(), "/data/wal/lock".to_owned()),
            (layout.disk(), "/data/wal/disk".to_owned()),
            (layout.checkpoint(Copy::A), "/data/wal/checkpoint.a".to_owned()),
            (layout.checkpoint(Copy::B), "/data/wal/checkpoint.b".to_owned()),
            (layout.residency(), "/data/wal/residency".to_owned()),
            (layout.journal_file(1), "/data/wal/journal/00000001.jnl".to_owned()),
            (layout.topic_dir(topic), dir.clone()),
            (layout.topic_file(topic), format!("{dir}/topic")),
            (layout.segment(topic, Offset::new(42)), format!("{dir}/00000000000000000042.seg")),
            (temporary(&layout.disk()), "/data/wal/disk.tmp".to_owned()),
        ] {
            assert_eq!(path, PathBuf::from(expected));
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        let path = dir.path().join("file");
        assert_eq!(read_whole(&disk, &path, 10).unwrap(), None);
        write_atomically(&disk, &path, b"first").unwrap();
        // What an earlier attempt left behind is longer than what comes.
        let unfinished = disk.open(&temporary(&path), Open::Replace).unwrap();
        unfinished.write_at(&[b"a longer one"], 0).unwrap();
        assert_eq!(read_whole(&disk, &path, 10).unwrap().unwrap(), b"first");
        write_atomically(&disk, &path, b"second").unwrap();
        assert_eq!(read_whole(&disk, &path, 10).unwrap().unwrap(), b"second");
        let entries = disk.list(dir.path()).unwrap();
        assert_eq!(entries.len(), 1, "the temporary name is gone: {entries:?}");

        let too_long = read_whole(&disk, &path, 5).unwrap_err();
        assert!(matches!(too_long, Error::Corrupt { position: 5, .. }), "{too_long}");
    }

    #[test]
    fn names_are_parsed_back() {
        let layout = Layout::new("wal");
        let topic = TopicId::new([0x0f; 16]);
        for index in [0, 1, 99_999_999, u32::MAX] {
            assert_eq!(parse_journal(name_of(&layout.journal_file(index))), Some(index));
        }
        assert_eq!(parse_topic(name_of(&layout.topic_dir(topic))), Some(topic));
        for first in [0, 1, 1 << 40, u64::MAX >> 1] {
            let first = Offset::new(first);
            assert_eq!(parse_segment(name_of(&layout.segment(topic, first))), Some(first));
        }
    }

    #[test]
    fn a_name_that_is_spelled_otherwise_is_none_of_ours() {
        for name in
            ["1.jnl", "000000001.jnl", "+0000001.jnl", "00000001.jnl.tmp", "00000001", ".jnl"]
        {
            assert_eq!(parse_journal(name), None, "{name}");
        }
        for name in [
            "0.seg",
            "+0000000000000000042.seg",
            "00000000000000000042.seg.tmp",
            "00000000000000000042",
            "09223372036854775808.seg",
        ] {
            assert_eq!(parse_segment(name), None, "{name}");
        }
        for name in ["ABABABABABABABABABABABABABABABAB", "ab", "topic", "../x", ""] {
            assert_eq!(parse_topic(name), None, "{name}");
        }
        for name in ["topic", "topic.again", "x.tmp", "00000000000000000042.seg.aside"] {
            assert!(is_of_topic(name), "{name}");
        }
        assert!(!is_of_topic("notes.txt") && !is_of_topic("42.seg"));
        assert_eq!(parse_root("checkpoint.a"), RootName::Known);
        assert_eq!(parse_root("checkpoint.a.tmp"), RootName::Temporary);
        assert_eq!(parse_root("lost+found"), RootName::Other);
    }
}
