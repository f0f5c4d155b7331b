//! What the user of a consumer did, on its way to the link of one partition.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use danube_proto::stream::Range;
use danube_proto::stream::consume_request::{Credit, Refusal, Request, Settle};
use tokio::sync::Notify;

use super::Place;
use crate::Error;
use crate::world::Clock;

/// Acknowledged messages that are not held back for more.
const FULL: u64 = 200;

/// Ranges, and refusals, that go in one request; a broker does not take many more.
const SENT_TOGETHER: usize = 10_000;

/// Messages, and bytes of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Lane {
    clock: Clock,
    linger: Duration,
    window: Window,
    /// The partition's stream of this moment; they are numbered from 1 on.
    stream: AtomicU64,
    /// Of the cursor, as far as the stream has told.
    incarnation: AtomicU64,
    state: Mutex<State>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct State {
    acknowledged: Vec<Range>,
    acknowledged_count: u64,
    refused: Vec<Refusal>,
    /// When the oldest of these was given.
    since: Duration,
    /// Credit that is not on its way.
    granted: Window,
    /// Messages that the broker may send or has sent and that were not taken.
    outstanding: u64,
    /// Messages that may be taken at all.
    left: u64,
    is_closing: bool,
    failure: Option<Error>,
}

impl State {
    fn has_settlements(&self) -> bool {
        self.acknowledged_count > 0 || !self.refused.is_empty()
    }

    fn drop_settlements(&mut self) {
        self.acknowledged.clear();
        self.refused.clear();
        self.acknowledged_count = 0;
    }
}

impl Lane {
    pub(crate) fn new(clock: Clock, linger: Duration, window: Window, left: u64) -> Lane {
        let (stream, incarnation) = (AtomicU64::new(0), AtomicU64::new(0));
        let state = Mutex::new(State { left, ..State::default() });
        Lane { clock, linger, window, stream, incarnation, state, woken: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a lane")
    }

    /// Whether what came on a stream can still be settled.
    pub(crate) fn is_current(&self, stream: u64) -> bool {
        self.stream.load(Ordering::Relaxed) == stream
    }

    /// Whether the subscription was not set anew since something was delivered.
    pub(crate) fn counts(&self, incarnation: u64) -> bool {
        self.incarnation.load(Ordering::Relaxed) == incarnation
    }

    /// Locks it if a stream is the current one.
    fn lock_on(&self, stream: u64) -> Option<MutexGuard<'_, State>> {
        let state = self.lock();
        self.is_current(stream).then_some(state)
    }

