//! Damage of every byte of a directory at rest, and files that are missing, too short, or of a later version: each is
//! refused with the file's name and changes nothing, or it is healed.

use super::*;

/// What a start finds, in a form that can be compared.
type Found = (Option<Vote>, Option<Snapshot>, Vec<Entry>);

fn found(contents: &Contents) -> Found {
    let snapshot = contents.snapshot().map(|(snapshot, _)| snapshot.clone());
    (
        contents.vote().copied(),
        snapshot,
        contents.entries().map(|(_, _, entry)| entry.clone()).collect(),
    )
}

fn entry(index: u64, payload: &'static [u8]) -> Entry {
    let id = EntryId { index, term: 3, node: 1 };
    Entry { id, kind: EntryKind::Commands, payload: Bytes::from_static(payload) }
}

/// A directory with a snapshot up to 3, and entries 2 to 9 in three files.
fn fill(env: &Env) {
    let vote = Vote { member: 1, term: 3, node: 1, committed: true };
    let contents = recover::read(&*env.disk, DIR.as_ref()).unwrap();
    let mut store = contents.settle(env, &vote, 1200).unwrap();
    for index in (0..10).step_by(2) {
        store.append(&[entry(index, &[7; 40]), entry(index + 1, &[8; 50])]).unwrap();
    }
    let last = EntryId { index: 3, term: 3, node: 1 };
    store.save_snapshot(&Snapshot::build(last, |out| out.extend_from_slice(b"state"))).unwrap();
    store.purge(EntryId { index: 1, ..last }).unwrap();
}

fn files(machine: &Machine) -> Vec<(PathBuf, Vec<u8>)> {
    let disk = machine.disk();
    let files = disk.files().into_iter().filter(|path| !path.ends_with(layout::RESERVE));
    files.map(|path| (path.clone(), disk.content(&path).unwrap())).collect()
}

fn with_filled(test: impl AsyncFnOnce(Machine, Env)) {
    sim::run(1, |world| async move {
        let machine = machine(&world);
        let env = machine.env();
        fill(&env);
        test(machine, env).await;
    });
}

/// Starts on damaged files: refused, all files left alone, and `path` named; or the same is found as before.
fn check_refused_or_healed(env: &Env, machine: &Machine, path: &Path, expected: &Found) -> bool {
    let before = files(machine);
    match recover::read(&*env.disk, DIR.as_ref()) {
        Err(error) => {
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error} does not name {path:?}"
            );
            assert!(error.hint().is_some());
            assert_eq!(files(machine), before, "a refusal changed something");
            false
        }
        Ok(contents) => {
            assert_eq!(found(&contents), *expected, "{path:?} is silently different");
            true
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused_or_healed() {
    with_filled(async |machine, env| {
        let expected = found(&recover::read(&*env.disk, DIR.as_ref()).unwrap());
        assert_eq!(expected.2.len(), 8);
        let mut healed = 0;
        for (path, bytes) in files(&machine) {
            for position in 0..bytes.len() as u64 {
                machine.disk().flip(&path, position, 1 << (position % 8)).unwrap();
                healed += u64::from(check_refused_or_healed(&env, &machine, &path, &expected));
                machine.disk().flip(&path, position, 1 << (position % 8)).unwrap();
            }
        }
        // Only the marks can be done without, those of all files but where they say that there is a next one too.
        assert_eq!(healed, 4 * 512);
    });
}

#[test]
fn a_file_that_ends_too_early_is_refused() {
    with_filled(async |machine, env| {
        let expected = found(&recover::read(&*env.disk, DIR.as_ref()).unwrap());
        for (path, bytes) in files(&machine) {
            for len in 0..bytes.len() as u64 {
                machine.disk().truncate(&path, len).unwrap();
                assert!(
                    !check_refused_or_healed(&env, &machine, &path, &expected),
                    "{path:?} at {len}"
                );
                env.disk.open(&path, Open::Write).unwrap().write_at(&[&bytes], 0).unwrap();
            }
        }
    });
}

#[test]
fn a_file_that_is_missing_is_refused() {
    with_filled(async |machine, env| {
        // All that the first log file has is in the snapshot too.
        let needless = layout::log_path(DIR.as_ref(), 2);
        for (path, bytes) in files(&machine).into_iter().filter(|(path, _)| *path != needless) {
            env.disk.remove_file(&path).unwrap();
            let error = recover::read(&*env.disk, DIR.as_ref()).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Missing { .. }), "{path:?}: {error}");
            let file = env.disk.open(&path, Open::Create).unwrap();
            file.write_at(&[&bytes], 0).unwrap();
        }
        recover::read(&*env.disk, DIR.as_ref()).unwrap();
    });
}

#[test]
fn a_file_under_anothers_name_is_refused() {
    with_filled(async |_, env| {
        let dir = Path::new(DIR);
        for (path, other) in [
            (layout::snapshot_path(dir, 3), layout::snapshot_path(dir, 4)),
            (layout::log_path(dir, 8), layout::log_path(dir, 9)),
        ] {
            env.disk.rename(&path, &other).unwrap();
            let error = recover::read(&*env.disk, DIR.as_ref()).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(other.to_str().unwrap()), "{error}");
            env.disk.rename(&other, &path).unwrap();
        }
    });
}

