//! Contents that only a later version can have written, in files that are whole.

use std::path::PathBuf;

use bytes::Bytes;
use ciborium::Value;
use danube_env::sim::{self, Machine};

use super::*;
use crate::codec;
use crate::store::entry::{Entry, EntryId, EntryKind};
use crate::store::snapshot::Snapshot;
use crate::store::vote::Vote;

const DIR: &str = "/data/raft";

fn files(machine: &Machine) -> Vec<(PathBuf, Vec<u8>)> {
    let disk = machine.disk();
    disk.files().into_iter().map(|path| (path.clone(), disk.content(&path).unwrap())).collect()
}

/// Writes an entry and perhaps a snapshot, starts, and expects a refusal with these words that changes no byte.
fn check_refused(payload: Vec<u8>, snapshot: Option<Value>, words: &[&str]) {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let env = machine.env();
        let contents = recover::read(&*env.disk, DIR.as_ref()).unwrap();
        let mut store = contents.settle(&env, &Vote::none(1), 1 << 20).unwrap();
        let id = EntryId { term: 0, node: 0, index: 0 };
        let entry = Entry { id, kind: EntryKind::Commands, payload: Bytes::from(payload) };
        store.append(&[entry]).unwrap();
        if let Some(body) = snapshot {
            let snapshot = Snapshot::build(id, |out| codec::encode_to(&body, out));
            assert!(store.save_snapshot(&snapshot).unwrap());
        }
        let before = files(&machine);
        let error =
            Meta::open(Config::new(DIR), machine.restart().await).await.map(|_| ()).unwrap_err();
        let text = error.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "{text:?} lacks {word:?}"));
        assert_eq!(error.kind(), danube_model::ErrorKind::Corrupt);
        assert!(error.hint().unwrap().contains("later"), "{:?}", error.hint());
        assert_eq!(files(&machine), before);
    });
}

#[test]
fn an_unknown_command_is_refused_by_name_and_nothing_is_changed() {
    let command = Value::Map(vec![("MoveMountain".into(), Value::Map(Vec::new()))]);
    let payload = codec::encode(&vec![command]);
    check_refused(
        payload,
        None,
        &["log-00000000000000000000.rlog", "byte 1024", "unknown command", "MoveMountain"],
    );
}

#[test]
fn an_unknown_field_is_refused_by_name_and_nothing_is_changed() {
    let fields = vec![("topics".into(), Value::Array(Vec::new())), ("by_noon".into(), true.into())];
    let command = Value::Map(vec![("ForgetDeleted".into(), Value::Map(fields))]);
    check_refused(
        codec::encode(&vec![command]),
        None,
        &["log-00000000000000000000.rlog", "by_noon"],
    );
}

#[test]
fn an_unknown_field_of_a_snapshot_is_refused_by_name_and_nothing_is_changed() {
    let body = Value::Map(vec![("mountains".into(), Value::Array(Vec::new()))]);
    let no_commands = codec::encode(&Vec::<Command>::new());
    check_refused(no_commands, Some(body), &["snapshot-00000000000000000000.snap", "mountains"]);
}
