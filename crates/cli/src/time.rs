//! Times as people and JSON have them: RFC 3339, in UTC.

use danube_model::TimeMs;
use jiff::Timestamp;

/// With milliseconds: `2026-01-31T12:00:00.000Z`. A time after the year 9999, which the form can't hold, is shown as its end.
pub(crate) fn rfc3339(time: TimeMs) -> String {
    let milliseconds = i64::try_from(time.get()).unwrap_or(i64::MAX);
    let timestamp = Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX);
    format!("{timestamp:.3}")
}

/// Parses a time with any offset from UTC; none for what is no time, or lies before 1970.
pub(crate) fn parse(text: &str) -> Option<TimeMs> {
    let timestamp: Timestamp = text.parse().ok()?;
    u64::try_from(timestamp.as_millisecond()).ok().map(TimeMs::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_769_860_800_123, "2026-01-31T12:00:00.123Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] {
            let time = TimeMs::new(milliseconds);
            assert_eq!(rfc3339(time), text);
            assert_eq!(parse(text), Some(time));
        }
        assert_eq!(parse("1970-01-01T02:00:01+02:00"), Some(TimeMs::new(1000)));
        for text in ["", "yesterday", "2026-01-31", "1969-12-31T23:59:59Z", "2026-01-31T12:00:00"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(rfc3339(TimeMs::MAX).starts_with("9999-12-30T"), "{}", rfc3339(TimeMs::MAX));
    }
}