/// The version stands at the same place in every file.
#[test]
fn a_later_version_is_named() {
    with_filled(async |machine, env| {
        for (path, _) in files(&machine) {
            machine.disk().overwrite(&path, 8, &[0, 2]).unwrap();
            let before = files(&machine);
            let error = recover::read(&*env.disk, DIR.as_ref()).map(|_| ()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("version 2") && text.contains("newest known is 1"), "{text}");
            assert!(text.contains(path.to_str().unwrap()), "{text}");
            assert_eq!(files(&machine), before);
            machine.disk().overwrite(&path, 8, &[0, 1]).unwrap();
        }
    });
}

#[test]
fn an_entry_of_a_later_version_is_named() {
    with_filled(async |machine, env| {
        let path = layout::log_path(DIR.as_ref(), 8);
        let bytes = machine.disk().content(&path).unwrap();
        let id: entry::FileId = Fields(&bytes).array(16);
        let mut later = bytes[1024..1024 + 88].to_vec();
        later[12..14].copy_from_slice(&2u16.to_be_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&id), &1024u64.to_be_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &later[..8]), &later[12..]);
        later[8..12].copy_from_slice(&crc.to_be_bytes());
        machine.disk().overwrite(&path, 1024, &later).unwrap();
        let error = recover::read(&*env.disk, DIR.as_ref()).map(|_| ()).unwrap_err();
        assert!(
            error.to_string().ends_with("has entry version 2 at byte 1024, the newest known is 1"),
            "{error}"
        );
    });
}

/// A start cuts off what was torn. If it only wrote over it, an entry that was nobody's could fit behind a new one.
#[test]
fn what_was_cut_off_never_comes_back() {
    sim::run(1, |world| async move {
        let machine = machine(&world);
        let vote = Vote::none(1);
        let env = machine.env();
        let open = |env: &Env| {
            let contents = recover::read(&*env.disk, DIR.as_ref()).unwrap();
            let entries = found(&contents).2;
            (contents.settle(env, &vote, FILE_BYTES).unwrap(), entries)
        };
        let (mut store, _) = open(&env);
        store.append(&[entry(0, &[1; 464])]).unwrap();
        let path = layout::log_path(DIR.as_ref(), 0);
        let mark = machine.disk().content(&path).unwrap()[512..1024].to_vec();
        store.append(&[entry(1, &[2; 464]), entry(2, &[3; 464])]).unwrap();
        // As if the last group had been torn before its sync: the first of its entries lost, the mark that of before.
        machine.disk().overwrite(&path, 1536, &[0; 512]).unwrap();
        machine.disk().overwrite(&path, 512, &mark).unwrap();
        let env = machine.restart().await;
        let (mut store, entries) = open(&env);
        assert_eq!(entries, [entry(0, &[1; 464])]);
        store.append(&[entry(1, &[4; 464])]).unwrap();
        let env = machine.restart().await;
        assert_eq!(open(&env).1, [entry(0, &[1; 464]), entry(1, &[4; 464])]);
    });
}

/// What `docs/format.md` says, byte by byte.
#[test]
fn log_file_bytes_are_as_described() {
    let header =
        log_file::Header { id: std::array::from_fn(|at| at as u8), first: 5, before: (2, 1) };
    let mut file = header.encode_empty_file();
    let mut expected = b"DANURLG1\x00\x01\x00\x00\x0a\x83\x4f\x11".to_vec();
    expected.extend(0..16);
    [5u64, 2, 1].iter().for_each(|number| expected.extend(number.to_be_bytes()));
    expected.resize(512, 0);
    expected.extend(b"DANUMRK1\x35\x19\x94\x2d\x01\x00\x00\x00");
    expected.extend(1024u64.to_be_bytes());
    expected.resize(1024, 0);
    assert_eq!(file, expected);

    let blank = Entry { kind: EntryKind::Blank, ..entry(6, b"") };
    entry::encode(&mut file, &entry(5, b"\x80"), &header.id, 1024, 1024);
    entry::encode(&mut file, &blank, &header.id, 1073, 1024);
    expected.extend(b"DnRe\x00\x00\x00\x31\x5c\x7b\x09\x62\x00\x01\x02\x00");
    [5u64, 3, 1, 1024].iter().for_each(|number| expected.extend(number.to_be_bytes()));
    expected.push(0x80);
    expected.extend(b"DnRe\x00\x00\x00\x30\x4f\xb4\xd6\x42\x00\x01\x01\x00");
    [6u64, 3, 1, 1024].iter().for_each(|number| expected.extend(number.to_be_bytes()));
    assert_eq!(file, expected);

    let walk = log_file::Walk::new("log".as_ref(), Bytes::from(file)).unwrap();
    assert_eq!(walk.header, header);
    let entries: Vec<_> = walk.entries.into_iter().map(|(_, entry)| entry).collect();
    assert_eq!(entries, [entry(5, b"\x80"), blank]);
}
