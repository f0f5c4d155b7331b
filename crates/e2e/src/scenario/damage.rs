//! Damage to the files of a stopped broker (P6, P7).
//!
//! A broker fills three topics and is stopped or killed. Then one file is damaged and a broker is started on it. Whatever
//! was damaged, one of two things must happen:
//!
//! * It refuses to start, names the file and changes no byte of anything.
//! * It starts. Each topic serves what it was sent, byte by byte, and its log names the rest by file and offset; all other
//!   topics serve everything. When the damage is accepted, it is a gap, and the topic takes writes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use danube_client::admin::Repair;
use danube_client::{Durability, Message};

use crate::broker::{Broker, Options, Refused};
use crate::native::Contents;
use crate::scenario::kills::assert_no_panic;
use crate::{Generator, Measured, Native, files};

/// The topics that are filled.
pub const TOPICS: [&str; 3] = ["/default/one", "/default/two", "/default/three"];
/// The topic that is created and deleted at the end.
const BEHIND: &str = "/default/behind";
/// Messages in each.
const MESSAGES: u64 = 300;
/// Messages that are sent together.
const BATCH: usize = 10;

/// The files of a stopped broker.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// How a broker ended before its files are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By `SIGTERM`.
    Stopped,
    /// By `SIGKILL`.
    Killed,
}

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit of the byte at this position.
    Flipped(usize),
    /// A sector full of zeros from here.
    Zeroed(usize),
    /// Cut to this length.
    Cut(usize),
    /// The file is gone.
    Removed,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The broker did not start.
    Refused,
    /// Everything is there.
    Whole,
    /// Part of a topic was reported as damaged.
    Reported,
}

/// The message at an offset of a topic.
#[must_use]
pub fn message(topic: &str, offset: u64) -> Message {
    let length = (offset * 37 % 1500) as usize;
    let payload = format!("{topic} {offset} {}", "x".repeat(length));
    Message { payload: payload.into(), ..Message::default() }
}

/// Options with small segments, so that there are sealed ones.
#[must_use]
pub fn options() -> Options {
    Options::default().setting("storage.wal.rotation.max_bytes", "65536")
}

/// What a broker leaves that has filled the topics.
///
/// # Panics
///
/// If it can't be filled.
#[must_use]
pub fn filled(end: End) -> Files {
    let mut broker = Broker::start(options());
    let native = Native::of(&broker);
    for topic in TOPICS {
        let producer = native.producer(topic, Durability::Disk);
        // A batch each time, so that there are many frames, and segments.
        for first in (0..MESSAGES).step_by(BATCH) {
            let batch = first..first + BATCH as u64;
            let messages = batch.clone().map(|offset| message(topic, offset));
            assert!(native.send_all(&producer, messages).into_iter().eq(batch));
        }
    }
    // A last round that nothing written later vouches for can't be told from one that was cut short. So a topic comes and goes.
    let behind = BEHIND.parse().expect("a topic name");
    drop(native.producer(BEHIND, Durability::Disk));
    native.wait(native.client().admin().delete_topic(&behind)).expect("it is there");
    match end {
        End::Stopped => broker.stop(),
        End::Killed => broker.kill9(),
    }
    files::all(&broker.data_dir())
}

/// Damages random files in random ways, `rounds` times, and starts a broker each time.
///
/// # Panics
///
/// If a promise was broken.
#[must_use]
pub fn random(rounds: usize, seed: u64) -> Measured {
    let chance = Generator::new(seed);
    let bases = [filled(End::Stopped), filled(End::Killed)];
    let mut outcomes: BTreeMap<Outcome, usize> = BTreeMap::new();
    for _ in 0..rounds {
        let base = &bases[chance.below(2) as usize];
        // A file that is empty or a lock has nothing to damage.
        let candidates: Vec<&PathBuf> =
            base.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(path, _)| path).collect();
        let path = candidates[chance.below(candidates.len() as u64) as usize];
        let damage = random_damage(&chance, &base[path]);
        let outcome = damaged(base, path, damage);
        *outcomes.entry(outcome).or_default() += 1;
    }
    let count = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
    Measured::default()
        .with("refused", count(Outcome::Refused))
        .with("whole", count(Outcome::Whole))
        .with("reported", count(Outcome::Reported))
}

fn random_damage(chance: &Generator, bytes: &[u8]) -> Damage {
    // Journals are mostly zeros that nobody reads.
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64 + 1;
    let at = chance.below(used) as usize;
    match chance.below(8) {
        0 => Damage::Removed,
        1 => Damage::Cut(at),
        2 | 3 => Damage::Zeroed(at / 512 * 512),
        _ => Damage::Flipped(at),
    }
}

