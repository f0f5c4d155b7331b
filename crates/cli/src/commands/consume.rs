//! `danube consume`: the messages of a subscription.

use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use danube_client::{Consumed, Consumer, Place, Settler};

use super::messages::{self, Damage, Gap};
use crate::arguments::ConsumeOptions;
use crate::failure::{Failure, Result};
use crate::terminal::Output;

/// Messages that are shown together, and then acknowledged, while more are at hand.
const SHOWN_TOGETHER: usize = 256;

/// Consumes until so many came, or none for so long. Damage is reported and passed; then the command fails at its end.
pub(crate) async fn run(options: ConsumeOptions) -> Result<()> {
    let client = options.connection.client()?;
    let consumer = client.consumer(options.topic.as_str(), options.subscription.as_str())?;
    let consumer = consumer.kind(options.kind.into()).name(options.name).filters(options.filters);
    let consumer = consumer.start(options.from).limit(options.count);
    let mut consumer = consumer.open().await?;
    let settler = (!options.no_ack).then(|| consumer.settler());
    let mut shown = Shown { output: Output::new(), places: Vec::new(), settler };
    let mut is_damaged = false;
    while let Some(next) = next(&mut consumer, &mut shown, options.idle_exit).await? {
        let output = &mut shown.output;
        match next {
            Consumed::Message(delivered) => {
                let (received, count) = (&delivered.received, delivered.delivery_count);
                messages::message(output, options.output, received, count)?;
                shown.places.push(delivered.place);
            }
            Consumed::Gap { topic, from, to, why } => {
                let gap = Gap { topic: &topic, from, to, why: &why };
                messages::gap(output, options.output, &gap)?;
            }
            Consumed::Damage { topic, from, to, file, message } => {
                is_damaged = true;
                let (topic, file, message) = (&topic, &*file, &*message);
                let damage = Damage { topic, from, to, file, message };
                messages::damage(output, options.output, &damage)?;
            }
        }
    }
    shown.flush()?;
    consumer.close().await?;
    if is_damaged { Err(Failure::Said) } else { Ok(()) }
}

/// What comes next; `None` at the end, or if nothing comes for `idle`. What was written is shown before it is waited for.
async fn next(
    consumer: &mut Consumer,
    shown: &mut Shown,
    idle: Option<Duration>,
) -> Result<Option<Consumed>> {
    if shown.places.len() >= SHOWN_TOGETHER {
        shown.flush()?;
    }
    let mut next = pin!(consumer.next());
    tokio::select! {
        biased;
        next = &mut next => return Ok(next?),
        () = ready(()) => shown.flush()?,
    }
    match idle {
        None => Ok(next.await?),
        Some(idle) => match tokio::time::timeout(idle, next).await {
            Ok(next) => Ok(next?),
            Err(_) => Ok(None),
        },
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
