//! What every implementation of [`Objects`] does, as a suite that each runs, the simulated one among them.

use std::sync::Arc;

use bytes::Bytes;

use super::{Created, Kind, Objects, PART_BYTES_MIN, Part};

/// Runs the suite in the directory `at` of a store, which is empty and afterwards is again.
///
/// # Panics
///
/// At the first thing that is not as promised.
pub async fn check(objects: Arc<dyn Objects>, at: &str) {
    let run = Run { objects, at };
    run.bytes_come_back().await;
    run.the_first_who_creates_has_the_key().await;
    run.one_of_many_who_create_at_once_has_the_key().await;
    run.ranges_are_exact().await;
    run.what_is_missing_is_told().await;
    run.lists_are_sorted_and_paged().await;
    run.parts_become_one_object().await;
    run.an_aborted_upload_leaves_nothing().await;
    assert_eq!(run.names(None, 1).await, Vec::<String>::new(), "everything was removed");
}

struct Run<'a> {
    objects: Arc<dyn Objects>,
    at: &'a str,
}

/// Bytes that differ everywhere.
fn body(len: usize, seed: u64) -> Bytes {
    let mut state = seed;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

impl Run<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.at)
    }

    async fn names(&self, after: Option<&str>, at_most: usize) -> Vec<String> {
        let after = after.map(|name| self.key(name));
        let listed = self.objects.list(self.at, after.as_deref(), at_most).await;
        let names = listed.expect("a directory can be listed").into_iter();
        let below = |key: String| key.strip_prefix(&self.key("")).expect("it is below").to_owned();
        names.map(|listed| below(listed.key)).collect()
    }

    async fn remove(&self, name: &str) {
        self.objects.remove(&self.key(name)).await.expect("it can be removed");
    }

    async fn bytes_come_back(&self) {
        for (len, name) in [(0, "none"), (1, "a/one"), (1 << 20, "a/b/c/many")] {
            let (key, bytes) = (self.key(name), body(len, 1));
            self.objects.put(&key, bytes.clone()).await.expect("it is stored");
            assert_eq!(self.objects.get(&key, 1 << 20).await.expect("it is there"), bytes);
            let found = self.objects.find(&key).await.expect("it answers").expect("it is there");
            assert_eq!((found.key.as_str(), found.bytes), (key.as_str(), len as u64));
            let other = body(len + 1, 2);
            self.objects.put(&key, other.clone()).await.expect("it is replaced");
            assert_eq!(self.objects.get(&key, 2 << 20).await.expect("it is there"), other);
            self.remove(name).await;
            self.remove(name).await;
            assert_eq!(self.objects.find(&key).await.expect("it answers"), None);
        }
    }

    async fn the_first_who_creates_has_the_key(&self) {
        let key = self.key("once");
        for (bytes, created) in [("first", Created::Stored), ("second", Created::Taken)] {
            let answer = self.objects.create(&key, bytes.into()).await;
            assert_eq!(answer.expect("it answers"), created);
        }
        assert_eq!(self.objects.get(&key, 10).await.expect("it is there"), "first");
        self.remove("once").await;
        let again = self.objects.create(&key, "third".into()).await;
        assert_eq!(again.expect("it is free again"), Created::Stored);
        self.remove("once").await;
    }

    async fn one_of_many_who_create_at_once_has_the_key(&self) {
        for round in 0..10 {
            let key = self.key(&format!("race/{round}"));
            let racers = (0..8_u8).map(|racer| {
                let (objects, key) = (Arc::clone(&self.objects), key.clone());
                async move { (racer, objects.create(&key, vec![racer].into()).await) }
            });
            let answers = futures_util::future::join_all(racers).await;
            let stored = answers.iter().filter_map(|(racer, answer)| match answer {
                Ok(Created::Stored) => Some(*racer),
                Ok(Created::Taken) => None,
                Err(error) => panic!("{error:?}"),
            });
            let stored: Vec<u8> = stored.collect();
            assert_eq!(stored, self.objects.get(&key, 1).await.expect("one stored it"));
            self.remove(&format!("race/{round}")).await;
        }
    }

    async fn ranges_are_exact(&self) {
        let (key, bytes) = (self.key("ranges"), body(1000, 3));
        self.objects.put(&key, bytes.clone()).await.expect("it is stored");
        for range in [0..1, 0..1000, 1..999, 999..1000, 500..501] {
            let read = self.objects.read(&key, range.clone()).await.expect("it is within");
            assert_eq!(read, bytes[range.start as usize..range.end as usize]);
        }
        let error = self.objects.read(&key, 990..1001).await.expect_err("it is too short");
        assert_eq!(error.kind, Kind::Short, "{error:?}");
        let error = self.objects.get(&key, 999).await.expect_err("it is too large");
        assert_eq!(error.kind, Kind::TooLarge, "{error:?}");
        self.remove("ranges").await;
    }

    async fn what_is_missing_is_told(&self) {
        let key = self.key("missing");
        let error = self.objects.get(&key, 10).await.expect_err("it is not there");
        assert_eq!(error.kind, Kind::NotFound, "{error:?}");
        let error = self.objects.read(&key, 0..1).await.expect_err("it is not there");
        assert_eq!(error.kind, Kind::NotFound, "{error:?}");
        assert_eq!(self.objects.find(&key).await.expect("it answers"), None);
        let listed = self.objects.list(&key, None, 10).await.expect("it answers");
        assert_eq!(listed, []);
    }

    async fn lists_are_sorted_and_paged(&self) {
        // More than one page of a store; `-` and `.` sort before `/`.
        let mut expected: Vec<String> = (0..1100).map(|number| format!("l/{number:04}")).collect();
        expected.extend(["l-x", "l.x", "l/sub/below", "lx"].map(str::to_owned));
        expected.sort();
        for names in expected.chunks(64) {
            let keys: Vec<String> = names.iter().map(|name| self.key(name)).collect();
            let puts = keys.iter().map(|key| self.objects.put(key, "x".into()));
            for put in futures_util::future::join_all(puts).await {
                put.expect("it is stored");
            }
        }
        assert_eq!(self.names(None, 5000).await, expected);
        assert_eq!(self.names(None, 7).await, expected[..7]);
        assert_eq!(self.names(Some("l/0500"), 5000).await, expected[expected.len() - 601..]);
        assert_eq!(self.names(Some("l/0500"), 3).await, ["l/0501", "l/0502", "l/0503"]);
        assert_eq!(self.names(Some("m"), 3).await, Vec::<String>::new());
        // A directory is not what begins as its name does.
        let in_it = self.objects.list(&self.key("l"), None, 5000).await.expect("it can be listed");
        assert_eq!(in_it.len(), 1101);
        for names in expected.chunks(64) {
            futures_util::future::join_all(names.iter().map(|name| self.remove(name))).await;
        }
    }

    async fn parts_become_one_object(&self) {
        let (key, bytes) = (self.key("parts/whole"), body(2 * PART_BYTES_MIN + 100, 4));
        let upload = self.objects.begin_upload(&key).await.expect("it begins");
        let mut parts = vec![None; 3];
        // In any order, and one of them twice.
        for number in [2, 0, 1, 0] {
            let start = number * PART_BYTES_MIN;
            let body = bytes.slice(start..(start + PART_BYTES_MIN).min(bytes.len()));
            let part = Part { number, position: start as u64 };
            let stored = self.objects.upload_part(&key, &upload, part, body).await;
            parts[number] = Some(stored.expect("a part is stored"));
            assert_eq!(self.objects.find(&key).await.expect("it answers"), None, "not yet");
        }
        let parts = parts.into_iter().map(|part| part.expect("all were stored")).collect();
        self.objects.complete_upload(&key, &upload, parts).await.expect("it is whole");
        let got = self.objects.get(&key, bytes.len() as u64).await.expect("it is there");
        assert!(got == bytes, "parts are where they belong");
        self.remove("parts/whole").await;
    }

    async fn an_aborted_upload_leaves_nothing(&self) {
        let key = self.key("parts/aborted");
        let upload = self.objects.begin_upload(&key).await.expect("it begins");
        let first = Part { number: 0, position: 0 };
        let stored = self.objects.upload_part(&key, &upload, first, body(100, 5)).await;
        stored.expect("a part is stored");
        for _ in 0..2 {
            self.objects.abort_upload(&key, &upload).await.expect("it is gone");
        }
        assert_eq!(self.objects.find(&key).await.expect("it answers"), None);
    }
}
