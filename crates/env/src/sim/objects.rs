//! A simulated object store that all machines of a world share.
//!
//! Each request is on its way for a while by itself, whatever becomes of who made it. By chance it is lost, or its answer is, or
//! it comes late: who made it is told that it failed, and it is done after all, maybe long afterwards. Listings may be behind.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::clock::{WALL_START_MS, now, sleep};
use super::generator::Generator;
use super::spawn::lock;
use super::world::World;
use crate::objects::{
    Answer, Created, Error, Kind, Listed, Objects, Part, PartId, UploadId, check_key,
};

/// A store. Clones are the same, and each is a client of it.
#[derive(Clone)]
pub struct SimObjects {
    world: World,
    generator: Generator,
    state: Arc<Mutex<State>>,
}

/// How a store is bad. Each chance is one in so many requests; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Badness {
    /// A request does not arrive.
    pub lost: u64,
    /// A request is done, and its answer does not arrive.
    pub unanswered: u64,
    /// A request is done after its caller was told that it failed.
    pub late: u64,
    /// How much later at most.
    pub late_max: Duration,
    /// A listing does not show what changed within `late_max`.
    pub stale: u64,
    /// No request is done.
    pub is_down: bool,
}

/// How long a request takes at most, either way, in microseconds.
const WAY_MAX_US: u64 = 20_000;
/// After what time who waits in vain is told.
const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    badness: Badness,
    objects: BTreeMap<String, Object>,
    /// What was there until when.
    removed: Vec<(Listed, Instant)>,
    uploads: BTreeMap<String, BTreeMap<usize, Bytes>>,
    requests: u64,
}

struct Object {
    body: Bytes,
    listed: Listed,
    since: Instant,
}

/// What becomes of a request.
enum Fate {
    Done,
    Lost,
    Unanswered,
    Late(Duration),
}

impl World {
    /// A store without objects. Its chances follow from the world's seed and its name.
    #[must_use]
    pub fn objects(&self, name: &str) -> SimObjects {
        let generator = Generator::derive(self.seed(), &format!("objects {name}"));
        SimObjects { world: self.clone(), generator, state: Arc::default() }
    }
}

impl SimObjects {
    /// It is so bad from now on.
    pub fn set_badness(&self, badness: Badness) {
        lock(&self.state).badness = badness;
    }

    /// Requests that were made so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.state).requests
    }

    /// All keys with what they have, sorted.
    #[must_use]
    pub fn content(&self) -> Vec<(String, Bytes)> {
        let state = lock(&self.state);
        state.objects.iter().map(|(key, object)| (key.clone(), object.body.clone())).collect()
    }

    /// Uploads in parts that were begun and neither completed nor aborted.
    #[must_use]
    pub fn unfinished_uploads(&self) -> usize {
        lock(&self.state).uploads.len()
    }

    /// Changes what a key has, past all clients; `None` removes it.
    pub fn tamper(&self, key: &str, body: Option<Bytes>) {
        lock(&self.state).set(key, body, &self.world);
    }

    fn fate(&self) -> Fate {
        let Badness { lost, unanswered, late, late_max, is_down, .. } = lock(&self.state).badness;
        if is_down || self.generator.one_in(lost) {
            Fate::Lost
        } else if self.generator.one_in(unanswered) {
            Fate::Unanswered
        } else if self.generator.one_in(late) {
            let later = self.generator.below(late_max.as_micros() as u64);
            Fate::Late(TIMEOUT + Duration::from_micros(later))
        } else {
            Fate::Done
        }
    }

    fn way(&self) -> Duration {
        Duration::from_micros(self.generator.below(WAY_MAX_US))
    }

    /// Sends a request on its way, and waits for its answer.
    fn request<'a, T: Send + 'static>(
        &'a self,
        what: &'static str,
        key: &'a str,
        body: impl FnOnce(&mut State, &str, &World) -> Result<T, Kind> + Send + 'static,
    ) -> Answer<'a, T> {
        let (answer, answered) = oneshot::channel();
        let (store, name) = (self.clone(), key.to_owned());
        let (there, back, fate) = (self.way(), self.way(), self.fate());
        lock(&self.state).requests += 1;
        let note = format!("{what} {key}");
        let task = async move {
            sleep(there).await;
            match fate {
                Fate::Lost => return,
                Fate::Late(later) => sleep(later).await,
                Fate::Done | Fate::Unanswered => {}
            }
            let done = body(&mut lock(&store.state), &name, &store.world);
            store.world.trace().note(format_args!("{note}: {:?}", done.as_ref().err()));
            if matches!(fate, Fate::Done) {
                sleep(back).await;
                // Fails only if nobody waits.
                let _ = answer.send(done);
            } else {
                sleep(TIMEOUT).await;
            }
        };
        Box::pin(async move {
            check_key(what, key)?;
            self.world.beside(Box::pin(task));
            let in_time = tokio::time::timeout(TIMEOUT, answered).await;
            let done = in_time.ok().and_then(Result::ok).unwrap_or(Err(Kind::Unavailable));
            done.map_err(|kind| Error::new(what, key, kind))
        })
    }
}

