//! `GET /metrics`: everything in numbers, in the text format of Prometheus; and the reference of it all.
//!
//! What is counted stands in the crates that count it; here are the process and its connections, and the list of all tables.

mod text;

use std::fmt::Write;

use danube_broker::{
    AlarmMetrics, BrokerMetrics, LogMetrics, MetaMetrics, Metrics, SubscriptionMetrics,
    TopicMetrics,
};
use danube_env::process::Usage;
use danube_model::metric::{Kind, Metric, Row};

use self::text::Text;

/// The process in numbers. Names are those that all programs have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessMetrics(pub(crate) Usage);

impl Row for ProcessMetrics {
    const OF: &'static str = "process";
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new(
            "process_resident_memory_bytes",
            Kind::Gauge,
            "Memory that the process has in the machine.",
            |process| process.0.resident_bytes.into(),
        ),
        Metric::new(
            "process_cpu_seconds_total",
            Kind::Counter,
            "Time of processors that it has used.",
            |process| process.0.processor_time.into(),
        ),
        Metric::new("process_open_fds", Kind::Gauge, "Descriptors that are open.", |process| {
            process.0.open_files.into()
        }),
        Metric::new("process_max_fds", Kind::Gauge, "How many may be open.", |process| {
            process.0.open_files_max.into()
        }),
    ];
}

/// Connections and calls in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerMetrics {
    pub(crate) connections: u64,
    pub(crate) refused_connections: u64,
    pub(crate) streams: u64,
    pub(crate) calls: u64,
}

impl Row for ServerMetrics {
    const OF: &'static str = "server";
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new(
            "danube_broker_connections",
            Kind::Gauge,
            "Connections of clients to the ports for gRPC.",
            |server| server.connections.into(),
        ),
        Metric::new(
            "danube_broker_connections_refused_total",
            Kind::Counter,
            "Connections that were closed at once because there were too many.",
            |server| server.refused_connections.into(),
        ),
        Metric::new(
            "danube_broker_streams",
            Kind::Gauge,
            "Streams and tasks of clients that are served.",
            |server| server.streams.into(),
        ),
        Metric::new(
            "danube_broker_rpc_total",
            Kind::Counter,
            "Calls of gRPC that were begun; a stream is one.",
            |server| server.calls.into(),
        ),
    ];
}

/// What is exposed. The broker is missing before it is open.
pub(crate) struct Exposed {
    pub(crate) process: ProcessMetrics,
    pub(crate) broker: Option<(ServerMetrics, Metrics, Vec<AlarmMetrics>)>,
}

/// In the text format of Prometheus.
pub(crate) fn write(exposed: &Exposed) -> String {
    let mut text = Text::default();
    text.add(&[exposed.process]);
    if let Some((server, metrics, alarms)) = &exposed.broker {
        text.add(&[*server]);
        text.add(alarms);
        text.add(std::slice::from_ref(&metrics.broker));
        text.add(std::slice::from_ref(&metrics.log));
        text.add(std::slice::from_ref(&metrics.meta));
        text.add(&metrics.topics);
        text.add(&metrics.subscriptions);
    }
    text.finish()
}

/// All metrics with their meanings, Markdown.
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    section::<AlarmMetrics>(&mut out);
    section::<BrokerMetrics>(&mut out);
    section::<TopicMetrics>(&mut out);
    section::<SubscriptionMetrics>(&mut out);
    section::<LogMetrics>(&mut out);
    section::<MetaMetrics>(&mut out);
    section::<ServerMetrics>(&mut out);
    section::<ProcessMetrics>(&mut out);
    out
}

fn section<R: Row>(out: &mut String) {
    const TO_STRING: &str = "writing to a string can't fail";
    write!(out, "\n## Of the {}\n\n", with_labels::<R>()).expect(TO_STRING);
    out.push_str("| metric | kind | meaning |\n|---|---|---|\n");
    for Metric { name, kind, meaning, .. } in R::METRICS {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Seconds | Kind::Milliseconds => "histogram",
            Kind::Summary => "summary",
        };
        writeln!(out, "| `{name}` | {kind} | {meaning} |").expect(TO_STRING);
    }
}

fn with_labels<R: Row>() -> String {
    match R::LABELS {
        [] => R::OF.to_owned(),
        labels => {
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            format!("{}, one for each: labels {}", R::OF, labels.join(", "))
        }
    }
}

const INTRODUCTION: &str = "\
# Metrics

<!-- Written by `danube config metrics`. Edit the tables in metrics.rs of the crates instead. -->

`GET /metrics` on the HTTP port answers with these, in the text format of Prometheus. Counters begin at 0 when the broker starts, or when
what they tell of begins; units stand in the names. A metric that has nothing to say is left out.

Topics and subscriptions have metrics of their own up to `metrics.max_topics` and `metrics.max_subscriptions` ([configuration](configuration.md));
how many more there are is a metric, too. They end with their topic or subscription. Of a topic with partitions, each partition has its own.
";

#[cfg(test)]
mod tests;
