//! A full disk.

use std::error::Error as _;
use std::time::Duration;

use danube_client::{Client, Durability, ErrorKind, Message, Outcome, Producer};
use danube_e2e::broker::Options;
use danube_e2e::volume::{Kind, Volume};
use danube_e2e::{Broker, Native, files, within};

use crate::beside_others;

const TOPIC: &str = "/default/full";

/// On a full disk servers elsewhere switched their store off, or reset the stream.
#[test]
fn a_full_disk_refuses_and_recovers_without_a_restart() {
    let _guard = beside_others();
    let volume = Volume::new(Kind::Tmpfs, 64 << 20);
    let ballast = volume.path().join("ballast");
    let fill = |bytes: usize| files::write(&ballast, &vec![1; bytes]);
    let mut broker = Broker::start(Options::default().data_dir(volume.path().join("data")));
    let native = Native::of(&broker);
    fill(40 << 20).expect("there is room for the ballast");
    let mut confirmed = until_full(&native, 0);
    assert_whole(&native, confirmed);
    drop(native.producer("/default/other", Durability::Disk));

    files::remove(&ballast);
    confirmed = once_there_is_room(&native, confirmed);

    // Full again, up to the reserve of the broker, and then to the last byte.
    fill(40 << 20).expect("there is room for the ballast");
    confirmed = until_full(&native, confirmed);
    let more = volume.path().join("more");
    files::write(&more, &vec![1; 64 << 20]).expect_err("the volume has no room for that");
    assert_whole(&native, confirmed);
    for _ in 0..2 {
        broker.kill9();
        broker.restart();
        assert_whole(&native, confirmed);
        assert_eq!(until_full(&native, confirmed), confirmed, "there is no room for a message");
    }
    files::remove(&more);
    files::remove(&ballast);
    confirmed = once_there_is_room(&native, confirmed);
    broker.stop();
    broker.restart();
    assert_whole(&native, confirmed);
    broker.stop();
    assert!(!broker.log().contains("panicked"), "{}", broker.log());
}

fn numbered(number: u64) -> Message {
    let payload = format!("{number:010}").repeat(1024);
    Message { payload: payload.into(), ..Message::default() }
}

async fn open(client: &Client) -> Result<Producer, danube_client::Error> {
    let opening = client.producer(TOPIC).expect("the name of a topic");
    opening.timeout(Duration::from_secs(3)).open().await
}

/// Sends until the disk is full, and returns how many messages the topic then holds. A refusal says why, and is definite.
fn until_full(native: &Native, mut confirmed: u64) -> u64 {
    let client = native.client().clone();
    native.wait(async {
        let error = loop {
            let producer = match open(&client).await {
                Ok(producer) => producer,
                Err(error) => break error,
            };
            match send(&producer, &mut confirmed).await {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Exhausted, Outcome::Definite),
            "{error:?}"
        );
        let mut said = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            said = format!("{said}: {error}");
            cause = error.source();
        }
        assert!(said.contains("full"), "{said}");
        confirmed
    })
}

async fn send(producer: &Producer, confirmed: &mut u64) -> Result<(), danube_client::Error> {
    loop {
        let receipt = producer.send(numbered(*confirmed)).await?.await?;
        assert_eq!(receipt.offset.get(), *confirmed);
        *confirmed += 1;
    }
}

/// Room has come back: within a minute a message is taken, without a restart.
fn once_there_is_room(native: &Native, confirmed: u64) -> u64 {
    let client = native.client().clone();
    within(Duration::from_secs(60), "room", || {
        native.wait(async {
            let producer = open(&client).await.ok()?;
            let receipt = producer.send(numbered(confirmed)).await.ok()?.await.ok()?;
            assert_eq!(receipt.offset.get(), confirmed);
            Some(confirmed + 1)
        })
    })
}

fn assert_whole(native: &Native, confirmed: u64) {
    let contents = native.read(TOPIC);
    assert_eq!((contents.gaps.len(), contents.damage.len()), (0, 0));
    assert_eq!(contents.messages.len() as u64, confirmed);
    for (number, read) in contents.messages.iter().enumerate() {
        assert_eq!(read.message.payload, numbered(number as u64).payload);
    }
}
