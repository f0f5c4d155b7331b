//! Damaged, missing and newer files.

use std::path::{Path, PathBuf};

use danube_e2e::scenario::damage::{self, Damage, End, Outcome};

use crate::beside_others;

#[test]
fn p6_damage_of_any_kind_is_refused_healed_or_reported() {
    let _guard = beside_others();
    println!("{}", damage::random(30, 1));
}

/// A server elsewhere started on files that another version had touched, and a stream came up empty.
#[test]
fn a_newer_format_of_any_file_is_refused_and_nothing_is_changed() {
    let _guard = beside_others();
    let mut raised = Vec::new();
    for end in [End::Stopped, End::Killed] {
        raised.extend(damage::newer_versions(&damage::filled(end)));
    }
    for kind in
        ["checkpoint.a", "checkpoint.b", "disk", "topic", "vote", ".jnl", ".seg", ".rlog", ".snap"]
    {
        let is_kind = |path: &PathBuf| path.to_string_lossy().ends_with(kind);
        assert!(raised.iter().any(is_kind), "no {kind} among {raised:?}");
    }
}

#[test]
fn a_topic_whose_directory_is_gone_stops_no_start() {
    let _guard = beside_others();
    // After a kill the journal has all of it still.
    for (end, outcome) in [(End::Stopped, Outcome::Reported), (End::Killed, Outcome::Whole)] {
        let base = damage::filled(end);
        let topic = base.keys().find(|path| path.ends_with("topic")).expect("a topic");
        let directory = topic.parent().expect("a topic's file is in its directory");
        assert_eq!(damage::without_topic(&base, directory), outcome, "{end:?}");
    }
}

#[test]
fn a_flipped_payload_in_a_sealed_segment_is_reported() {
    let _guard = beside_others();
    let base = damage::filled(End::Stopped);
    let is_first =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name == "00000000000000000000.seg");
    let path = base.keys().find(is_first).expect("a first segment").clone();
    assert_eq!(damage::damaged(&base, &path, Damage::Flipped(30_000)), Outcome::Reported);
    assert_eq!(damage::damaged(&base, &path, Damage::Removed), Outcome::Reported);
}

#[test]
fn one_copy_of_the_checkpoint_is_enough() {
    let _guard = beside_others();
    let base = damage::filled(End::Killed);
    for copy in ["wal/checkpoint.a", "wal/checkpoint.b"] {
        for damage in [Damage::Flipped(70), Damage::Cut(0), Damage::Removed] {
            assert_eq!(damage::damaged(&base, Path::new(copy), damage), Outcome::Whole, "{copy}");
        }
    }
}
