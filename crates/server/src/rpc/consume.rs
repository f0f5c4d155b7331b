//! One `Consume` stream: a consumer of a subscription, as long as the stream lasts.
//!
//! ```text
//!  requests ─▶ consumer: settle, grant ─▶ answers ─┐
//!  consumer ─▶ deliveries, while there is credit ──┴─▶ items, in order ─▶ responses
//! ```
//!
//! That settlements hold is told with what is sent next, or alone after a moment: most often there is something to go with.
//!
//! Requests are taken also while the client takes no responses, so that a client which only settles goes on. Nothing is taken
//! from the consumer before what was taken is sent; the rest waits in the subscription.

use std::future::Future;
use std::mem;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use danube_broker::{
    Broker, Consumer, Delivered, Error, MissingReason, Settle, Subscribe, Topic, Window,
};
use danube_env::Clock;
use danube_model::{Offset, SubscriptionName, SubscriptionType};
use danube_proto::convert;
use danube_proto::stream::consume_request::{self, Request};
use danube_proto::stream::consume_response::{self, Item, item};
use danube_proto::stream::{ConsumeRequest, ConsumeResponse};
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{status, topics};
use crate::caps;
use crate::sessions::Stopping;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
type Responses = mpsc::Sender<Result<ConsumeResponse, Status>>;

/// Serves a stream until the client ends it, breaks it, another consumer takes over, or the broker stops.
pub(crate) async fn run(
    broker: Broker,
    clock: Arc<dyn Clock>,
    mut stopping: Stopping,
    mut requests: Streaming<ConsumeRequest>,
    responses: Responses,
) {
    let opened = tokio::select! {
        biased;
        () = stopping.wait() => Err(status::stopping()),
        () = responses.closed() => return,
        opened = open(&broker, clock, &mut requests) => opened,
    };
    let end = match opened {
        Ok(consuming) => consuming.run(stopping, requests, &responses).await,
        Err(status) => Err(status),
    };
    if let Err(status) = end {
        // The client may be gone.
        let _ = responses.send(Err(status)).await;
    }
}

/// What the first request asks for.
struct Plan {
    topic: danube_model::TopicName,
    subscribe: Subscribe,
    credit: consume_request::Credit,
}

impl Plan {
    fn decode(open: consume_request::Open) -> danube_proto::Result<Plan> {
        let kind = convert::subscription_type("type", open.r#type)?;
        let start = open.start.map(|start| convert::start("start", Some(start))).transpose()?;
        Ok(Plan {
            topic: convert::topic_name("topic", &open.topic)?,
            subscribe: Subscribe {
                subscription: convert::subscription_name("subscription", &open.subscription)?,
                consumer: convert::consumer_name("consumer", &open.consumer)?,
                kind: kind.unwrap_or(SubscriptionType::Exclusive),
                filters: open.filters,
                start: topics::start(start.unwrap_or(convert::Start::Latest)),
            },
            credit: open.credit.unwrap_or_default(),
        })
    }
}

async fn open(
    broker: &Broker,
    clock: Arc<dyn Clock>,
    requests: &mut Streaming<ConsumeRequest>,
) -> Result<Consuming, Status> {
    let first = requests.message().await?.and_then(|first| first.request);
    let Some(Request::Open(open)) = first else {
        return Err(status::not_opened("the first request does not open"));
    };
    let filters = &open.filters;
    if filters.len() > caps::FILTERS_MAX
        || filters.iter().any(|filter| filter.len() > caps::FILTER_BYTES_MAX)
    {
        return Err(status::not_opened("too many filters, or a filter that is too long"));
    }
    let Plan { topic, subscribe, credit } =
        Plan::decode(open).map_err(|error| status::invalid(&error))?;
    if !subscribe.filters.is_empty() && subscribe.kind != SubscriptionType::KeyShared {
        let name = &subscribe.subscription;
        let what = format!("filters for subscription {name}, which is not key-shared");
        return Err(status::unsupported(&what));
    }
    let attach = async {
        let topic = broker.topic(&topic)?;
        let subscription = subscribe.subscription.clone();
        let id = topic.subscribe(subscribe).await?;
        let consumer = match broker.attach_consumer(id, Window::Credit(credit.messages)).await {
            // One of the same name was faster.
            Err(Error::ConsumerUnknown { .. }) => Err(Error::Replaced),
            attached => attached,
        }?;
        let opened = item::Item::Opened(consume_response::Opened {
            topic_id: Bytes::copy_from_slice(topic.id().as_bytes()),
            consumer_id: consumer.id().get(),
        });
        Ok(Consuming {
            topic,
            subscription,
            consumer,
            bytes_left: credit.bytes,
            last_batch: None,
            items: vec![opened],
            has_deliveries: false,
            held: None,
            clock,
        })
    };
    attach.await.map_err(|error: Error| status::status(&error))
}

/// An open stream.
struct Consuming {
    topic: Topic,
    subscription: SubscriptionName,
    consumer: Consumer,
    /// Of the client's credit.
    bytes_left: u64,
    /// The batch that was sent last.
    last_batch: Option<Bytes>,
    /// To be sent.
    items: Vec<item::Item>,
    /// Whether there are deliveries among them.
    has_deliveries: bool,
    /// While what is to be sent waits for something to go with.
    held: Option<Sleep>,
    clock: Arc<dyn Clock>,
}

impl Consuming {
    /// `Ok` if the client ended the stream; else how it is to end.
    async fn run(
        mut self,
        mut stopping: Stopping,
        mut requests: Streaming<ConsumeRequest>,
        responses: &Responses,
    ) -> Result<(), Status> {
        loop {
            let is_due = !self.items.is_empty() && (self.held.is_none() || self.items.len() > 1);
            let may_take = !self.has_deliveries && self.bytes_left > 0;
            let has_room = self.items.len() < caps::CONSUME_ITEMS_WAITING_MAX;
            tokio::select! {
                biased;
                () = stopping.wait() => {
                    self.settle_what_came(&mut requests).await;
                    self.items.retain(|item| matches!(item, item::Item::Settled(_)));
                    // A client that takes nothing is not waited for.
                    let _ = responses.try_send(Ok(self.response()));
                    return Err(status::stopping());
                }
                () = responses.closed() => return Ok(()),
                Ok(room) = responses.reserve(), if is_due => room.send(Ok(self.response())),
                request = requests.message(), if has_room => match request? {
                    Some(request) => self.request(request).await?,
                    None => break,
                },
                taken = self.consumer.next(), if may_take => {
                    self.take(taken.map_err(|error| status::status(&error))?);
                }
                () = held(&mut self.held), if self.held.is_some() => self.held = None,
            }
        }
        let last = self.response();
        self.consumer.leave().await;
        // The client may be gone.
        let _ = responses.send(Ok(last)).await;
        Ok(())
    }

