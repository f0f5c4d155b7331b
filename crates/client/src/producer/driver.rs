//! The producer's task: owns the machines, one for each partition, and the stream to the broker.
//!
//! Each turn of its loop takes what was gathered, sends what may be sent, and then waits for one thing to happen. It never
//! waits while holding something back: sending needs room in the stream, and is tried again when there is room.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use danube_model::TopicName;
use danube_proto::stream::produce_request::{self, Request};
use danube_proto::stream::produce_response::{Ack, Closed, Opened, Refused, answer::Answer};
use danube_proto::stream::{Expectation, ProduceRequest};
use danube_proto::{Failure, convert};
use tokio::sync::oneshot;

use super::gather::{Flush, Gather, Take};
use super::link::{Link, LinkEvent, Up};
use super::machine::{Event, Fate, Refusal};
use super::partition::{Partition, State};
use super::settlement::Receipt;
use crate::backoff::Backoff;
use crate::world::{Clock, random};
use crate::{Client, Error, Outcome, Result};

/// For a topic to be opened on a stream that is up.
const OPEN_TIMEOUT: Duration = Duration::from_secs(15);

/// What the driver is told once.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) create: Option<Expectation>,
    pub(crate) linger: Duration,
    pub(crate) timeout: Duration,
}

/// See the module's text.
pub(crate) struct Driver {
    client: Client,
    settings: Settings,
    gather: Arc<Gather>,
    clock: Clock,
    link: Link,
    backoff: Backoff,
    partitions: Vec<Partition>,
    /// Those that hold batches, or are not open.
    busy: BTreeSet<usize>,
    next_alias: u32,
    aliases: HashMap<u32, usize>,
    producer_id: u64,
    /// Who waits for all partitions to be open.
    opening: Option<oneshot::Sender<Result<()>>>,
    flushes: Vec<Flush>,
    /// The stream has no room for what is to be sent.
    wants_room: bool,
}

impl Driver {
    pub(crate) fn new(
        client: Client,
        settings: Settings,
        gather: Arc<Gather>,
        clock: Clock,
        topics: Vec<TopicName>,
        opening: oneshot::Sender<Result<()>>,
    ) -> Driver {
        Driver {
            client,
            settings,
            gather,
            clock,
            link: Link::Down { until: Duration::ZERO },
            backoff: Backoff::new(random()),
            busy: (0..topics.len()).collect(),
            partitions: topics.into_iter().map(Partition::new).collect(),
            next_alias: 0,
            aliases: HashMap::new(),
            producer_id: random() >> 1,
            opening: Some(opening),
            flushes: Vec::new(),
            wants_room: false,
        }
    }

    /// Runs until the producer is closed.
    pub(crate) async fn run(mut self) {
        while !self.gather.is_closed() {
            let now = self.clock.now();
            self.turn(now);
            let wake_at = self.wake_at(now);
            let event = tokio::select! {
                biased;
                event = self.link.event(&self.client, &self.clock, self.wants_room) => event,
                () = self.gather.woken() => continue,
                () = sleep_until(&self.clock, wake_at) => continue,
            };
            self.on_link(event);
        }
        self.end();
    }

    /// Does all that can be done now.
    fn turn(&mut self, now: Duration) {
        self.wants_room = false;
        // In this order: what a flush waits for must be known to be there.
        self.flushes.extend(self.gather.flushes());
        self.busy.extend(self.gather.touched());
        for at in self.busy.iter().copied().collect::<Vec<_>>() {
            self.take_gathered(at, now);
            self.partitions[at].machine.expire(now);
            self.report(at, None);
            self.open(at, now);
            self.send(at, now);
            self.settle_busy(at);
        }
        self.finish_flushes();
        self.fail_opening_late(now);
    }

    /// Moves batches of a lane into its machine: full ones, and the open one when waiting for more makes no sense.
    fn take_gathered(&mut self, at: usize, now: Duration) {
        let partition = &mut self.partitions[at];
        let timeout = self.settings.timeout;
        while let Some(gathered) = self.gather.take(at, Take::Full) {
            partition.push(gathered, timeout, &self.gather, self.producer_id);
        }
        let Some(began) = self.gather.open_since(at) else { return };
        let machine = &partition.machine;
        let is_due = machine.is_quiet() || now >= began + self.settings.linger;
        let can_go = machine.can_send(now) && !machine.has_waiting() && is_due;
        if can_go || now >= began + timeout {
            while let Some(gathered) = self.gather.take(at, Take::All) {
                partition.push(gathered, timeout, &self.gather, self.producer_id);
            }
        }
    }

