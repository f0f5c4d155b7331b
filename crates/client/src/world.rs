//! All that the client takes from the world besides the network: time, randomness and tasks.
//!
//! A program that embeds the client has no environment of ours to hand over, so this is the one place in it that asks
//! the system itself.

use std::future::Future;
use std::time::{Duration, SystemTime};

use danube_model::TimeMs;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Monotonic time since this value was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the client may not import env")]
    pub(crate) fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Completes at `time`, or at once if it has passed. Cancel safe.
    pub(crate) async fn sleep_until(&self, time: Duration) {
        tokio::time::sleep_until(self.origin + time).await;
    }
}

/// The wall clock.
#[expect(clippy::disallowed_methods, reason = "the client may not import env")]
pub(crate) fn wall_time() -> TimeMs {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 is wrong; the broker keeps its own receive time anyway.
    TimeMs::new(since_epoch.map_or(0, |elapsed| elapsed.as_millis() as u64))
}

/// 64 random bits from the system.
pub(crate) fn random() -> u64 {
    getrandom::u64().expect("the system has a source of randomness")
}

/// Runs a task that its handle's owner ends.
#[expect(clippy::disallowed_methods, reason = "the client may not import env")]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(task)
}

/// Waits `duration`. Cancel safe.
#[expect(clippy::disallowed_methods, reason = "the client may not import env")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