/// Damages one file of a copy and starts a broker on it.
///
/// # Panics
///
/// If a promise was broken.
pub fn damaged(base: &Files, path: &Path, damage: Damage) -> Outcome {
    let mut changed = base.clone();
    apply(&mut changed, path, damage);
    started(&changed, path, &format!("{damage:?} {}", path.display()))
}

/// Removes the directory of a topic and starts a broker.
///
/// # Panics
///
/// If a promise was broken.
pub fn without_topic(base: &Files, directory: &Path) -> Outcome {
    let mut changed = base.clone();
    changed.retain(|path, _| !path.starts_with(directory));
    started(&changed, directory, &format!("without {}", directory.display()))
}

/// Starts a broker on files of which the one at `path` is damaged.
fn started(files: &Files, path: &Path, case: &str) -> Outcome {
    let scratch = tempfile::tempdir().expect("temporary directory can be created");
    let directory = scratch.path().join("data");
    files::put(&directory, files);
    match Broker::try_start(options().data_dir(&directory)) {
        Err(refused) => {
            assert_refused(&refused, path, case);
            assert_unchanged(&directory, files, case);
            Outcome::Refused
        }
        Ok(broker) => {
            let is_segment = path.extension().is_some_and(|extension| extension == "seg");
            if is_segment && !files.contains_key(path) {
                // Nobody has to read it to learn that it is gone.
                assert!(says(&broker.log(), path, "offsets "), "{case}\n{}", broker.log());
            }
            assert_served(broker, path, case)
        }
    }
}

fn apply(files: &mut Files, path: &Path, damage: Damage) {
    let bytes = files.get_mut(path).expect("a file of the broker");
    match damage {
        Damage::Flipped(at) => bytes[at] ^= 1 << (at % 8),
        Damage::Zeroed(at) => {
            let end = bytes.len().min(at + 512);
            bytes[at..end].fill(0);
        }
        Damage::Cut(length) => bytes.truncate(length),
        Damage::Removed => drop(files.remove(path)),
    }
}

fn assert_unchanged(directory: &Path, before: &Files, case: &str) {
    let after = files::all(directory);
    let paths = before.keys().chain(after.keys());
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let changed: Vec<&PathBuf> = paths.filter(differs).collect();
    assert!(changed.is_empty(), "{case}: a refusal changed {changed:?}");
}

/// A refusal ends by itself and names the file.
///
/// # Panics
///
/// If it does not.
pub fn assert_refused(refused: &Refused, path: &Path, case: &str) {
    let status = refused.status.unwrap_or_else(|| panic!("{case}: hangs\n{}", refused.log));
    assert_eq!(status.code(), Some(1), "{case}\n{}", refused.log);
    assert!(!refused.log.contains("panicked"), "{case}\n{}", refused.log);
    assert!(says(&refused.log, path, ""), "{case}: the file is not named\n{}", refused.log);
}

fn assert_served(mut broker: Broker, path: &Path, case: &str) -> Outcome {
    let native = Native::of(&broker);
    let mut outcome = Outcome::Whole;
    for topic in TOPICS {
        let contents = native.read(topic);
        let lost_end = lost_end(&broker, &native, topic, path, &contents, case);
        let missing = missing(topic, &contents, case);
        let log = broker.log();
        for (range, file) in &contents.damage {
            let named = Path::new(file);
            let at = range.start;
            let said = ["from: Offset({})", "offsets {} ", "behind offset {}"];
            let mut said = said.map(|words| words.replace("{}", &at.to_string())).into_iter();
            let is_said = said.any(|words| says(&log, named, &words));
            assert!(is_said, "{case}: {range:?} of {file}\n{log}");
        }
        if missing > 0 || !contents.damage.is_empty() || lost_end.is_some() {
            outcome = Outcome::Reported;
            assert!(says(&log, path, ""), "{case}: the file is not named\n{log}");
            accept(&native, topic, case);
        }
        let producer = native.producer(topic, Durability::Disk);
        let next = native.send_all(&producer, [message(topic, MESSAGES)]);
        assert!(next[0] >= MESSAGES, "{case}: {topic} has given {next:?} again");
    }
    assert_no_panic(&broker);
    broker.stop();
    outcome
}

/// From where on nobody knows what a topic held; `None` if that is known. Only a journal that is damaged leaves that open,
/// its log says so with the file and the offset, and a reader is told that all from there on is damaged.
fn lost_end(
    broker: &Broker,
    native: &Native,
    topic: &str,
    path: &Path,
    contents: &Contents,
    case: &str,
) -> Option<u64> {
    let blocked = native.describe(topic).blocked?;
    let damaged = contents.damage.last().map(|(range, _)| range.clone());
    let damaged = damaged.unwrap_or_else(|| panic!("{case}: {topic} is read as if it ended there"));
    let end = damaged.start;
    assert!(damaged.end >= MESSAGES, "{case}: {topic} {damaged:?}");
    assert!(path.starts_with("wal/journal"), "{case}: {topic} takes no messages: {blocked}");
    assert!(
        blocked.contains(&format!("offset {end} ")),
        "{case}: {topic} ends at {end}: {blocked}"
    );
    let log = broker.log();
    assert!(says(&log, path, &format!("behind offset {end}")), "{case}: {topic}\n{log}");
    Some(end)
}