    fn open(&mut self, at: usize, now: Duration) {
        let partition = &mut self.partitions[at];
        match partition.state {
            State::Closed { until, is_dormant } if now >= until && self.link.is_up() => {
                if is_dormant && partition.is_idle(&self.gather, at) {
                    return;
                }
                let Some(permit) = self.link.try_reserve() else {
                    self.wants_room = true;
                    return;
                };
                let alias = self.next_alias;
                self.next_alias += 1;
                permit.send(request(Request::Open(produce_request::Open {
                    alias,
                    topic: partition.topic.to_string(),
                    producer_name: self.settings.name.clone(),
                    create: self.settings.create,
                })));
                partition.state = State::Opening { since: now };
                self.aliases.insert(alias, at);
            }
            State::Closed { .. } | State::Opening { .. } | State::Open { .. } => {}
        }
    }

    fn send(&mut self, at: usize, now: Duration) {
        let partition = &mut self.partitions[at];
        let State::Open { alias } = partition.state else { return };
        while partition.machine.can_send(now) && partition.machine.has_waiting() {
            let Some(permit) = self.link.try_reserve() else {
                self.wants_room = self.link.is_up();
                return;
            };
            let Some(send) = partition.machine.next_send(now) else { return };
            let batch = partition.numbered(send.id, send.number, self.producer_id);
            permit.send(request(Request::Batch(produce_request::Batch { alias, batch })));
        }
    }

    /// A partition that holds nothing and doesn't have to be opened needs no turn before something happens to it.
    fn settle_busy(&mut self, at: usize) {
        let partition = &self.partitions[at];
        let is_settled = match partition.state {
            State::Open { .. } => true,
            State::Closed { is_dormant, .. } => is_dormant,
            State::Opening { .. } => false,
        };
        if is_settled && partition.is_idle(&self.gather, at) {
            self.busy.remove(&at);
        }
    }

