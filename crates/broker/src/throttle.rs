//! Producers of one topic wait where more comes than it may take a second.

use std::time::Duration;

use danube_dispatch::Pace;
use danube_env::Clock;
use danube_model::metric::TimeCounter;
use tokio::sync::Mutex;

/// One topic's.
pub(crate) struct Throttle {
    /// Held by whose turn it is; the others come in the order in which they asked. `None`: no limit.
    pace: Option<Mutex<Pace>>,
    /// How long batches and single messages have waited, each counted.
    pub(crate) waited: TimeCounter,
}

impl Throttle {
    /// So many messages a second; 0: no limit.
    pub(crate) fn new(per_second: u64, now: Duration) -> Throttle {
        let pace = Pace::new(per_second, now).map(Mutex::new);
        Throttle { pace, waited: TimeCounter::default() }
    }

    /// Whether anybody may have to wait.
    pub(crate) fn is_limited(&self) -> bool {
        self.pace.is_some()
    }

    /// Returns when so many messages may come. Cancel safe: those of a call that did not return are not counted.
    pub(crate) async fn pass(&self, messages: u64, clock: &dyn Clock) {
        let Some(pace) = &self.pace else { return };
        let came = clock.monotonic();
        let mut pace = pace.lock().await;
        loop {
            let now = clock.monotonic();
            let wait = pace.wait(messages, now);
            if wait.is_zero() {
                pace.take(messages);
                return self.waited.add(now.saturating_sub(came));
            }
            clock.sleep(wait).await;
        }
    }
}