/// How many messages are missing; all others are as they were sent, and what is missing is reported.
fn missing(topic: &str, contents: &Contents, case: &str) -> u64 {
    for read in &contents.messages {
        let expected = message(topic, read.offset).payload;
        assert_eq!(read.message.payload, expected, "{case}: {topic} {}", read.offset);
    }
    let reported = |offset: u64| {
        contents
            .damage
            .iter()
            .map(|(range, _)| range)
            .chain(&contents.gaps)
            .any(|range| range.contains(&offset))
    };
    let served =
        |offset| contents.messages.binary_search_by_key(&offset, |read| read.offset).is_ok();
    let missing: Vec<u64> = (0..MESSAGES).filter(|offset| !served(*offset)).collect();
    let silent: Vec<&u64> = missing.iter().filter(|offset| !reported(**offset)).collect();
    assert!(silent.is_empty(), "{case}: {topic} lacks {silent:?} in silence; {contents:?}");
    missing.len() as u64
}

fn accept(native: &Native, topic: &str, case: &str) {
    let name = topic.parse().expect("the name of a topic");
    let repaired = native.wait(native.client().admin().repair_topic(&name, Repair::AcceptGap));
    let repaired =
        repaired.unwrap_or_else(|error| panic!("{case}: {topic} can't be repaired: {error:?}"));
    let contents = native.read(topic);
    assert!(
        contents.damage.is_empty(),
        "{case}: {topic} after {repaired:?}: {:?}",
        contents.damage
    );
    missing(topic, &contents, case);
}

/// Whether a line of a log names a file and says something else. A file that is missing may be named by its directory.
fn says(log: &str, path: &Path, what: &str) -> bool {
    let names = path.file_name().into_iter().chain(path.parent().and_then(Path::file_name));
    let names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let names_it = |line: &str| names.iter().any(|name| line.contains(name.as_str()));
    log.lines().any(|line| names_it(line) && line.contains(what))
}

/// Where the version of a format stands, for [`newer`].
enum Version {
    /// Two bytes at 8, under a checksum at 12 over everything else up to this position; none: up to the end.
    Binary(Option<usize>),
    /// A field of a JSON object.
    Json,
}

/// The bytes of a file of a format that is one version newer; none if the file has no version.
#[must_use]
pub fn newer(path: &Path, bytes: &[u8]) -> Option<Vec<u8>> {
    let version = match bytes.get(..8)? {
        b"DANUSEG1" | b"DANUJNL1" | b"DANUVOT1" => Version::Binary(Some(64)),
        b"DANURLG1" => Version::Binary(Some(512)),
        b"DANUCKP1" | b"DANUSNP1" => Version::Binary(None),
        _ if matches!(path.file_name()?.to_str()?, "disk" | "topic") => Version::Json,
        _ => return None,
    };
    let mut bytes = bytes.to_vec();
    match version {
        Version::Json => {
            let text = String::from_utf8(bytes).ok()?;
            assert!(text.contains("\"version\":1"), "{text}");
            Some(text.replace("\"version\":1", "\"version\":2").into_bytes())
        }
        Version::Binary(end) => {
            bytes[9] += 1;
            let end = end.unwrap_or(bytes.len());
            let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..end]);
            bytes[12..16].copy_from_slice(&checksum.to_be_bytes());
            Some(bytes)
        }
    }
}

/// Raises the version of one file at a time. Returns which.
///
/// # Panics
///
/// If a broker starts on one, does not name the file and both versions, or changes a byte.
#[must_use]
pub fn newer_versions(base: &Files) -> Vec<PathBuf> {
    let mut raised = Vec::new();
    for (path, bytes) in base {
        let Some(newer) = newer(path, bytes) else { continue };
        let scratch = tempfile::tempdir().expect("temporary directory can be created");
        let directory = scratch.path().join("data");
        let mut changed = base.clone();
        changed.insert(path.clone(), newer);
        files::put(&directory, &changed);
        let case = format!("a newer {}", path.display());
        let started = Broker::try_start(options().data_dir(&directory));
        let refused = started.err().unwrap_or_else(|| panic!("{case} was taken"));
        assert_refused(&refused, path, &case);
        let both = refused.log.contains("version 2") && refused.log.contains('1');
        assert!(both, "{case}: the versions are not named\n{}", refused.log);
        assert_unchanged(&directory, &changed, &case);
        raised.push(path.clone());
    }
    raised
}
