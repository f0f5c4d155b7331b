//! What a broker finds on its disk when it opens: files of a later version, and files that are gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use danube_env::disk::Open as DiskOpen;
use danube_env::sim::Machine;

use super::*;

pub(crate) fn contents(machine: &Machine) -> BTreeMap<PathBuf, Vec<u8>> {
    let disk = machine.disk();
    let content = |path: PathBuf| (path.clone(), disk.content(&path).expect("it is there"));
    disk.files().into_iter().map(content).collect()
}

fn find(machine: &Machine, is_it: impl Fn(&Path) -> bool) -> PathBuf {
    let found = machine.disk().files().into_iter().find(|path| is_it(path));
    found.expect("there is one")
}

/// A broker with one topic and one message in it, killed.
async fn killed(machine: &Machine) -> Env {
    let broker = open(&machine.env()).await;
    broker.create_topic(new_topic("/default/a")).await.expect("a new name");
    let topic = broker.topic(&name("/default/a")).expect("it was just made");
    topic.append(batch("one")).await.expect("it is stored");
    machine.crash(Crash::Kill);
    machine.restart().await
}

/// Each half of a broker is checked before the other one is changed.
#[test]
fn a_later_version_in_either_half_changes_neither() {
    for file in ["/data/raft/vote", "/data/wal/checkpoint.b"] {
        sim::run(1, |world| async move {
            let machine = world.machine("broker");
            let env = killed(&machine).await;
            let path = Path::new(file);
            machine.disk().overwrite(path, 9, &[2]).unwrap();
            let before = contents(&machine);
            let refused = Broker::open(config(), env).await.map(|_| ()).unwrap_err();
            let text = refused.to_string();
            assert!(text.contains(file) && text.contains("version 2"), "{text}");
            assert!(before == contents(&machine), "{file}: the refusal changed something");
            machine.disk().overwrite(path, 9, &[1]).unwrap();
            let broker = open(&machine.restart().await).await;
            let (records, _) = read_all(&broker.topic(&name("/default/a")).unwrap()).await;
            assert_eq!(records, [(0, "one".to_owned())]);
        });
    }
}

#[test]
fn a_topic_whose_only_segment_is_gone_is_whole_once_that_is_accepted() {
    sim::run(2, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        broker.topic(&name("/default/a")).unwrap().append(batch("one")).await.unwrap();
        broker.close().await.unwrap();
        let env = machine.restart().await;
        let segment = find(&machine, |path| path.extension().is_some_and(|found| found == "seg"));
        env.disk.remove_file(&segment).unwrap();

        let (broker, report) = Broker::open(config(), env).await.unwrap();
        let said: Vec<_> = report.damaged.iter().map(ToString::to_string).collect();
        assert!(said.len() == 1 && said[0].contains(segment.to_str().unwrap()), "{said:?}");
        let topic = broker.topic(&name("/default/a")).unwrap();
        assert_eq!(read_all(&topic).await, (vec![], vec![(0, 1)]));
        let findings = broker.repair_topic(&name("/default/a"), true).await.unwrap();
        assert!(findings.len() == 1 && findings[0].done, "{findings:?}");
        assert!(broker.repair_topic(&name("/default/a"), false).await.unwrap().is_empty());
        assert_eq!(topic.append(batch("two")).await.unwrap().base, Offset::new(1));
        assert_eq!(read_all(&topic).await, (vec![(1, "two".to_owned())], vec![(0, 1)]));
        broker.close().await.unwrap();
        let (_, report) = Broker::open(config(), machine.restart().await).await.unwrap();
        assert!(report.damaged.is_empty(), "{report:?}");
    });
}

#[test]
fn a_topic_that_is_in_the_journal_alone_has_a_size() {
    sim::run(3, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        assert_eq!(topic.describe().await.unwrap().bytes, 0);
        topic.append(batch(&"x".repeat(1000))).await.unwrap();
        let bytes = topic.describe().await.unwrap().bytes;
        assert!((1000..1300).contains(&bytes), "{bytes}");
    });
}

/// Without its metadata a broker looks like a new one, and would give offset 0 of a topic again.
#[test]
fn logs_whose_metadata_are_gone_refuse_the_start() {
    sim::run(3, |world| async move {
        let machine = world.machine("broker");
        let env = killed(&machine).await;
        env.disk.remove_dir_all(Path::new("/data/raft")).unwrap();
        let before = contents(&machine);
        let refused = Broker::open(config(), env.clone()).await.map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::MetadataMissing { .. }), "{refused:?}");
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        let text = refused.to_string();
        assert!(text.contains("/data/raft") && text.contains("/data/wal"), "{text}");
        assert!(refused.hint().is_some());
        assert!(before == contents(&machine), "the refusal changed something");

        env.disk.rename(Path::new("/data/wal"), Path::new("/data/away")).unwrap();
        let broker = open(&env).await;
        assert!(broker.topic(&name("/default/a")).is_err(), "it begins anew");
    });
}

