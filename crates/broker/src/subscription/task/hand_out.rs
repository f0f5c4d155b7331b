//! Doing what the engine says: records to outboxes, poison to the dead-letter topic.

use std::ops::Range;

use danube_dispatch::{Action, Delivery, Promise};
use danube_model::{Offset, PoisonPolicy, Record, SubscriptionType, caps, message};

use super::{READ_RETRY, Task};
use crate::error::Result;
use crate::subscription::consumer::{Delivered, MissingReason};
use crate::subscription::dead_letter::DeadLetter;
use crate::subscription::source::{Found, Kept};

impl Task {
    /// Does all that the engine says.
    pub(super) async fn hand_out(&mut self) {
        while let Some(action) = self.engine.poll(self.now()) {
            let (topic, subscription) = (self.topic.name(), &self.key.subscription);
            match action {
                Action::Deliver(delivery) => self.deliver(delivery).await,
                Action::DeadLetter { offset, deliveries, reason } => {
                    if let PoisonPolicy::DeadLetter(to) = &self.policy.poison {
                        let to = to.clone();
                        self.dead_letters.push(DeadLetter { to, offset, deliveries, reason });
                    }
                }
                Action::Dropped { offset, deliveries } => {
                    self.counters.dropped.add(1);
                    tracing::warn!(%topic, %subscription, %offset, deliveries, "a message failed too often and is dropped");
                }
                Action::Blocked { offset, deliveries, reason } => {
                    tracing::warn!(%topic, %subscription, %offset, deliveries, reason, "a message failed too often and blocks its subscription");
                }
            }
        }
        let undelivered = self.engine.first_undelivered();
        self.source.forget_below(undelivered.unwrap_or(self.engine.next_offset()));
    }

    /// A batch was read: the engine learns of its records.
    pub(super) fn offer(&mut self, kept: Kept) {
        let range = kept.range();
        let batch = &kept.batch;
        if self.promise == Promise::AtMostOnce && self.engine.next_offset() < range.start {
            // What comes between did not fit into the buffer.
            self.engine.missing(self.engine.next_offset()..range.start);
        }
        if self.kind != SubscriptionType::KeyShared && batch.record_count() == batch.offset_span() {
            self.engine.offer(range);
        } else {
            let records = batch.records(caps::DECOMPRESSED_BYTES_MAX);
            let records: danube_model::Result<Vec<_>> = records.and_then(Iterator::collect);
            match records {
                Ok(records) => self.offer_records(range, &records),
                // It was read by the broker before it was stored: this is a fault of ours, and a consumer could do nothing.
                Err(error) => {
                    let (topic, subscription) = (self.topic.name(), &self.key.subscription);
                    tracing::error!(%topic, %subscription, base = %range.start, %error, "a stored batch can't be decoded");
                    self.engine.missing(range);
                }
            }
        }
        self.source.keep(kept);
    }

    fn offer_records(&mut self, range: Range<Offset>, records: &[(Offset, Record)]) {
        if self.kind == SubscriptionType::KeyShared {
            let keys = records.iter().map(|(offset, record)| (*offset, key(record)));
            return self.engine.offer_records(range, keys);
        }
        self.engine.offer(range.clone());
        let mut at = range.start;
        for (offset, _) in records {
            self.engine.missing(at..*offset);
            at = *offset + 1;
        }
        self.engine.missing(at..range.end);
    }

    /// Offsets have no records: they are settled, and whoever is there is told.
    pub(super) fn missing(&mut self, range: Range<Offset>, why: MissingReason) {
        let (topic, subscription) = (self.topic.name(), &self.key.subscription);
        tracing::warn!(%topic, %subscription, from = %range.start, to = %range.end, ?why, "a subscription skips what is not there");
        for attached in self.consumers.values() {
            attached.outbox.put(Delivered::Missing { range: range.clone(), why: why.clone() });
        }
        self.counters.missing.add(range.start.distance(range.end));
        self.engine.missing(range);
    }

    async fn deliver(&mut self, delivery: Delivery) {
        let Delivery { consumer, range, deliveries } = delivery;
        let mut at = range.start;
        while at < range.end {
            match self.source.fetch(&(at..range.end)).await {
                Ok(Found::Batch(Kept { batch, receive_time })) if batch.next_offset() > at => {
                    let range = at..range.end.min(batch.next_offset());
                    at = range.end;
                    let incarnation = self.incarnation;
                    let piece =
                        Delivered::Records { batch, range, deliveries, receive_time, incarnation };
                    if let Some(attached) = self.consumers.get(&consumer) {
                        self.counters.delivered(&piece);
                        let has_room = attached.outbox.put(piece);
                        self.engine.set_room(consumer, has_room);
                    }
                }
                Ok(Found::Missing(missing, why)) if missing.end > at => {
                    at = missing.end;
                    self.missing(missing, why);
                }
                result => {
                    self.postpone(at..range.end, result);
                    return;
                }
            }
        }
    }

    /// What was read before can't be read now.
    fn postpone(&mut self, range: Range<Offset>, result: Result<Found>) {
        if let Err(error) = &result {
            self.cannot_read(error);
        }
        self.engine.postpone(range, self.now() + READ_RETRY);
    }
}

/// The routing key, else the producer's name.
fn key(record: &Record) -> &[u8] {
    if let Some(key) = &record.key {
        return key;
    }
    let producer =
        record.headers.iter().find(|header| header.name.as_str() == message::PRODUCER_HEADER);
    producer.and_then(|header| header.value.as_deref()).unwrap_or_default()
}
