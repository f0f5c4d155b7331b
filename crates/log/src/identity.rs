//! The two small JSON files that say what a directory is: `disk` for the hot tier, `topic` for a topic's directory.
//!
//! ```json
//! {"format":"danube disk","version":1,"disk_id":"<32 hex>","created":"<RFC 3339>"}
//! {"format":"danube topic","version":1,"topic_id":"<32 hex>","name":"/default/orders"}
//! ```
//!
//! Both are written once and read by people, too.

use std::path::Path;

use danube_env::{Disk, Env};
use danube_model::{DiskId, TimeMs, TopicId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::layout::{Layout, list, read_whole, write_atomically};
use crate::{Error, Result};

const VERSION: u32 = 1;
const DISK_FORMAT: &str = "danube disk";
const TOPIC_FORMAT: &str = "danube topic";
/// No such file comes near it.
const BYTES_MAX: u64 = 64 * 1024;

/// Which hot tier a directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiskIdentity {
    format: String,
    version: u32,
    /// Written once, at random.
    pub(crate) disk_id: DiskId,
    /// When, RFC 3339; for people.
    pub(crate) created: String,
}

/// Which topic a directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicIdentity {
    format: String,
    version: u32,
    /// As the directory's name says.
    pub(crate) topic_id: TopicId,
    /// The topic's name when its log was created; for people.
    pub(crate) name: String,
}

impl DiskIdentity {
    /// The identity of a hot tier that is made at `created`.
    pub(crate) fn new(disk_id: DiskId, created: TimeMs) -> Self {
        Self {
            format: DISK_FORMAT.to_owned(),
            version: VERSION,
            disk_id,
            created: rfc3339(created),
        }
    }

    /// Reads it; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::UnknownVersion`], [`Error::Corrupt`].
    pub(crate) fn read(disk: &dyn Disk, layout: &Layout) -> Result<Option<Self>> {
        read(disk, &layout.disk(), DISK_FORMAT)
    }

    /// Writes it, durably.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub(crate) fn write(&self, disk: &dyn Disk, layout: &Layout) -> Result<()> {
        write(disk, &layout.disk(), self)
    }
}

impl TopicIdentity {
    /// The identity of a topic's directory.
    pub(crate) fn new(topic_id: TopicId, name: impl Into<String>) -> Self {
        Self { format: TOPIC_FORMAT.to_owned(), version: VERSION, topic_id, name: name.into() }
    }

    /// Reads that of the directory of `topic`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::UnknownVersion`]; [`Error::Corrupt`], also for the file of another topic.
    pub(crate) fn read(disk: &dyn Disk, layout: &Layout, topic: TopicId) -> Result<Option<Self>> {
        let path = layout.topic_file(topic);
        let identity: Option<Self> = read(disk, &path, TOPIC_FORMAT)?;
        match identity {
            Some(identity) if identity.topic_id != topic => {
                let what = format!("it names topic {} instead of {topic}", identity.topic_id);
                Err(Error::corrupt(&path, 0, what))
            }
            identity => Ok(identity),
        }
    }

    /// Writes it into the directory of its topic, durably.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub(crate) fn write(&self, disk: &dyn Disk, layout: &Layout) -> Result<()> {
        write(disk, &layout.topic_file(self.topic_id), self)
    }
}

/// The identity of the hot tier in `layout`; none if it is new.
///
/// # Errors
///
/// [`Error::Missing`] if there is something in it and no identity; [`Error::Corrupt`] if it is not `known`, the one that
/// its checkpoint names; and as [`DiskIdentity::read`].
pub(crate) fn find(
    disk: &dyn Disk,
    layout: &Layout,
    known: Option<DiskId>,
) -> Result<Option<DiskId>> {
    let path = layout.disk();
    if let Some(identity) = DiskIdentity::read(disk, layout)? {
        return match known {
            Some(known) if known != identity.disk_id => {
                let what =
                    format!("it says disk {}, the checkpoint is of disk {known}", identity.disk_id);
                Err(Error::corrupt(&path, 0, what))
            }
            _ => Ok(Some(identity.disk_id)),
        };
    }
    let mut is_used = known.is_some();
    for dir in [layout.journal_dir(), layout.topics_dir()] {
        is_used |= !list(disk, &dir)?.is_empty();
    }
    if is_used {
        return Err(Error::Missing { path, what: "the identity of a hot tier that is not empty" });
    }
    Ok(None)
}

