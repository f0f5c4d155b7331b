//! Planned errors, full volumes, damage.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use danube_env::disk::{Disk, File, Open};
use danube_env::sim::{Crash, Fault, Operation, Survival};

use super::{CUT_ALL_LOST, after, disk_with_file, path};

#[test]
fn faults_come_as_planned() {
    let (disk, mount, file) = disk_with_file(1);
    let other = mount.open(&path("other"), Open::Create).unwrap();
    disk.plan(Fault::nth(Operation::Write, 1).on("/a"));
    let write = |file: &dyn File| file.write_at(&[&[1; 1000]], 0);
    write(&*file).unwrap();
    write(&*other).unwrap();
    assert_eq!(write(&*file).unwrap_err().raw_os_error(), Some(5), "EIO");
    write(&*file).unwrap();

    disk.plan(Fault::always(Operation::Rename).no_space());
    let refused = || mount.rename(&path("a"), &path("b")).unwrap_err().kind();
    assert_eq!([refused(), refused()], [io::ErrorKind::StorageFull; 2]);
    disk.clear_plan();
    mount.rename(&path("a"), &path("b")).unwrap();

    disk.plan(Fault::one_in(Operation::Read, 4));
    let failed = (0..1000).filter(|_| file.read_at(&mut [0; 10], 0).is_err()).count();
    assert!((150..350).contains(&failed), "{failed}");

    assert_eq!((disk.failures(), disk.failed_syncs()), (3 + failed as u64, 0));
    disk.plan(Fault::nth(Operation::SyncData, 0));
    assert!(file.sync_data().is_err());
    assert_eq!((disk.failures(), disk.failed_syncs()), (4 + failed as u64, 1));
}

#[test]
fn a_file_system_that_shut_down_changes_nothing() {
    let (disk, mount, file) = disk_with_file(1);
    disk.plan(Fault::nth(Operation::SyncDir, 0).shuts_down());
    assert!(mount.sync_dir(&path("")).is_err());
    let content = disk.content(&path("a")).unwrap();
    for _ in 0..2 {
        assert!(file.write_at(&[b"x"], 0).is_err() && file.sync_data().is_err());
        assert!(mount.open(&path("b"), Open::Create).is_err());
    }
    assert_eq!(file.read_at(&mut vec![0; content.len()], 0).unwrap(), content.len());
    assert_eq!((disk.content(&path("a")).unwrap(), disk.failed_syncs()), (content, 1));

    // Another process is no remedy, another mount is.
    let mount = disk.restart();
    assert!(disk.is_shut_down() && mount.open(&path("b"), Open::Create).is_err());
    disk.crash(Crash::Remount(Survival::Everything));
    assert!(!disk.is_shut_down());
    disk.restart().open(&path("b"), Open::Create).unwrap();
}

#[test]
fn a_plan_ends_with_the_crash() {
    let (disk, mount, _) = disk_with_file(1);
    disk.plan(Fault::always(Operation::Create));
    assert!(mount.create_dir_all(&path("sub")).is_err());
    disk.crash_at(5, CUT_ALL_LOST);
    let mount = disk.restart();
    for number in 0..10 {
        mount.create_dir_all(&path(&format!("sub-{number}"))).unwrap();
    }
}

#[test]
fn a_failed_write_leaves_any_part_of_itself() {
    let mut lens = BTreeSet::new();
    for seed in 0..300 {
        let (disk, _, file) = disk_with_file(seed);
        disk.plan(Fault::nth(Operation::Write, 0));
        assert!(file.write_at(&[b"ab", b"c"], 0).is_err());
        let content = disk.content(&path("a")).unwrap();
        assert!(b"abc".starts_with(&content));
        lens.insert(content.len());
    }
    assert_eq!(lens, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_full_volume_takes_what_fits() {
    let (disk, mount, file) = disk_with_file(1);
    disk.set_size(5 * 4096);
    file.write_at(&[&[1; 4097]], 0).unwrap();
    assert_eq!(mount.space(Path::new("/")).unwrap().available, 3 * 4096);
    let other = mount.open(&path("other"), Open::Create).unwrap();
    other.write_at(&[&[2; 4096]], 0).unwrap();
    let refused = file.write_at(&[&[3; 5000], &[4; 20_000]], 5000).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 4 * 4096, "what fits was written");
    assert_eq!(other.set_len(4097).unwrap_err().kind(), io::ErrorKind::StorageFull);
    // Overwriting needs no room; removing gives it back when nobody has the file open.
    file.write_at(&[&[5; 4000]], 0).unwrap();
    mount.remove_file(&path("other")).unwrap();
    assert_eq!(mount.space(Path::new("/")).unwrap().available, 0);
    drop(other);
    assert_eq!(mount.space(Path::new("/")).unwrap().available, 4096);
    file.set_len(0).unwrap();
    assert_eq!(mount.space(Path::new("/")).unwrap().available, 5 * 4096);
}

#[test]
fn room_is_right_after_a_crash() {
    let (disk, mount, file) = disk_with_file(1);
    file.write_at(&[&[1; 8192]], 0).unwrap();
    file.sync_data().unwrap();
    let lost = mount.open(&path("lost"), Open::Create).unwrap();
    lost.write_at(&[&[1; 8192]], 0).unwrap();
    mount.remove_file(&path("a")).unwrap();
    let space = |disk: &dyn Disk| {
        let space = disk.space(Path::new("/")).unwrap();
        space.total - space.available
    };
    assert_eq!(space(&*mount), 16_384, "removed and open");
    let kill = disk.fork(1);
    assert_eq!(space(&*kill.mount()), 8192);
    disk.crash(CUT_ALL_LOST);
    let mount = disk.restart();
    assert_eq!(space(&*mount), 8192);
    assert_eq!(disk.files(), [path("a")]);
    mount.remove_file(&path("a")).unwrap();
    assert_eq!(space(&*mount), 0);
}

#[test]
fn damage_is_durable() {
    let (disk, _, file) = disk_with_file(1);
    file.write_at(&[&[1; 5000]], 0).unwrap();
    file.sync_data().unwrap();
    disk.flip(&path("a"), 4500, 0x80).unwrap();
    disk.overwrite(&path("a"), 4998, &[0; 10]).unwrap();
    let mut expected = vec![1; 5000];
    expected[4500] = 0x81;
    expected[4998..].fill(0);
    assert_eq!(disk.content(&path("a")).unwrap(), expected);
    assert_eq!(after(&disk, CUT_ALL_LOST), expected);
    disk.truncate(&path("a"), 4600).unwrap();
    assert_eq!(after(&disk, CUT_ALL_LOST), expected[..4600]);
    assert!(disk.flip(&path("missing"), 0, 1).is_err());
}