    /// What the client did before it heard of the stop counts.
    async fn settle_what_came(&mut self, requests: &mut Streaming<ConsumeRequest>) {
        while let Some(Ok(Some(request))) = requests.message().now_or_never() {
            if !matches!(request.request, Some(Request::Settle(_)))
                || self.request(request).await.is_err()
            {
                return;
            }
        }
    }

    fn response(&mut self) -> ConsumeResponse {
        self.has_deliveries = false;
        self.held = None;
        ConsumeResponse { items: mem::take(&mut self.items).into_iter().map(wire).collect() }
    }

    async fn request(&mut self, request: ConsumeRequest) -> Result<(), Status> {
        // One of a kind that only a newer client knows can't be passed over: it may need an answer.
        match request.request.ok_or_else(|| status::protocol("an empty request"))? {
            Request::Open(_) => Err(status::protocol("the stream is open")),
            Request::Credit(credit) => {
                self.consumer.grant(credit.messages);
                self.bytes_left = self.bytes_left.saturating_add(credit.bytes);
                Ok(())
            }
            Request::Settle(settle) => self.settle(settle).await,
            Request::Seek(seek) => {
                let to = convert::start("to", seek.to).map_err(|error| status::invalid(&error))?;
                let offset = self.topic.seek(&self.subscription, topics::start(to)).await;
                let offset = offset.map_err(|error| status::status(&error))?.get();
                self.items.push(item::Item::Sought(consume_response::Sought { offset }));
                Ok(())
            }
        }
    }

    async fn settle(&mut self, settle: consume_request::Settle) -> Result<(), Status> {
        let parts = settle.acknowledged.len() + settle.refused.len();
        if parts > caps::SETTLEMENTS_PER_REQUEST_MAX {
            return Err(status::protocol("too many ranges and refusals in one settlement"));
        }
        let decoded = decode(&settle).map_err(|error| status::invalid(&error))?;
        for what in decoded {
            let settled = self.consumer.settle(what, settle.incarnation).await;
            // A consumer that has ended says why when it is asked for more.
            if settled.is_err() {
                let end = self.consumer.next().await.err().unwrap_or(Error::Replaced);
                return Err(status::status(&end));
            }
        }
        let number = settle.number;
        if self.items.is_empty() {
            self.held = Some(self.clock.sleep(caps::SETTLED_HELD_MAX));
        }
        match self.items.last_mut() {
            Some(item::Item::Settled(settled)) => settled.number = number,
            _ => self.items.push(item::Item::Settled(consume_response::Settled { number })),
        }
        Ok(())
    }

