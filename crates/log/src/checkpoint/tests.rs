//! Golden bytes, every changed bit, and crashes at every step of a write.

use danube_env::disk::Open;
use danube_env::real::RealDisk;
use danube_env::sim::{Crash, Fault, Operation, SimDisk, Survival};
use danube_model::{BatchProducer, Epoch, ProducerId, Sequence};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn log(topic: u8) -> CheckpointLog {
    let mut producers = Producers::default();
    let base_sequence = Sequence::ZERO;
    let id = ProducerId::new(9).unwrap();
    producers.record(&BatchProducer { id, epoch: 1, base_sequence }, 3, Offset::new(17));
    CheckpointLog {
        topic_id: TopicId::new([topic; 16]),
        state: LogState {
            open: true,
            level: Durability::DiskWarm,
            end_proof: EndProof::Proven,
            end_damage: None,
            epoch: Epoch::new(6).unwrap(),
            start: Offset::new(10),
            end: Offset::new(20),
            last_receive_time: TimeMs::new(0x1111),
            producers,
            gaps: vec![Gap {
                from: Offset::new(12),
                to: Offset::new(14),
                reason: Some(GapReason::Corrupt),
            }],
        },
        segments: 2,
        last_segment: Offset::new(16),
        position: 0x2222,
    }
}

fn checkpoint(round: u64) -> Checkpoint {
    Checkpoint {
        disk_id: DiskId::new([0xdd; 16]),
        round,
        clean: true,
        written: TimeMs::new(0x3333),
        boot_id: [0xbb; 16],
        generation: 0x4444,
        session: 0x5555,
        logs: vec![log(1), log(2)],
    }
}

fn directory() -> (tempfile::TempDir, RealDisk, Layout) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    (dir, RealDisk::new(), layout)
}

/// Puts `bytes` in the place of a copy.
fn put(disk: &RealDisk, layout: &Layout, copy: Copy, bytes: &[u8]) {
    let file = disk.open(&layout.checkpoint(copy), Open::Replace).unwrap();
    file.write_at(&[bytes], 0).unwrap();
}

#[test]
fn it_has_the_bytes_of_the_format() {
    let mut checkpoint = checkpoint(7);
    checkpoint.logs.truncate(1);
    let golden = [
        &b"DANUCKP1"[..],
        &[0, 1, 0, 0],
        &[0x48, 0xed, 0xeb, 0xdc],
        &[0xdd; 16],
        &[0, 0, 0, 0, 0, 0, 0, 7],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0x33, 0x33],
        &[0xbb; 16],
        &[0, 0, 0, 0, 0, 0, 0x44, 0x44],
        &[0, 0, 0, 1, 0, 0, 0x55, 0x55],
        // The log.
        &[1; 16],
        &[1, 4, 1, 0],
        &[0, 0, 0, 6],
        &[0, 0, 0, 0, 0, 0, 0, 10],
        &[0, 0, 0, 0, 0, 0, 0, 20],
        &[0, 0, 0, 0, 0, 0, 0x11, 0x11],
        &[0, 0, 0, 2],
        &[0, 0, 0, 0, 0, 0, 0, 16],
        &[0, 0, 0, 0, 0, 0, 0x22, 0x22],
        &[0, 0, 0, 1],
        // Its producer.
        &[0, 0, 0, 0, 0, 0, 0, 9],
        &[0, 1, 0, 1],
        &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 17],
        // Its gap.
        &[0, 0, 0, 1],
        &[0, 0, 0, 0, 0, 0, 0, 12],
        &[0, 0, 0, 0, 0, 0, 0, 14],
        &[0, 2, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let encoded = checkpoint.encode();
    assert_eq!(encoded, golden);
    assert_eq!(Checkpoint::decode(&encoded), Ok(checkpoint));
}

#[test]
fn no_changed_bit_goes_unseen() {
    let bytes = checkpoint(7).encode();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Checkpoint::decode(&flipped).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(Checkpoint::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Checkpoint::decode(&[&bytes[..], &[0]].concat()).is_err(), "a byte too many");
}

