//! After a failed sync the page cache shows what the disk does not have.

use std::path::Path;

use danube_env::sim::{Fault, Operation};

use super::{CUT_ALL_KEPT, CUT_ALL_LOST, after, disk_with_file, path, sectors};

#[test]
fn a_failed_sync_lies_to_the_next_one() {
    for seed in 0..200 {
        let (disk, mount, file) = disk_with_file(seed);
        let old = sectors(&[1; 20]);
        let new = sectors(&[2; 20]);
        file.write_at(&[&old], 0).unwrap();
        file.sync_data().unwrap();
        file.write_at(&[&new], 0).unwrap();
        let operation = if seed % 2 == 0 { Operation::SyncData } else { Operation::SyncVolume };
        disk.plan(Fault::nth(operation, 0));
        let sync = || match operation {
            Operation::SyncData => file.sync_data(),
            _ => mount.sync_volume(Path::new("/")),
        };
        assert!(sync().is_err());
        sync().unwrap();
        assert_eq!(disk.content(&path("a")).unwrap(), new, "the page cache shows the data");
        assert_ne!(after(&disk.fork(seed), CUT_ALL_KEPT), new, "the disk does not have it");
        let evicted = disk.fork(seed);
        evicted.evict();
        assert_ne!(evicted.content(&path("a")).unwrap(), new);
        // Only what is written again is.
        file.write_at(&[&new], 0).unwrap();
        sync().unwrap();
        assert_eq!(after(&disk, CUT_ALL_LOST), new);
    }
}

#[test]
fn a_failed_sync_may_lose_a_length() {
    let lost = (0..100).filter(|&seed| {
        let (disk, _, file) = disk_with_file(seed);
        file.write_at(&[b"x"], 0).unwrap();
        disk.plan(Fault::nth(Operation::SyncData, 0));
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        after(&disk, CUT_ALL_KEPT).is_empty()
    });
    assert!((10..90).contains(&lost.count()));
}

#[test]
fn a_failed_sync_of_names_lies_to_the_next_one() {
    let lost = (0..100).filter(|&seed| {
        let (disk, mount, file) = disk_with_file(seed);
        file.sync_data().unwrap();
        mount.rename(&path("a"), &path("b")).unwrap();
        disk.plan(Fault::nth(Operation::SyncDir, 0));
        assert!(mount.sync_dir(Path::new("/dir")).is_err());
        mount.sync_dir(Path::new("/dir")).unwrap();
        assert!(mount.exists(&path("b")).unwrap());
        disk.crash(CUT_ALL_KEPT);
        disk.restart().exists(&path("a")).unwrap()
    });
    assert_eq!(lost.count(), 100);
}