    fn take(&mut self, taken: Vec<Delivered>) {
        self.has_deliveries = true;
        for delivered in taken {
            let next = match delivered {
                Delivered::Missing { range, why } => missing(range, why),
                Delivered::Records { batch, range, deliveries, receive_time, incarnation } => {
                    // The same batch is the same memory.
                    let bytes = batch.bytes();
                    let is_last = self.last_batch.as_ref().is_some_and(|last| {
                        (last.as_ptr(), last.len()) == (bytes.as_ptr(), bytes.len())
                    });
                    let batch = if is_last { Bytes::new() } else { bytes.clone() };
                    self.bytes_left = self.bytes_left.saturating_sub(batch.len() as u64);
                    self.last_batch = Some(bytes.clone());
                    item::Item::Delivery(consume_response::Delivery {
                        batch,
                        from: range.start.get(),
                        to: range.end.get(),
                        delivery_count: deliveries,
                        receive_time_ms: receive_time.get(),
                        incarnation,
                    })
                }
            };
            self.items.push(next);
        }
    }
}

async fn held(until: &mut Option<Sleep>) {
    match until {
        Some(until) => until.await,
        None => std::future::pending().await,
    }
}

fn decode(settle: &consume_request::Settle) -> danube_proto::Result<Vec<Settle>> {
    let mut decoded = Vec::with_capacity(1 + settle.refused.len());
    let ranges = settle.acknowledged.iter();
    let ranges = ranges.map(|range| convert::range("acknowledged", range.from, range.to));
    let ranges = merged(ranges.collect::<Result<_, _>>()?);
    if !ranges.is_empty() {
        decoded.push(Settle::Acknowledge(ranges));
    }
    for refusal in &settle.refused {
        decoded.push(Settle::Refuse {
            offset: convert::offset("refused", refusal.offset)?,
            delay_ms: refusal.delay_ms,
            reason: refusal.reason.clone(),
        });
    }
    Ok(decoded)
}

/// The same offsets in as few ranges as there can be, rising: each costs the subscription a search.
fn merged(mut ranges: Vec<Range<Offset>>) -> Vec<Range<Offset>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    ranges
}

fn missing(range: Range<Offset>, why: MissingReason) -> item::Item {
    let Range { start: from, end: to } = range;
    match why {
        MissingReason::Gap(reason) => item::Item::Gap(topics::gap(from, to, reason.as_str())),
        MissingReason::Trimmed => item::Item::Gap(topics::gap(from, to, "retention")),
        MissingReason::Damage(damage) => item::Item::Damage(topics::damage(from, to, &damage)),
    }
}

fn wire(item: item::Item) -> Item {
    Item { item: Some(item) }
}

#[cfg(test)]
mod tests {
    use danube_proto::stream::Range as WireRange;

    use super::*;

    /// What is acknowledged by these.
    fn acknowledged(ranges: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        let ranges = ranges.into_iter().map(|(from, to)| WireRange { from, to });
        let acknowledged = ranges.collect();
        let settle = consume_request::Settle { acknowledged, ..Default::default() };
        match &decode(&settle).unwrap()[..] {
            [] => Vec::new(),
            [Settle::Acknowledge(ranges)] => {
                ranges.iter().map(|range| (range.start.get(), range.end.get())).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ten_thousand_ranges_that_touch_are_one_in_whatever_order() {
        let singles = (0..10_000).map(|offset| (offset, offset + 1));
        assert_eq!(acknowledged(singles.clone()), [(0, 10_000)]);
        assert_eq!(acknowledged(singles.clone().rev()), [(0, 10_000)]);
        let shuffled = (0..10_007).map(|number| number * 4_999 % 10_007);
        assert_eq!(acknowledged(shuffled.map(|offset| (offset, offset + 1))), [(0, 10_007)]);
        assert_eq!(acknowledged(singles.flat_map(|one| [one; 3])), [(0, 10_000)]);
        assert_eq!(acknowledged((1..10_000).map(|to| (0, to))), [(0, 9_999)]);
    }

    #[test]
    fn what_is_merged_acknowledges_nothing_else() {
        assert_eq!(
            acknowledged([(5, 7), (0, 2), (2, 3), (6, 9), (11, 12)]),
            [(0, 3), (5, 9), (11, 12)]
        );
        assert_eq!(acknowledged([]), []);
    }
}
