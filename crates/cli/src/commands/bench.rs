//! `danube bench`: load on a broker, and what it came to.
//!
//! ```text
//!  plan: when is what due ─▶ producing ─▶ broker ─▶ consuming
//!                                │ acknowledged        │ taken, and acknowledged
//!                                └──▶ meter ─▶ figures ◀─┘
//! ```
//!
//! Latencies count from when a message was due, so that a broker that pauses pays for all that should have been sent meanwhile.
//!
//! Reading order: `shape`, `plan`, `figures` and `payload`, which are pure; `meter`, `producing`, `consuming`, `topics`.

mod consuming;
mod figures;
mod meter;
mod payload;
mod plan;
mod producing;
mod shape;
mod topics;

use std::future::Future;
use std::io::IsTerminal;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use danube_client::{Start, SubscriptionType};
use danube_env::Env;
use danube_env::spawn::Running;

use self::consuming::Consuming;
use self::figures::Report;
use self::meter::{Meter, Sum};
use self::payload::Payloads;
use self::plan::{Pace, Plan};
use self::producing::Producing;
use self::shape::{Mode, Shape};
use self::topics::Topics;
use crate::arguments::{BenchCommand, BenchLoad, BenchRun, Format};
use crate::failure::{Failure, Result};
use crate::signals::Signals;
use crate::terminal::{self, Output};

/// After the end, for what is in flight to be acknowledged and to arrive.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The same after a signal.
const INTERRUPTED_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two lines that say how it goes.
const PROGRESS_PERIOD: Duration = Duration::from_secs(1);
/// What a message takes in the client beside its payload; an estimate that is never too small.
const MESSAGE_OVERHEAD_BYTES: usize = 128;

/// Measures, and shows what was measured, also if it is ended early by a signal or a failure. Then it removes what it made.
pub(crate) async fn run(command: BenchCommand) -> Result<()> {
    let (mode, topics, load, consumers, rate, run) = match command {
        BenchCommand::Produce { topics, load, rate, run } => {
            (Mode::Produce, topics, load, None, rate, run)
        }
        BenchCommand::Consume { topics, load, consumers, run } => {
            (Mode::Consume, topics, load, consumers, None, run)
        }
        BenchCommand::EndToEnd { topics, load, consumers, rate, run } => {
            (Mode::EndToEnd, topics, load, consumers, rate, run)
        }
    };
    let shape = Shape::of(mode, &topics, &load, consumers, &run)?;
    let env = Env::real();
    let signals = Signals::listen("what it created is left")?;
    let id = env.random.next_u64();
    let topics = Topics::open(&run.common.connection.client()?, &topics, id).await?;
    let is_followed = run.progress || std::io::stderr().is_terminal();
    let mut bench =
        Bench { env, id, topics, load, run, shape, rate, signals, is_followed, is_ended: false };
    let measured = match mode {
        Mode::Produce => bench.produce().await,
        Mode::Consume => bench.consume().await,
        Mode::EndToEnd => bench.end_to_end().await,
    };
    let shown = measured.and_then(|measured| measured.show(bench.run.common.output));
    shown.and(bench.topics.close().await)
}

/// A measurement.
struct Bench {
    env: Env,
    /// It goes into names and stamps.
    id: u64,
    topics: Topics,
    load: BenchLoad,
    run: BenchRun,
    shape: Shape,
    /// Messages per second.
    rate: Option<f64>,
    signals: Signals,
    /// Whether to say how it goes.
    is_followed: bool,
    /// Whether a signal has come.
    is_ended: bool,
}

/// What it came to.
struct Measured {
    report: Report,
    /// Messages that were due and not sent.
    unsent: u64,
    failure: Option<Failure>,
}

/// Producers or consumers at work.
struct Workers {
    /// What they do to messages.
    verb: &'static str,
    /// When they began.
    start: Duration,
    meter: Arc<Meter>,
    running: Vec<Running>,
}

impl Bench {
    async fn produce(&mut self) -> Result<Measured> {
        let duration = self.shape.duration;
        let mut producers = self.start_producers(self.rate, Some(self.id), duration).await?;
        self.finish(&mut producers, Duration::MAX).await;
        let (meter, sum) = (&producers.meter, producers.meter.take());
        let time = sum.last.saturating_sub(producers.start);
        let report = Report::new(meter.messages(), meter.bytes(), time, Some(&sum.latencies), None);
        Ok(Measured { report, unsent: sum.unsent, failure: sum.failure })
    }

