//! Payloads of entries and bodies of snapshots, in CBOR.
//!
//! What a reader does not know it refuses by name: a command or a field may change what the state becomes, and a member
//! that passed over it would no longer agree with the others.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ciborium::Value;
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::state::State;

/// Why a payload is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It contains a command that this version does not have.
    UnknownCommand(String),
    /// It is not what this version writes; the text says where it differs.
    Other(String),
}

/// Commands that travel in one entry, with their encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The commands, in order.
    pub(crate) commands: std::sync::Arc<[Command]>,
    /// Their encoding, a CBOR array.
    pub(crate) encoded: Bytes,
}

/// A command with its encoding.
pub(crate) struct EncodedCommand {
    /// The command.
    pub(crate) command: Command,
    /// Its encoding.
    pub(crate) bytes: Vec<u8>,
}

/// The members of the group, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Members {
    /// One set of voters or, in a joint change, two.
    pub(crate) voters: Vec<BTreeSet<u64>>,
    /// All members, learners too.
    pub(crate) nodes: BTreeMap<u64, Member>,
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    /// Where it listens for other members; empty while it is alone.
    pub(crate) address: String,
}

/// The body of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    /// Who the members are.
    pub(crate) members: Members,
    /// Index, term and node of the entry that said so.
    pub(crate) members_at: Option<(u64, u64, u64)>,
    /// The state.
    pub(crate) state: State,
}

impl EncodedCommand {
    /// Encodes a command.
    pub(crate) fn new(command: Command) -> EncodedCommand {
        let bytes = encode(&command);
        EncodedCommand { command, bytes }
    }
}

impl Batch {
    /// Puts commands together.
    pub(crate) fn new(commands: impl IntoIterator<Item = EncodedCommand>) -> Batch {
        let (commands, encodings): (Vec<_>, Vec<_>) =
            commands.into_iter().map(|encoded| (encoded.command, encoded.bytes)).unzip();
        let mut encoded = array_header(commands.len());
        encodings.iter().for_each(|bytes| encoded.extend_from_slice(bytes));
        Batch { commands: commands.into(), encoded: Bytes::from(encoded) }
    }

    /// Decodes the payload of an entry.
    pub(crate) fn decode(encoded: Bytes) -> Result<Batch, Unreadable> {
        let commands: Vec<Command> =
            decode(&encoded).map_err(|error| unknown_command(&encoded).unwrap_or(error))?;
        Ok(Batch { commands: commands.into(), encoded })
    }
}

/// Encodes anything that is stored.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    encode_to(value, &mut out);
    out
}

/// Encodes anything that is stored, behind what `out` has.
pub(crate) fn encode_to(value: &impl Serialize, out: &mut Vec<u8>) {
    ciborium::into_writer(value, out)
        .expect("writing to memory does not fail, and all our types can be written");
}

/// Decodes anything that is stored. All bytes must belong to it.
pub(crate) fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, Unreadable> {
    let mut rest = bytes;
    let value =
        ciborium::from_reader(&mut rest).map_err(|error| Unreadable::Other(error.to_string()))?;
    if !rest.is_empty() {
        return Err(Unreadable::Other(format!("{} bytes follow what was expected", rest.len())));
    }
    Ok(value)
}

/// Decodes the body of a snapshot.
pub(crate) fn decode_body(bytes: &[u8]) -> Result<Body, Unreadable> {
    let mut body: Body = decode(bytes)?;
    if !body.state.rebuild_indexes() {
        let what = "two topics have one name, or two consumers one id";
        return Err(Unreadable::Other(what.to_owned()));
    }
    Ok(body)
}

/// The first command in `encoded` whose name this version does not know.
fn unknown_command(encoded: &[u8]) -> Option<Unreadable> {
    let commands = decode::<Value>(encoded).ok()?.into_array().ok()?;
    let names = commands.into_iter().filter_map(|command| {
        let name = match command.into_map() {
            Ok(fields) => fields.into_iter().next()?.0,
            Err(name) => name,
        };
        name.into_text().ok()
    });
    let mut unknown = names.filter(|name| !Command::NAMES.contains(&name.as_str()));
    unknown.next().map(Unreadable::UnknownCommand)
}

/// The header of a CBOR array of `len` items (RFC 8949, section 3).
fn array_header(len: usize) -> Vec<u8> {
    const ARRAY: u8 = 4 << 5;
    match len {
        0..24 => vec![ARRAY | len as u8],
        24..256 => vec![ARRAY | 24, len as u8],
        256..65536 => [&[ARRAY | 25][..], &(len as u16).to_be_bytes()].concat(),
        _ => [&[ARRAY | 26][..], &(len as u32).to_be_bytes()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use danube_model::TimeMs;

    use super::*;
    use crate::command::{CreateNamespace, ForgetDeleted};

    fn command(name: &str) -> Command {
        let namespace = name.parse().unwrap();
        CreateNamespace { namespace, at: TimeMs::new(7) }.into()
    }

    #[test]
    fn a_command_is_a_map_from_its_name_to_its_fields() {
        let bytes = EncodedCommand::new(command("ab")).bytes;
        assert_eq!(bytes, b"\xa1\x6fCreateNamespace\xa2\x69namespace\x62ab\x62at\x07");
    }

    #[test]
    fn batches_of_any_length_come_back() {
        for count in [0, 1, 23, 24, 255, 256, 1000, 70_000] {
            let commands = (0..count).map(|_| EncodedCommand::new(command("ab")));
            let batch = Batch::new(commands);
            assert_eq!(batch.encoded, encode(&batch.commands.to_vec()), "{count} commands");
            assert_eq!(Batch::decode(batch.encoded.clone()), Ok(batch));
        }
    }

    #[test]
    fn an_unknown_command_is_named() {
        let known = encode(
            &Value::serialized(&Command::from(ForgetDeleted { topics: Vec::new() })).unwrap(),
        );
        let unknown = encode(&Value::Map(vec![("MoveMountain".into(), Value::Map(Vec::new()))]));
        let encoded = [&[0x82][..], &known, &unknown].concat();
        let expected = Unreadable::UnknownCommand("MoveMountain".to_owned());
        assert_eq!(Batch::decode(encoded.into()), Err(expected));
    }

    #[test]
    fn an_unknown_field_is_named() {
        let fields =
            vec![("topics".into(), Value::Array(Vec::new())), ("at_noon".into(), true.into())];
        let encoded = encode(&vec![Value::Map(vec![("ForgetDeleted".into(), Value::Map(fields))])]);
        match Batch::decode(encoded.into()) {
            Err(Unreadable::Other(text)) => assert!(text.contains("at_noon"), "{text}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_behind_a_value_are_refused() {
        assert!(Batch::decode(Bytes::from_static(&[0x80, 0x00])).is_err());
    }
}
