//! Where messages become batches, between those who send and the driver.
//!
//! Each partition has a *lane*: one open batch that messages are written into, and full ones behind which it waits. Who
//! sends does the encoding, under one short lock; the driver takes whole batches.
//!
//! The room for messages is bounded: a message holds its share from [`Gather::add`] until the driver lets go of its batch.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use danube_model::{BatchBuilder, BatchLimits, Compression, Message, Record, TopicName, caps};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::machine::BatchId;
use super::route::partition_of_key;
use super::settlement::{Delivery, Settlement};
use crate::{Error, Outcome, Result};

/// What a record takes beyond key, value and headers; an estimate that is never too small by much.
const RECORD_OVERHEAD_BYTES: usize = 32;
const HEADER_OVERHEAD_BYTES: usize = 8;

/// How messages are gathered.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) compression: Compression,
    /// A batch that has reached this is full.
    pub(crate) batch_bytes: usize,
    pub(crate) room_bytes: usize,
    pub(crate) room_messages: usize,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Gather {
    settings: Settings,
    lanes: Mutex<Lanes>,
    /// For the driver: there is a new batch, a full one, or something to flush.
    wake: Notify,
    bytes: Semaphore,
    messages: Semaphore,
}

#[derive(Debug)]
struct Lanes {
    lanes: Vec<Lane>,
    next_id: u64,
    /// Lanes with batches that the driver has not seen.
    touched: BTreeSet<usize>,
    /// Where messages without a key go while the batch there is open.
    current: usize,
    is_closed: bool,
    flushes: Vec<Flush>,
}

#[derive(Debug)]
struct Lane {
    topic: TopicName,
    limits: BatchLimits,
    open: Option<Gathered>,
    full: VecDeque<Gathered>,
}

/// A batch that is being gathered.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) id: BatchId,
    pub(crate) builder: BatchBuilder,
    pub(crate) settlement: Arc<Settlement>,
    /// When its first message came.
    pub(crate) began: Duration,
    /// Its share of the room.
    pub(crate) room_bytes: usize,
}

/// Someone waits for all batches below `mark` to be settled.
#[derive(Debug)]
pub(crate) struct Flush {
    pub(crate) mark: BatchId,
    pub(crate) done: oneshot::Sender<()>,
}

/// What the driver may take of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    Full,
    All,
}

impl Gather {
    /// Messages without a key begin at the partition behind `before`, modulo their number: producers of a few messages are to
    /// use all partitions together.
    pub(crate) fn new(topics: &[TopicName], before: u64, settings: Settings) -> Gather {
        let lanes = topics.iter().map(|topic| Lane {
            topic: topic.clone(),
            limits: BatchLimits::default(),
            open: None,
            full: VecDeque::new(),
        });
        let lanes = Lanes {
            lanes: lanes.collect(),
            next_id: 0,
            touched: BTreeSet::new(),
            current: (before % topics.len() as u64) as usize,
            is_closed: false,
            flushes: Vec::new(),
        };
        Gather {
            bytes: Semaphore::new(settings.room_bytes),
            messages: Semaphore::new(settings.room_messages),
            wake: Notify::new(),
            lanes: Mutex::new(lanes),
            settings,
        }
    }

    /// Waits for room and writes the message into a batch of its partition. Cancel safe: until it returns, nothing was
    /// taken.
    pub(crate) async fn add(&self, message: &Message, now: Duration) -> Result<Delivery> {
        let record = message.to_record()?;
        let record_bytes = record_bytes(&record);
        // A message larger than all the room takes all of it.
        let share = record_bytes.min(self.settings.room_bytes);
        let share_permits = u32::try_from(share).unwrap_or(u32::MAX);
        let messages = self.messages.acquire().await.expect("never closed");
        let bytes = self.bytes.acquire_many(share_permits).await.expect("never closed");
        let key = message.key.as_ref().map(|key| key.as_str());
        let delivery = self.lock().add(self, key, &record, record_bytes, now)?;
        messages.forget();
        bytes.forget();
        Ok(delivery)
    }

    /// Gives back what a batch held.
    pub(crate) fn release(&self, messages: u32, room_bytes: usize) {
        self.messages.add_permits(messages as usize);
        self.bytes.add_permits(room_bytes);
    }

