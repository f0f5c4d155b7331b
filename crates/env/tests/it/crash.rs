//! What a crash of the simulated disk may do, and what it may not.

mod content;
mod faults;
mod lies;
mod log;
mod names;
mod outcomes;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use danube_env::disk::{Disk, File, Open};
use danube_env::sim::{Crash, SimDisk, Survival};

const SECTOR: usize = 512;
const CUT: Crash = Crash::PowerCut(Survival::Chance);
const CUT_ALL_LOST: Crash = Crash::PowerCut(Survival::Nothing);
const CUT_ALL_KEPT: Crash = Crash::PowerCut(Survival::Everything);

fn path(name: &str) -> PathBuf {
    Path::new("/dir").join(name)
}

/// A disk with a durable directory `/dir`.
fn disk_with_dir(seed: u64) -> (SimDisk, Arc<dyn Disk>) {
    let disk = SimDisk::new(seed);
    let mount = disk.mount();
    mount.create_dir_all(Path::new("/dir")).unwrap();
    mount.sync_dir(Path::new("/")).unwrap();
    (disk, mount)
}

/// The same with a durable, empty file `/dir/a`.
fn disk_with_file(seed: u64) -> (SimDisk, Arc<dyn Disk>, Arc<dyn File>) {
    let (disk, mount) = disk_with_dir(seed);
    let file = mount.open(&path("a"), Open::Create).unwrap();
    mount.sync_dir(Path::new("/dir")).unwrap();
    (disk, mount, file)
}

fn after(disk: &SimDisk, crash: Crash) -> Vec<u8> {
    disk.crash(crash);
    disk.restart();
    disk.content(&path("a")).unwrap()
}

fn sectors(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|&byte| [byte; SECTOR]).collect()
}

#[test]
fn a_kill_keeps_all() {
    let (disk, mount, file) = disk_with_file(1);
    file.write_at(&[b"not synced"], 0).unwrap();
    mount.rename(&path("a"), &path("b")).unwrap();
    let lock = mount.lock(&path("lock")).unwrap();
    disk.crash(Crash::Kill);
    let mount = disk.restart();
    assert_eq!(disk.content(&path("b")).unwrap(), b"not synced");
    assert!(mount.open(&path("b"), Open::Read).unwrap().is_resident(0, 10));
    let again = mount.lock(&path("lock")).unwrap();
    // The dead process's lock does not unlock when it is dropped.
    drop(lock);
    assert_eq!(mount.lock(&path("lock")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    drop(again);
    assert!(file.write_at(&[b"dead"], 0).is_err());
    assert!(!file.is_resident(0, 1));
}

#[test]
fn nothing_is_resident_after_a_power_cut() {
    for crash in [CUT_ALL_KEPT, Crash::Remount(Survival::Everything)] {
        let (disk, _, file) = disk_with_file(1);
        file.write_at(&[&[1; 1 << 20]], 0).unwrap();
        file.sync_data().unwrap();
        disk.crash(crash);
        let file = disk.restart().open(&path("a"), Open::Read).unwrap();
        assert!(!file.is_resident(0, 1 << 20));
        assert!(!file.is_resident(0, 1));
        file.read_at(&mut [0; 10], 300_000).unwrap();
        assert!(file.is_resident(299_008, 131_072), "with read-ahead");
        assert!(!file.is_resident(0, 1 << 20));
        file.forget_cached();
        assert!(!file.is_resident(300_000, 10));
        assert!(file.is_resident(300_000, 10), "the probe itself read the page");
    }
}
