//! Whether the wall clock goes with time.

use std::time::Duration;

/// Compares the wall clock with the monotonic one, check by check: slow corrections are none of its business.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockWatch {
    wall_ms: u64,
    at: Duration,
    jumped: Option<Jump>,
}

/// A jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jump {
    at: Duration,
    /// By so much, ahead or back.
    pub(super) by_ms: i64,
}

impl ClockWatch {
    pub(super) fn new(wall_ms: u64, at: Duration) -> Self {
        Self { wall_ms, at, jumped: None }
    }

    /// The clocks show this. The last jump by `limit` or more, if it is not longer ago than `kept`.
    pub(super) fn read(
        &mut self,
        wall_ms: u64,
        at: Duration,
        limit: Duration,
        kept: Duration,
    ) -> Option<Jump> {
        let passed_ms = i128::try_from(at.saturating_sub(self.at).as_millis()).unwrap_or(i128::MAX);
        let off_ms = i128::from(wall_ms) - i128::from(self.wall_ms) - passed_ms;
        (self.wall_ms, self.at) = (wall_ms, at);
        if off_ms.unsigned_abs() >= limit.as_millis() {
            let by_ms =
                i64::try_from(off_ms).unwrap_or(if off_ms < 0 { i64::MIN } else { i64::MAX });
            self.jumped = Some(Jump { at, by_ms });
        }
        self.jumped.take_if(|jump| at.saturating_sub(jump.at) > kept);
        self.jumped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_told_for_a_while_and_a_slow_clock_is_none() {
        let mut watch = ClockWatch::new(1_000_000, Duration::from_secs(5));
        let mut read = |wall_s: u64, at_s: u64| {
            let (limit, kept) = (Duration::from_secs(10), Duration::from_secs(60));
            let jump = watch.read(wall_s * 1000, Duration::from_secs(at_s), limit, kept);
            jump.map(|jump| jump.by_ms / 1000)
        };
        assert_eq!(read(1001, 6), None);
        // Suspended: both went on.
        assert_eq!(read(5001, 4006), None);
        for second in 1..60 {
            assert_eq!(read(5001 + 2 * second, 4006 + second), None, "one second each second");
        }
        assert_eq!(read(91_519, 4066), Some(86_399));
        assert_eq!(read(91_579, 4126), Some(86_399));
        assert_eq!(read(91_580, 4127), None);
        assert_eq!(read(1000, 4128), Some(-90_581));
    }
}