    /// Completes when the driver has something to look at. Cancel safe.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The lanes that have batches which the driver has not seen.
    pub(crate) fn touched(&self) -> BTreeSet<usize> {
        std::mem::take(&mut self.lock().touched)
    }

    /// The next batch of a lane that may be taken.
    pub(crate) fn take(&self, lane: usize, what: Take) -> Option<Gathered> {
        let lane = &mut self.lock().lanes[lane];
        lane.full.pop_front().or_else(|| lane.open.take_if(|_| what == Take::All))
    }

    /// When the open batch of a lane began.
    pub(crate) fn open_since(&self, lane: usize) -> Option<Duration> {
        self.lock().lanes[lane].open.as_ref().map(|open| open.began)
    }

    /// Sets what a lane's topic takes.
    pub(crate) fn limit(&self, lane: usize, message_bytes_max: usize) {
        self.lock().lanes[lane].limits = BatchLimits::for_message_bytes(message_bytes_max);
    }

    /// Seals every open batch; the receiver hears when all that was added before is settled, or gets an error when the
    /// driver ends before that.
    pub(crate) fn flush(&self) -> oneshot::Receiver<()> {
        let (done, settled) = oneshot::channel();
        let mut lanes = self.lock();
        if lanes.is_closed {
            return settled;
        }
        lanes.seal_all();
        let mark = BatchId(lanes.next_id);
        lanes.flushes.push(Flush { mark, done });
        self.wake.notify_one();
        settled
    }

    /// The flushes that were asked for since the last call.
    pub(crate) fn flushes(&self) -> Vec<Flush> {
        std::mem::take(&mut self.lock().flushes)
    }

    /// Takes no more; the driver ends.
    pub(crate) fn close(&self) {
        let mut lanes = self.lock();
        lanes.seal_all();
        lanes.is_closed = true;
        self.wake.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        // A panic while a message is encoded leaves at worst a batch that lacks it.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn add(
        &mut self,
        gather: &Gather,
        key: Option<&str>,
        record: &Record,
        record_bytes: usize,
        now: Duration,
    ) -> Result<Delivery> {
        let settings = &gather.settings;
        let at = self.choose(key, record_bytes, settings);
        let lane = &mut self.lanes[at];
        if self.is_closed {
            let topic = lane.topic.clone();
            return Err(Error::Closed { topic, outcome: Outcome::Definite });
        }
        let is_sealed = lane.seal_if(|open| !open.has_room(record_bytes, settings));
        let is_new = lane.open.is_none();
        let open = lane.open.get_or_insert_with(|| Gathered {
            id: BatchId(self.next_id),
            builder: BatchBuilder::new(settings.compression, lane.limits.clone()),
            settlement: Settlement::new(),
            began: now,
            room_bytes: 0,
        });
        let appended = open.builder.append(record);
        if let Err(error) = appended {
            lane.open.take_if(|open| open.builder.is_empty());
            return Err(error.into());
        }
        self.next_id += u64::from(is_new);
        open.room_bytes += record_bytes.min(settings.room_bytes);
        let delivery = open.settlement.delivery(open.builder.record_count() - 1);
        let is_full = lane.seal_if(|open| open.builder.len() >= settings.batch_bytes);
        if is_new || is_full || is_sealed {
            self.touched.insert(at);
            gather.wake.notify_one();
        }
        Ok(delivery)
    }

    /// With a key its partition; without one, partitions take turns batch by batch.
    fn choose(&mut self, key: Option<&str>, record_bytes: usize, settings: &Settings) -> usize {
        if let Some(key) = key {
            return partition_of_key(key, self.lanes.len());
        }
        let open = &self.lanes[self.current].open;
        if !open.as_ref().is_some_and(|open| open.has_room(record_bytes, settings)) {
            self.seal(self.current);
            self.current = (self.current + 1) % self.lanes.len();
        }
        self.current
    }

    fn seal_all(&mut self) {
        (0..self.lanes.len()).for_each(|at| self.seal(at));
    }

