//! Whole and broken segments as a person sees them.

use danube_env::real::RealDisk;

use super::*;
use crate::layout::Layout;
use crate::producers::Producers;
use crate::segment::tests::{TOPIC, frames, header, open_segment, plan, sealed_segment};

/// Puts `bytes` where the segment of the tests belongs, and inspects it.
fn inspect(bytes: &[u8]) -> Result<(Vec<Found>, Summary)> {
    let dir = tempfile::tempdir().unwrap();
    let path = Layout::new(dir.path()).segment(TOPIC, Offset::new(1000));
    inspect_at(&path, bytes)
}

fn inspect_at(path: &Path, bytes: &[u8]) -> Result<(Vec<Found>, Summary)> {
    let disk = RealDisk::new();
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    disk.open(path, Open::Replace).unwrap().write_at(&[bytes], 0).unwrap();
    let mut found = Vec::new();
    let summary = segment(&disk, path, &mut |piece| {
        found.push(piece);
        ControlFlow::Continue(())
    })?;
    Ok((found, summary))
}

fn problems(found: &[Found]) -> Vec<String> {
    let problems = found.iter().filter_map(|found| match found {
        Found::Problem(problem) => Some(format!("{}: {}", problem.position, problem.what)),
        _ => None,
    });
    problems.collect()
}

fn sample() -> Vec<Frame> {
    frames(&[plan(&[5]), plan(&[]), plan(&[1, 2])])
}

#[test]
fn a_whole_segment_is_shown_piece_by_piece() {
    let (found, summary) = inspect(&sealed_segment(&sample())).unwrap();
    let json: Vec<_> = found.iter().map(|found| serde_json::to_string(found).unwrap()).collect();
    let expected = [
        r#"{"found":"header","topic_id":"746f706963206964203136206c6f6e67","first_offset":1000,"created":50001,"epoch":5}"#,
        r#"{"found":"batch","position":64,"bytes":113,"base":1000,"next":1001,"epoch":5,"receive_time":50001,"durable_end":1000,"synced_end":0,"records":1,"compression":"none","max_timestamp":49991,"producer":null}"#,
        r#"{"found":"gap","position":177,"bytes":64,"base":1001,"next":1004,"epoch":5,"receive_time":50002,"durable_end":1001,"synced_end":0,"reason":"unproven_end"}"#,
        r#"{"found":"batch","position":241,"bytes":118,"base":1004,"next":1006,"epoch":5,"receive_time":50003,"durable_end":1004,"synced_end":0,"records":2,"compression":"none","max_timestamp":49993,"producer":null}"#,
        r#"{"found":"footer","position":359,"index_entries":1,"epochs":1,"producers":0}"#,
    ];
    assert_eq!(json, expected);
    let whole = Summary {
        bytes: 559,
        sealed: true,
        first_offset: Some(Offset::new(1000)),
        next_offset: Some(Offset::new(1006)),
        frames: 3,
        records: 3,
        gap_offsets: 3,
        damaged_bytes: 0,
        problems: 0,
        complete: true,
    };
    assert_eq!(summary, whole);
}

#[test]
fn an_open_segment_has_no_footer_and_no_problem() {
    let (body, _, _) = open_segment(&sample());
    let (found, summary) = inspect(&body).unwrap();
    assert!(!summary.sealed && summary.problems == 0 && summary.frames == 3);
    assert!(!found.iter().any(|found| matches!(found, Found::Footer(_))));
}

#[test]
fn damage_is_shown_and_what_follows_is_read() {
    let frames = sample();
    let (_, _, positions) = open_segment(&frames);
    let mut bytes = sealed_segment(&frames);
    bytes[positions[1] as usize + 45] ^= 1;
    let (found, summary) = inspect(&bytes).unwrap();
    let shown = problems(&found);
    assert_eq!(shown.len(), 2, "the damaged frame, and the hole that it leaves: {shown:?}");
    assert_eq!((summary.frames, summary.damaged_bytes), (2, positions[2] - positions[1]));
    assert!(summary.sealed, "its footer is whole");
}

