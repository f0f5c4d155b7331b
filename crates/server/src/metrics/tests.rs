//! The text and the reference.

use std::collections::BTreeSet;
use std::time::Duration;

use danube_model::metric::{Times, Value};

use super::*;

struct Named(&'static str, Option<u64>);

impl Row for Named {
    const OF: &'static str = "test";
    const LABELS: &'static [&'static str] = &["name", "kind"];
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new("a_total", Kind::Counter, "Counts.", |row| row.1.into()),
        Metric::new("b_bytes", Kind::Summary, "Sizes.", |_| Value::Summary { count: 2, sum: 9 }),
        Metric::new("c", Kind::Gauge, "Nothing.", |_| Value::None),
    ];

    fn labels(&self) -> Vec<&str> {
        vec![self.0, "k"]
    }
}

#[test]
fn labels_are_escaped_and_what_has_no_value_is_left_out() {
    let mut text = Text::default();
    text.add(&[Named("none", None), Named("a\"b\\c\nd", Some(7))]);
    let expected = r#"# HELP a_total Counts.
# TYPE a_total counter
a_total{name="a\"b\\c\nd",kind="k"} 7
# HELP b_bytes Sizes.
# TYPE b_bytes summary
b_bytes_sum{name="none",kind="k"} 9
b_bytes_count{name="none",kind="k"} 2
b_bytes_sum{name="a\"b\\c\nd",kind="k"} 9
b_bytes_count{name="a\"b\\c\nd",kind="k"} 2
"#;
    assert_eq!(text.finish(), expected);
}

struct Timed(Kind);

impl Row for Timed {
    const OF: &'static str = "test";
    const METRICS: &'static [Metric<Self>] = &[
        Metric::new("s", Kind::Seconds, "Times.", |row| value(row, Kind::Seconds)),
        Metric::new("ms", Kind::Milliseconds, "Times.", |row| value(row, Kind::Milliseconds)),
    ];
}

fn value(row: &Timed, kind: Kind) -> Value {
    let times = Times::default();
    for us in [100, 2_000, 60_000_000] {
        times.add(Duration::from_micros(us));
    }
    if row.0 == kind { times.get().into() } else { Value::None }
}

#[test]
fn buckets_add_up_and_have_the_unit_of_the_name() {
    let written = |kind| {
        let mut text = Text::default();
        text.add(&[Timed(kind)]);
        text.finish()
    };
    let seconds = written(Kind::Seconds);
    for line in [
        "s_bucket{le=\"0.0001\"} 1\n",
        "s_bucket{le=\"0.001\"} 1\n",
        "s_bucket{le=\"0.0025\"} 2\n",
        "s_bucket{le=\"30\"} 2\n",
        "s_bucket{le=\"+Inf\"} 3\n",
        "s_sum 60.0021\n",
        "s_count 3\n",
    ] {
        assert!(seconds.contains(line), "{line} in {seconds}");
    }
    let milliseconds = written(Kind::Milliseconds);
    assert!(milliseconds.contains("ms_bucket{le=\"0.1\"} 1\n"), "{milliseconds}");
    assert!(milliseconds.contains("ms_sum 60002.1\n"), "{milliseconds}");
}

#[test]
fn names_are_used_once_and_say_what_they_are() {
    fn names<R: Row>(seen: &mut BTreeSet<&str>) {
        for Metric { name, kind, meaning, .. } in R::METRICS {
            assert!(seen.insert(name), "{name} is there twice");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert_eq!(
                name.ends_with("_seconds"),
                *kind == Kind::Seconds || name.ends_with("age_seconds")
            );
            assert!(meaning.ends_with('.') && !meaning.contains('\n'), "{name}: {meaning}");
        }
    }
    let mut seen = BTreeSet::new();
    names::<AlarmMetrics>(&mut seen);
    names::<BrokerMetrics>(&mut seen);
    names::<TopicMetrics>(&mut seen);
    names::<SubscriptionMetrics>(&mut seen);
    names::<LogMetrics>(&mut seen);
    names::<MetaMetrics>(&mut seen);
    names::<ServerMetrics>(&mut seen);
    names::<ProcessMetrics>(&mut seen);
}

#[test]
fn the_reference_is_in_step() {
    let written = include_str!("../../../../docs/reference/metrics.md");
    assert!(written == reference(), "run: cargo run -- config metrics > docs/reference/metrics.md");
}
