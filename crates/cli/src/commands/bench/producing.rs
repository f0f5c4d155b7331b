//! One producer under load.
//!
//! It sends in bursts, and reads the clock once for each burst and once for all acknowledgements that came together. What that
//! blurs makes a latency longer, never shorter.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use danube_client::{Delivery, Message, Producer, TimeMs};
use danube_env::Clock;
use tokio::sync::watch;

use super::meter::{Meter, Sum};
use super::payload::{Payloads, Stamp};
use super::plan::{Plan, Step};
use crate::failure::Result;

/// Messages of a burst at most.
const BURST_MESSAGES: usize = 32;

/// See the module's text.
pub(super) struct Producing {
    pub(super) producer: Producer,
    pub(super) plan: Plan,
    pub(super) payloads: Payloads,
    /// What stamps say; without it messages have none.
    pub(super) run: Option<u64>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) meter: Arc<Meter>,
}

/// A message that is not acknowledged yet, and when it was due.
type InFlight = (Duration, Delivery);

impl Producing {
    /// Sends according to plan, until all is acknowledged or one message fails.
    pub(super) async fn run(mut self) {
        let mut sum = Sum::new();
        let mut result = self.produce(&mut sum).await;
        sum.unsent = self.plan.unsent();
        if result.is_ok() {
            result = self.producer.close().await.map_err(Into::into);
        }
        self.meter.end(&sum, result);
    }

    async fn produce(&mut self, sum: &mut Sum) -> Result<()> {
        let mut in_flight: VecDeque<InFlight> = VecDeque::new();
        let mut stopped = Some(self.meter.stopped());
        let mut settled = Vec::new();
        loop {
            let is_first_settled = match self.burst(&mut in_flight).await? {
                Step::Done => return Ok(()),
                Step::Send { .. } => false,
                Step::Settle => self.wait(&mut in_flight, None, &mut stopped).await?,
                Step::Wait { until } => {
                    self.wait(&mut in_flight, Some(until), &mut stopped).await?
                }
            };
            if is_first_settled {
                settled.extend(in_flight.pop_front().map(|(due, _)| due));
            }
            collect(&mut in_flight, &mut settled).await?;
            if settled.is_empty() {
                continue;
            }
            let now = self.clock.monotonic();
            let count = settled.len() as u64;
            for due in settled.drain(..) {
                sum.latencies.record(now.saturating_sub(due));
            }
            sum.last = now;
            self.meter.add(count);
            self.meter.add_bytes(count * self.payloads.size() as u64);
        }
    }

    /// Sends what is to be sent, but not too much at once; returns the step behind that.
    async fn burst(&mut self, in_flight: &mut VecDeque<InFlight>) -> Result<Step> {
        let now = self.clock.monotonic();
        let publish_time = TimeMs::new(self.clock.wall_ms());
        for _ in 0..BURST_MESSAGES {
            let step = self.plan.step(now, in_flight.len());
            let Step::Send { due } = step else { return Ok(step) };
            let payload = match self.run {
                Some(run) => self.payloads.stamped(Stamp { run, due }),
                None => self.payloads.next(),
            };
            let message = Message { payload, publish_time, ..Message::default() };
            in_flight.push_back((due, self.producer.send(message).await?));
        }
        Ok(Step::Send { due: now })
    }

    /// Waits until the first message is acknowledged, which it tells; or until a time, or the stop, which ends the plan and is told
    /// once.
    async fn wait(
        &mut self,
        in_flight: &mut VecDeque<InFlight>,
        until: Option<Duration>,
        stopped: &mut Option<watch::Receiver<bool>>,
    ) -> Result<bool> {
        let now = self.clock.monotonic();
        let first = async {
            match in_flight.front_mut() {
                Some((_, delivery)) => delivery.await,
                None => pending().await,
            }
        };
        let due = async {
            match until {
                Some(until) => self.clock.sleep(until.saturating_sub(now)).await,
                None => pending().await,
            }
        };
        let stop = async {
            match stopped {
                Some(stopped) => drop(stopped.wait_for(|is_stopped| *is_stopped).await),
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            first = first => {
                first?;
                return Ok(true);
            }
            () = stop => {}
            () = due => return Ok(false),
        }
        *stopped = None;
        self.plan.stop(now);
        Ok(false)
    }
}

/// Takes out the messages that are acknowledged, up to the first one that is not.
async fn collect(in_flight: &mut VecDeque<InFlight>, settled: &mut Vec<Duration>) -> Result<()> {
    while let Some((due, delivery)) = in_flight.front_mut() {
        tokio::select! {
            biased;
            acknowledged = delivery => drop(acknowledged?),
            () = ready(()) => return Ok(()),
        }
        settled.push(*due);
        in_flight.pop_front();
    }
    Ok(())
}