    fn on_link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::MayRise => self.link = Link::rise(&self.client),
            LinkEvent::HasRisen(up) => self.risen(up),
            LinkEvent::HasRoom => {}
            LinkEvent::Broke(error) => self.broke(&error),
            LinkEvent::Answers(answers) => {
                for answer in answers {
                    if let Err(error) = self.answer(answer) {
                        return self.broke(&error);
                    }
                }
            }
        }
    }

    fn risen(&mut self, up: Box<Up>) {
        self.link = Link::Up(up);
        self.busy.extend(0..self.partitions.len());
    }

    /// The stream is gone, and with it all that was open on it.
    fn broke(&mut self, error: &Error) {
        tracing::debug!(url = self.client.url(), %error, "the stream of a producer broke");
        let now = self.clock.now();
        self.link = Link::Down { until: now + self.backoff.next() };
        self.aliases.clear();
        for at in 0..self.partitions.len() {
            let partition = &mut self.partitions[at];
            if let State::Open { .. } = partition.state {
                partition.machine.cut_off();
            }
            partition.state = State::Closed { until: now, is_dormant: partition.is_dormant() };
            partition.last_error = Some(error.clone());
            self.report(at, None);
        }
        self.busy.extend(0..self.partitions.len());
        if !error.is_retryable() && !matches!(error, Error::Protocol { .. } | Error::Malformed(_)) {
            self.finish_opening(Err(error.clone()));
        }
    }

    fn answer(&mut self, answer: Answer) -> Result<()> {
        match answer {
            Answer::Opened(opened) => self.opened(&opened),
            Answer::Ack(ack) => self.acked(&ack),
            Answer::Refused(refused) => self.refused(refused),
            Answer::Closed(closed) => self.closed(closed),
        }
    }

    fn opened(&mut self, opened: &Opened) -> Result<()> {
        let at = self.partition(opened.alias)?;
        let partition = &mut self.partitions[at];
        if matches!(partition.state, State::Open { .. }) {
            return Err(self.protocol("an alias was opened twice"));
        }
        let topic_id = convert::topic_id("topic_id", &opened.topic_id)?;
        self.gather.limit(at, opened.max_message_bytes as usize);
        partition.machine.opened(topic_id);
        partition.state = State::Open { alias: opened.alias };
        partition.backoff.reset();
        partition.was_open = true;
        self.backoff.reset();
        self.busy.insert(at);
        self.report(at, None);
        if self.opening.is_some() && self.partitions.iter().all(|partition| partition.was_open) {
            self.finish_opening(Ok(()));
        }
        Ok(())
    }

    fn acked(&mut self, ack: &Ack) -> Result<()> {
        let at = self.open_partition(ack.alias)?;
        let receipt = Receipt {
            topic: self.partitions[at].topic.clone(),
            offset: convert::offset("base_offset", ack.base_offset)?,
            epoch: convert::epoch("epoch", ack.epoch)?,
            durability: convert::durability("durability", ack.durability)?,
        };
        let base = convert::sequence("base_sequence", ack.base_sequence)?;
        let machine = &mut self.partitions[at].machine;
        machine.acked(base).map_err(|_| self.protocol("an answer to nothing that was sent"))?;
        self.settle(at, |fate| match fate {
            Fate::Stored => Some(Ok(receipt.clone())),
            Fate::Refused(_) | Fate::Untraceable | Fate::TimedOut(_) => None,
        });
        self.busy.insert(at);
        Ok(())
    }

    fn refused(&mut self, refused: Refused) -> Result<()> {
        let at = self.open_partition(refused.alias)?;
        let base = convert::sequence("base_sequence", refused.base_sequence)?;
        let breaks_sequence = refused.expected_sequence.is_some();
        let failure = Failure::from(convert::required("failure", refused.failure)?);
        let refusal = Refusal {
            outcome: failure.outcome,
            is_retryable: failure.is_retryable,
            breaks_sequence,
        };
        let now = self.clock.now();
        let machine = &mut self.partitions[at].machine;
        machine
            .refused(base, refusal, now)
            .map_err(|_| self.protocol("an answer to nothing that was sent"))?;
        self.report(at, Some(Error::Refused { failure }));
        self.busy.insert(at);
        Ok(())
    }

    /// A topic that was open is opened again when a message wants it: another may have its name by now. That it can't be
    /// opened is final, unless it may work later.
    fn closed(&mut self, closed: Closed) -> Result<()> {
        let at = self.partition(closed.alias)?;
        let failure = Failure::from(convert::required("failure", closed.failure)?);
        let error = Error::Refused { failure };
        let now = self.clock.now();
        let partition = &mut self.partitions[at];
        let is_dormant = !error.is_retryable();
        match partition.state {
            State::Open { .. } => partition.machine.ended(),
            State::Opening { .. } | State::Closed { .. } if is_dormant => {
                partition.machine.fail_all();
                self.finish_opening(Err(error.clone()));
            }
            State::Opening { .. } | State::Closed { .. } => {}
        }
        let partition = &mut self.partitions[at];
        partition.state = State::Closed { until: now + partition.backoff.next(), is_dormant };
        self.aliases.remove(&closed.alias);
        self.report(at, Some(error));
        self.busy.insert(at);
        Ok(())
    }

    /// Tells those who wait what the machine has decided; `error` is what the broker just said.
    fn report(&mut self, at: usize, error: Option<Error>) {
        let partition = &mut self.partitions[at];
        if error.is_some() {
            partition.last_error = error;
        }
        let topic = partition.topic.clone();
        let last = partition.last_error.clone();
        let after = self.settings.timeout;
        self.settle(at, |fate| {
            let topic = topic.clone();
            Some(Err(match fate {
                Fate::Stored => return None,
                Fate::Untraceable => Error::Untraceable { topic },
                Fate::TimedOut(outcome) => {
                    Error::TimedOut { topic, after, outcome, last: last.clone().map(Box::new) }
                }
                Fate::Refused(outcome) => match last.clone() {
                    Some(error) => error.with_outcome(outcome),
                    None => Error::Untraceable { topic },
                },
            }))
        });
    }

    /// Hands each fate to those who wait, and lets go of the bytes that are not needed any more.
    fn settle(&mut self, at: usize, result: impl Fn(Fate) -> Option<Result<Receipt>>) {
        let partition = &mut self.partitions[at];
        while let Some(event) = partition.machine.next_event() {
            match event {
                Event::Settled(id, fate) => {
                    let result = result(fate).expect("an ack settles as stored, nothing else does");
                    partition.held(id).settlement.settle(result);
                }
                Event::Released(id) => {
                    let held = partition.let_go(id);
                    self.gather.release(held.batch.record_count(), held.room_bytes);
                }
            }
        }
    }

    fn finish_flushes(&mut self) {
        if self.flushes.is_empty() {
            return;
        }
        let oldest = self.busy.iter().filter_map(|at| self.partitions[*at].batches.front());
        let oldest = oldest.map(|held| held.id).min();
        let is_done = |flush: &mut Flush| oldest.is_none_or(|oldest| oldest >= flush.mark);
        for flush in self.flushes.extract_if(.., is_done) {
            // Whoever asked may have gone.
            let _ = flush.done.send(());
        }
    }

    fn finish_opening(&mut self, result: Result<()>) {
        if let Some(opening) = self.opening.take() {
            // Whoever asked may have gone.
            let _ = opening.send(result);
        }
    }

    /// Gives up on the first opening after the time-out, and on a stream whose broker doesn't answer an opening.
    fn fail_opening_late(&mut self, now: Duration) {
        if self.opening.is_some() && now >= self.settings.timeout {
            let late = self.partitions.iter().find(|partition| !partition.was_open);
            let late = late.expect("somebody waits for one that is not open");
            let error = Error::TimedOut {
                topic: late.topic.clone(),
                after: self.settings.timeout,
                outcome: Outcome::Definite,
                last: late.last_error.clone().map(Box::new),
            };
            self.finish_opening(Err(error));
        }
        let is_stuck = self.busy.iter().any(|at| match self.partitions[*at].state {
            State::Opening { since } => now >= since + OPEN_TIMEOUT,
            State::Closed { .. } | State::Open { .. } => false,
        });
        if is_stuck {
            self.broke(&self.client.late());
        }
    }

    /// When, after `now`, there is something to do without anything happening.
    fn wake_at(&self, now: Duration) -> Option<Duration> {
        let opening = self.opening.as_ref().map(|_| self.settings.timeout);
        let partitions = self.busy.iter().flat_map(|at| {
            let partition = &self.partitions[*at];
            let gathered = self.gather.open_since(*at);
            let (state, linger) = match partition.state {
                State::Closed { until, .. } => (self.link.is_up().then_some(until), None),
                State::Opening { since } => (Some(since + OPEN_TIMEOUT), None),
                State::Open { .. } => (None, gathered.map(|began| began + self.settings.linger)),
            };
            let deadline = gathered.map(|began| began + self.settings.timeout);
            [state, linger, deadline, partition.machine.wake_at(now)]
        });
        opening.into_iter().chain(partitions.flatten()).filter(|time| *time > now).min()
    }

    /// The producer was closed: what is not settled never will be.
    fn end(mut self) {
        // Those who wait for a flush hear of it by this.
        self.flushes.clear();
        drop(self.gather.flushes());
        for at in 0..self.partitions.len() {
            while let Some(gathered) = self.gather.take(at, Take::All) {
                let topic = self.partitions[at].topic.clone();
                let outcome = Outcome::Definite;
                gathered.settlement.settle(Err(Error::Closed { topic, outcome }));
            }
            let partition = &mut self.partitions[at];
            if let State::Open { .. } = partition.state {
                partition.machine.cut_off();
            }
            partition.machine.fail_all();
            let topic = partition.topic.clone();
            self.settle(at, |fate| match fate {
                Fate::Refused(outcome) | Fate::TimedOut(outcome) => {
                    Some(Err(Error::Closed { topic: topic.clone(), outcome }))
                }
                Fate::Stored | Fate::Untraceable => None,
            });
        }
    }

    /// The partition that an alias stands for.
    fn partition(&self, alias: u32) -> Result<usize> {
        let found = self.aliases.get(&alias).copied();
        found.ok_or_else(|| self.protocol("an answer under an alias that is not in use"))
    }

    fn open_partition(&self, alias: u32) -> Result<usize> {
        let at = self.partition(alias)?;
        match self.partitions[at].state {
            State::Open { .. } => Ok(at),
            State::Opening { .. } | State::Closed { .. } => {
                Err(self.protocol("an answer under an alias that is not open"))
            }
        }
    }

    fn protocol(&self, what: &'static str) -> Error {
        Error::Protocol { url: self.client.shared_url().clone(), what }
    }
}

fn request(request: Request) -> ProduceRequest {
    ProduceRequest { request: Some(request) }
}

async fn sleep_until(clock: &Clock, time: Option<Duration>) {
    match time {
        Some(time) => clock.sleep_until(time).await,
        None => std::future::pending().await,
    }
}