/// Gives a hot tier without a checkpoint its identity. One that is there is written anew: the sync of its name may have
/// failed, and nothing is to be built upon it then.
pub(crate) fn make(env: &Env, layout: &Layout) -> Result<DiskId> {
    let identity = match DiskIdentity::read(&*env.disk, layout)? {
        Some(found) => found,
        None => {
            let created = TimeMs::new(env.clock.wall_ms());
            DiskIdentity::new(DiskId::new(env.random.next_id()), created)
        }
    };
    identity.write(&*env.disk, layout)?;
    Ok(identity.disk_id)
}

/// The fields by which every version is recognized.
#[derive(Deserialize)]
struct Envelope {
    format: String,
    version: u32,
}

fn read<T: DeserializeOwned>(
    disk: &dyn Disk,
    path: &Path,
    format: &'static str,
) -> Result<Option<T>> {
    let Some(bytes) = read_whole(disk, path, BYTES_MAX)? else { return Ok(None) };
    let malformed =
        |error: serde_json::Error| Error::corrupt(path, 0, format!("not a {format} file: {error}"));
    let envelope: Envelope = serde_json::from_slice(&bytes).map_err(malformed)?;
    // There never was a version 0.
    if envelope.format != format || envelope.version == 0 {
        return Err(Error::corrupt(path, 0, format!("not a {format} file")));
    }
    if envelope.version != VERSION {
        let (found, known) = (envelope.version, VERSION);
        return Err(Error::UnknownVersion { path: path.to_owned(), what: format, found, known });
    }
    serde_json::from_slice(&bytes).map(Some).map_err(malformed)
}

fn write(disk: &dyn Disk, path: &Path, identity: &impl Serialize) -> Result<()> {
    let mut bytes =
        serde_json::to_vec(identity).expect("plain strings and numbers always serialize");
    bytes.push(b'\n');
    write_atomically(disk, path, &bytes)
}

