//! What every [`Disk`] promises while nothing fails, told once and run by each implementation.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use danube_env::disk::{Disk, Entry, Open};

type Case = (&'static str, fn(&dyn Disk, &Path));

const CASES: &[Case] = &[
    ("a_write_is_visible_at_once", a_write_is_visible_at_once),
    ("opening_finds_or_refuses", opening_finds_or_refuses),
    ("a_file_opened_for_reading_takes_no_write", a_file_opened_for_reading_takes_no_write),
    ("a_read_stops_at_the_end", a_read_stops_at_the_end),
    ("a_hole_reads_as_zeroes", a_hole_reads_as_zeroes),
    ("cut_bytes_do_not_come_back", cut_bytes_do_not_come_back),
    ("many_parts_are_one_write", many_parts_are_one_write),
    ("random_writes_read_back", random_writes_read_back),
    ("a_rename_replaces", a_rename_replaces),
    ("a_rename_between_directories", a_rename_between_directories),
    ("a_removed_file_can_be_read_by_who_has_it_open", a_removed_file_stays_open),
    ("removing_takes_the_right_kind", removing_takes_the_right_kind),
    ("a_directory_tree", a_directory_tree),
    ("a_list_is_sorted", a_list_is_sorted),
    ("a_lock_excludes", a_lock_excludes),
    ("syncs_of_what_exists_succeed", syncs_of_what_exists_succeed),
    ("writing_takes_room", writing_takes_room),
    ("what_was_written_is_resident", what_was_written_is_resident),
    ("the_boot_id_stays", the_boot_id_stays),
];

/// Runs all cases, each in a directory of its own below `root`.
pub(crate) fn run(disk: &dyn Disk, root: &Path) {
    for (name, case) in CASES {
        println!("case {name}");
        let dir = root.join(name);
        disk.create_dir_all(&dir).unwrap();
        case(disk, &dir);
    }
}

fn write(disk: &dyn Disk, path: &Path, content: &[u8]) {
    disk.open(path, Open::Replace).unwrap().write_at(&[content], 0).unwrap();
}

fn read(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Open::Read).unwrap();
    let mut content = vec![0xee; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut content, 0).unwrap(), content.len());
    content
}

fn names(disk: &dyn Disk, dir: &Path) -> Vec<String> {
    disk.list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn refused<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().expect("should be refused").kind()
}

fn a_write_is_visible_at_once(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    let writer = disk.open(&path, Open::Create).unwrap();
    let reader = disk.open(&path, Open::Read).unwrap();
    assert!(reader.is_empty().unwrap());
    writer.write_at(&[b"danube"], 3).unwrap();
    assert_eq!(reader.len().unwrap(), 9);
    assert_eq!(read(disk, &path), b"\0\0\0danube");
    writer.write_at(&[b"D"], 3).unwrap();
    let mut letter = [0];
    assert_eq!(reader.read_at(&mut letter, 3).unwrap(), 1);
    assert_eq!(&letter, b"D");
}

fn opening_finds_or_refuses(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    assert_eq!(refused(disk.open(&path, Open::Read)), ErrorKind::NotFound);
    assert_eq!(refused(disk.open(&path, Open::Write)), ErrorKind::NotFound);
    assert!(!disk.exists(&path).unwrap());
    disk.open(&path, Open::Create).unwrap().write_at(&[b"kept"], 0).unwrap();
    assert!(disk.exists(&path).unwrap());
    assert_eq!(refused(disk.open(&path, Open::Create)), ErrorKind::AlreadyExists);
    assert_eq!(read(disk, &path), b"kept");
    drop(disk.open(&path, Open::Write).unwrap());
    assert_eq!(read(disk, &path), b"kept");
    drop(disk.open(&path, Open::Replace).unwrap());
    assert_eq!(read(disk, &path), b"");
    let orphan = dir.join("missing").join("a");
    for how in [Open::Read, Open::Write, Open::Create, Open::Replace] {
        assert_eq!(refused(disk.open(&orphan, how)), ErrorKind::NotFound, "{how:?}");
        assert_eq!(refused(disk.open(&path.join("b"), how)), ErrorKind::NotADirectory, "{how:?}");
    }
    assert!(!disk.exists(&orphan).unwrap());
}

fn a_file_opened_for_reading_takes_no_write(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    write(disk, &path, b"kept");
    let file = disk.open(&path, Open::Read).unwrap();
    assert!(file.write_at(&[b"lost"], 0).is_err());
    assert!(file.set_len(0).is_err());
    assert_eq!(read(disk, &path), b"kept");
}

