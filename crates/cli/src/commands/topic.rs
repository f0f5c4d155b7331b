//! `danube topic`: looking after topics.

mod show;

use danube_client::admin::{Admin, Finding, Remedy, Repair, TopicDefaults, TopicSettings};
use danube_client::{Reliability, TopicName};
use danube_model::Namespace;
use serde_json::json;

use crate::arguments::{self, Common, Format, Kept, TopicCommand};
use crate::failure::{Failure, Result};
use crate::terminal::{self, Output};

pub(crate) async fn run(command: TopicCommand) -> Result<()> {
    match command {
        TopicCommand::Create { topic, partitions, non_reliable, settings, common } => {
            let reliability = non_reliable.then_some(Reliability::NonReliable);
            let settings = TopicSettings { reliability, ..wanted(&settings) };
            create(&topic, partitions, &settings, &common).await
        }
        TopicCommand::List { namespace, common } => list(namespace.as_ref(), &common).await,
        TopicCommand::Describe { topic, common } => describe(&topic, &common).await,
        TopicCommand::Update { topic, partitions, settings, common } => {
            update(&topic, partitions, &settings, &common).await
        }
        TopicCommand::Delete { topic, yes, common } => delete(&topic, yes, &common).await,
        TopicCommand::Repair { topic, accept_gap, yes, common } => {
            repair(&topic, accept_gap, yes, &common).await
        }
    }
}

fn admin(common: &Common) -> Result<Admin> {
    Ok(common.connection.client()?.admin())
}

fn wanted(settings: &arguments::TopicSettings) -> TopicSettings {
    TopicSettings {
        reliability: None,
        durability: settings.durability,
        retention_time: settings.retention_time.and_then(Kept::said),
        retention_size: settings.retention_size.and_then(Kept::said),
        message_size_max: settings.max_message_size,
    }
}

async fn create(
    topic: &TopicName,
    partitions: Option<u32>,
    settings: &TopicSettings,
    common: &Common,
) -> Result<()> {
    let created = admin(common)?.create_topic(topic, partitions, settings).await?;
    let mut output = Output::new();
    for topic in &created {
        match common.output {
            Format::Text => output.line(topic.as_str())?,
            Format::Json => output.json(&json!({ "topic": topic }))?,
        }
    }
    output.flush()
}

async fn list(namespace: Option<&Namespace>, common: &Common) -> Result<()> {
    let topics = admin(common)?.list_topics(namespace).await?;
    let mut output = Output::new();
    for entry in &topics {
        match common.output {
            Format::Text => output.line(entry.topic.as_str())?,
            Format::Json => output.json(&show::Entry::of(entry))?,
        }
    }
    output.flush()
}

async fn describe(topic: &TopicName, common: &Common) -> Result<()> {
    let admin = admin(common)?;
    let description = admin.describe_topic(topic).await?;
    let mut partitions = Vec::new();
    for partition in &description.partitions {
        partitions.push(admin.describe_topic(partition).await?);
    }
    let mut output = Output::new();
    match (common.output, &partitions[..]) {
        (Format::Json, []) => output.json(&show::Description::of(&description))?,
        (Format::Json, partitions) => {
            output.json(&show::Partitioned::of(&description, partitions))?;
        }
        (Format::Text, []) => output.bytes(show::text(&description).as_bytes())?,
        (Format::Text, partitions) => {
            let texts: Vec<String> = partitions.iter().map(show::text).collect();
            output.bytes(texts.join("\n").as_bytes())?;
        }
    }
    output.flush()
}

async fn update(
    topic: &TopicName,
    partitions: Option<u32>,
    settings: &arguments::TopicSettings,
    common: &Common,
) -> Result<()> {
    let defaults = TopicDefaults {
        retention_time: settings.retention_time == Some(Kept::Default),
        retention_size: settings.retention_size == Some(Kept::Default),
    };
    let settings = wanted(settings);
    let is_kept = settings == TopicSettings::default() && defaults == TopicDefaults::default();
    if partitions.is_none() && is_kept {
        return Err(Failure::Misuse(
            "error: nothing is to be changed\nhint: danube topic update --help".to_owned(),
        ));
    }
    Ok(admin(common)?.update_topic(topic, &settings, defaults, partitions).await?)
}

/// Deletes a topic, after it was shown what will be lost, and asked for.
async fn delete(topic: &TopicName, yes: bool, common: &Common) -> Result<()> {
    let admin = admin(common)?;
    if !yes {
        let description = admin.describe_topic(topic).await?;
        terminal::note(show::text(&description).trim_end());
        if !terminal::confirm(&format!("Delete {topic} with all its messages?")) {
            let failure = Failure::new(format!("{topic} was not deleted"));
            return Err(failure.hint("--yes deletes it without asking"));
        }
    }
    Ok(admin.delete_topic(topic).await?)
}

/// Heals what can be healed and shows the rest; with `accept_gap` that becomes a gap, after it was shown and asked for. Fails while
/// something is left that can't be read.
async fn repair(topic: &TopicName, accept_gap: bool, yes: bool, common: &Common) -> Result<()> {
    let admin = admin(common)?;
    let mut findings = admin.repair_topic(topic, Repair::Heal).await?;
    let is_left = |findings: &[Finding]| findings.iter().any(|finding| !finding.is_applied);
    if accept_gap && is_left(&findings) {
        if !yes {
            findings.iter().for_each(|finding| terminal::note(&show::finding(finding)));
            if !terminal::confirm("Give up what is lost, with a gap in its place?") {
                let failure = Failure::new(format!("{topic} was left as it is"));
                return Err(failure.hint("--yes gives it up without asking"));
            }
        }
        let given_up = admin.repair_topic(topic, Repair::AcceptGap).await?;
        findings.retain(|finding| finding.is_applied);
        findings.extend(given_up);
    }
    let mut output = Output::new();
    for finding in &findings {
        match common.output {
            Format::Text => output.line(show::finding(finding))?,
            Format::Json => output.json(&show::JsonFinding::of(topic, finding))?,
        }
    }
    output.flush()?;
    if !is_left(&findings) {
        return Ok(());
    }
    let failure = Failure::new(format!("{topic} has messages that can't be read"));
    let gap = findings.iter().any(|finding| finding.remedy == Remedy::Gap && !finding.is_applied);
    Err(match gap {
        true => failure.hint(format!("danube topic repair {topic} --accept-gap gives them up")),
        false => failure,
    })
}