/// The metadata are made before the hot tier, and no topic before both: a broker that dies between the two has nothing to lose.
#[test]
fn a_first_start_that_was_killed_anywhere_begins_again() {
    for change in 0..60 {
        sim::run(4, |world| async move {
            let machine = world.machine("broker");
            machine.disk().crash_at(change, Crash::Kill);
            let _ = Broker::open(config(), machine.env()).await;
            machine.disk().crash(Crash::Kill);
            open(&machine.restart().await).await;
        });
    }
}

/// The end of its log may be lost: what was acknowledged there is reported, to a reader too, and nobody passes it over
/// before that is accepted.
#[test]
fn a_damaged_end_is_told_to_readers_until_a_gap_is_accepted() {
    sim::run(4, |world| async move {
        let machine = world.machine("broker");
        let env = killed(&machine).await;
        env.disk.remove_dir_all("/data/wal/journal".as_ref()).unwrap();
        let broker = open(&env).await;
        let topic = broker.topic(&name("/default/a")).unwrap();
        let (records, missing) = read_all(&topic).await;
        let end = records.len() as u64;
        let ceiling = topic.describe().await.unwrap().ceiling;
        assert_eq!(missing, [(end, ceiling.get())]);
        broker.close().await.unwrap();

        let (broker, report) = Broker::open(config(), machine.restart().await).await.unwrap();
        let said: Vec<_> = report.damaged.iter().map(ToString::to_string).collect();
        assert!(said.len() == 1 && said[0].contains("/data/wal/journal"), "{said:?}");
        let topic = broker.topic(&name("/default/a")).unwrap();
        assert_eq!(read_all(&topic).await, (records.clone(), missing.clone()));
        let mut reader = topic.read(Start::Offset(ceiling)).await.unwrap();
        assert!(matches!(reader.next().await, Ok(Read::CaughtUp(_))));
        let mut consumer = subscriptions::waiting(&topic).await;
        assert_eq!(consumer.offsets(end as usize).await, (0..end).collect::<Vec<_>>());
        assert!(consumer.hears_nothing(&world).await);
        let findings = broker.repair_topic(&name("/default/a"), false).await.unwrap();
        assert!(
            findings.len() == 1 && findings[0].file.contains("/data/wal/journal"),
            "{findings:?}"
        );
        assert_eq!((findings[0].from.get(), findings[0].to), (end, ceiling));

        assert!(broker.repair_topic(&name("/default/a"), true).await.unwrap()[0].done);
        assert_eq!(read_all(&topic).await, (records, missing));
        assert_eq!(topic.append(batch("two")).await.unwrap().base, ceiling);
        assert_eq!(consumer.offsets(1).await, [ceiling.get()]);
        broker.close().await.unwrap();
        let (_, report) = Broker::open(config(), machine.restart().await).await.unwrap();
        assert!(report.damaged.is_empty(), "{report:?}");
    });
}

/// Puts a directory back as it was.
pub(crate) fn put_back(machine: &Machine, env: &Env, dir: &str, old: &BTreeMap<PathBuf, Vec<u8>>) {
    env.disk.remove_dir_all(dir.as_ref()).expect("it is there");
    for (path, content) in old.iter().filter(|(path, _)| path.starts_with(dir)) {
        env.disk.create_dir_all(path.parent().expect("a file")).expect("it works");
        let file = env.disk.open(path, DiskOpen::Replace).expect("it works");
        file.set_len(content.len() as u64).expect("it works");
        machine.disk().overwrite(path, 0, content).expect("it is there");
    }
    env.disk.sync_volume("/data".as_ref()).expect("it works");
}

async fn append(broker: &Broker, topic: &str, value: &str) {
    let topic = broker.topic(&name(topic)).expect("it is there");
    topic.append(batch(value)).await.expect("it is stored");
}

/// A broker whose hot tier is from before its last start: topic `a` had two more messages and an opening since, `b` none, and
/// `c` did not exist.
async fn rolled_back(machine: &Machine) -> Env {
    let broker = open(&machine.env()).await;
    for text in ["/default/a", "/default/b"] {
        broker.create_topic(new_topic(text)).await.expect("a new name");
        append(&broker, text, "one").await;
    }
    broker.close().await.expect("a clean stop");
    let old = contents(machine);
    let broker = open(&machine.restart().await).await;
    broker.create_topic(new_topic("/default/c")).await.expect("a new name");
    for text in ["/default/a", "/default/a", "/default/c"] {
        append(&broker, text, "two").await;
    }
    broker.close().await.expect("a clean stop");
    let env = machine.restart().await;
    put_back(machine, &env, "/data/wal", &old);
    env
}

