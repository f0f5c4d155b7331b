//! `danube consume`: the messages of a subscription.

use std::future::{pending, ready};
use std::pin::pin;
use std::time::Duration;

use danube_client::{Connection, Consumed, Consumer, Place, Settler};
use danube_env::Env;

use super::messages::{self, Damage, Gap};
use crate::arguments::{ConsumeOptions, MessageFormat};
use crate::failure::{Failure, Result};
use crate::signals::Signals;
use crate::terminal::{self, Output};

/// Messages that are shown together, and then acknowledged, while more are at hand.
const SHOWN_TOGETHER: usize = 256;
/// At the end, for the broker to note what was acknowledged.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Consumes until so many came, or none for so long, or a signal came. However it ends, what was shown is acknowledged. Damage
/// is reported and passed; then the command fails at its end.
pub(crate) async fn run(options: ConsumeOptions) -> Result<()> {
    let mut signals = Signals::listen("what was shown last may come again")?;
    let opened = tokio::select! {
        biased;
        _ = signals.first() => return Ok(()),
        opened = open(&options) => opened?,
    };
    let mut consuming = Consuming {
        shown: Shown {
            output: Output::new(),
            places: Vec::new(),
            settler: (!options.no_ack).then(|| opened.settler()),
        },
        connection: opened.connection(),
        consumer: opened,
        signals,
        idle: options.idle_exit,
        is_damaged: false,
    };
    let consumed = consuming.show_all(options.output).await;
    // A failure is told after what came before it was shown.
    let shown = consuming.shown.flush();
    let closed = match tokio::time::timeout(CLOSE_TIMEOUT, consuming.consumer.close()).await {
        Ok(closed) => closed.map_err(Failure::from),
        Err(_) => Err(Failure::new(format!("no answer within {CLOSE_TIMEOUT:?}"))),
    };
    let unsettled = |failure: Failure| failure.about("what was shown last may come again");
    consumed.and(shown).and(closed.map_err(unsettled))?;
    if consuming.is_damaged { Err(Failure::Said) } else { Ok(()) }
}

async fn open(options: &ConsumeOptions) -> Result<Consumer> {
    let client = options.connection.client()?;
    let consumer = client.consumer(options.topic.as_str(), options.subscription.as_str())?;
    let consumer = consumer.kind(options.kind.into()).name(options.name.clone());
    let consumer = consumer.filters(options.filters.clone()).start(options.from);
    Ok(consumer.limit(options.count).timeout(options.timeout).open().await?)
}

/// A command at work.
struct Consuming {
    consumer: Consumer,
    connection: Connection,
    shown: Shown,
    signals: Signals,
    /// Without a message for so long, it ends.
    idle: Option<Duration>,
    is_damaged: bool,
}

impl Consuming {
    /// Shows what comes, to the end.
    async fn show_all(&mut self, format: MessageFormat) -> Result<()> {
        while let Some(next) = self.next().await? {
            let output = &mut self.shown.output;
            match next {
                Consumed::Message(delivered) => {
                    let (received, count) = (&delivered.received, delivered.delivery_count);
                    messages::message(output, format, received, count)?;
                    self.shown.places.push(delivered.place);
                }
                Consumed::Gap { topic, from, to, why } => {
                    messages::gap(output, format, &Gap { topic: &topic, from, to, why: &why })?;
                }
                Consumed::Damage { topic, from, to, file, message } => {
                    self.is_damaged = true;
                    let (topic, file, message) = (&topic, &*file, &*message);
                    let damage = Damage { topic, from, to, file, message };
                    messages::damage(output, format, &damage)?;
                }
            }
        }
        Ok(())
    }

    /// What comes next; `None` at the end, at a signal, or if nothing comes for so long while the broker is there. What was
    /// written is shown before it is waited for.
    async fn next(&mut self) -> Result<Option<Consumed>> {
        if self.shown.places.len() >= SHOWN_TOGETHER {
            self.shown.flush()?;
        }
        let mut next = pin!(self.consumer.next());
        // A signal first: there may always be more messages at hand.
        tokio::select! {
            biased;
            _ = self.signals.first() => return Ok(None),
            next = &mut next => return Ok(next?),
            () = ready(()) => self.shown.flush()?,
        }
        loop {
            let idle = self.idle.filter(|_| self.connection.lost().is_none());
            // A connection that is lost before idleness, which it does not count as.
            tokio::select! {
                biased;
                _ = self.signals.first() => return Ok(None),
                next = &mut next => return Ok(next?),
                lost = self.connection.changed() => say(lost),
                () = pass(idle) => return Ok(None),
            }
        }
    }
}

/// Says that the connection is lost, or back.
fn say(lost: Option<danube_client::Error>) {
    match lost.map(Failure::from) {
        Some(why) => terminal::note(&format!("the connection is lost: {}", why.text())),
        None => terminal::note("the connection is back"),
    }
}

/// Waits so long; without a time, for ever.
async fn pass(time: Option<Duration>) {
    match time {
        Some(time) => Env::real().clock.sleep(time).await,
        None => pending().await,
    }
}

/// What was written, and is to be acknowledged when it shows.
struct Shown {
    output: Output,
    places: Vec<Place>,
    /// Absent where nothing is acknowledged.
    settler: Option<Settler>,
}

impl Shown {
    fn flush(&mut self) -> Result<()> {
        self.output.flush()?;
        for place in self.places.drain(..) {
            if let Some(settler) = &self.settler {
                settler.ack(place);
            }
        }
        Ok(())
    }
}