impl State {
    fn set(&mut self, key: &str, body: Option<Bytes>, world: &World) {
        if let Some(old) = self.objects.remove(key) {
            self.removed.push((old.listed, now()));
        }
        if let Some(body) = body {
            let modified_ms = WALL_START_MS + world.elapsed().as_millis() as u64;
            let listed = Listed { key: key.to_owned(), bytes: body.len() as u64, modified_ms };
            self.objects.insert(key.to_owned(), Object { body, listed, since: now() });
        }
    }

    fn body(&self, key: &str) -> Result<&Bytes, Kind> {
        self.objects.get(key).map(|object| &object.body).ok_or(Kind::NotFound)
    }

    /// What a listing shows that is behind by so much.
    fn listed(&self, behind: Duration) -> BTreeMap<&str, &Listed> {
        let (now, is_old) = (now(), |since: Instant| now() - since >= behind);
        let gone = self.removed.iter().filter(|(_, until)| now - *until < behind);
        let there = self.objects.values().filter(|object| is_old(object.since));
        let all = gone.map(|(listed, _)| listed).chain(there.map(|object| &object.listed));
        all.map(|listed| (listed.key.as_str(), listed)).collect()
    }
}

impl Objects for SimObjects {
    fn create<'a>(&'a self, key: &'a str, body: Bytes) -> Answer<'a, Created> {
        self.request("create", key, |state, key, world| {
            if state.objects.contains_key(key) {
                return Ok(Created::Taken);
            }
            state.set(key, Some(body), world);
            Ok(Created::Stored)
        })
    }

    fn put<'a>(&'a self, key: &'a str, body: Bytes) -> Answer<'a, ()> {
        self.request("put", key, |state, key, world| {
            state.set(key, Some(body), world);
            Ok(())
        })
    }

    fn begin_upload<'a>(&'a self, key: &'a str) -> Answer<'a, UploadId> {
        let name = format!("{:016x}", self.generator.next());
        self.request("begin", key, |state, _, _| {
            state.uploads.insert(name.clone(), BTreeMap::new());
            Ok(UploadId(name))
        })
    }

    fn upload_part<'a>(
        &'a self,
        key: &'a str,
        upload: &'a UploadId,
        part: Part,
        body: Bytes,
    ) -> Answer<'a, PartId> {
        let upload = upload.0.clone();
        self.request("part", key, move |state, _, _| {
            let parts = state.uploads.get_mut(&upload).ok_or(Kind::NotFound)?;
            parts.insert(part.number, body);
            Ok(PartId(part.number.to_string()))
        })
    }

    fn complete_upload<'a>(
        &'a self,
        key: &'a str,
        upload: &'a UploadId,
        parts: Vec<PartId>,
    ) -> Answer<'a, ()> {
        let upload = upload.0.clone();
        self.request("complete", key, move |state, key, world| {
            let stored = state.uploads.get(&upload).ok_or(Kind::NotFound)?;
            if !parts
                .iter()
                .map(|part| &part.0)
                .eq(&stored.keys().map(usize::to_string).collect::<Vec<_>>())
            {
                return Err(Kind::Unsupported);
            }
            let body = stored.values().flatten().copied().collect();
            state.uploads.remove(&upload);
            state.set(key, Some(body), world);
            Ok(())
        })
    }

    fn abort_upload<'a>(&'a self, key: &'a str, upload: &'a UploadId) -> Answer<'a, ()> {
        let upload = upload.0.clone();
        self.request("abort", key, move |state, _, _| {
            state.uploads.remove(&upload);
            Ok(())
        })
    }

    fn get<'a>(&'a self, key: &'a str, bytes_max: u64) -> Answer<'a, Bytes> {
        self.request("get", key, move |state, key, _| {
            let body = state.body(key)?;
            if body.len() as u64 > bytes_max { Err(Kind::TooLarge) } else { Ok(body.clone()) }
        })
    }

    fn read<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        self.request("read", key, move |state, key, _| {
            let body = state.body(key)?;
            let is_within = range.end <= body.len() as u64;
            is_within
                .then(|| body.slice(range.start as usize..range.end as usize))
                .ok_or(Kind::Short)
        })
    }

    fn find<'a>(&'a self, key: &'a str) -> Answer<'a, Option<Listed>> {
        self.request("find", key, |state, key, _| {
            Ok(state.objects.get(key).map(|object| object.listed.clone()))
        })
    }

    fn list<'a>(
        &'a self,
        directory: &'a str,
        after: Option<&'a str>,
        at_most: usize,
    ) -> Answer<'a, Vec<Listed>> {
        let after = after.map(str::to_owned);
        let is_stale = self.generator.one_in(lock(&self.state).badness.stale);
        self.request("list", directory, move |state, directory, _| {
            let behind = if is_stale { state.badness.late_max } else { Duration::ZERO };
            let is_below =
                |key: &str| key.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
            let listed = state.listed(behind).into_values();
            let listed = listed.filter(|listed| {
                is_below(&listed.key) && after.as_ref().is_none_or(|after| listed.key > *after)
            });
            Ok(listed.take(at_most).cloned().collect())
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        self.request("remove", key, |state, key, world| {
            state.set(key, None, world);
            Ok(())
        })
    }
}
