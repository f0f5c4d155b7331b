//! Look-ups.

use danube_client::admin::TopicSettings;
use danube_proto::danube::topic_lookup_response::LookupType;
use danube_proto::danube::{TopicLookupRequest, TopicLookupResponse};
use tonic::{Code, Request, Status};

use super::{Peer, message, refused, registration};
use crate::fixture::{Directory, TOPIC, bad_topics, client, payloads};

async fn lookup(peer: &Peer, topic: &str) -> Result<TopicLookupResponse, Status> {
    let request = TopicLookupRequest { request_id: 9, topic: topic.to_owned() };
    let response = peer.discovery.clone().topic_lookup(request).await?.into_inner();
    assert_eq!((response.request_id, response.response_type()), (9, LookupType::Connect));
    Ok(response)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_answers_what_the_client_called_and_never_any_address() {
    let directory = Directory::new();
    let server = directory.start().await;
    let port = server.addresses().client.port();
    Peer::of(&server).producer(TOPIC).await.unwrap();
    for (called, expected) in
        [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1")]
    {
        let peer = Peer::at(&format!("http://{called}:{port}"));
        let found = lookup(&peer, TOPIC).await.unwrap();
        assert_eq!(found.connect_url, format!("http://{expected}:{port}"));
        assert_eq!(found.broker_url, found.connect_url);
        assert!(!found.proxy);
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_advertised_is_answered() {
    for (settings, broker_url, connect_url) in [
        ("{broker_url: 'http://b:1'}", "http://b:1", "http://b:1"),
        ("{connect_url: 'c:2'}", "http://c:2", "http://c:2"),
        ("{broker_url: 'http://b:1/', connect_url: 'https://c:2'}", "http://b:1", "https://c:2"),
    ] {
        let directory = Directory::new();
        let text = format!("broker: {{advertised_listeners: {settings}}}");
        let server = directory.start_with(&text).await;
        let peer = Peer::of(&server);
        peer.producer(TOPIC).await.unwrap();
        let found = lookup(&peer, TOPIC).await.unwrap();
        let urls = (found.broker_url.as_str(), found.connect_url.as_str());
        assert_eq!(urls, (broker_url, connect_url));
        assert_eq!(found.proxy, broker_url != connect_url);
        server.stop().await.unwrap();
    }
}

/// Behind a proxy clients name the broker that they mean, some with a slash at its end.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_name_a_broker_are_served_and_the_claim_to_be_one_means_nothing() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    for (key, value) in [
        ("x-danube-broker-url", "http://other:6650/"),
        ("x-danube-broker-url", "other"),
        ("x-danube-internal-broker", "broker/7"),
    ] {
        let mut request = Request::new(registration(TOPIC));
        request.metadata_mut().insert(key, value.parse().unwrap());
        let created = peer.producers.clone().create_producer(request).await.unwrap();
        let mut request = Request::new(message(created.get_ref().producer_id, value));
        request.metadata_mut().insert(key, value.parse().unwrap());
        peer.producers.clone().send_message(request).await.unwrap();
    }
    assert_eq!(payloads(&server).await, ["http://other:6650/", "other", "broker/7"]);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_matched_exactly_and_sorted_by_number() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    for topic in ["/default/ab", "/default/abx", "/default/a-part-x", "/default/a-part-1x"] {
        peer.producer(topic).await.unwrap();
        assert_eq!(peer.partitions(topic).await.unwrap(), [topic]);
    }
    let part = |number: u32| format!("/default/a-part-{number}");
    for number in [0, 10, 2, 1] {
        peer.producer(&part(number)).await.unwrap();
    }
    assert_eq!(peer.partitions("/default/a").await.unwrap(), [0, 1, 2, 10].map(part));
    assert_eq!(peer.partitions(&part(2)).await.unwrap(), [part(2)]);
    let native = "/default/n".parse().unwrap();
    let settings = TopicSettings::default();
    client(&server).admin().create_topic(&native, Some(2), &settings).await.unwrap();
    let expected = ["/default/n-part-0", "/default/n-part-1"];
    assert_eq!(peer.partitions("/default/n").await.unwrap(), expected);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_topic_has_no_partitions_and_is_not_found() {
    let directory = Directory::new();
    let server = directory.start().await;
    let peer = Peer::of(&server);
    peer.producer("/default/a-part-0").await.unwrap();
    assert!(peer.partitions("/default/x").await.unwrap().is_empty());
    assert!(peer.partitions("/nowhere/x").await.unwrap().is_empty());
    for topic in ["/default/x", "/nowhere/x", "/default/a", "/default/a-part-1"] {
        refused(lookup(&peer, topic).await, Code::NotFound);
    }
    for topic in bad_topics() {
        refused(lookup(&peer, &topic).await, Code::InvalidArgument);
        refused(peer.partitions(&topic).await, Code::InvalidArgument);
    }
    server.stop().await.unwrap();
}
