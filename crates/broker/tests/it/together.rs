//! Calls that meet each other, that nobody waits for, and lists that are read page by page.

use danube_env::sim::Machine;

use super::*;

fn logs(machine: &Machine) -> usize {
    machine.disk().files().iter().filter(|path| path.ends_with("topic")).count()
}

#[test]
fn a_deletion_that_nobody_waits_for_is_done() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        topic.append(batch("one")).await.unwrap();
        let topic_name = name("/default/a");
        tokio::select! {
            biased;
            _ = broker.delete_topic(&topic_name) => panic!("nothing is deleted within one poll"),
            () = std::future::ready(()) => {}
        }
        broker.close().await.unwrap();
        assert_eq!(logs(&machine), 0);
        let broker = open(&machine.restart().await).await;
        assert!(broker.list_topics(None, None, 10).unwrap().is_empty());
    });
}

#[test]
fn partitions_are_deleted_at_once() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let parts = 40;
        let topic = NewTopic { partitions: Some(parts), ..new_topic("/default/p") };
        broker.create_topic(topic).await.unwrap();
        for part in broker.partitions(&name("/default/p")).unwrap() {
            broker.topic(&part).unwrap().append(batch("one")).await.unwrap();
        }
        assert_eq!(logs(&machine), parts as usize);
        machine.disk().trace().keep_lines();
        broker.delete_topic(&name("/default/p")).await.unwrap();
        assert_eq!(logs(&machine), 0);
        let lines = machine.disk().trace().lines();
        let syncs = lines.iter().filter(|line| line.starts_with("Sync")).count();
        assert!(syncs < 10, "{syncs} syncs to delete {parts} partitions");
        broker.close().await.unwrap();
    });
}

#[test]
fn an_opening_that_meets_a_deletion_leaves_nothing() {
    let mut met = 0;
    for seed in 0..200 {
        met += u64::from(sim::run(seed, |world| async move {
            let machine = world.machine("broker");
            let broker = open(&machine.env()).await;
            broker.create_topic(new_topic("/default/a")).await.unwrap();
            let topic = broker.topic(&name("/default/a")).unwrap();
            let other = broker.clone();
            let delete = async {
                for _ in 0..world.generator("delay").below(40) {
                    tokio::task::yield_now().await;
                }
                other.delete_topic(&name("/default/a")).await
            };
            let (appended, deleted) = tokio::join!(topic.append(batch("one")), delete);
            deleted.unwrap();
            if let Err(error) = &appended {
                assert_eq!(error.kind(), ErrorKind::NotFound, "seed {seed}: {error}");
            }
            assert_eq!(logs(&machine), 0, "seed {seed}");
            broker.close().await.unwrap();
            appended.is_err()
        }));
    }
    assert!((10..190).contains(&met), "{met} of 200 met");
}

#[test]
fn concurrent_callers_share_one_opening() {
    sim::run(1, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        broker.create_topic(new_topic("/default/a")).await.unwrap();
        let topic = broker.topic(&name("/default/a")).unwrap();
        let (one, two) = tokio::join!(topic.append(batch("one")), topic.append(batch("two")));
        assert_eq!([one.unwrap().epoch, two.unwrap().epoch].map(|epoch| epoch.get()), [1, 1]);
        broker.close().await.unwrap();
    });
}

#[test]
fn a_data_directory_has_one_broker() {
    sim::run(1, |world| async move {
        let machine = world.machine("broker");
        let broker = open(&machine.env()).await;
        let other = Config { log: danube_log::Config::new("/other/wal"), ..config() };
        let second = Broker::open(other, machine.env()).await.map(|_| ()).unwrap_err();
        assert!(matches!(second, Error::Lock { .. }), "{second}");
        assert!(second.to_string().contains("/data/lock"), "{second}");
        broker.close().await.unwrap();
    });
}

#[test]
fn a_list_is_read_page_by_page() {
    sim::run(1, |world| async move {
        let broker = open(&world.machine("broker").env()).await;
        let mut names =
            ["/default/a", "/default/a-b", "/default/b", "/mine/a", "/system/z"].map(name).to_vec();
        for topic in &names {
            broker.create_topic(new_topic(topic.as_str())).await.unwrap();
        }
        for base in ["/default/a-a", "/mine/p"] {
            broker.create_topic(NewTopic { partitions: Some(3), ..new_topic(base) }).await.unwrap();
            names.push(name(base));
        }
        names.sort_unstable();
        for limit in 1..=names.len() + 1 {
            let mut found: Vec<TopicName> = Vec::new();
            loop {
                let page = broker.list_topics(None, found.last(), limit).unwrap();
                let is_last = page.is_empty();
                found.extend(page.into_iter().map(|topic| topic.name));
                if is_last {
                    break;
                }
            }
            assert_eq!(found, names, "pages of {limit}");
        }
        let namespace = "mine".parse().unwrap();
        let mine = |after: Option<&TopicName>| {
            let page = broker.list_topics(Some(&namespace), after, 10).unwrap();
            page.into_iter().map(|topic| topic.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(mine(None), ["/mine/a", "/mine/p"]);
        assert_eq!(mine(Some(&name("/default/b"))), ["/mine/a", "/mine/p"]);
        assert_eq!(mine(Some(&name("/mine/a"))), ["/mine/p"]);
        assert_eq!(mine(Some(&name("/system/z"))), [""; 0]);
        broker.close().await.unwrap();
    });
}