fn a_read_stops_at_the_end(disk: &dyn Disk, dir: &Path) {
    let file = disk.open(&dir.join("a"), Open::Create).unwrap();
    file.write_at(&[&[7; 5000]], 0).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(file.read_at(&mut buffer, 4950).unwrap(), 50);
    assert_eq!(buffer[..50], [7; 50]);
    assert_eq!(file.read_at(&mut buffer, 5000).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
}

fn a_hole_reads_as_zeroes(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    let file = disk.open(&path, Open::Create).unwrap();
    file.write_at(&[b"end"], 100_000).unwrap();
    let content = read(disk, &path);
    assert_eq!(content.len(), 100_003);
    assert!(content[..100_000].iter().all(|&byte| byte == 0));
    file.set_len(200_000).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
    assert!(read(disk, &path)[100_003..].iter().all(|&byte| byte == 0));
}

fn cut_bytes_do_not_come_back(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    let file = disk.open(&path, Open::Create).unwrap();
    file.write_at(&[&[9; 20_000]], 0).unwrap();
    file.sync_data().unwrap();
    file.set_len(5001).unwrap();
    assert_eq!(file.len().unwrap(), 5001);
    file.set_len(30_000).unwrap();
    let content = read(disk, &path);
    assert!(content[..5001].iter().all(|&byte| byte == 9));
    assert!(content[5001..].iter().all(|&byte| byte == 0));
    file.set_len(0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(read(disk, &path), b"");
}

fn many_parts_are_one_write(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    let file = disk.open(&path, Open::Create).unwrap();
    // More parts than one system call takes, some of them empty, one larger than a page.
    let parts: Vec<Vec<u8>> = (0..5000_usize).map(|i| vec![i as u8; i % 7]).collect();
    let mut slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let large = vec![0xab; 10_000];
    slices.insert(1500, &large);
    file.write_at(&slices, 11).unwrap();
    assert_eq!(read(disk, &path)[11..], slices.concat());
    file.write_at(&[], 0).unwrap();
    file.write_at(&[b"", b""], 1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 11 + slices.concat().len() as u64);
}

/// Holds the file against a plain vector while positions, sizes, syncs and cuts vary.
fn random_writes_read_back(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    let file = disk.open(&path, Open::Create).unwrap();
    let mut model: Vec<u8> = Vec::new();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for round in 0..2000_u32 {
        let position = next(40_000) as usize;
        match next(10) {
            0 => {
                model.resize(position, 0);
                file.set_len(position as u64).unwrap();
            }
            1 => file.sync_data().unwrap(),
            2 => file.forget_cached(),
            _ => {
                let bytes =
                    vec![if next(4) == 0 { 0 } else { round as u8 }; 1 + next(9000) as usize];
                let end = position + bytes.len();
                model.resize(model.len().max(end), 0);
                model[position..end].copy_from_slice(&bytes);
                let (front, back) = bytes.split_at(bytes.len() / 2);
                file.write_at(&[front, back], position as u64).unwrap();
            }
        }
        if round % 50 == 0 {
            assert_eq!(read(disk, &path), model, "round {round}");
        }
    }
    assert_eq!(read(disk, &path), model);
}

fn a_rename_replaces(disk: &dyn Disk, dir: &Path) {
    let (old, new) = (dir.join("old"), dir.join("new"));
    write(disk, &old, b"moved");
    write(disk, &new, b"replaced");
    let replaced = disk.open(&new, Open::Read).unwrap();
    disk.rename(&old, &new).unwrap();
    assert_eq!(read(disk, &new), b"moved");
    assert!(!disk.exists(&old).unwrap());
    assert_eq!(replaced.len().unwrap(), 8);
    assert_eq!(refused(disk.rename(&old, &new)), ErrorKind::NotFound);
    disk.rename(&new, &new).unwrap();
    assert_eq!(read(disk, &new), b"moved");
}

fn a_rename_between_directories(disk: &dyn Disk, dir: &Path) {
    let (from, to) = (dir.join("from"), dir.join("to"));
    disk.create_dir_all(&from).unwrap();
    disk.create_dir_all(&to).unwrap();
    write(disk, &from.join("a"), b"moved");
    disk.rename(&from.join("a"), &to.join("b")).unwrap();
    assert_eq!(names(disk, &from), [""; 0]);
    assert_eq!(read(disk, &to.join("b")), b"moved");
    // A directory moves with all in it; it does not replace a file.
    disk.rename(&to, &from.join("sub")).unwrap();
    assert_eq!(read(disk, &from.join("sub").join("b")), b"moved");
    write(disk, &dir.join("file"), b"");
    assert_eq!(refused(disk.rename(&from, &dir.join("file"))), ErrorKind::NotADirectory);
    assert_eq!(refused(disk.rename(&dir.join("file"), &from)), ErrorKind::IsADirectory);
}

fn a_removed_file_stays_open(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("a");
    write(disk, &path, b"first life");
    let reader = disk.open(&path, Open::Read).unwrap();
    disk.remove_file(&path).unwrap();
    assert!(!disk.exists(&path).unwrap());
    write(disk, &path, b"second");
    let mut content = [0; 10];
    assert_eq!(reader.read_at(&mut content, 0).unwrap(), 10);
    assert_eq!(&content, b"first life");
    assert_eq!(read(disk, &path), b"second");
}

fn removing_takes_the_right_kind(disk: &dyn Disk, dir: &Path) {
    let (file, sub) = (dir.join("file"), dir.join("sub"));
    write(disk, &file, b"");
    disk.create_dir_all(&sub).unwrap();
    assert!(disk.remove_file(&sub).is_err());
    assert!(disk.exists(&sub).unwrap());
    assert_eq!(refused(disk.remove_file(&dir.join("missing"))), ErrorKind::NotFound);
    assert_eq!(refused(disk.remove_dir_all(&dir.join("missing"))), ErrorKind::NotFound);
    disk.remove_file(&file).unwrap();
    disk.remove_dir_all(&sub).unwrap();
    assert_eq!(names(disk, dir), [""; 0]);
}

fn a_directory_tree(disk: &dyn Disk, dir: &Path) {
    let deep: PathBuf = dir.join("a").join("b").join("c");
    disk.create_dir_all(&deep).unwrap();
    disk.create_dir_all(&deep).unwrap();
    write(disk, &deep.join("file"), b"x");
    write(disk, &dir.join("a").join("file"), b"y");
    assert_eq!(
        disk.list(&dir.join("a")).unwrap(),
        [
            Entry { name: "b".to_owned(), is_dir: true },
            Entry { name: "file".to_owned(), is_dir: false },
        ]
    );
    assert!(disk.create_dir_all(&deep.join("file").join("d")).is_err());
    assert_eq!(refused(disk.list(&dir.join("missing"))), ErrorKind::NotFound);
    assert_eq!(refused(disk.list(&deep.join("file"))), ErrorKind::NotADirectory);
    disk.remove_dir_all(&dir.join("a")).unwrap();
    assert!(!disk.exists(&deep).unwrap());
    assert_eq!(names(disk, dir), [""; 0]);
}

fn a_list_is_sorted(disk: &dyn Disk, dir: &Path) {
    for name in ["b", "10", "a", "2", "B", "a.tmp"] {
        write(disk, &dir.join(name), b"");
    }
    assert_eq!(names(disk, dir), ["10", "2", "B", "a", "a.tmp", "b"]);
}

fn a_lock_excludes(disk: &dyn Disk, dir: &Path) {
    let path = dir.join("lock");
    let lock = disk.lock(&path).unwrap();
    assert!(disk.exists(&path).unwrap());
    assert_eq!(refused(disk.lock(&path)), ErrorKind::WouldBlock);
    let other = disk.lock(&dir.join("other")).unwrap();
    drop(lock);
    let again = disk.lock(&path).unwrap();
    assert_eq!(refused(disk.lock(&path)), ErrorKind::WouldBlock);
    drop((again, other));
    assert_eq!(refused(disk.lock(&dir.join("missing").join("lock"))), ErrorKind::NotFound);
}

fn syncs_of_what_exists_succeed(disk: &dyn Disk, dir: &Path) {
    let file = disk.open(&dir.join("a"), Open::Create).unwrap();
    file.sync_data().unwrap();
    file.write_at(&[b"x"], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(dir).unwrap();
    disk.sync_volume(dir).unwrap();
    disk.remove_file(&dir.join("a")).unwrap();
    file.write_at(&[b"y"], 1).unwrap();
    file.sync_data().unwrap();
    disk.sync_volume(dir).unwrap();
    assert_eq!(refused(disk.sync_dir(&dir.join("missing"))), ErrorKind::NotFound);
    assert_eq!(refused(disk.sync_volume(&dir.join("missing"))), ErrorKind::NotFound);
    assert_eq!(refused(disk.space(&dir.join("missing"))), ErrorKind::NotFound);
}

fn writing_takes_room(disk: &dyn Disk, dir: &Path) {
    let before = disk.space(dir).unwrap();
    assert!(before.available <= before.total);
    assert!(before.available > 16 << 20, "the tests need room");
    let file = disk.open(&dir.join("a"), Open::Create).unwrap();
    // On the real volume others may free room meanwhile, but not each time.
    let takes_room = (0..10).any(|piece| {
        let before = disk.space(dir).unwrap();
        file.write_at(&[&vec![1; 8 << 20]], piece * (8 << 20)).unwrap();
        file.sync_data().unwrap();
        let after = disk.space(dir).unwrap();
        assert_eq!(after.total, before.total);
        after.available + (4 << 20) < before.available
    });
    assert!(takes_room);
}

fn what_was_written_is_resident(disk: &dyn Disk, dir: &Path) {
    let file = disk.open(&dir.join("a"), Open::Create).unwrap();
    file.write_at(&[&vec![1; 300_000]], 0).unwrap();
    assert!(file.is_resident(0, 300_000));
    assert!(file.is_resident(5, 8000));
    assert!(file.is_resident(123_456, 0));
    assert!(!file.is_resident(299_000, 2000), "past the end");
    assert!(!file.is_resident(u64::MAX, 2));
}

fn the_boot_id_stays(disk: &dyn Disk, _dir: &Path) {
    let boot = disk.boot_id().unwrap();
    assert_ne!(boot, [0; 16]);
    assert_eq!(disk.boot_id().unwrap(), boot);
}
