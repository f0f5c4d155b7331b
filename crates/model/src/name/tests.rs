//! Which names pass.

use proptest::prelude::*;

use super::*;

fn long(bytes: usize) -> String {
    let namespace = "/default/";
    format!("{namespace}{}", "t".repeat(bytes - namespace.len()))
}

#[test]
fn good_names() {
    for text in [
        "/default/orders",
        "/default/Orders",
        "/a/b",
        "/default/orders.v2",
        "/default/.orders",
        "/my-team_1/orders_2-x",
        "/größe/データ",
        "/עברית/נושא",
        "/default/CON",
        "/default/wal.ckpt",
        "/default/orders-part-0",
        "/default/orders-part-9999",
        "/default/orders-part-",
        "/default/orders-part-x",
        "/default/orders-part-1x",
        "/default/part-1",
        &long(255),
    ] {
        let name: TopicName = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(name.as_str(), text);
        assert_eq!(format!("/{}/{}", name.namespace(), name.local()), text);
        assert!(name.is_in(&name.namespace()));
    }
}

#[test]
fn bad_names() {
    for text in [
        "",
        "/",
        "//",
        "/default",
        "/default/",
        "//orders",
        "default/orders",
        "/default/orders/",
        "/default/orders/x",
        "/default//orders",
        " /default/orders",
        "/default/orders ",
        "/default/or ders",
        "/default/.",
        "/default/..",
        "/default/...",
        "/../orders",
        "/./orders",
        "../x",
        "/a/../../b",
        "/default/a\\b",
        "/default/a%2eb",
        "/default/a:b",
        "/default/a*",
        "/default/a\0b",
        "/default/a\nb",
        "/default/a\u{7f}b",
        "/default/a\u{202e}b",
        "/default/a\u{200b}b",
        "/default/e\u{301}",
        "/default/😀",
        "/default/-part-1",
        "/default/orders-part-01",
        "/default/orders-part-10000",
        "/default/orders-part-99999999999999999999",
        "/default/orders-part-1-part-2",
        &long(256),
        &format!("/{}/t", "n".repeat(128)),
        &"/a".repeat(4096),
    ] {
        let error = text.parse::<TopicName>().expect_err(text);
        assert!(error.to_string().len() < 600, "an error is a line, whatever it is about");
    }
}

#[test]
fn a_namespace_stands_without_slashes() {
    for (text, is_good) in [
        ("default", true),
        ("système", true),
        ("a.b", true),
        (&"n".repeat(127), true),
        (&"n".repeat(128), false),
        ("", false),
        (".", false),
        ("..", false),
        ("a/b", false),
        ("/default", false),
        ("a b", false),
    ] {
        assert_eq!(text.parse::<Namespace>().is_ok(), is_good, "{text:?}");
    }
    let namespace: Namespace = "default".parse().unwrap();
    assert_eq!(TopicName::new(&namespace, "orders").unwrap().as_str(), "/default/orders");
    assert!(TopicName::new(&namespace, "a/b").is_err());
    assert!(TopicName::new(&namespace, "orders-part-1").is_err());
}

#[test]
fn partitions_belong_to_their_topic() {
    let base = TopicName::parse_base("/default/orders").unwrap();
    let partition = base.partition(12).unwrap();
    assert_eq!(partition.as_str(), "/default/orders-part-12");
    assert_eq!(partition.partition_of(), Some((base.clone(), 12)));
    assert_eq!(base.partition_of(), None);
    assert!(partition.partition(0).is_err());
    assert!(base.partition(caps::PARTITIONS_MAX - 1).is_ok());
    assert!(base.partition(caps::PARTITIONS_MAX).is_err());
    assert!(TopicName::parse_base("/default/orders-part-12").is_err());

    let longest = TopicName::parse_base(&long(255 - "-part-9".len())).unwrap();
    assert!(longest.partition(9).is_ok());
    assert!(longest.partition(10).is_err(), "the limit is on the full form");
}

#[test]
fn names_are_text_in_json_and_checked_there() {
    let name: TopicName = serde_json::from_str("\"/default/orders\"").unwrap();
    assert_eq!(serde_json::to_string(&name).unwrap(), "\"/default/orders\"");
    assert!(serde_json::from_str::<TopicName>("\"/default/..\"").is_err());
    assert!(serde_json::from_str::<Namespace>("\"a/b\"").is_err());
}

proptest! {
    #[test]
    fn whatever_passes_is_harmless(text in "/[^/]{0,12}/[^/]{0,12}") {
        if let Ok(name) = text.parse::<TopicName>() {
            prop_assert!(!name.as_str().chars().any(|c| c.is_control() || c.is_whitespace()));
            for part in [name.namespace().as_str(), name.local()] {
                prop_assert!(!part.is_empty() && part != "." && part != "..");
                prop_assert!(!part.contains(['/', '\\', ':', '%', '*', '?', '"']));
            }
        }
    }

    #[test]
    fn partitions_are_told_from_other_topics(local in "[a-z]{1,3}(-part-)?[0-9a]{0,3}", index in 0..100_u32) {
        let Ok(base) = TopicName::parse_base(&format!("/default/{local}")) else { return Ok(()) };
        let partition = base.partition(index).unwrap();
        let parsed: TopicName = partition.as_str().parse().unwrap();
        prop_assert_eq!(parsed.partition_of(), Some((base, index)));
    }
}
