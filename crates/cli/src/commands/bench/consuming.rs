//! One consumer under load.
//!
//! It takes and acknowledges what is at hand, up to a limit, and then reads the clock once. What that blurs makes a latency
//! longer, never shorter.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use danube_client::{Consumed, Consumer};
use danube_env::Clock;
use tokio::sync::watch;
use tokio::task::yield_now;

use super::meter::{Meter, Sum};
use super::payload::Stamp;
use crate::failure::{Failure, Result};

/// Messages of a burst at most.
const BURST_MESSAGES: usize = 256;

/// See the module's text.
pub(super) struct Consuming {
    pub(super) consumer: Consumer,
    /// Only messages of this measurement count; without it all do.
    pub(super) run: Option<u64>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) meter: Arc<Meter>,
}

/// What is known of a message that was taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    stamp: Option<Stamp>,
    bytes: u64,
}

impl Consuming {
    /// Takes messages until it is told to stop.
    pub(super) async fn run(mut self) {
        let mut sum = Sum::new();
        let consumed = self.consume(&mut sum).await;
        let closed = self.consumer.close().await.map_err(Failure::from);
        self.meter.end(&sum, consumed.and(closed));
    }

    async fn consume(&mut self, sum: &mut Sum) -> Result<()> {
        let mut stopped = self.meter.stopped();
        let mut burst: Vec<Taken> = Vec::with_capacity(BURST_MESSAGES);
        while self.fill(&mut burst, &mut stopped).await? {
            let now = self.clock.monotonic();
            let count = self.meter.add(burst.len() as u64);
            let mut bytes = 0;
            for taken in burst.drain(..).take(count as usize) {
                bytes += taken.bytes;
                // One of the future was sent before this machine was started.
                if let Some(latency) = taken.stamp.and_then(|stamp| now.checked_sub(stamp.due)) {
                    sum.latencies.record(latency);
                }
                sum.last = now;
            }
            self.meter.add_bytes(bytes);
            // There may always be more at hand.
            yield_now().await;
        }
        Ok(())
    }

    /// Waits for messages, takes those that are at hand, and acknowledges them. False when it was told to stop.
    async fn fill(
        &mut self,
        burst: &mut Vec<Taken>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<bool> {
        if *stopped.borrow() {
            return Ok(false);
        }
        for taken in 0..BURST_MESSAGES {
            let next = {
                let mut next = pin!(self.consumer.next());
                tokio::select! {
                    biased;
                    next = &mut next => next?,
                    () = ready(()), if taken > 0 => break,
                    _ = stopped.wait_for(|is_stopped| *is_stopped) => return Ok(false),
                }
            };
            match next {
                Some(Consumed::Message(delivered)) => {
                    self.consumer.ack(delivered.place);
                    burst.extend(Taken::of(&delivered.received.message.payload, self.run));
                }
                Some(Consumed::Gap { .. }) => {}
                Some(Consumed::Damage { topic, from, to, .. }) => {
                    let text = format!("offsets {from} to {to} of {topic} are damaged");
                    return Err(Failure::new(text));
                }
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl Taken {
    /// `None` for what another measurement sent, or who else, if `run` says which one counts.
    fn of(payload: &[u8], run: Option<u64>) -> Option<Taken> {
        let stamp = Stamp::of(payload);
        let counts = run.is_none() || stamp.map(|stamp| stamp.run) == run;
        counts.then_some(Taken { stamp, bytes: payload.len() as u64 })
    }
}
