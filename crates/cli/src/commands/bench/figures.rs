//! What was measured, and how it is shown.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies above it count as it.
const LATENCY_MAX: Duration = Duration::from_secs(3600);
/// Of a value in the histogram: an error below 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// How long messages took, to the microsecond.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

/// In milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) p99_99: f64,
    pub(super) max: f64,
}

/// A measurement, as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Report {
    messages: u64,
    /// Of payloads.
    bytes: u64,
    seconds: f64,
    messages_per_second: f64,
    /// From when messages were due until they were acknowledged; null where none were sent.
    ack_ms: Option<Percentiles>,
    /// From when messages were due until they were consumed; null where that is not known.
    end_to_end_ms: Option<Percentiles>,
}

impl Latencies {
    pub(super) fn new() -> Latencies {
        let max = LATENCY_MAX.as_micros() as u64;
        let histogram = Histogram::new_with_bounds(1, max, SIGNIFICANT_DIGITS);
        Latencies(histogram.expect("good bounds"))
    }

    pub(super) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("the same bounds");
    }

    /// `None` if there is nothing.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        (!self.0.is_empty()).then(|| Percentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: at(1.0),
        })
    }
}

impl Report {
    pub(super) fn new(
        messages: u64,
        bytes: u64,
        time: Duration,
        ack: Option<&Latencies>,
        end_to_end: Option<&Latencies>,
    ) -> Report {
        let seconds = time.as_secs_f64();
        let messages_per_second = if messages == 0 { 0.0 } else { messages as f64 / seconds };
        let percentiles = |latencies: Option<&Latencies>| latencies?.percentiles();
        let (ack_ms, end_to_end_ms) = (percentiles(ack), percentiles(end_to_end));
        Report { messages, bytes, seconds, messages_per_second, ack_ms, end_to_end_ms }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let Report { messages, bytes, seconds, .. } = self;
        let mut text = format!("messages    {messages}, {bytes} bytes in {seconds:.3} s\n");
        let megabytes = if *messages == 0 { 0.0 } else { *bytes as f64 / 1e6 / seconds };
        let rate = self.messages_per_second;
        let _ = writeln!(text, "throughput  {rate:.0} messages/s, {megabytes:.1} MB/s");
        for (name, percentiles) in
            [("ack, ms", self.ack_ms), ("end-to-end, ms", self.end_to_end_ms)]
        {
            let Some(Percentiles { p50, p90, p99, p99_9, p99_99, max }) = percentiles else {
                continue;
            };
            let _ = writeln!(
                text,
                "{name}: p50 {p50:.3}, p90 {p90:.3}, p99 {p99:.3}, p99.9 {p99_9:.3}, p99.99 {p99_99:.3}, max {max:.3}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_that_was_recorded() {
        let (mut latencies, mut other) = (Latencies::new(), Latencies::new());
        assert_eq!(latencies.percentiles(), None);
        for milliseconds in 1..=5_000 {
            latencies.record(Duration::from_millis(milliseconds));
            other.record(Duration::from_millis(5_000 + milliseconds));
        }
        latencies.add(&other);
        let percentiles = latencies.percentiles().unwrap();
        for (found, expected) in [
            (percentiles.p50, 5_000.0),
            (percentiles.p90, 9_000.0),
            (percentiles.p99, 9_900.0),
            (percentiles.p99_9, 9_990.0),
            (percentiles.p99_99, 9_999.0),
            (percentiles.max, 10_000.0),
        ] {
            assert!((found / expected - 1.0).abs() < 2e-3, "{found} is not {expected}");
        }
    }

    #[test]
    fn a_latency_beyond_the_bounds_is_kept_as_the_greatest() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::MAX);
        latencies.record(Duration::ZERO);
        let percentiles = latencies.percentiles().unwrap();
        assert!(percentiles.max >= LATENCY_MAX.as_secs_f64() * 1e3, "{percentiles:?}");
        assert!(percentiles.p50 < 0.01, "{percentiles:?}");
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_millis(2));
        let report = Report::new(10, 5_000_000, Duration::from_secs(2), Some(&latencies), None);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["messages"], &json["bytes"]), (&10.into(), &5_000_000.into()));
        assert_eq!((&json["seconds"], &json["messages_per_second"]), (&2.0.into(), &5.0.into()));
        assert!(json["ack_ms"]["p99_99"].as_f64().is_some_and(|p| (1.9..2.1).contains(&p)));
        assert!(json["end_to_end_ms"].is_null());
        assert!(report.text().starts_with(
            "messages    10, 5000000 bytes in 2.000 s\nthroughput  5 messages/s, 2.5 MB/s\nack, ms: p50 2.0"
        ));
        let nothing = Report::new(0, 0, Duration::ZERO, Some(&Latencies::new()), None);
        assert_eq!((nothing.messages_per_second, nothing.ack_ms), (0.0, None));
    }
}
