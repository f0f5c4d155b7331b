//! The clock by which files grow old: one that no jump of the wall clock makes run ahead.
//!
//! It begins at a start with the wall clock, unless that is too far behind the newest message to be believed: then with that
//! message's time. It goes on with the monotonic one. Where the wall clock falls behind it, it is
//! set back to that; so it is never ahead of the wall clock, and never faster than time passes. What is known of a file is
//! never later than this clock when that was learnt: so a time that a wrong clock has stamped makes a file stay for its
//! limit at most, counted from when the clock was right again.

use std::time::Duration;

use danube_model::TimeMs;

/// A broker is believed to have stood still, or to have received nothing, for so long: 30 days.
const BELIEVED_MS: u64 = 30 * 24 * 3600 * 1000;

/// It.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgeClock {
    time_ms: u64,
    at: Duration,
}

impl AgeClock {
    /// It at a start, when `newest` was received last of all that is stored; zero if there is nothing.
    pub(crate) fn start(wall_ms: u64, monotonic: Duration, newest: TimeMs) -> Self {
        let is_believed = newest == TimeMs::ZERO || wall_ms <= newest.get() + BELIEVED_MS;
        if !is_believed {
            tracing::warn!(
                newest = %newest,
                wall_clock = %TimeMs::new(wall_ms),
                "the wall clock is far ahead of the newest message and is not believed: for retention no time has passed since"
            );
        }
        Self::new(if is_believed { wall_ms } else { newest.get() }, monotonic)
    }

    fn new(time_ms: u64, at: Duration) -> Self {
        Self { time_ms, at }
    }

    /// What it said when it was made, or set back.
    pub(crate) fn began_ms(&self) -> u64 {
        self.time_ms
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
    fn one_that_is_far_ahead_at_the_start_is_not_believed() {
        let start = |wall_days: u64, newest_days: u64| {
            let newest = TimeMs::new(newest_days * DAY);
            AgeClock::start(wall_days * DAY, Duration::ZERO, newest).began_ms() / DAY
        };
        assert_eq!([start(130, 100), start(131, 100), start(90, 100)], [130, 100, 90]);
        assert_eq!(start(131, 0), 131, "there is nothing that could go");
        // Nor later; and once it is right it is believed again.
        let mut clock = AgeClock::start(9_000 * DAY, Duration::ZERO, TimeMs::new(100 * DAY));
        let read = |clock: &mut AgeClock, wall_days: u64, days: u64| {
            clock.read(wall_days * DAY, Duration::from_millis(days * DAY)).get() / DAY
        };
        assert_eq!(read(&mut clock, 9_001, 1), 101);
        assert_eq!(read(&mut clock, 99, 2), 99);
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
