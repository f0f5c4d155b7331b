//! Contents after a power cut, held against *snapshots*: what the file looked like at the last sync and after each
//! change since. What is left must be put together from these.

use std::path::Path;
use std::sync::Arc;

use danube_env::disk::{Disk, Open};
use danube_env::sim::{Crash, Fault, Operation, SimDisk, Survival};
use proptest::prelude::*;

use super::{CUT, CUT_ALL_KEPT, CUT_ALL_LOST, SECTOR, after, disk_with_file, path};

#[derive(Clone, Debug)]
enum Step {
    Write { position: usize, len: usize, byte: u8 },
    SetLen(usize),
    Sync,
    SyncVolume,
    Forget,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12_000_usize, 1..6000_usize, 0..4_u8)
            .prop_map(|(position, len, byte)| Step::Write { position, len, byte }),
        2 => (0..12_000_usize).prop_map(Step::SetLen),
        1 => Just(Step::Sync),
        1 => Just(Step::SyncVolume),
        1 => Just(Step::Forget),
        1 => Just(Step::Kill),
    ]
}

/// Applies steps to `/dir/a`. Returns the snapshots since the last sync, the oldest first.
fn apply(disk: &SimDisk, mut mount: Arc<dyn Disk>, steps: &[Step]) -> Vec<Vec<u8>> {
    let mut file = mount.open(&path("a"), Open::Write).unwrap();
    let mut snapshots = vec![disk.content(&path("a")).unwrap()];
    for step in steps {
        let mut content = snapshots.last().unwrap().clone();
        match *step {
            Step::Write { position, len, byte } => {
                let bytes = vec![byte; len];
                content.resize(content.len().max(position + len), 0);
                content[position..position + len].copy_from_slice(&bytes);
                file.write_at(&[&bytes[..len / 3], &bytes[len / 3..]], position as u64).unwrap();
            }
            Step::SetLen(len) => {
                content.resize(len, 0);
                file.set_len(len as u64).unwrap();
            }
            Step::Sync => {
                file.sync_data().unwrap();
                snapshots.clear();
            }
            Step::SyncVolume => {
                mount.sync_volume(Path::new("/")).unwrap();
                snapshots.clear();
            }
            Step::Forget => file.forget_cached(),
            Step::Kill => {
                mount = disk.restart();
                file = mount.open(&path("a"), Open::Write).unwrap();
            }
        }
        assert_eq!(disk.content(&path("a")).unwrap(), content);
        snapshots.push(content);
    }
    snapshots
}

/// Why a content can't come from a power cut after these snapshots; nothing if it can.
fn contradiction(snapshots: &[Vec<u8>], content: &[u8]) -> Option<String> {
    let lens = || snapshots.iter().map(Vec::len);
    let (least, most) = (lens().min().unwrap(), lens().max().unwrap());
    let len = content.len();
    if !lens().any(|old| old == len)
        && (!len.is_multiple_of(SECTOR) || !(least..most).contains(&len))
    {
        return Some(format!("length {len} of {:?}", lens().collect::<Vec<_>>()));
    }
    for (number, sector) in content.chunks(SECTOR).enumerate() {
        let start = number * SECTOR;
        let same = |snapshot: &Vec<u8>| {
            sector
                .iter()
                .enumerate()
                .all(|(i, &byte)| byte == snapshot.get(start + i).copied().unwrap_or_default())
        };
        if !snapshots.iter().any(same) {
            return Some(format!("sector {number} was never so"));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_sector_is_an_old_one_or_the_new_one(
        steps in prop::collection::vec(step(), 1..20),
        seed in any::<u64>(),
    ) {
        let (disk, mount, _) = disk_with_file(seed);
        let snapshots = apply(&disk, mount, &steps);
        let crashes = (0..8).map(|_| CUT).chain([Crash::Remount(Survival::Chance)]);
        for (number, crash) in crashes.enumerate() {
            let fork = disk.fork(seed ^ number as u64);
            let content = after(&fork, crash);
            prop_assert_eq!(contradiction(&snapshots, &content), None);
            // What lies behind the length is gone, whoever grows the file again.
            let mount = fork.mount();
            mount.open(&path("a"), Open::Write).unwrap().set_len(20_000).unwrap();
            let grown = fork.content(&path("a")).unwrap();
            prop_assert!(grown[content.len()..].iter().all(|&byte| byte == 0));
            fork.crash(CUT_ALL_LOST);
            // What came back is durable: the next cut changes nothing.
            prop_assert_eq!(after(&fork, CUT), content);
        }
        // The original is untouched by its forks.
        prop_assert_eq!(&disk.content(&path("a")).unwrap(), snapshots.last().unwrap());
        prop_assert_eq!(&after(&disk.fork(seed), CUT_ALL_KEPT), snapshots.last().unwrap());
    }

    #[test]
    fn what_was_synced_survives_every_cut(
        steps in prop::collection::vec(step(), 1..20),
        seed in any::<u64>(),
    ) {
        let (disk, mount, _) = disk_with_file(seed);
        let content = apply(&disk, mount, &steps).pop().unwrap();
        let mount = disk.restart();
        mount.open(&path("a"), Open::Write).unwrap().sync_data().unwrap();
        prop_assert_eq!(&after(&disk.fork(seed), CUT), &content);
        prop_assert_eq!(after(&disk, CUT_ALL_LOST), content);
    }

    /// A sync that failed leaves a disk of which nothing can be said but that it holds no invention.
    #[test]
    fn a_failed_sync_invents_nothing(
        before in prop::collection::vec(step(), 1..10),
        later in prop::collection::vec(step(), 1..10),
        seed in any::<u64>(),
    ) {
        let (disk, mount, file) = disk_with_file(seed);
        let mut snapshots = apply(&disk, mount, &before);
        let mount = disk.restart();
        drop(file);
        let file = mount.open(&path("a"), Open::Write).unwrap();
        disk.plan(Fault::nth(Operation::SyncData, 0));
        prop_assert!(file.sync_data().is_err());
        let later: Vec<Step> = later
            .into_iter()
            .filter(|step| matches!(step, Step::Write { .. } | Step::SetLen(_) | Step::Kill))
            .collect();
        snapshots.extend(apply(&disk, mount, &later));
        prop_assert_eq!(contradiction(&snapshots, &after(&disk, CUT)), None);
    }
}
