//! A file of a later version: the start is refused and nothing is changed, or the one log is refused and no other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use danube_env::Env;
use danube_env::sim::{self, Crash, Machine, SimDisk, World};
use danube_log::{Error, Start, Store};
use danube_model::{Durability, ErrorKind, Offset};

use crate::support::{batch, open, plan_open, read_all, topic};

/// Two logs, then a stop or a kill.
async fn fill(world: &World, messages: u64, clean: bool) -> (Machine, Env) {
    let machine = world.machine("broker");
    let (store, _) = open(&machine.env()).await.expect("an empty disk opens");
    for n in 0..2 {
        let planned = plan_open(&store, n, Durability::Disk, &mut 0).await.expect("a new log");
        let log = store.open_log(planned).await.expect("a new log opens");
        for i in 0..messages {
            log.append(batch(&[vec![i as u8; 500]], None)).await.expect("it is stored");
        }
    }
    if clean {
        store.close().await.expect("a clean stop");
    }
    machine.crash(Crash::Kill);
    let env = machine.restart().await;
    (machine, env)
}

fn contents(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let content = |path: PathBuf| (path.clone(), disk.content(&path).expect("it is there"));
    disk.files().into_iter().map(content).collect()
}

/// Files whose paths begin and end so.
fn files(disk: &SimDisk, begin: &str, end: &str) -> Vec<PathBuf> {
    let is_it = |path: &PathBuf| {
        let path = path.to_string_lossy();
        path.starts_with(begin) && path.ends_with(end)
    };
    disk.files().into_iter().filter(is_it).collect()
}

/// Gives what begins at `at` the version 2, and the checksum at `sum_at` over `len` bytes that belongs to it.
fn raise(disk: &SimDisk, path: &Path, at: usize, version_at: usize, sum_at: usize, len: usize) {
    let mut bytes = disk.content(path).expect("it is there")[at..at + len].to_vec();
    bytes[version_at] = 2;
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..sum_at]), &bytes[sum_at + 4..]);
    bytes[sum_at..sum_at + 4].copy_from_slice(&sum.to_be_bytes());
    disk.overwrite(path, at as u64, &bytes).expect("it is there");
}

fn raise_header(disk: &SimDisk, path: &Path) {
    raise(disk, path, 0, 9, 12, 64);
}

fn raise_round(disk: &SimDisk, path: &Path) {
    let bytes = disk.content(path).expect("it is there");
    let records = u32::from_be_bytes(bytes[4096 + 64..4096 + 68].try_into().expect("four"));
    raise(disk, path, 4096, 13, 8, 80 + 40 * records as usize);
}

/// A whole frame of a later version in a round that is whole.
fn raise_frame(disk: &SimDisk, path: &Path) {
    let bytes = disk.content(path).expect("it is there");
    let at = bytes.windows(4).position(|window| window == b"DnFr").expect("a frame");
    let mut frame = bytes[at..at + 61].to_vec();
    frame[12] = 2;
    let sum = crc32c::crc32c(topic(0).as_bytes());
    let sum = crc32c::crc32c_append(sum, &frame[..8]);
    let sum = crc32c::crc32c_append(sum, &frame[12..]);
    frame[8..12].copy_from_slice(&sum.to_be_bytes());
    disk.overwrite(path, at as u64, &frame).expect("it is there");
}

fn raise_topic(disk: &SimDisk, path: &Path) {
    let text = String::from_utf8(disk.content(path).expect("it is there")).expect("text");
    let text = text.replace("\"version\":1", "\"version\":2");
    disk.overwrite(path, 0, text.as_bytes()).expect("it is there");
}

#[test]
fn a_later_version_refuses_the_start_and_changes_nothing() {
    type Raise = fn(&SimDisk, &Path);
    let cases: [(&str, Raise, &str); 5] = [
        ("segment", raise_header, ".seg"),
        ("journal file", raise_header, ".jnl"),
        ("round", raise_round, ".jnl"),
        ("frame", raise_frame, ".jnl"),
        ("topic", raise_topic, "/topic"),
    ];
    for (what, raise, end) in cases {
        sim::run(1, |world| async move {
            let (machine, env) = fill(&world, 10, false).await;
            let path = files(machine.disk(), "", end).remove(0);
            raise(machine.disk(), &path);
            let before = contents(machine.disk());
            let refused =
                open(&env).await.err().unwrap_or_else(|| panic!("a newer {what} is taken"));
            assert!(
                matches!(&refused, Error::UnknownVersion { path: named, found: 2, known: 1, .. } if *named == path),
                "{what}: {refused:?}"
            );
            assert!(before == contents(machine.disk()), "{what}: the refusal changed something");
        });
    }
}

/// Not all segments are looked at before a start: it would grow with the data.
#[test]
fn a_log_with_an_old_segment_of_a_later_version_is_refused_alone() {
    sim::run(2, |world| async move {
        let (machine, env) = fill(&world, 400, true).await;
        let dir = format!("/wal/topics/{}", topic(0));
        let segments = files(machine.disk(), &dir, ".seg");
        assert!(segments.len() > 17, "{segments:?}");
        raise_header(machine.disk(), &segments[0]);
        let before = contents(machine.disk());
        let (store, _) = open(&env).await.expect("the other log is whole");
        for refused in [
            store.look_at(topic(0)).await,
            store.read(topic(0), Start::Earliest, Offset::ZERO).await.map(|_| ()),
            open_log(&store, 0).await.map(|_| ()),
        ] {
            let error = refused.expect_err("it is of a later version");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("00000000000000000000.seg"), "{error}");
        }
        let log = open_log(&store, 1).await.expect("it is whole");
        assert_eq!(read_all(&log, Start::Earliest).await.len(), 400);
        log.append(batch(&[b"after".to_vec()], None)).await.expect("it takes messages");
        store.close().await.expect("a clean stop");
        let after = contents(machine.disk());
        for (path, bytes) in before.iter().filter(|(path, _)| path.starts_with(&dir)) {
            assert!(after.get(path) == Some(bytes), "{} was changed", path.display());
        }
    });
}

async fn open_log(store: &Store, n: u8) -> danube_log::Result<danube_log::Log> {
    let planned = plan_open(store, n, Durability::Disk, &mut (1 << 20)).await?;
    store.open_log(planned).await
}