/// A time in UTC, to the second.
pub(crate) fn rfc3339(time: TimeMs) -> String {
    let seconds = time.get() / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years that begin on a first of March: then leap days come last
    // ("chrono-Compatible Low-Level Date Algorithms", H. Hinnant).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use danube_env::disk::Open;
    use danube_env::real::RealDisk;

    use super::*;

    fn directory() -> (tempfile::TempDir, RealDisk, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let disk = RealDisk::new();
        for dir in [layout.journal_dir(), layout.topics_dir()] {
            disk.create_dir_all(&dir).unwrap();
        }
        (dir, disk, layout)
    }

    fn put(disk: &RealDisk, path: &Path, text: &str) {
        let file = disk.open(path, Open::Replace).unwrap();
        file.write_at(&[text.as_bytes()], 0).unwrap();
    }

    fn text(disk: &RealDisk, path: &Path) -> String {
        String::from_utf8(read_whole(disk, path, 1000).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn the_files_are_those_of_the_format() {
        let (_dir, disk, layout) = directory();
        assert_eq!(DiskIdentity::read(&disk, &layout).unwrap(), None);
        let identity = DiskIdentity::new(DiskId::new([0xab; 16]), TimeMs::new(1_735_689_600_999));
        identity.write(&disk, &layout).unwrap();
        let expected = format!(
            r#"{{"format":"danube disk","version":1,"disk_id":"{}","created":"2025-01-01T00:00:00Z"}}"#,
            "ab".repeat(16)
        );
        assert_eq!(text(&disk, &layout.disk()), expected + "\n");
        assert_eq!(DiskIdentity::read(&disk, &layout).unwrap(), Some(identity));

        let topic = TopicId::new([1; 16]);
        disk.create_dir_all(&layout.topic_dir(topic)).unwrap();
        assert_eq!(TopicIdentity::read(&disk, &layout, topic).unwrap(), None);
        let identity = TopicIdentity::new(topic, "/default/orders");
        identity.write(&disk, &layout).unwrap();
        let expected = format!(
            r#"{{"format":"danube topic","version":1,"topic_id":"{}","name":"/default/orders"}}"#,
            "01".repeat(16)
        );
        assert_eq!(text(&disk, &layout.topic_file(topic)), expected + "\n");
        assert_eq!(TopicIdentity::read(&disk, &layout, topic).unwrap(), Some(identity));
    }

    #[test]
    fn what_is_no_identity_is_refused() {
        let (_dir, disk, layout) = directory();
        let id = "ab".repeat(16);
        let good = format!(
            r#"{{"format":"danube disk","version":1,"disk_id":"{id}","created":"2025-01-01T00:00:00Z"}}"#
        );
        put(&disk, &layout.disk(), &good);
        assert!(DiskIdentity::read(&disk, &layout).is_ok());
        for bad in [
            String::new(),
            "{".to_owned(),
            good[..good.len() - 1].to_owned(),
            good.replace("danube disk", "danube topic"),
            good.replace("abab", "ABAB"),
            good.replace("created", "creator"),
            good.replace("\"version\":1,", ""),
            good.replace('}', r#","more":1}"#),
            " ".repeat(100_000),
        ] {
            put(&disk, &layout.disk(), &bad);
            let read = DiskIdentity::read(&disk, &layout);
            assert!(matches!(read, Err(Error::Corrupt { .. })), "{bad}: {read:?}");
        }
        // A later version is called by its name even where its fields are others.
        let later = r#"{"format":"danube disk","version":2,"id":7}"#;
        put(&disk, &layout.disk(), later);
        let read = DiskIdentity::read(&disk, &layout);
        assert!(matches!(read, Err(Error::UnknownVersion { found: 2, known: 1, .. })), "{read:?}");
    }

    #[test]
    fn the_file_of_another_topic_is_refused() {
        let (_dir, disk, layout) = directory();
        let (one, two) = (TopicId::new([1; 16]), TopicId::new([2; 16]));
        disk.create_dir_all(&layout.topic_dir(one)).unwrap();
        let other = serde_json::to_string(&TopicIdentity::new(two, "/default/two")).unwrap();
        put(&disk, &layout.topic_file(one), &other);
        let read = TopicIdentity::read(&disk, &layout, one);
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
    }

    #[tokio::test]
    async fn only_an_empty_hot_tier_gets_an_identity() {
        let (_dir, disk, layout) = directory();
        let env = Env::real();
        let other = DiskId::new([3; 16]);
        let missing = find(&disk, &layout, Some(other));
        assert!(
            matches!(missing, Err(Error::Missing { .. })),
            "a checkpoint without it: {missing:?}"
        );

        put(&disk, &layout.journal_file(1), "");
        let missing = find(&disk, &layout, None);
        assert!(matches!(missing, Err(Error::Missing { .. })), "a journal without it: {missing:?}");
        disk.remove_file(&layout.journal_file(1)).unwrap();

        assert_eq!(find(&disk, &layout, None).unwrap(), None);
        let made = make(&env, &layout).unwrap();
        assert_eq!(make(&env, &layout).unwrap(), made);
        assert_eq!(find(&disk, &layout, Some(made)).unwrap(), Some(made));
        assert_eq!(find(&disk, &layout, None).unwrap(), Some(made));
        let foreign = find(&disk, &layout, Some(other));
        assert!(matches!(foreign, Err(Error::Corrupt { .. })), "{foreign:?}");
    }

    #[test]
    fn times_are_calendar_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(TimeMs::new(seconds * 1000)), expected);
        }
    }
}
