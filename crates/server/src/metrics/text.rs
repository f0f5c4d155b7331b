//! The text format of Prometheus, version 0.0.4: <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::fmt::Write;

use danube_model::metric::{Distribution, Kind, Metric, Row, TIME_BOUNDS_US, Value};

const TO_STRING: &str = "writing to a string can't fail";

/// What is written so far.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Adds all metrics of these rows.
    pub(super) fn add<R: Row>(&mut self, rows: &[R]) {
        let labels: Vec<String> = rows.iter().map(labels).collect();
        for metric in R::METRICS {
            let mut values = rows.iter().map(metric.value).zip(&labels);
            let Some(first) = values.find(|(value, _)| *value != Value::None) else { continue };
            self.head(metric);
            for (value, labels) in std::iter::once(first).chain(values) {
                self.sample(metric.name, metric.kind, labels, &value);
            }
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn head<R>(&mut self, metric: &Metric<R>) {
        let Metric { name, kind, meaning, .. } = metric;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Seconds | Kind::Milliseconds => "histogram",
            Kind::Summary => "summary",
        };
        writeln!(self.0, "# HELP {name} {meaning}\n# TYPE {name} {kind}").expect(TO_STRING);
    }

    fn sample(&mut self, name: &str, kind: Kind, labels: &str, value: &Value) {
        match value {
            Value::None => {}
            Value::Whole(number) => self.line(name, "", labels, number),
            Value::Real(number) => self.line(name, "", labels, number),
            Value::Times(times) => {
                let unit_us = if kind == Kind::Milliseconds { 1e3 } else { 1e6 };
                self.times(name, labels, times, unit_us);
            }
            Value::Summary { count, sum } => {
                self.line(name, "_sum", labels, sum);
                self.line(name, "_count", labels, count);
            }
        }
    }

    fn times(&mut self, name: &str, labels: &str, times: &Distribution, unit_us: f64) {
        let mut count = 0;
        for (at, of_bucket) in times.counts.iter().enumerate() {
            count += of_bucket;
            let bound = TIME_BOUNDS_US.get(at);
            let bound = bound.map_or("+Inf".to_owned(), |us| (*us as f64 / unit_us).to_string());
            let comma = if labels.is_empty() { "" } else { "," };
            let labels = format!("{labels}{comma}le=\"{bound}\"");
            self.line(name, "_bucket", &labels, count);
        }
        self.line(name, "_sum", labels, times.sum_us as f64 / unit_us);
        self.line(name, "_count", labels, count);
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &str, value: impl std::fmt::Display) {
        let written = match labels {
            "" => writeln!(self.0, "{name}{suffix} {value}"),
            labels => writeln!(self.0, "{name}{suffix}{{{labels}}} {value}"),
        };
        written.expect(TO_STRING);
    }
}

/// The labels of a row, without the braces.
fn labels<R: Row>(row: &R) -> String {
    let values = row.labels();
    let pairs = R::LABELS.iter().zip(values);
    let pairs: Vec<_> =
        pairs.map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
    pairs.join(",")
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
