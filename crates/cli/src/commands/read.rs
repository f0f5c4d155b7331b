//! `danube read`: the log of a topic, without a subscription.

use std::future::ready;
use std::pin::pin;

use danube_client::{Item, Reader};

use super::messages::{self, Damage, Gap};
use crate::arguments::ReadOptions;
use crate::failure::{Failure, Result};
use crate::terminal::Output;

/// Reads until the end of what was asked for. Damage is reported and passed; then the command fails at its end.
pub(crate) async fn run(options: ReadOptions) -> Result<()> {
    let client = options.connection.client()?;
    let reader = client.reader(options.topic.as_str())?;
    let reader = reader.start(options.from).end(options.to).follow(options.follow);
    let mut reader = reader.open().await?;
    let mut output = Output::new();
    let mut messages = 0;
    let mut is_damaged = false;
    while options.count.is_none_or(|count| messages < count) {
        match next(&mut reader, &mut output).await? {
            Some(Item::Message(received)) => {
                // Reading the log is the only delivery that there is.
                messages::message(&mut output, options.output, &received, 1)?;
                messages += 1;
            }
            Some(Item::Gap { topic, from, to, why }) => {
                let gap = Gap { topic: &topic, from, to, why: &why };
                messages::gap(&mut output, options.output, &gap)?;
            }
            Some(Item::Damage { topic, from, to, file, message }) => {
                is_damaged = true;
                let (topic, file, message) = (&topic, &*file, &*message);
                let damage = Damage { topic, from, to, file, message };
                messages::damage(&mut output, options.output, &damage)?;
            }
            Some(Item::CaughtUp { .. }) => output.flush()?,
            None => break,
        }
    }
    output.flush()?;
    if is_damaged { Err(Failure::Said) } else { Ok(()) }
}

/// The next item. What was written is shown before it is waited for.
async fn next(reader: &mut Reader, output: &mut Output) -> Result<Option<Item>> {
    let mut next = pin!(reader.next());
    tokio::select! {
        biased;
        item = &mut next => return Ok(item?),
        () = ready(()) => output.flush()?,
    }
    Ok(next.await?)
}
