//! Messages that are sent one by one.

use std::future::Future;

use danube_env::sim;
use danube_model::{ErrorKind, Offset};
use futures_util::FutureExt;
use futures_util::future::join_all;

use super::*;

fn record(value: &str) -> Record {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    Record { timestamp: TimeMs::new(1), value, ..Record::default() }
}

async fn topic(env: &Env, config: Config) -> (Broker, Topic) {
    let (broker, _) = Broker::open(config, env.clone()).await.expect("the broker opens");
    broker.create_topic(new_topic("/default/a")).await.expect("a new name");
    let topic = broker.topic(&name("/default/a")).expect("it is there");
    (broker, topic)
}

/// How many batches a topic has.
async fn batches(topic: &Topic) -> usize {
    let mut reader = topic.read(Start::Earliest).await.expect("a topic with a log");
    let mut count = 0;
    while let Read::Frame(_) = reader.next().await.expect("reading works") {
        count += 1;
    }
    count
}

fn sending(topic: &Topic, value: usize) -> impl Future<Output = danube_broker::Result<Offset>> {
    let topic = topic.clone();
    async move { topic.append_message(&record(&value.to_string())).await }
}

#[test]
fn many_at_a_time_are_few_batches_in_the_order_in_which_they_came() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let (broker, topic) = topic(&machine.env(), config()).await;
        let sent = join_all((0..100).map(|value| sending(&topic, value))).await;
        let offsets: Vec<u64> = sent.into_iter().map(|offset| offset.unwrap().get()).collect();
        assert_eq!(offsets, Vec::from_iter(0..100));
        let (records, _) = read_all(&topic).await;
        assert_eq!(records, Vec::from_iter((0..100).map(|value| (value, value.to_string()))));
        assert_eq!(batches(&topic).await, 2, "the first went at once, the others together");
        assert_eq!(sending(&topic, 100).await.unwrap(), Offset::new(100));
        assert_eq!(batches(&topic).await, 3, "a lone one goes at once");
        broker.close().await.unwrap();
    });
}

#[test]
fn a_message_that_can_t_be_taken_fails_alone() {
    sim::run(2, |world| async move {
        let machine = world.machine("broker");
        let limit = 300 << 10;
        let config = Config { message_bytes_max: limit as u64, ..config() };
        let (broker, topic) = topic(&machine.env(), config).await;
        let values = ["a".into(), "b".into(), "x".repeat(limit + 1), "y".repeat(limit), "c".into()];
        let records = values.map(|value| record(&value));
        let sent = join_all(records.iter().map(|record| topic.append_message(record))).await;
        let kinds = sent.iter().map(|sent| sent.as_ref().map_err(Error::kind));
        let kinds: Vec<_> = kinds.map(|sent| sent.map(|offset| offset.get())).collect();
        // The journal of this small machine takes no batch of this size.
        let (invalid, large) = (Err(ErrorKind::Invalid), kinds[3]);
        assert_eq!(kinds, [Ok(0), Ok(1), invalid, large, Ok(2)]);
        assert!(large.is_err(), "{large:?}");
        broker.close().await.unwrap();
    });
}

#[test]
fn a_caller_that_goes_takes_nobody_with_it() {
    sim::run(3, |world| async move {
        let machine = world.machine("broker");
        let (broker, topic) = topic(&machine.env(), config()).await;
        let mut sent: Vec<_> = (0..10).map(|value| Box::pin(sending(&topic, value))).collect();
        for sending in &mut sent {
            assert!(sending.as_mut().now_or_never().is_none());
        }
        // The one that appends, and one that waits.
        drop(sent.remove(5));
        drop(sent.remove(0));
        for sent in join_all(sent).await {
            sent.unwrap();
        }
        let (records, _) = read_all(&topic).await;
        let values: Vec<usize> = records.iter().map(|(_, value)| value.parse().unwrap()).collect();
        assert!(values.is_sorted() && values.ends_with(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), "{values:?}");
        broker.close().await.unwrap();
    });
}

/// Others wait with their callers, and are gone with them.
#[test]
fn at_most_8_mib_of_a_topic_are_gathered() {
    sim::run(4, |world| async move {
        let machine = world.machine("broker");
        let (broker, topic) = topic(&machine.env(), config()).await;
        sending(&topic, 0).await.unwrap();
        // 17 KiB with what is around it.
        let record = record(&"x".repeat(16 << 10));
        // Polled at once, without the budget that tasks have.
        let sending_one = || Box::pin(tokio::task::unconstrained(topic.append_message(&record)));
        let mut sent: Vec<_> = (0..1_000).map(|_| sending_one()).collect();
        for sending in &mut sent {
            assert!(sending.as_mut().now_or_never().is_none());
        }
        drop(sent);
        sending(&topic, 1).await.unwrap();
        let gathered = read_all(&topic).await.0.len() - 2;
        // The first may not have been on its way when it was dropped.
        assert!([480, 481].contains(&gathered), "{gathered} messages");
        broker.close().await.unwrap();
    });
}