    async fn consume(&mut self) -> Result<Measured> {
        let mut count = self.shape.count;
        if self.topics.are_own {
            // Without stamps: the age of a backlog says nothing.
            let mut producers = self.start_producers(None, None, Duration::MAX).await?;
            self.finish(&mut producers, Duration::MAX).await;
            if let Some(failure) = producers.meter.take().failure {
                return Err(failure);
            }
            count = if self.is_ended { 0 } else { producers.meter.messages() };
        }
        let mut consumers = self.start_consumers(Start::Earliest, None, count).await?;
        let until = consumers.start.saturating_add(self.shape.duration);
        self.finish(&mut consumers, until).await;
        let (meter, sum) = (&consumers.meter, consumers.meter.take());
        let time = sum.last.saturating_sub(consumers.start);
        let report = Report::new(meter.messages(), meter.bytes(), time, None, Some(&sum.latencies));
        Ok(Measured { report, unsent: 0, failure: sum.failure })
    }

    async fn end_to_end(&mut self) -> Result<Measured> {
        let mut consumers = self.start_consumers(Start::Latest, Some(self.id), u64::MAX).await?;
        let duration = self.shape.duration;
        let mut producers = self.start_producers(self.rate, Some(self.id), duration).await?;
        self.finish(&mut producers, Duration::MAX).await;
        let acknowledged = producers.meter.messages();
        consumers.meter.aim(acknowledged);
        let until = self.now() + self.settle_timeout();
        self.finish(&mut consumers, until).await;
        let (meter, sent) = (&consumers.meter, producers.meter.take());
        let taken = meter.take();
        let time = taken.last.saturating_sub(producers.start);
        let (ack, end_to_end) = (Some(&sent.latencies), Some(&taken.latencies));
        let report = Report::new(meter.messages(), meter.bytes(), time, ack, end_to_end);
        let missing = acknowledged - meter.messages();
        let lost = (missing > 0 && !self.is_ended).then(|| {
            let text = format!("{missing} of {acknowledged} messages did not arrive");
            Failure::new(format!("{text} within {SETTLE_TIMEOUT:?}"))
        });
        let failure = sent.failure.or(taken.failure).or(lost);
        Ok(Measured { report, unsent: sent.unsent, failure })
    }

    /// Opens all producers, then starts them together. Messages have stamps if `run` says which.
    async fn start_producers(
        &self,
        rate: Option<f64>,
        run: Option<u64>,
        duration: Duration,
    ) -> Result<Workers> {
        let Shape { producers, message_bytes, batch_bytes, in_flight_max, .. } = self.shape;
        let mut opened = Vec::new();
        for (topic, _) in self.topics.names.iter().cycle().zip(0..producers) {
            // A connection for each.
            let opening = self.run.common.connection.client()?.producer(topic.as_str())?;
            let room_bytes = in_flight_max * (message_bytes + MESSAGE_OVERHEAD_BYTES);
            let opening = opening.create(None).batch_bytes(batch_bytes);
            let opening = opening.compression(self.load.compression.unwrap_or_default());
            let opening = opening.unconfirmed_messages(in_flight_max).unconfirmed_bytes(room_bytes);
            opened.push(opening.open().await?);
        }
        let kind = self.load.payload.unwrap_or_default();
        let payloads = Payloads::new(kind, message_bytes, &*self.env.random);
        let meter = Arc::new(Meter::new(u64::MAX));
        let start = self.now();
        let running = (0..producers).zip(opened).map(|(number, producer)| {
            let pace = |per_second| Pace { start, per_second, producers, producer: number };
            let plan = Plan {
                pace: rate.map(pace),
                in_flight_max,
                left: self.shape.share(number),
                end: start.saturating_add(duration),
                is_over: false,
                sent: 0,
            };
            let (payloads, clock) = (payloads.clone(), Arc::clone(&self.env.clock));
            let producing =
                Producing { producer, plan, payloads, run, clock, meter: Arc::clone(&meter) };
            self.env.spawn.task("bench producer", Box::pin(producing.run()))
        });
        let running = running.collect();
        Ok(Workers { verb: "sent", start, meter, running })
    }