    fn seal(&mut self, at: usize) {
        if self.lanes[at].seal_if(|_| true) {
            self.touched.insert(at);
        }
    }
}

impl Lane {
    fn seal_if(&mut self, is_done: impl FnOnce(&Gathered) -> bool) -> bool {
        let sealed = self.open.take_if(|open| is_done(open));
        let is_sealed = sealed.is_some();
        self.full.extend(sealed);
        is_sealed
    }
}

impl Gathered {
    fn has_room(&self, record_bytes: usize, settings: &Settings) -> bool {
        self.builder.len() + record_bytes <= settings.batch_bytes
            && self.builder.record_count() < caps::RECORDS_PER_BATCH_MAX
    }
}

fn record_bytes(record: &Record) -> usize {
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, |bytes| bytes.len());
    let headers = record
        .headers
        .iter()
        .map(|header| header.name.bytes().len() + length(&header.value) + HEADER_OVERHEAD_BYTES);
    length(&record.key) + length(&record.value) + headers.sum::<usize>() + RECORD_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(partitions: usize, batch_bytes: usize) -> Gather {
        gather_behind(partitions as u64 - 1, partitions, batch_bytes)
    }

    fn gather_behind(before: u64, partitions: usize, batch_bytes: usize) -> Gather {
        let topics: Vec<TopicName> =
            (0..partitions).map(|i| format!("/default/t-part-{i}").parse().unwrap()).collect();
        let settings = Settings {
            compression: Compression::None,
            batch_bytes,
            room_bytes: 10_000,
            room_messages: 100,
        };
        Gather::new(&topics, before, settings)
    }

    fn message(bytes: usize) -> Message {
        Message { payload: vec![7; bytes].into(), ..Message::default() }
    }

    async fn add(gather: &Gather, bytes: usize) -> Delivery {
        gather.add(&message(bytes), Duration::ZERO).await.unwrap()
    }

    #[tokio::test]
    async fn messages_without_a_key_stay_in_a_partition_until_its_batch_is_full() {
        let gather = gather(3, 1_000);
        for _ in 0..6 {
            drop(add(&gather, 600).await);
        }
        // No two fit into a batch, so each closes the one before.
        for lane in 0..3 {
            let first = gather.take(lane, Take::All).unwrap();
            assert_eq!(first.builder.record_count(), 1);
            assert_eq!(first.id, BatchId(lane as u64));
            assert_eq!(gather.take(lane, Take::All).unwrap().id, BatchId(lane as u64 + 3));
        }
    }

    #[tokio::test]
    async fn messages_without_a_key_begin_at_the_partition_that_was_drawn() {
        for (before, first) in [(0, 1), (1, 2), (5, 0), (u64::MAX, 1)] {
            let gather = gather_behind(before, 3, 1_000);
            drop(add(&gather, 600).await);
            assert!(gather.take(first, Take::All).is_some(), "behind {before}");
        }
    }

    #[tokio::test]
    async fn room_is_bounded_and_comes_back() {
        let gather = gather(1, 1_000_000);
        drop(add(&gather, 9_000).await);
        let second = message(1_000);
        let waiting = gather.add(&second, Duration::ZERO);
        tokio::pin!(waiting);
        let is_ready = tokio::select! {
            biased;
            _ = &mut waiting => true,
            () = std::future::ready(()) => false,
        };
        assert!(!is_ready, "there is no room for it");
        let batch = gather.take(0, Take::All).unwrap();
        gather.release(batch.builder.record_count(), batch.room_bytes);
        drop(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn a_message_that_can_t_be_takes_no_room_and_leaves_no_batch() {
        let gather = gather(1, 1_000);
        gather.limit(0, 2_000);
        for _ in 0..200 {
            let error = gather.add(&message(3_000), Duration::ZERO).await.unwrap_err();
            assert_eq!(error.outcome(), Outcome::Definite);
        }
        assert!(gather.take(0, Take::All).is_none());
        drop(add(&gather, 10).await);
    }

    #[tokio::test]
    async fn nothing_is_taken_after_closing() {
        let gather = gather(1, 1_000);
        gather.close();
        let error = gather.add(&message(1), Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, Error::Closed { outcome: Outcome::Definite, .. }));
    }
}
