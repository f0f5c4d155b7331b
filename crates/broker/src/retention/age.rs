//! The clock by which files grow old: one that no jump of the wall clock makes run ahead.
//!
//! It begins at a start with the wall clock and goes on with the monotonic one. Where the wall clock falls behind it, it is
//! set back to that; so it is never ahead of the wall clock, and never faster than time passes. What is known of a file is
//! never later than this clock when that was learnt: so a time that a wrong clock has stamped makes a file stay for its
//! limit at most, counted from when the clock was right again.

use std::time::Duration;

use danube_model::TimeMs;

/// It.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgeClock {
    time_ms: u64,
    at: Duration,
}

impl AgeClock {
    pub(super) fn new(wall_ms: u64, monotonic: Duration) -> Self {
        Self { time_ms: wall_ms, at: monotonic }
    }

    /// What it says now.
    pub(super) fn read(&mut self, wall_ms: u64, monotonic: Duration) -> TimeMs {
        let passed = monotonic.saturating_sub(self.at).as_millis();
        let now = self.time_ms.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        if wall_ms < now {
            *self = Self::new(wall_ms, monotonic);
        }
        TimeMs::new(wall_ms.min(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    #[track_caller]
    fn check(readings: &[(u64, u64, u64)]) {
        let mut clock = AgeClock::new(5 * DAY, Duration::from_secs(9));
        for (wall_ms, seconds, expected) in readings {
            let now = clock.read(*wall_ms, Duration::from_secs(9 + seconds));
            assert_eq!(now.get(), *expected, "{readings:?}");
        }
    }

    #[test]
    fn a_wall_clock_that_jumps_ahead_makes_nothing_older() {
        check(&[(5 * DAY + 1000, 1, 5 * DAY + 1000), (6 * DAY, 2, 5 * DAY + 2000)]);
        // And back: nothing has happened.
        check(&[(6 * DAY, 2, 5 * DAY + 2000), (5 * DAY + 3000, 3, 5 * DAY + 3000)]);
    }

    #[test]
    fn one_that_is_set_back_does_not_stop_it() {
        check(&[(4 * DAY, 1, 4 * DAY), (4 * DAY + 60_000, 61, 4 * DAY + 60_000)]);
        check(&[(0, 1, 0), (1000, 2, 1000)]);
    }

    #[test]
    fn one_that_was_wrong_at_the_start_is_followed_back() {
        check(&[(3 * DAY, 10, 3 * DAY), (9 * DAY, 20, 3 * DAY + 10_000)]);
    }
}
