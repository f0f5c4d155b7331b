//! The stream of a consumer in one partition: made, used, and made again.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use danube_model::Batch;
use danube_proto::convert;
use danube_proto::stream::consume_request::{Open, Request};
use danube_proto::stream::consume_response::{Delivery, item};
use danube_proto::stream::{ConsumeRequest, ConsumeResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::delivery::{Arrivals, Arrived, Piece};
use super::inbox::Inbox;
use super::lane::Lane;
use crate::backoff::Backoff;
use crate::world::{Clock, random};
use crate::{Client, Error, Result};

/// Requests on their way into the HTTP/2 stream; more are gathered meanwhile.
const REQUESTS_MAX: usize = 4;
/// For the stream to come up, and for its end once the consumer is closed.
const UP_TIMEOUT: Duration = Duration::from_secs(15);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module's text.
pub(crate) struct Link {
    client: Client,
    clock: Clock,
    timeout: Duration,
    open: Open,
    lane: Arc<Lane>,
    inbox: Arc<Inbox>,
    backoff: Backoff,
    /// Since when the broker is out of reach.
    lost_since: Option<Duration>,
    was_opened: bool,
    /// Numbers of the last settlements that were sent on this stream and that the broker has noted.
    sent: u64,
    noted: u64,
    /// Why settlements are void that were given on the stream before, until the next one is open.
    void: Option<Error>,
}

/// A stream that is up.
struct Up {
    stream: u64,
    requests: mpsc::Sender<ConsumeRequest>,
    responses: Streaming<ConsumeResponse>,
    /// The batch that came last.
    batch: Option<Batch>,
}

impl Link {
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        timeout: Duration,
        open: Open,
        lane: Arc<Lane>,
        inbox: Arc<Inbox>,
    ) -> Link {
        Link {
            client,
            clock,
            timeout,
            open,
            lane,
            inbox,
            backoff: Backoff::new(random()),
            lost_since: None,
            was_opened: false,
            sent: 0,
            noted: 0,
            void: None,
        }
    }

    /// Runs until the consumer is closed, or the broker refuses it, or is out of reach for too long.
    pub(crate) async fn run(mut self, partition: usize) {
        while !self.lane.is_closing() {
            let Err(error) = self.consume(partition).await else { break };
            if self.noted < self.sent || self.lane.has_settlements() {
                self.void = Some(error.clone());
            }
            let now = self.clock.now();
            let was_lost = self.lost_since.is_some();
            let since = *self.lost_since.get_or_insert(now);
            // What was damaged on the way is sent again.
            let may_work = error.is_retryable() || matches!(error, Error::Model(_));
            if !may_work || now >= since + self.timeout {
                self.inbox.fail(error);
                break;
            }
            if !was_lost {
                self.inbox.lost(&error);
            }
            tokio::select! {
                biased;
                () = self.lane.closed() => {}
                () = self.clock.sleep_until(now + self.backoff.next()) => {}
            }
        }
        self.lane.end(self.void);
    }

    /// One stream from its beginning to its end; `Ok` if the consumer was closed.
    async fn consume(&mut self, partition: usize) -> Result<()> {
        let (stream, credit) = self.lane.begin();
        self.inbox.forget(partition);
        (self.sent, self.noted) = (0, 0);
        let open = Open { credit: Some(credit), ..self.open.clone() };
        let mut up = tokio::select! {
            biased;
            up = rise(&self.client, stream, open) => up?,
            () = self.lane.closed() => return Ok(()),
        };
        let mut close_by = None;
        loop {
            let now = self.clock.now();
            let due = self.lane.due();
            if self.lane.is_closing() {
                if due.is_none() && self.noted == self.sent {
                    return leave(up).await;
                }
                close_by.get_or_insert(now + CLOSE_TIMEOUT);
            }
            if close_by.is_some_and(|by| now >= by) {
                return Err(self.client.failed(Status::deadline_exceeded("no answer in time")));
            }
            let may_send = due.is_some_and(|due| due <= now);
            let wake_at = if may_send { close_by } else { due.into_iter().chain(close_by).min() };
            // Responses first: credit bounds them.
            tokio::select! {
                biased;
                response = up.responses.message() => {
                    let response = response.map_err(|status| self.client.failed(status))?;
                    let ended = || self.client.failed(Status::unavailable("the broker ended the stream"));
                    let response = response.ok_or_else(ended)?;
                    self.receive(partition, up.stream, &mut up.batch, response)?;
                }
                // When the other end is gone, `responses` says why.
                Ok(room) = up.requests.reserve(), if may_send => {
                    if let Some(request) = self.lane.request(self.sent + 1) {
                        self.sent += u64::from(matches!(request, Request::Settle(_)));
                        room.send(ConsumeRequest { request: Some(request) });
                    }
                }
                () = self.lane.woken() => {}
                () = sleep_until(&self.clock, wake_at) => {}
            }
        }
    }

    fn receive(
        &mut self,
        partition: usize,
        stream: u64,
        last_batch: &mut Option<Batch>,
        response: ConsumeResponse,
    ) -> Result<()> {
        let mut arrived = Vec::with_capacity(response.items.len());
        // An item of a kind that only a newer broker knows is passed over.
        for item in response.items.into_iter().filter_map(|item| item.item) {
            match item {
                item::Item::Opened(_) => self.opened(),
                item::Item::Settled(settled) => self.noted = settled.number,
                item::Item::Sought(_) => {}
                item::Item::Delivery(delivery) => {
                    self.lane.delivered_under(delivery.incarnation);
                    let piece = self.piece(last_batch, delivery)?;
                    arrived.push(Arrived::Piece(piece));
                }
                item::Item::Gap(gap) => {
                    let Range { start: from, end: to } = convert::range("gap", gap.from, gap.to)?;
                    arrived.push(Arrived::Gap { from, to, why: gap.why });
                }
                item::Item::Damage(damage) => {
                    let range = convert::range("damage", damage.from, damage.to)?;
                    let Range { start: from, end: to } = range;
                    let (file, message) = (damage.file, damage.message);
                    arrived.push(Arrived::Damage { from, to, file, message });
                }
            }
        }
        if !arrived.is_empty() {
            self.backoff.reset();
            let items = arrived.into_iter();
            self.inbox.put(Arrivals { partition, stream, items });
        }
        Ok(())
    }

    fn opened(&mut self) {
        if self.lost_since.take().is_some() {
            self.inbox.found();
        }
        // What the void settlements were for comes again.
        self.void = None;
        if !self.was_opened {
            self.was_opened = true;
            self.inbox.partition_opened();
        }
    }

    fn piece(&self, last: &mut Option<Batch>, delivery: Delivery) -> Result<Piece> {
        let range = convert::range("delivery", delivery.from, delivery.to)?;
        let receive_time = convert::time("receive_time_ms", delivery.receive_time_ms)?;
        let sent_bytes = delivery.batch.len() as u64;
        if !delivery.batch.is_empty() {
            *last = Some(Batch::checksummed(delivery.batch)?);
        }
        let protocol = |what| Error::Protocol { url: self.client.shared_url().clone(), what };
        let batch = last.clone().ok_or_else(|| protocol("a delivery without a batch"))?;
        if range.start < batch.base_offset() || range.end > batch.next_offset() {
            return Err(protocol("a delivery is not in its batch"));
        }
        let (delivery_count, incarnation) = (delivery.delivery_count, delivery.incarnation);
        Ok(Piece { batch, range, delivery_count, receive_time, incarnation, sent_bytes })
    }
}

async fn rise(client: &Client, stream: u64, open: Open) -> Result<Up> {
    let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
    let open = ConsumeRequest { request: Some(Request::Open(open)) };
    requests.try_send(open).expect("the channel is new and has room");
    let mut calls = client.stream();
    let responses = calls.consume(ReceiverStream::new(receiver));
    let late = |_| client.failed(Status::deadline_exceeded("no answer in time"));
    let responses = tokio::time::timeout(UP_TIMEOUT, responses).await.map_err(late)?;
    let responses = responses.map_err(|status| client.failed(status))?.into_inner();
    Ok(Up { stream, requests, responses, batch: None })
}

/// Ends the stream. When the broker has ended it too, another consumer can have the place.
async fn leave(up: Up) -> Result<()> {
    let Up { requests, mut responses, .. } = up;
    drop(requests);
    let ended = async { while let Ok(Some(_)) = responses.message().await {} };
    // All is settled: a broker that does not answer changes nothing.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, ended).await;
    Ok(())
}

async fn sleep_until(clock: &Clock, time: Option<Duration>) {
    match time {
        Some(time) => clock.sleep_until(time).await,
        None => std::future::pending().await,
    }
}
