//! What is damaged or lost of a topic, and going on without it.

use danube_log::{Damage, Read, Start};
use danube_model::{Offset, TopicName};

use crate::broker::Broker;
use crate::error::{Error, Result};
use crate::slot::Accept;
use crate::topic::Topic;

/// Something that is damaged or lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// First offset of it.
    pub from: Offset,
    /// First offset behind it.
    pub to: Offset,
    /// The file, or what stands for it.
    pub file: String,
    /// What is wrong.
    pub what: String,
    /// What helps.
    pub remedy: Remedy,
    /// It was done.
    pub done: bool,
}

/// What helps against damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The range becomes an explicit gap. Nothing else can be done with one copy.
    Gap,
}

impl Finding {
    fn damage(damage: &Damage) -> Self {
        Self {
            from: damage.from,
            to: damage.to,
            file: damage.path.display().to_string(),
            what: format!("at byte {}: {}", damage.position, damage.why),
            remedy: Remedy::Gap,
            done: false,
        }
    }
}

impl Broker {
    /// Reads all of a topic and tells what is damaged or lost; with `accept_gap`, makes an explicit gap of each range.
    pub async fn repair_topic(&self, name: &TopicName, accept_gap: bool) -> Result<Vec<Finding>> {
        let topic = self.topic(name)?;
        let mut findings = Vec::new();
        match topic.slot.log(self, Accept::Nothing).await {
            Ok(_) => {}
            Err(
                error @ (Error::DamagedEnd { .. }
                | Error::LogMissing { .. }
                | Error::OtherDisk { .. }),
            ) => {
                let end = topic.known_end();
                let ceiling = topic.ceiling();
                let lost_end = self.inner.store.lost_end(topic.slot.id, ceiling);
                let found = lost_end.as_ref().map(Finding::damage);
                findings.push(Finding {
                    done: accept_gap,
                    ..found.unwrap_or_else(|| Finding {
                        from: end,
                        to: ceiling,
                        file: self.inner.config.log.root.display().to_string(),
                        what: error.to_string(),
                        remedy: Remedy::Gap,
                        done: false,
                    })
                });
                if accept_gap {
                    topic.slot.log(self, Accept::Gap).await?;
                }
            }
            Err(error) => return Err(error),
        }
        let mut ranges = topic.damaged_ranges().await?;
        if accept_gap && !ranges.is_empty() {
            topic.accept_damage().await?;
            ranges.iter_mut().for_each(|finding| finding.done = true);
        }
        findings.splice(0..0, ranges);
        Ok(findings)
    }
}

impl Topic {
    fn known_end(&self) -> Offset {
        let facts = self.broker.inner.store.facts(self.slot.id);
        facts.map_or(Offset::ZERO, |facts| facts.end)
    }

    async fn damaged_ranges(&self) -> Result<Vec<Finding>> {
        let mut reader = match self.read(Start::Earliest).await {
            Err(Error::LogMissing { .. } | Error::OtherDisk { .. }) => return Ok(Vec::new()),
            reader => reader?,
        };
        let mut findings = Vec::new();
        loop {
            match reader.next().await? {
                // The end is found by itself.
                Read::Damage(damage) if damage.from >= reader.ends().durable => {}
                Read::Damage(damage) => findings.push(Finding::damage(&damage)),
                Read::CaughtUp(_) => return Ok(findings),
                Read::Frame(_) | Read::Trimmed { .. } => {}
            }
        }
    }

    /// Makes explicit gaps of all damaged ranges.
    async fn accept_damage(&self) -> Result<()> {
        let open = self.slot.log(&self.broker, Accept::Nothing).await?;
        open.log.accept_damage().await?;
        Ok(())
    }
}
