//! Topics as they are shown.

use danube_model::{BrokerId, Epoch, Offset, TopicId};
use serde_json::json;

use super::*;

fn orders() -> TopicDescription {
    TopicDescription {
        topic: "/default/orders".parse().unwrap(),
        topic_id: Some(TopicId::new([7; 16])),
        owner: Some(BrokerId::new(1)),
        epoch: Epoch::new(3).unwrap(),
        settings: TopicSettings {
            reliability: Some(Reliability::Reliable),
            durability: Some(Durability::Disk),
            retention_time: Some(Duration::from_secs(7 * 24 * 3600)),
            retention_size: Some(ByteSize::new(0)),
            message_size_max: Some(ByteSize::new(1 << 20)),
        },
        start: Offset::new(5),
        durable_end: Offset::new(90),
        end: Offset::new(100),
        ceiling: Offset::new(1 << 32),
        hot: Some(TierRange { start: Offset::new(5), end: Offset::new(100), bytes: 3 << 20 }),
        warm: None,
        cold: None,
        gaps: vec![Gap { from: Offset::new(10), to: Offset::new(20), why: "accepted".to_owned() }],
        damage: vec![Damage {
            from: Offset::new(30),
            to: Offset::new(31),
            file: "x.seg".to_owned(),
            message: "bad checksum".to_owned(),
        }],
        state: "serving".to_owned(),
        blocked: None,
        producers: vec![ProducerDescription { name: String::new(), peer: "[::1]:9".to_owned() }],
        subscriptions: Vec::new(),
        partitions: Vec::new(),
    }
}

#[test]
fn a_topic_in_json_has_the_names_that_scripts_rely_on() {
    let shown = serde_json::to_value(Description::of(&orders())).unwrap();
    let expected = json!({
        "topic": "/default/orders",
        "topic_id": "07070707070707070707070707070707",
        "owner": "1",
        "epoch": 3,
        "reliable": true,
        "durability": "disk",
        "retention_time_ms": 604_800_000,
        "retention_size": 0,
        "max_message_size": 1_048_576,
        "start_offset": 5,
        "durable_end": 90,
        "end_offset": 100,
        "ceiling": 4_294_967_296_u64,
        "tiers": { "hot": { "start": 5, "end": 100, "bytes": 3_145_728 }, "warm": null, "cold": null },
        "gaps": [{ "from": 10, "to": 20, "why": "accepted" }],
        "damage": [{ "from": 30, "to": 31, "file": "x.seg", "message": "bad checksum" }],
        "state": "serving",
        "blocked": null,
        "producers": [{ "name": "", "peer": "[::1]:9" }],
        "subscriptions": [],
    });
    assert_eq!(shown, expected);
}

#[test]
fn a_topic_for_people_is_a_line_for_each_fact() {
    let expected = "\
topic           /default/orders
topic id        07070707070707070707070707070707
state           serving
owner           broker 1
epoch           3
durability      disk
retention time  7d
retention size  without limit
message size    1MiB
offsets         5 to 100
durable end     90
ceiling         4294967296
hot             5 to 100, 3.0MiB
gap             10 to 20: accepted
damage          30 to 31 in x.seg: bad checksum
producer        without a name, from [::1]:9
";
    assert_eq!(text(&orders()), expected);
}

#[test]
fn of_a_topic_without_a_log_nothing_is_said_that_it_does_not_have() {
    let unordered = TopicDescription {
        owner: None,
        epoch: Epoch::ZERO,
        settings: TopicSettings {
            reliability: Some(Reliability::NonReliable),
            ..TopicSettings::default()
        },
        hot: None,
        gaps: Vec::new(),
        damage: Vec::new(),
        state: String::new(),
        producers: vec![ProducerDescription { name: "p".to_owned(), peer: String::new() }],
        ..orders()
    };
    let expected = "\
topic           /default/orders
topic id        07070707070707070707070707070707
durability      none, non-reliable
message size    as the broker says
producer        p
";
    assert_eq!(text(&unordered), expected);
}

#[test]
fn a_finding_says_what_was_done() {
    let mut found =
        Finding { damage: orders().damage.remove(0), remedy: Remedy::Gap, is_applied: false };
    assert_eq!(finding(&found), "offset 30 to 31 in x.seg: bad checksum: is lost");
    found.is_applied = true;
    found.damage.file.clear();
    assert_eq!(finding(&found), "offset 30 to 31: bad checksum: is a gap");
    let shown = serde_json::to_value(JsonFinding::of(&orders().topic, &found)).unwrap();
    let expected = json!({
        "topic": "/default/orders", "from": 30, "to": 31, "file": "", "message": "bad checksum",
        "remedy": "gap", "applied": true,
    });
    assert_eq!(shown, expected);
}
