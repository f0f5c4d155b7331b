//! `danube read`: the log of a topic, without a subscription.

use std::future::ready;
use std::pin::pin;

use danube_client::{Item, Reader};

use super::messages::{self, Gap};
use crate::arguments::{MessageFormat, ReadOptions};
use crate::failure::{Failure, Result};
use crate::terminal::{self, Output};

/// What a damaged range is called where a gap has its reason.
const CORRUPT: &str = "corrupt";

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
                messages::message(&mut output, options.output, &received)?;
                messages += 1;
            }
            Some(Item::Gap { topic, from, to, why }) => {
                let gap = Gap { topic: &topic, from, to, why: &why };
                messages::gap(&mut output, options.output, &gap)?;
            }
            Some(Item::Damage { topic, from, to, file, message }) => {
                is_damaged = true;
                let gap = Gap { topic: &topic, from, to, why: CORRUPT };
                if options.output == MessageFormat::Json {
                    messages::gap(&mut output, options.output, &gap)?;
                }
                output.flush()?;
                terminal::note(&damage(&gap, &file, &message));
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

fn damage(gap: &Gap<'_>, file: &str, message: &str) -> String {
    let Gap { topic, from, to, why } = gap;
    let hint = format!("hint: danube topic repair {topic}");
    format!(
        "error: {topic} can't be read from offset {from} to {to}: {why}: {file}: {message}\n{hint}"
    )
}

#[cfg(test)]
mod tests {
    use danube_model::Offset;

    use super::*;

    #[test]
    fn damage_names_its_file() {
        let topic = "/default/a".parse().unwrap();
        let gap = Gap { topic: &topic, from: Offset::new(1), to: Offset::new(3), why: CORRUPT };
        let expected = "error: /default/a can't be read from offset 1 to 3: corrupt: x.seg: bad checksum\n\
                        hint: danube topic repair /default/a";
        assert_eq!(damage(&gap, "x.seg", "bad checksum"), expected);
    }
}