#[test]
fn what_was_written_is_read() {
    let (_dir, disk, layout) = directory();
    let empty = read(&disk, &layout).unwrap();
    assert!(empty.checkpoint.is_none() && empty.problems.is_empty());
    write(&disk, &layout, &checkpoint(7)).unwrap();
    write(&disk, &layout, &checkpoint(8)).unwrap();
    let found = read(&disk, &layout).unwrap();
    assert_eq!(found.checkpoint, Some(checkpoint(8)));
    assert!(found.problems.is_empty());
    let names: Vec<_> =
        disk.list(layout.root()).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["checkpoint.a", "checkpoint.b"]);
}

#[test]
fn the_newest_copy_counts() {
    for (newer, older) in [(Copy::A, Copy::B), (Copy::B, Copy::A)] {
        let (_dir, disk, layout) = directory();
        put(&disk, &layout, newer, &checkpoint(8).encode());
        put(&disk, &layout, older, &checkpoint(7).encode());
        let found = read(&disk, &layout).unwrap();
        assert_eq!(found.checkpoint, Some(checkpoint(8)));
        assert!(found.problems.is_empty());
    }
}

#[test]
fn a_damaged_or_missing_copy_is_reported_and_the_other_counts() {
    let flipped = |at: usize, mask: u8| {
        let mut bytes = checkpoint(8).encode();
        bytes[at] ^= mask;
        bytes
    };
    let (damaged, version) = (flipped(60, 1), flipped(9, 2));
    for (broken, whole) in [(Copy::A, Copy::B), (Copy::B, Copy::A)] {
        let (_dir, disk, layout) = directory();
        put(&disk, &layout, whole, &checkpoint(7).encode());
        let found = read(&disk, &layout).unwrap();
        assert_eq!(found.checkpoint, Some(checkpoint(7)));
        let path = layout.checkpoint(broken);
        assert!(
            matches!(&found.problems[..], [Error::Missing { path: missing, .. }] if *missing == path)
        );

        for bytes in [&damaged[..], &damaged[..70], &version, &[]] {
            put(&disk, &layout, broken, bytes);
            let found = read(&disk, &layout).unwrap();
            assert_eq!(found.checkpoint, Some(checkpoint(7)));
            assert!(
                matches!(&found.problems[..], [Error::Corrupt { path: corrupt, .. }] if *corrupt == path)
            );
        }
        put(&disk, &layout, whole, &damaged);
        let found = read(&disk, &layout).unwrap();
        assert!(found.checkpoint.is_none());
        assert_eq!(found.problems.len(), 2);
    }
}

/// An older build must not go on from the copy that it can read and so undo what a newer one did.
#[test]
fn a_later_version_in_either_copy_is_refused_by_name() {
    for (later, known) in [(Copy::A, Copy::B), (Copy::B, Copy::A)] {
        let (_dir, disk, layout) = directory();
        let mut bytes = checkpoint(8).encode();
        bytes[9] = 2;
        seal_header(&mut bytes);
        put(&disk, &layout, later, &bytes);
        put(&disk, &layout, known, &checkpoint(7).encode());
        let error = read(&disk, &layout).unwrap_err();
        let path = layout.checkpoint(later);
        let expected = format!(
            "{}: checkpoint has version 2, this build knows versions up to 1",
            path.display()
        );
        assert_eq!(error.to_string(), expected);
    }
}

/// A simulated disk with a directory on it.
fn simulated(seed: u64) -> (SimDisk, Layout) {
    let (disk, layout) = (SimDisk::new(seed), Layout::new("/wal"));
    let mount = disk.mount();
    mount.create_dir_all(layout.root()).unwrap();
    mount.sync_volume(layout.root()).unwrap();
    (disk, layout)
}

