//! Each outcome that a power cut may have is seen under some seed.

use std::collections::BTreeSet;

use danube_env::disk::{Disk, File, Open};

use super::{CUT, CUT_ALL_LOST, SECTOR, after, disk_with_file, path, sectors};

/// The outcomes of many power cuts after the same steps.
fn outcomes(prepare: impl Fn(&dyn Disk, &dyn File)) -> BTreeSet<Vec<u8>> {
    (0..400)
        .map(|seed| {
            let (disk, mount, file) = disk_with_file(seed);
            prepare(&*mount, &*file);
            after(&disk, CUT)
        })
        .collect()
}

#[test]
fn sectors_are_lost_in_any_combination() {
    let seen = outcomes(|_, file| {
        file.write_at(&[&sectors(&[1, 1, 1])], 0).unwrap();
        file.sync_data().unwrap();
        file.write_at(&[&sectors(&[2, 2, 2])], 0).unwrap();
    });
    let all: BTreeSet<Vec<u8>> = (0..8_u8)
        .map(|mask| sectors(&[1 + (mask & 1), 1 + (mask >> 1 & 1), 1 + (mask >> 2)]))
        .collect();
    assert_eq!(seen, all);
}

#[test]
fn a_file_that_grew_may_have_any_length_and_holes() {
    let seen = outcomes(|_, file| file.write_at(&[&sectors(&[1, 2, 3]), b"tail"], 0).unwrap());
    let lens: BTreeSet<usize> = seen.iter().map(Vec::len).collect();
    assert_eq!(lens, BTreeSet::from([0, 512, 1024, 1536, 1540]));
    // "Good, zeroes, good."
    assert!(seen.contains(&[sectors(&[1, 0, 3]), b"tail".to_vec()].concat()));
    assert!(seen.contains(&sectors(&[1, 2])));
}

#[test]
fn a_sector_may_come_back_as_it_was_between_two_writes() {
    let seen = outcomes(|_, file| {
        for byte in 1..=3 {
            file.write_at(&[&sectors(&[byte])], 0).unwrap();
        }
    });
    let whole: BTreeSet<u8> = seen.iter().filter(|s| s.len() == SECTOR).map(|s| s[0]).collect();
    assert_eq!(whole, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_cut_file_may_be_long_again() {
    let seen = outcomes(|_, file| {
        file.write_at(&[&[1; 10_000]], 0).unwrap();
        file.sync_data().unwrap();
        file.set_len(1000).unwrap();
        file.write_at(&[&[2; 10]], 6000).unwrap();
    });
    assert!(seen.contains(&vec![1; 10_000]), "the cut was lost");
    assert!(seen.contains(&vec![1; 1000]), "the growth was lost");
    assert!(seen.iter().any(|content| content.len() == 6010 && content[6000] == 2));
    for content in &seen {
        assert!(content[..1000].iter().all(|&byte| byte == 1), "what was synced and not cut");
        let is_long = content.len() == 10_000;
        assert!(
            !is_long || content[4096..].iter().all(|&byte| byte == 1),
            "written behind a lost cut"
        );
    }
}

#[test]
fn the_first_of_two_cuts_may_be_kept_alone() {
    let seen = outcomes(|_, file| {
        file.write_at(&[&[1; 10_000]], 0).unwrap();
        file.sync_data().unwrap();
        file.set_len(5000).unwrap();
        file.set_len(1000).unwrap();
    });
    let lens: BTreeSet<usize> = seen.iter().map(Vec::len).collect();
    assert_eq!(lens, BTreeSet::from([1000, 5000, 10_000]));
}

#[test]
fn an_emptied_file_may_have_its_old_content() {
    let seen = outcomes(|disk, file| {
        file.write_at(&[b"old content"], 0).unwrap();
        file.sync_data().unwrap();
        disk.open(&path("a"), Open::Replace).unwrap().write_at(&[b"new"], 0).unwrap();
    });
    for content in ["old content", "", "new", "\0\0\0"] {
        assert!(seen.contains(content.as_bytes()), "{content:?}");
    }
}

#[test]
fn zeroes_of_a_large_file_survive() {
    let (disk, _, file) = disk_with_file(1);
    let zeroes = vec![0; 1 << 20];
    for megabyte in 0..32 {
        file.write_at(&[&zeroes], megabyte << 20).unwrap();
    }
    file.sync_data().unwrap();
    file.write_at(&[b"round"], 5 << 20).unwrap();
    file.sync_data().unwrap();
    let content = after(&disk, CUT_ALL_LOST);
    assert_eq!(content.len(), 32 << 20);
    assert_eq!(&content[5 << 20..][..6], b"round\0");
}