    /// Starts consumers, which end after `count` messages in all; of one measurement only, if `run` says which.
    async fn start_consumers(
        &mut self,
        from: Start,
        run: Option<u64>,
        count: u64,
    ) -> Result<Workers> {
        let meter = Arc::new(Meter::new(count));
        let consumers = self.shape.consumers;
        let is_shared = consumers as usize > self.topics.names.len();
        let kind = if is_shared { SubscriptionType::Shared } else { SubscriptionType::Exclusive };
        let start = self.now();
        let mut running = Vec::new();
        self.topics.is_subscribed = true;
        for (topic, _) in self.topics.names.iter().cycle().zip(0..consumers) {
            let client = self.run.common.connection.client()?;
            let opening = client.consumer(topic.as_str(), self.topics.subscription.as_str())?;
            let consumer = opening.kind(kind).start(from).open().await?;
            let (clock, meter) = (Arc::clone(&self.env.clock), Arc::clone(&meter));
            let consuming = Consuming { consumer, run, clock, meter };
            running.push(self.env.spawn.task("bench consumer", Box::pin(consuming.run())));
        }
        Ok(Workers { verb: "consumed", start, meter, running })
    }

    /// Waits for the end of workers, which at `until` or at a signal are told to end.
    async fn finish(&mut self, workers: &mut Workers, until: Duration) {
        let running = std::mem::take(&mut workers.running);
        let mut joined = pin!(async {
            for worker in running {
                if let Err(panicked) = worker.join().await {
                    workers.meter.end(&Sum::new(), Err(Failure::new(panicked.to_string())));
                }
            }
        });
        if self.attend(workers, joined.as_mut(), until).await {
            return;
        }
        workers.meter.stop();
        let timeout = self.settle_timeout();
        if tokio::time::timeout(timeout, joined).await.is_err() {
            let failure = Failure::new(format!("no answer within {timeout:?}"));
            workers.meter.end(&Sum::new(), Err(failure));
        }
    }

    /// Says how it goes until the end of workers, which it returns; or until a time, or the first signal.
    async fn attend(
        &mut self,
        workers: &Workers,
        mut joined: Pin<&mut impl Future<Output = ()>>,
        until: Duration,
    ) -> bool {
        let clock = Arc::clone(&self.env.clock);
        let (mut messages, mut bytes, mut since) = (0, 0, workers.start);
        let mut end = pin!(clock.sleep(until.saturating_sub(clock.monotonic())));
        loop {
            tokio::select! {
                biased;
                _ = self.signals.first(), if !self.is_ended => {
                    self.is_ended = true;
                    return false;
                }
                () = &mut joined => return true,
                () = &mut end => return false,
                () = clock.sleep(PROGRESS_PERIOD), if self.is_followed => {}
            }
            let now = clock.monotonic();
            let (total, total_bytes) = (workers.meter.messages(), workers.meter.bytes());
            let seconds = (now - since).as_secs_f64();
            terminal::note(&format!(
                "{:.0} s: {} {total} messages, {:.0} messages/s, {:.1} MB/s",
                (now - workers.start).as_secs_f64(),
                workers.verb,
                (total - messages) as f64 / seconds,
                (total_bytes - bytes) as f64 / 1e6 / seconds,
            ));
            (messages, bytes, since) = (total, total_bytes, now);
        }
    }

    fn settle_timeout(&self) -> Duration {
        if self.is_ended { INTERRUPTED_TIMEOUT } else { SETTLE_TIMEOUT }
    }

    fn now(&self) -> Duration {
        self.env.clock.monotonic()
    }
}

impl Measured {
    fn show(self, format: Format) -> Result<()> {
        let mut output = Output::new();
        match format {
            Format::Text => output.bytes(self.report.text().as_bytes())?,
            Format::Json => output.json(&self.report)?,
        }
        output.flush()?;
        if self.unsent > 0 {
            let unsent = self.unsent;
            terminal::note(&format!(
                "{unsent} messages were due and not sent: this rate is too high"
            ));
        }
        self.failure.map_or(Ok(()), Err)
    }
}
