//! The metadata as their users see them, in the simulated world and in the real one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod full;
mod handle;

use danube_meta::command::{
    CreateNamespace, CreateTopic, FormCluster, NewTopics, OpenTopic, OpenTopics, OtherDisk,
    StartSession,
};
use danube_meta::state::{ClusterId, Delivery, TopicSettings};
use danube_meta::{Config, Error, Meta, Result};
use danube_model::{DiskId, Durability, Epoch, TimeMs, TopicId, TopicName};

const DISK: DiskId = DiskId::new([1; 16]);
const AT: TimeMs = TimeMs::new(1_700_000_000_000);

/// In the simulated world.
fn config() -> Config {
    Config::new("/data/raft")
}

/// Forms a cluster with namespace `default`, and starts this broker's session, whatever of it was done before.
async fn form(meta: &Meta) -> Result<()> {
    if meta.read(|state| state.cluster().is_none()) {
        let cluster = ClusterId::new([7; 16]);
        meta.propose(FormCluster { cluster, name: "test".to_owned(), at: AT }).await?;
    }
    let namespace = "default".parse().unwrap();
    if meta.read(|state| !state.has_namespace(&namespace)) {
        meta.propose(CreateNamespace { namespace, at: AT }).await?;
    }
    meta.propose(StartSession { broker: meta.broker(), disk: DISK, at: AT }).await?;
    Ok(())
}

fn name(number: u64) -> TopicName {
    format!("/default/topic-{number}").parse().unwrap()
}

fn id(number: u64) -> TopicId {
    TopicId::new(u128::from(number).to_be_bytes())
}

fn create(number: u64) -> CreateTopic {
    CreateTopic {
        topic: name(number),
        ids: NewTopics::Plain(id(number)),
        delivery: Delivery::Reliable(Durability::Disk),
        settings: TopicSettings::default(),
        at: AT,
    }
}

fn open(meta: &Meta, number: u64, expected: u32) -> OpenTopics {
    let expected = Epoch::new(expected).unwrap();
    let topics = vec![OpenTopic {
        topic: id(number),
        expected,
        stored: None,
        other_disk: OtherDisk::Refuse,
    }];
    OpenTopics { broker: meta.broker(), disk: DISK, topics }
}

/// An error's text with those of its causes.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