    /// Locks it if a delivery can still be settled.
    fn lock_for(&self, place: Place) -> Option<MutexGuard<'_, State>> {
        self.lock_on(place.stream).filter(|_| self.counts(place.incarnation))
    }

    pub(crate) fn acknowledge(&self, place: Place) {
        let Some(mut state) = self.lock_for(place) else { return };
        let is_first = !state.has_settlements();
        if is_first {
            state.since = self.clock.now();
        }
        let offset = place.offset.get();
        match state.acknowledged.last_mut() {
            Some(last) if last.to == offset => last.to += 1,
            _ => state.acknowledged.push(Range { from: offset, to: offset + 1 }),
        }
        state.acknowledged_count += 1;
        if is_first || state.acknowledged_count == FULL {
            self.woken.notify_one();
        }
    }

    pub(crate) fn refuse(&self, place: Place, delay: Duration, reason: &str) {
        let Some(mut state) = self.lock_for(place) else { return };
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let (offset, reason) = (place.offset.get(), reason.to_owned());
        state.refused.push(Refusal { offset, delay_ms, reason });
        self.woken.notify_one();
    }

    /// Whether so much was taken that the broker should know.
    pub(crate) fn is_worth_telling(&self, taken: Window) -> bool {
        taken.messages >= self.window.messages.div_ceil(2) || taken.bytes >= self.window.bytes / 2
    }

    /// So much was taken of what came on a stream, and so many messages may be taken at all.
    pub(crate) fn took(&self, stream: u64, taken: Window, left: u64) {
        let Some(mut state) = self.lock_on(stream) else { return };
        state.left = left;
        state.outstanding = state.outstanding.saturating_sub(taken.messages);
        let messages = self.window.messages.min(left).saturating_sub(state.outstanding);
        state.outstanding += messages;
        state.granted.messages += messages;
        state.granted.bytes += taken.bytes;
        self.woken.notify_one();
    }

    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.woken.notify_one();
    }

    /// Why acknowledgements may not have counted.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    // What follows is the link's.

    /// A new stream begins, with this credit. What was for the one before is void.
    pub(crate) fn begin(&self) -> (u64, Credit) {
        let mut state = self.lock();
        let messages = self.window.messages.min(state.left);
        let (left, is_closing) = (state.left, state.is_closing);
        *state = State { left, is_closing, outstanding: messages, ..State::default() };
        let stream = self.stream.fetch_add(1, Ordering::Relaxed) + 1;
        // A subscription that was made anew begins anew with its incarnations.
        self.incarnation.store(0, Ordering::Relaxed);
        (stream, Credit { messages, bytes: self.window.bytes })
    }

    /// Something was delivered under an incarnation of the cursor. Settlements of what was under an earlier one are void.
    pub(crate) fn delivered_under(&self, incarnation: u64) {
        if self.counts(incarnation) {
            return;
        }
        let mut state = self.lock();
        self.incarnation.store(incarnation, Ordering::Relaxed);
        state.drop_settlements();
    }

    /// The link has ended; why settlements may not have counted.
    pub(crate) fn end(&self, failure: Option<Error>) {
        self.lock().failure = failure;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// When something is to be sent; `None` if there is nothing.
    pub(crate) fn due(&self) -> Option<Duration> {
        let state = self.lock();
        let is_urgent = state.granted != Window::default()
            || state.acknowledged_count >= FULL
            || !state.refused.is_empty();
        match state.has_settlements() {
            _ if is_urgent => Some(Duration::ZERO),
            true if state.is_closing => Some(Duration::ZERO),
            true => Some(state.since + self.linger),
            false => None,
        }
    }

    /// What is to be sent, if it is something; `number` is what settlements get.
    pub(crate) fn request(&self, number: u64) -> Option<Request> {
        let mut state = self.lock();
        if state.granted != Window::default() {
            let Window { messages, bytes } = std::mem::take(&mut state.granted);
            return Some(Request::Credit(Credit { messages, bytes }));
        }
        if !state.has_settlements() {
            return None;
        }
        let (acknowledged, refused) = (first(&mut state.acknowledged), first(&mut state.refused));
        if state.acknowledged.is_empty() {
            state.acknowledged_count = 0;
        }
        Some(Request::Settle(Settle {
            number,
            acknowledged,
            refused,
            incarnation: self.incarnation.load(Ordering::Relaxed),
        }))
    }

    pub(crate) fn has_settlements(&self) -> bool {
        self.lock().has_settlements()
    }

    /// Waits until the consumer is closed. Cancel safe.
    pub(crate) async fn closed(&self) {
        while !self.is_closing() {
            self.woken().await;
        }
    }

    /// Waits until something has changed. Cancel safe.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }
}

/// Takes out as many as are sent together.
fn first<T>(of: &mut Vec<T>) -> Vec<T> {
    let rest = of.split_off(of.len().min(SENT_TOGETHER));
    std::mem::replace(of, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use danube_model::Offset;

    #[test]
    fn what_no_broker_takes_at_once_is_sent_in_turn() {
        let window = Window { messages: 100_000, bytes: 1 };
        let lane = Lane::new(Clock::start(), Duration::ZERO, window, u64::MAX);
        let (stream, _) = lane.begin();
        for offset in (0..50_000).step_by(2).map(Offset::new) {
            lane.acknowledge(Place { partition: 0, stream, incarnation: 0, offset });
        }
        let mut sent = Vec::new();
        while lane.due().is_some() {
            let Some(Request::Settle(settle)) = lane.request(1) else { panic!("it is due") };
            assert!(settle.acknowledged.len() <= SENT_TOGETHER);
            sent.extend(settle.acknowledged.into_iter().map(|range| range.from));
        }
        assert!(sent.into_iter().eq((0..50_000).step_by(2)));
    }
}
