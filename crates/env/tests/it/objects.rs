//! Objects in a directory, and in a simulated store.

use std::sync::Arc;
use std::time::Duration;

use danube_env::Disk;
use danube_env::objects::{Created, Kind, Objects, contract};
use danube_env::real::RealDisk;
use danube_env::real::objects::Directory;
use danube_env::sim::{self, Badness, SimObjects};

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_does_what_a_bucket_does() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).unwrap();
    contract::check(Arc::new(directory), "at").await;
    let left = RealDisk::new().list(root.path()).unwrap();
    assert_eq!(left.len(), 1, "what is left is the directory of uploads: {left:?}");
    assert_eq!(RealDisk::new().list(&root.path().join(&left[0].name)).unwrap(), []);
}

#[test]
fn a_simulated_store_does_what_a_bucket_does() {
    sim::run_twice(1, |world| async move {
        contract::check(Arc::new(world.objects("bucket")), "at").await;
    });
}

/// Creates one object after the other in a bad store. Of each, what was said of it, and whether it is there in the end.
fn created(badness: Badness) -> Vec<(Result<Created, Kind>, bool)> {
    sim::run(7, move |world| async move {
        let store: SimObjects = world.objects("bucket");
        store.set_badness(badness);
        let mut said = Vec::new();
        for number in 0..100 {
            let answer = store.create(&format!("a/{number}"), "x".into()).await;
            said.push(answer.map_err(|error| error.kind));
        }
        world.sleep(badness.late_max + Duration::from_secs(10)).await;
        let there: Vec<String> = store.content().into_iter().map(|(key, _)| key).collect();
        let is_there = |number| there.contains(&format!("a/{number}"));
        said.into_iter().enumerate().map(|(number, said)| (said, is_there(number))).collect()
    })
}

#[test]
fn a_write_that_failed_may_have_been_done() {
    let late_max = Duration::from_secs(60);
    let bad = Badness { late_max, ..Badness::default() };
    let all = [
        (Badness { lost: 2, ..bad }, false),
        (Badness { unanswered: 2, ..bad }, true),
        (Badness { late: 2, ..bad }, true),
    ];
    for (badness, is_done) in all {
        let (good, failed): (Vec<_>, Vec<_>) =
            created(badness).into_iter().partition(|(said, _)| said.is_ok());
        assert!(good.len() > 20 && failed.len() > 20, "{badness:?}");
        assert!(good.iter().all(|(said, is_there)| *said == Ok(Created::Stored) && *is_there));
        let expected = (Err(Kind::Unavailable), is_done);
        assert!(failed.iter().all(|outcome| *outcome == expected), "{badness:?}");
    }
}

#[test]
fn a_listing_may_be_behind() {
    sim::run(7, |world| async move {
        let store = world.objects("bucket");
        let late_max = Duration::from_secs(60);
        store.set_badness(Badness { stale: 1, late_max, ..Badness::default() });
        store.put("a/old", "x".into()).await.unwrap();
        world.sleep(late_max).await;
        store.put("a/new", "x".into()).await.unwrap();
        store.remove("a/old").await.unwrap();
        let listed = async || {
            let listed = store.list("a", None, 10).await.unwrap();
            listed.into_iter().map(|listed| listed.key).collect::<Vec<_>>()
        };
        assert_eq!(listed().await, ["a/old"]);
        world.sleep(late_max).await;
        assert_eq!(listed().await, ["a/new"]);
    });
}
