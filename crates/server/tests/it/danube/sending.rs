//! Messages: what is taken, what is refused, and what a native reader sees of it.

use danube_client::{Item, Start};
use danube_env::Env;
use danube_model::TimeMs;
use danube_proto::danube::{MsgId, StreamMessage};
use prost::Message as _;
use tonic::Code;

use super::{Peer, message, refused};
use crate::fixture::{Directory, TOPIC, client, payloads};

#[tokio::test(flavor = "multi_thread")]
async fn a_native_reader_sees_all_that_was_sent() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    let attributes = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), String::new())];
    let full = StreamMessage {
        attributes: attributes.into(),
        schema_id: Some(5),
        schema_version: Some(6),
        routing_key: Some("k".to_owned()),
        ..message(id, "full")
    };
    peer.send(full).await.unwrap();
    let bare = StreamMessage { publish_time: 0, producer_name: String::new(), ..message(id, "") };
    peer.send(bare).await.unwrap();
    peer.send(StreamMessage { routing_key: Some(String::new()), ..message(id, "") }).await.unwrap();

    let reader = client(&server).reader(TOPIC).unwrap().start(Start::Earliest);
    let mut reader = reader.open().await.unwrap();
    let mut next = async || match reader.next().await.unwrap().unwrap() {
        Item::Message(received) => received.message,
        other => panic!("{other:?}"),
    };
    let found = next().await;
    assert_eq!((found.payload.as_ref(), found.key), (&b"full"[..], Some("k".into())));
    assert_eq!(found.attributes, [("a".into(), "".into()), ("b".into(), "2".into())]);
    assert_eq!(found.publish_time, TimeMs::new(1_700_000_000_001));
    assert_eq!(found.producer_name, Some("p-0".into()));
    let schema = found.schema.unwrap();
    assert_eq!((schema.id, schema.version), (5, Some(6)));
    let sender = found.sender.unwrap();
    assert_eq!((sender.producer_id, sender.request_id), (id, 7));
    assert_eq!(sender.broker_address, "http://b:1/");
    let found = next().await;
    assert_eq!((found.publish_time, found.producer_name), (TimeMs::ZERO, None));
    assert_eq!((found.key, found.schema, found.payload.len()), (None, None, 0));
    assert_eq!(next().await.key, Some("".into()), "an empty key is not none");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_t_be_sent_is_refused_and_nothing_of_it_is_stored() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    let sent = |payload: &'static str| message(id, payload);
    let to = |topic: &str| {
        let topic_name = topic.to_owned();
        Some(MsgId { producer_id: id, topic_name, ..MsgId::default() })
    };
    let attribute = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let cases = [
        ("no message id", StreamMessage { msg_id: None, ..sent("x") }),
        ("no topic", StreamMessage { msg_id: to(""), ..sent("x") }),
        ("another topic", StreamMessage { msg_id: to("/default/u"), ..sent("x") }),
        ("a long name", StreamMessage { msg_id: to(&"x".repeat(5_000)), ..sent("x") }),
        ("a time beyond 2^63", StreamMessage { publish_time: 1 << 63, ..sent("x") }),
        ("ours", StreamMessage { attributes: attribute("danube.producer", "p"), ..sent("x") }),
        ("a long key", StreamMessage { routing_key: Some("k".repeat(70_000)), ..sent("x") }),
        (
            "long attributes",
            StreamMessage { attributes: attribute("a", &"v".repeat(300_000)), ..sent("x") },
        ),
        ("schema 0", StreamMessage { schema_id: Some(0), ..sent("x") }),
        ("a version of nothing", StreamMessage { schema_version: Some(1), ..sent("x") }),
    ];
    for (what, sent) in cases {
        let text = refused(peer.send(sent).await, Code::InvalidArgument);
        assert!(text.len() < 500, "{what}: {text}");
    }
    for unknown in [0, 1, id ^ 1, u64::MAX] {
        refused(peer.send(message(unknown, "x")).await, Code::Unavailable);
    }
    assert!(payloads(&server).await.is_empty());
    server.stop().await.unwrap();
}

/// A message that is delivered and not taken stops a subscription for ever.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_client_could_receive_is_refused() {
    const LIMIT: usize = 4 << 20;
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    let of_size = |bytes: usize| message(id, vec![b'x'; bytes]);
    // At the largest offset.
    let delivered = |sent: &StreamMessage| {
        let mut sent = sent.clone();
        sent.msg_id.as_mut().unwrap().topic_offset = (1 << 63) - 1;
        sent.encoded_len()
    };
    let around = delivered(&of_size(LIMIT)) - LIMIT;
    let largest = LIMIT - around - 1;
    assert!((LIMIT - 2..=LIMIT).contains(&delivered(&of_size(largest))));
    peer.send(of_size(largest)).await.unwrap();
    for bytes in [largest + 2, LIMIT, 10 << 20, 20 << 20] {
        refused(peer.send(of_size(bytes)).await, Code::InvalidArgument);
    }
    assert_eq!(payloads(&server).await[0].len(), largest);
    server.stop().await.unwrap();

    let directory = Directory::new();
    let server = directory.start_with("policies: {max_message_size: 1KiB}").await;
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    peer.send(message(id, vec![b'x'; 1 << 10])).await.unwrap();
    refused(peer.send(message(id, vec![b'x'; 1025])).await, Code::InvalidArgument);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_senders_at_once_are_all_stored() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    let id = peer.producer(TOPIC).await.unwrap();
    let senders: Vec<_> = (0..64)
        .map(|sender| {
            let peer = peer.clone();
            let send = async move {
                for number in 0..20 {
                    peer.send(message(id, format!("{sender}:{number}"))).await.unwrap();
                }
            };
            Env::real().spawn.task("sender", Box::pin(send))
        })
        .collect();
    for sender in senders {
        sender.join().await.unwrap();
    }
    let found = payloads(&server).await;
    assert_eq!(found.len(), 64 * 20);
    for sender in 0..64 {
        let prefix = format!("{sender}:");
        let own: Vec<_> = found.iter().filter_map(|text| text.strip_prefix(&prefix)).collect();
        let expected: Vec<_> = (0..20).map(|number| number.to_string()).collect();
        assert_eq!(own, expected, "in the order in which they were sent");
    }
    server.stop().await.unwrap();
}
