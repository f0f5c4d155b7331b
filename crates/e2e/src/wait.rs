//! Waiting for a condition, with a deadline; never for a time.

use std::time::{Duration, Instant};

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// Measures real time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "real processes run in real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Calls `condition` until it returns something, and returns that.
///
/// # Panics
///
/// If that takes longer than `limit`; `what` says what was waited for.
pub fn within<T>(limit: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    try_within(limit, &mut condition).unwrap_or_else(|| panic!("no {what} within {limit:?}"))
}

/// Calls `condition` until it returns something; none if that takes longer than `limit`.
#[expect(clippy::disallowed_methods, reason = "looks at real processes, which call nobody back")]
pub fn try_within<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let watch = Stopwatch::start();
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if watch.elapsed() > limit {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Lets time pass before a fault is caused. Not for waiting until something has happened.
#[expect(clippy::disallowed_methods, reason = "a fault at a random moment")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_waited_for() {
        let mut calls = 0;
        let value = within(Duration::from_secs(60), "third call", || {
            calls += 1;
            (calls == 3).then_some("here")
        });
        assert_eq!((value, calls), ("here", 3));
    }

    #[test]
    #[should_panic(expected = "no miracle within 0ns")]
    fn a_condition_that_never_comes_is_named() {
        within(Duration::ZERO, "miracle", || None::<()>);
    }
}
