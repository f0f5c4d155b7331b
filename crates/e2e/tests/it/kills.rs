//! Kills, clean stops, power cuts, and the order of sync and acknowledgement.

#![expect(clippy::print_stdout, reason = "what was measured is shown to who asks for it")]

use std::time::Duration;

use danube_client::{Durability, Message};
use danube_e2e::broker::Options;
use danube_e2e::scenario::{kills, order, power};
use danube_e2e::volume::Kind;
use danube_e2e::{Broker, Native};

use crate::beside_others;

fn killed(durability: Durability) {
    let _guard = beside_others();
    let measured = kills::run(kills::Extent { durability, kills: 4, stops: 2, seed: 1 });
    println!("{measured}");
}

fn cut(kind: Kind, durability: Durability) {
    let _guard = beside_others();
    println!("{}", power::run(power::Extent { kind, durability, cuts: 2, seed: 1 }));
}

#[test]
fn p1_p3_disk_survives_kills_and_stops() {
    killed(Durability::Disk);
}

#[test]
fn p1_p3_page_cache_survives_kills_and_stops() {
    killed(Durability::PageCache);
}

#[test]
fn p1_p3_disk_survives_power_cuts_on_ext4() {
    cut(Kind::Ext4, Durability::Disk);
}

#[test]
fn p1_p3_disk_survives_power_cuts_on_xfs() {
    cut(Kind::Xfs, Durability::Disk);
}

#[test]
fn p3_page_cache_has_gaps_after_power_cuts_on_ext4() {
    cut(Kind::Ext4, Durability::PageCache);
}

#[test]
fn p3_page_cache_has_gaps_after_power_cuts_on_xfs() {
    cut(Kind::Xfs, Durability::PageCache);
}

#[test]
fn p1_an_acknowledgement_at_disk_comes_behind_its_sync() {
    let _guard = beside_others();
    println!("{}", order::run(Durability::Disk, 200));
}

#[test]
fn p1_an_acknowledgement_at_page_cache_waits_for_no_sync() {
    let _guard = beside_others();
    println!("{}", order::run(Durability::PageCache, 200));
}

/// An orderly stop elsewhere dropped what was buffered, because one held connection used up the time for stopping.
#[test]
fn a_stop_with_an_idle_stream_loses_nothing_confirmed() {
    let _guard = beside_others();
    let options = Options::default().setting("storage.wal.advanced.file_sync.interval_ms", "60000");
    let mut broker = Broker::start(options);
    let native = Native::of(&broker);
    let (confirmed, pressed) = ("/default/confirmed", "/default/pressed");
    let producer = native.producer(confirmed, Durability::PageCache);
    let number = |number: u32| Message { payload: number.to_string().into(), ..Message::default() };
    let offsets = native.send_all(&producer, (0..500).map(number));
    assert!(offsets.into_iter().eq(0..500));
    let client = native.client().clone();
    let idle = native.beside(async move {
        let reader = client.reader(confirmed).expect("the name of a topic").follow(true);
        let mut reader = reader.open().await.expect("the topic can be read");
        let mut seen = 0;
        while let Ok(Some(_)) = reader.next().await {
            seen += 1;
        }
        seen
    });
    let opening = native.client().producer(pressed).expect("the name of a topic");
    let second = native.wait(opening.timeout(Duration::from_secs(5)).open()).expect("opens");
    let sending = native.beside(async move {
        let mut confirmed = 0;
        loop {
            let delivery =
                second.send(number(confirmed)).await.expect("a message that can be sent");
            match delivery.await {
                Ok(receipt) => assert_eq!(receipt.offset.get(), u64::from(confirmed)),
                Err(error) => return (confirmed, error),
            }
            confirmed += 1;
        }
    });
    broker.stop();
    let (seen_confirmed, error) = native.wait(sending).expect("the second producer does not panic");
    assert!(error.to_string().contains("did not confirm"), "{error}");
    broker.restart();
    idle.abort();
    assert_eq!(native.read(confirmed).messages.len(), 500);
    let stored = native.read(pressed).messages;
    assert!(stored.len() >= seen_confirmed as usize, "{} of {seen_confirmed}", stored.len());
    for (expected, read) in stored.iter().enumerate() {
        assert_eq!(read.message.payload, expected.to_string());
    }
    broker.stop();
}