#[test]
fn a_crash_at_any_step_leaves_a_whole_checkpoint() {
    for step in 0.. {
        let mut finished = false;
        for seed in 0..16 {
            let (disk, layout) = simulated(seed);
            write(&*disk.mount(), &layout, &checkpoint(7)).unwrap();
            disk.crash_at(step, Crash::PowerCut(Survival::Chance));
            let written = write(&*disk.mount(), &layout, &checkpoint(8));
            finished = written.is_ok();
            assert_eq!(disk.is_down(), !finished, "{written:?}");
            let found = read(&*disk.restart(), &layout).unwrap();
            assert!(found.problems.is_empty(), "step {step}, seed {seed}: {:?}", found.problems);
            let found = found.checkpoint.map(|found| found.round);
            assert!(found == Some(8) || found == Some(7) && !finished, "step {step}, seed {seed}");
        }
        if finished {
            assert!(
                step >= 10,
                "two files, each created, written, synced and renamed in its directory"
            );
            return;
        }
    }
}

#[test]
fn a_failed_sync_is_reported_as_one() {
    for operation in [Operation::SyncData, Operation::SyncDir] {
        let (disk, layout) = simulated(1);
        disk.plan(Fault::nth(operation, 0));
        let failed = write(&*disk.mount(), &layout, &checkpoint(7));
        assert!(matches!(failed, Err(Error::Io { action: "sync", .. })), "{failed:?}");
    }
}

fn logs() -> impl Strategy<Value = Vec<CheckpointLog>> {
    let level = prop::sample::select(Durability::ALL.to_vec());
    let proof = prop::sample::select(vec![EndProof::Unproven, EndProof::Proven, EndProof::Damaged]);
    let offsets = (0..1_u64 << 62, 0..1_u64 << 62);
    let log = (
        any::<[u8; 16]>(),
        any::<bool>(),
        level,
        proof,
        0..1_u32 << 31,
        offsets,
        any::<u64>(),
        any::<u32>(),
        vec(1..9_u32, 0..5),
    );
    let log = log.prop_map(
        |(id, open, level, end_proof, epoch, (start, more), number, segments, batches)| {
            let mut producers = Producers::default();
            for (index, count) in batches.into_iter().enumerate() {
                let id = ProducerId::new(index as u64 % 2).unwrap();
                let batch =
                    BatchProducer { id, epoch: 0, base_sequence: Sequence::new(count).unwrap() };
                producers.record(&batch, count, Offset::new(index as u64 * 10));
            }
            CheckpointLog {
                topic_id: TopicId::new(id),
                state: LogState {
                    open,
                    level,
                    end_proof,
                    end_damage: (end_proof == EndProof::Damaged).then(|| EndDamage {
                        path: "/wal/journal/00000001.jnl".into(),
                        position: number,
                        what: "round 7 is lost".to_owned(),
                    }),
                    epoch: Epoch::new(epoch).unwrap(),
                    start: Offset::new(start),
                    end: Offset::new(start + more),
                    last_receive_time: TimeMs::new(number),
                    producers,
                    gaps: vec![Gap {
                        from: Offset::new(start),
                        to: Offset::new(start + 1),
                        reason: None,
                    }],
                },
                segments,
                last_segment: Offset::new(start),
                position: number,
            }
        },
    );
    vec(log, 0..8).prop_map(|mut logs| {
        logs.sort_by_key(|log| log.topic_id);
        logs.dedup_by_key(|log| log.topic_id);
        logs
    })
}

proptest! {
    #[test]
    fn any_checkpoint_comes_back(logs in logs(), round in any::<u64>(), clean in any::<bool>()) {
        let checkpoint = Checkpoint { logs, clean, ..checkpoint(round) };
        prop_assert_eq!(Checkpoint::decode(&checkpoint.encode()), Ok(checkpoint));
    }

    /// Behind a checksum that fits, nothing is taken that would not be written so.
    #[test]
    fn other_content_is_refused_or_read_and_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = checkpoint(7).encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        seal_header(&mut bytes);
        if let Ok(read) = Checkpoint::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}
