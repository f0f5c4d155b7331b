//! Reading one partition.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use danube_model::batch::Records;
use danube_model::{Batch, Epoch, ErrorKind, Message, Offset, TimeMs, TopicId, TopicName, caps};
use danube_proto::stream::read_response::item::Item as WireItem;
use danube_proto::stream::{ReadRequest, ReadResponse, read_response};
use danube_proto::{Reliability, convert};
use tonic::{Status, Streaming};

use super::{Item, Received, Settings};
use crate::backoff::Backoff;
use crate::world::{Clock, random};
use crate::{Client, Error, Result, Start};

/// See the module's text.
pub(crate) struct PartitionReader {
    client: Client,
    topic: TopicName,
    settings: Settings,
    clock: Clock,
    stream: Stream,
    backoff: Backoff,
    /// Since when the broker is out of reach.
    lost_since: Option<Duration>,
    topic_id: Option<TopicId>,
    /// The offset that comes next; known once the broker has said where the start is.
    next: Option<Offset>,
    /// What came and was not taken yet.
    items: std::vec::IntoIter<read_response::Item>,
    records: Option<BatchRecords>,
}

/// `None`: the partition ends before the start.
type Opened = Result<Option<Streaming<ReadResponse>>, Status>;

enum Stream {
    Closed {
        until: Duration,
    },
    /// Kept here, so that whoever stops waiting does not undo it.
    Opening(Pin<Box<dyn Future<Output = Opened> + Send>>),
    Open(Box<Streaming<ReadResponse>>),
    Ended,
}

/// A batch that is being taken apart.
struct BatchRecords {
    records: Records,
    /// Behind the last offset that the batch covers; it may hold no record for that one.
    next_offset: Offset,
    epoch: Epoch,
    receive_time: TimeMs,
}

impl fmt::Debug for PartitionReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("PartitionReader");
        text.field("topic", &self.topic).field("next", &self.next).finish_non_exhaustive()
    }
}

impl PartitionReader {
    pub(crate) fn new(client: Client, topic: TopicName, settings: Settings) -> PartitionReader {
        PartitionReader {
            client,
            topic,
            settings,
            clock: Clock::start(),
            stream: Stream::Closed { until: Duration::ZERO },
            backoff: Backoff::new(random()),
            lost_since: None,
            topic_id: None,
            next: None,
            items: Vec::new().into_iter(),
            records: None,
        }
    }

