//! Names after a power cut, held against snapshots of all names since the last sync.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use danube_env::disk::names::create_dir_durably;
use danube_env::disk::{Disk, Open};
use danube_env::sim::{Crash, Fault, Operation, SimDisk};
use proptest::prelude::*;

use super::{CUT, CUT_ALL_KEPT, CUT_ALL_LOST, disk_with_dir, path};

#[test]
fn names_and_contents_are_durable_apart() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let (disk, mount) = disk_with_dir(seed);
        let file = mount.open(&path("a.tmp"), Open::Create).unwrap();
        file.write_at(&[b"content"], 0).unwrap();
        file.sync_data().unwrap();
        mount.rename(&path("a.tmp"), &path("a")).unwrap();
        disk.crash(CUT);
        disk.restart();
        seen.insert(disk.files());
    }
    let names = [vec![], vec![path("a.tmp")], vec![path("a")]];
    assert_eq!(seen, BTreeSet::from(names), "created or not, renamed or not, never both");
}

#[test]
fn a_sync_of_one_directory_takes_along_what_its_names_stand_on() {
    for crash in [CUT_ALL_KEPT, CUT_ALL_LOST] {
        let (disk, mount) = disk_with_dir(1);
        mount.create_dir_all(&path("sub")).unwrap();
        mount.sync_dir(Path::new("/dir")).unwrap();
        mount.open(&path("sub/a"), Open::Create).unwrap();
        mount.rename(&path("sub/a"), &path("b")).unwrap();
        mount.sync_dir(Path::new("/dir")).unwrap();
        disk.crash(crash);
        assert_eq!(disk.files(), [path("b")], "{crash:?}");
    }
}

#[test]
fn a_directory_that_moves_takes_the_changes_before_along() {
    let (disk, mount) = disk_with_dir(1);
    mount.create_dir_all(&path("sub")).unwrap();
    mount.open(&path("a"), Open::Create).unwrap();
    mount.rename(&path("sub"), &path("moved")).unwrap();
    disk.crash(CUT_ALL_LOST);
    let mount = disk.restart();
    assert!(mount.exists(&path("sub")).unwrap(), "the move itself was not synced");
    assert_eq!(disk.files(), [path("a")]);
}

#[test]
fn a_directory_is_durable_when_its_own_name_is() {
    let (disk, mount) = disk_with_dir(1);
    mount.create_dir_all(&path("sub")).unwrap();
    mount.open(&path("sub/file"), Open::Create).unwrap();
    mount.sync_dir(&path("sub")).unwrap();
    let fork = disk.fork(1);
    fork.crash(CUT_ALL_LOST);
    assert!(!fork.restart().exists(&path("sub")).unwrap());
    mount.sync_dir(Path::new("/dir")).unwrap();
    disk.crash(CUT_ALL_LOST);
    assert!(disk.restart().exists(&path("sub/file")).unwrap());
}

/// The page cache shows a directory whose sync failed to the next process too.
#[test]
fn a_directory_is_durable_though_an_earlier_sync_failed() {
    for level in ["/dir", "/dir/above", "/dir/above/own"] {
        let (disk, mount) = disk_with_dir(1);
        let own = path("above/own");
        disk.plan(Fault::nth(Operation::SyncDir, 0).on(level));
        let failed = create_dir_durably(&*mount, &own).map_err(|error| error.action);
        assert_eq!(failed, if level.ends_with("own") { Ok(()) } else { Err("sync") }, "{level}");
        disk.crash(Crash::Kill);
        create_dir_durably(&*disk.restart(), &own).unwrap();
        disk.crash(CUT_ALL_LOST);
        assert!(disk.restart().exists(&own).unwrap(), "{level}");
    }
}

#[derive(Clone, Debug)]
enum NameStep {
    Create(usize),
    Rename(usize, usize),
    Remove(usize),
    SyncDir,
    SyncVolume,
}

fn name_step() -> impl Strategy<Value = NameStep> {
    prop_oneof![
        3 => (0..5_usize).prop_map(NameStep::Create),
        4 => (0..5_usize, 0..5_usize).prop_map(|(from, to)| NameStep::Rename(from, to)),
        2 => (0..5_usize).prop_map(NameStep::Remove),
        1 => Just(NameStep::SyncDir),
        1 => Just(NameStep::SyncVolume),
    ]
}

type Names = BTreeMap<usize, u8>;

fn name(number: usize) -> PathBuf {
    path(&format!("name-{number}"))
}

/// Applies steps to names whose files hold one byte each, that says which file it is.
fn apply_names(mount: &dyn Disk, steps: &[NameStep]) -> Vec<Names> {
    let mut snapshots = vec![Names::new()];
    let mut next_file = 0;
    for step in steps {
        let mut names = snapshots.last().unwrap().clone();
        match *step {
            NameStep::Create(number) => {
                let created = mount.open(&name(number), Open::Create);
                assert_eq!(created.is_ok(), !names.contains_key(&number));
                if let Ok(file) = created {
                    next_file += 1;
                    file.write_at(&[&[next_file]], 0).unwrap();
                    file.sync_data().unwrap();
                    names.insert(number, next_file);
                }
            }
            NameStep::Rename(from, to) => {
                let renamed = mount.rename(&name(from), &name(to));
                let file = names.remove(&from);
                assert_eq!(renamed.is_ok(), file.is_some());
                names.extend(file.map(|file| (to, file)));
            }
            NameStep::Remove(number) => {
                let removed = mount.remove_file(&name(number));
                assert_eq!(removed.is_ok(), names.remove(&number).is_some());
            }
            NameStep::SyncDir => mount.sync_dir(Path::new("/dir")).unwrap(),
            NameStep::SyncVolume => mount.sync_volume(Path::new("/dir")).unwrap(),
        }
        if matches!(step, NameStep::SyncDir | NameStep::SyncVolume) {
            snapshots.clear();
        }
        snapshots.push(names);
    }
    snapshots
}

fn names_on(disk: &SimDisk) -> Names {
    (0..5)
        .filter_map(|number| Some((number, *disk.content(&name(number)).ok()?.first()?)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_name_is_an_old_one_or_the_new_one(
        steps in prop::collection::vec(name_step(), 1..16),
        seed in any::<u64>(),
    ) {
        let (disk, mount) = disk_with_dir(seed);
        let snapshots = apply_names(&*mount, &steps);
        let last = snapshots.last().unwrap();
        prop_assert_eq!(&names_on(&disk), last);
        for number in 0..8 {
            let fork = disk.fork(seed ^ number);
            fork.crash(CUT);
            fork.restart();
            let left = names_on(&fork);
            for number in 0..5 {
                let was = |snapshot: &Names| snapshot.get(&number) == left.get(&number);
                prop_assert!(snapshots.iter().any(was), "name {} in {:?}", number, left);
            }
            let files: BTreeSet<u8> = left.values().copied().collect();
            prop_assert_eq!(files.len(), left.len(), "a file has one name");
            for file in snapshots[0].values() {
                let always = snapshots.iter().all(|names| names.values().any(|other| other == file));
                prop_assert!(!always || files.contains(file), "file {} vanished", file);
            }
        }
        let (kept, lost) = (disk.fork(seed), disk.fork(seed));
        kept.crash(CUT_ALL_KEPT);
        prop_assert_eq!(&names_on(&kept), last);
        lost.crash(CUT_ALL_LOST);
        prop_assert_eq!(&names_on(&lost), &snapshots[0]);
    }
}