#[test]
fn a_damaged_header_leaves_the_frames_readable_in_their_directory() {
    let mut bytes = sealed_segment(&sample());
    bytes[20] ^= 1;
    let (found, summary) = inspect(&bytes).unwrap();
    assert_eq!(problems(&found)[0], "12: wrong checksum");
    assert_eq!(summary.frames, 3);

    let dir = tempfile::tempdir().unwrap();
    let elsewhere = inspect_at(&dir.path().join("copy/x.seg"), &bytes);
    assert!(matches!(elsewhere, Err(Error::Corrupt { .. })), "{elsewhere:?}");
}

#[test]
fn a_footer_is_held_against_the_frames() {
    let frames = sample();
    let (body, _, positions) = open_segment(&frames);
    // A footer that is whole, but knows a frame less.
    let mut builder = SegmentBuilder::new(&header(&frames));
    builder.add(&frames[0], positions[0]);
    builder.add(&frames[1], positions[1]);
    let footer = builder.seal(&Producers::default());
    let cut = &body[..positions[2] as usize];
    assert_eq!(inspect(&[cut, &footer].concat()).unwrap().1.problems, 0);
    // Frames of the same sizes that were received later.
    let mut later = [plan(&[5]), plan(&[])];
    later[0].later_ms = 2;
    let (body, _, _) = open_segment(&crate::segment::tests::frames(&later));
    let mut header = header(&frames).encode();
    header.extend_from_slice(&body[HEADER_BYTES as usize..]);
    let (found, _) = inspect(&[&header[..], &footer].concat()).unwrap();
    let expected = "241: first receive time: the footer says 50001, the frames say 50002";
    assert_eq!(problems(&found), [expected]);
}

#[test]
fn a_segment_in_the_wrong_place_is_named() {
    let bytes = sealed_segment(&sample());
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    let (found, _) =
        inspect_at(&layout.segment(TopicId::new([7; 16]), Offset::new(5)), &bytes).unwrap();
    let shown = problems(&found);
    assert!(shown[0].starts_with("16: it is of topic "), "{shown:?}");
    assert_eq!(shown[1], "32: it begins at offset 1000, its name says 5");
}

#[test]
fn a_visitor_can_break_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.seg");
    let disk = RealDisk::new();
    disk.open(&path, Open::Replace).unwrap().write_at(&[&sealed_segment(&sample())], 0).unwrap();
    let mut seen = 0;
    let summary = segment(&disk, &path, &mut |_| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(!summary.unwrap().complete);
    assert_eq!(seen, 2);
}

#[test]
fn a_file_that_is_something_else_is_told_as_what_it_looks_like() {
    let dir = tempfile::tempdir().unwrap();
    let segment = sealed_segment(&sample());
    let in_topic = Layout::new(dir.path()).segment(TOPIC, Offset::new(1000));
    let elsewhere = dir.path().join("x");
    let said = |path: &Path, bytes: &[u8]| inspect_at(path, bytes).unwrap_err().to_string();
    for path in [&in_topic, &elsewhere] {
        for (bytes, expected) in [
            (&b""[..], "not a segment: it is empty"),
            (b"DANUJNL1 and more", "not a segment: it begins as a file of the journal"),
            (b"DANUCKP1", "not a segment: it begins as a checkpoint"),
            (b"DANUSNP1...", "not a segment: it begins with \"DANUSNP1\""),
        ] {
            let said = said(path, bytes);
            assert!(said.contains(expected), "{said}");
        }
    }
    assert!(said(&elsewhere, b"\x1b[2J\0").contains("it begins with \"\\x1b[2J\\x00\""));
    let mut damaged = segment;
    damaged[20] ^= 1;
    assert!(said(&elsewhere, &damaged).contains("neither header nor directory says"));
}