    /// Whether there is nothing left to wait for.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.stream, Stream::Ended)
    }

    /// The next item at hand.
    pub(crate) fn take(&mut self) -> Result<Option<Item>> {
        loop {
            if let Some(batch) = &mut self.records {
                match batch.next(&self.topic, self.next, self.settings.end) {
                    Ok(Some(received)) => {
                        self.next = Some(received.offset + 1);
                        return Ok(Some(Item::Message(received)));
                    }
                    Ok(None) => {
                        self.next = self.next.max(Some(batch.next_offset));
                        self.records = None;
                    }
                    Err(error) => {
                        self.lose();
                        return Err(error);
                    }
                }
            }
            if self.is_at_end() {
                self.stream = Stream::Ended;
                return Ok(None);
            }
            let Some(item) = self.items.next() else { return Ok(None) };
            // An item of a kind that only a newer broker knows is passed over.
            let Some(item) = item.item else { continue };
            if let Some(item) = self.receive(item).inspect_err(|_| self.lose())? {
                return Ok(Some(item));
            }
        }
    }

    /// Waits until there is something at hand, or all has ended. Cancel safe.
    pub(crate) async fn fill(&mut self) -> Result<()> {
        loop {
            match &mut self.stream {
                Stream::Ended => return Ok(()),
                Stream::Closed { until } => {
                    let until = *until;
                    self.clock.sleep_until(until).await;
                    let start = self.start_that_may_be_beyond();
                    let (client, topic) = (self.client.clone(), self.topic.clone());
                    let request = self.request();
                    self.stream = Stream::Opening(Box::pin(async move {
                        let opened = client.stream().read(request).await;
                        match (opened, start) {
                            (Ok(stream), _) => Ok(Some(stream.into_inner())),
                            (Err(status), Some(start)) if is_invalid(&client, &status) => {
                                let is_beyond = ends_before(&client, &topic, start).await;
                                if is_beyond { Ok(None) } else { Err(status) }
                            }
                            (Err(status), _) => Err(status),
                        }
                    }));
                }
                Stream::Opening(opening) => match opening.await {
                    Ok(Some(stream)) => self.stream = Stream::Open(Box::new(stream)),
                    Ok(None) => self.stream = Stream::Ended,
                    Err(status) => self.failed(status)?,
                },
                Stream::Open(stream) => match stream.message().await {
                    Ok(Some(response)) => {
                        self.lost_since = None;
                        self.backoff.reset();
                        self.items = response.items.into_iter();
                        return Ok(());
                    }
                    Ok(None) if self.settings.follow && !self.is_at_end() => {
                        self.failed(Status::unavailable("the broker ended the stream"))?;
                    }
                    Ok(None) => self.stream = Stream::Ended,
                    Err(status) => self.failed(status)?,
                },
            }
        }
    }

    /// The offset to begin at, where it is no error that the partition ends before.
    fn start_that_may_be_beyond(&self) -> Option<Offset> {
        let Settings { start, follow, is_one_of_several, .. } = self.settings;
        match start {
            Start::Offset(start) if is_one_of_several && !follow && self.next.is_none() => {
                Some(start)
            }
            _ => None,
        }
    }

    fn request(&self) -> ReadRequest {
        let start = self.next.map_or(self.settings.start, Start::Offset);
        ReadRequest {
            topic: self.topic.to_string(),
            start: Some(convert::wire_start(start)),
            end: self.settings.end.map(Offset::get),
            follow: self.settings.follow,
            max_response_bytes: 0,
        }
    }

    /// The stream is lost: tries again, unless that is pointless or has gone on for too long.
    fn failed(&mut self, status: Status) -> Result<()> {
        self.lose();
        let now = self.clock.now();
        let since = *self.lost_since.get_or_insert(now);
        let error = self.client.failed(status);
        if !error.is_retryable() || now >= since + self.settings.timeout {
            self.lost_since = None;
            return Err(error);
        }
        Ok(())
    }

    fn lose(&mut self) {
        self.stream = Stream::Closed { until: self.clock.now() + self.backoff.next() };
        self.items = Vec::new().into_iter();
        self.records = None;
    }

    fn is_at_end(&self) -> bool {
        self.settings.end.is_some_and(|end| self.next.is_some_and(|next| next >= end))
    }

    fn receive(&mut self, item: WireItem) -> Result<Option<Item>> {
        let topic = self.topic.clone();
        match item {
            WireItem::Started(started) => self.started(&started).map(|()| None),
            WireItem::Batch(batch) => self.batch(batch).map(|()| None),
            WireItem::Gap(gap) => {
                let range = self.range(gap.from, gap.to)?;
                Ok(range.map(|(from, to)| Item::Gap { topic, from, to, why: gap.why }))
            }
            WireItem::Damage(damage) => {
                let range = self.range(damage.from, damage.to)?;
                let (file, message) = (damage.file, damage.message);
                Ok(range.map(|(from, to)| Item::Damage { topic, from, to, file, message }))
            }
            WireItem::CaughtUp(caught_up) => {
                let durable_end = convert::offset("durable_end", caught_up.durable_end)?;
                Ok(Some(Item::CaughtUp { topic, durable_end }))
            }
        }
    }

    fn started(&mut self, started: &read_response::Started) -> Result<()> {
        let topic_id = convert::topic_id("topic_id", &started.topic_id)?;
        let offset = convert::offset("offset", started.offset)?;
        if self.topic_id.is_some_and(|known| known != topic_id) {
            return Err(self.protocol("the topic was deleted and made anew while it was read"));
        }
        self.topic_id = Some(topic_id);
        // After a reconnect it may be further on: retention has removed what comes next.
        self.next = Some(self.next.map_or(offset, |next| next.max(offset)));
        Ok(())
    }

    fn batch(&mut self, batch: read_response::Batch) -> Result<()> {
        let receive_time = convert::time("receive_time_ms", batch.receive_time_ms)?;
        let batch = Batch::checksummed(batch.batch)?;
        self.joins_on(batch.base_offset())?;
        let records = batch.records(caps::DECOMPRESSED_BYTES_MAX)?;
        let (next_offset, epoch) = (batch.next_offset(), batch.epoch());
        self.records = Some(BatchRecords { records, next_offset, epoch, receive_time });
        Ok(())
    }

    /// A range without messages, cut to what was asked for; `None` if nothing is left.
    fn range(&mut self, from: u64, to: u64) -> Result<Option<(Offset, Offset)>> {
        let from = convert::offset("from", from)?;
        let to = convert::offset("to", to)?;
        let next = self.joins_on(from)?;
        let end = self.settings.end.unwrap_or(Offset::MAX);
        self.next = Some(next.max(to));
        let (from, to) = (from.max(next), to.min(end));
        Ok((from < to).then_some((from, to)))
    }

    fn joins_on(&self, from: Offset) -> Result<Offset> {
        let next = self.next.ok_or_else(|| self.protocol("items before the start"))?;
        if from > next {
            return Err(self.protocol("offsets are missing"));
        }
        Ok(next)
    }

    fn protocol(&self, what: &'static str) -> Error {
        Error::Protocol { url: self.client.shared_url().clone(), what }
    }
}

/// Whether a read can't be fulfilled as it is; a start beyond the end is one reason.
fn is_invalid(client: &Client, status: &Status) -> bool {
    client.failed(status.clone()).kind() == ErrorKind::Invalid
}

/// Whether a partition is known to have a log that ends before `start`.
async fn ends_before(client: &Client, topic: &TopicName, start: Offset) -> bool {
    let description = client.admin().describe_topic(topic).await;
    description.is_ok_and(|found| {
        let has_log = found.settings.reliability == Some(Reliability::Reliable);
        has_log && found.durable_end < start
    })
}

impl BatchRecords {
    /// The next record within `[next, end)`.
    fn next(
        &mut self,
        topic: &TopicName,
        next: Option<Offset>,
        end: Option<Offset>,
    ) -> Result<Option<Received>> {
        for item in self.records.by_ref() {
            let (offset, record) = item?;
            if next.is_some_and(|next| offset < next) {
                continue;
            }
            if end.is_some_and(|end| offset >= end) {
                return Ok(None);
            }
            return Ok(Some(Received {
                topic: topic.clone(),
                offset,
                epoch: self.epoch,
                receive_time: self.receive_time,
                message: Message::from_record(&record)?,
            }));
        }
        Ok(None)
    }
}