/// What an older copy of the hot tier has not is lost; its offsets are not given to anything else.
#[test]
fn p03_an_older_hot_tier_goes_on_at_the_ceilings() {
    sim::run(5, |world| async move {
        let machine = world.machine("broker");
        let env = rolled_back(&machine).await;
        let (broker, report) = Broker::open(config(), env).await.unwrap();
        let topic = |text: &str| broker.topic(&name(text)).unwrap();
        let [found] = &report.rolled_back[..] else { panic!("{report:?}") };
        assert_eq!(found.topic, topic("/default/a").id());
        assert_eq!(
            (found.epoch.get(), found.expected.get(), found.end.get()),
            (1, 2, 1),
            "what the copy has, and what the metadata have"
        );
        let ceiling = topic("/default/a").describe().await.unwrap().ceiling;
        let one = vec![(0, "one".to_owned())];
        let (records, missing) = read_all(&topic("/default/a")).await;
        assert_eq!((records, missing.len()), (one.clone(), 1));
        let (from, to) = missing[0];
        assert!(from == 1 && to >= 3 && to < ceiling.get(), "{missing:?}");
        assert_eq!(topic("/default/a").append(batch("x")).await.unwrap().base.get(), to);
        assert_eq!(topic("/default/b").append(batch("x")).await.unwrap().base.get(), 1);
        let refused = topic("/default/c").append(batch("x")).await.unwrap_err();
        assert!(matches!(refused, Error::LogMissing { .. }), "{refused:?}");
        assert_eq!(read_all(&topic("/default/b")).await.1, []);
        machine.crash(Crash::Kill);

        let (_, report) = Broker::open(config(), machine.restart().await).await.unwrap();
        assert!(report.rolled_back.is_empty(), "{report:?}");
    });
}

/// The copy is known as one until every start after it knows.
#[test]
fn p03_a_start_on_an_older_hot_tier_that_dies_anywhere_leaves_it_known() {
    let died = |change: u64, crash| {
        sim::run(6, |world| async move {
            let machine = world.machine("broker");
            let env = rolled_back(&machine).await;
            machine.disk().crash_at(change, crash);
            let has_died = Broker::open(config(), env).await.is_err();
            machine.disk().crash(crash);
            let broker = open(&machine.restart().await).await;
            let topic = broker.topic(&name("/default/a")).unwrap();
            assert!(topic.append(batch("x")).await.unwrap().base.get() >= 3, "at {change}");
            has_died
        })
    };
    for crash in [Crash::Kill, Crash::PowerCut(Survival::Chance)] {
        assert!((0..).take_while(|change| died(*change, crash)).count() > 20);
    }
}

/// Metadata from before several openings of each topic and a gap in one of them: the start says so, each topic opens at the
/// first try all the same, and no offset is assigned twice.
#[test]
fn p03_older_metadata_open_the_logs_above_their_epochs() {
    sim::run(7, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let page_cache = NewTopic {
            delivery: Some(Delivery::Reliable(Durability::PageCache)),
            ..new_topic("/default/b")
        };
        for new in [new_topic("/default/a"), page_cache] {
            broker.create_topic(new).await.unwrap();
        }
        append(&broker, "/default/a", "0").await;
        broker.close().await.unwrap();
        let old = contents(&machine);
        let mut ends = [0, 0];
        for crash in
            [Crash::Kill, Crash::PowerCut(Survival::Chance), Crash::PowerCut(Survival::Nothing)]
        {
            let (broker, report) = Broker::open(config(), machine.restart().await).await.unwrap();
            assert!(!report.metadata_are_older, "{report:?}");
            for (end, text) in ends.iter_mut().zip(["/default/a", "/default/b"]) {
                let appended = broker.topic(&name(text)).unwrap().append(batch("x")).await;
                *end = appended.unwrap().next.get();
            }
            machine.crash(crash);
        }
        let env = machine.restart().await;
        put_back(&machine, &env, "/data/raft", &old);
        let (broker, report) = Broker::open(config(), env).await.unwrap();
        assert!(report.metadata_are_older && report.rolled_back.is_empty(), "{report:?}");
        for (end, text) in ends.iter().zip(["/default/a", "/default/b"]) {
            let appended = broker.topic(&name(text)).unwrap().append(batch("y")).await.unwrap();
            assert!(appended.base.get() >= *end, "{text}: {} after {end}", appended.base);
        }
        assert_eq!(ends[0], 4, "no offset of the other topic was lost");
        broker.close().await.unwrap();
        let (_, report) = Broker::open(config(), machine.restart().await).await.unwrap();
        assert!(!report.metadata_are_older, "{report:?}");
    });
}
