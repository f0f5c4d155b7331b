//! Simulated time: tokio's paused clock, which jumps to the next timer when nothing else is left to do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::Clock;

/// Wall clock of every machine when its world begins: 2026-01-01T00:00:00Z.
pub const WALL_START_MS: u64 = 1_767_225_600_000;

/// What a machine's monotonic clock shows when it boots.
const AT_BOOT: Duration = Duration::from_secs(10);

/// One machine's clocks since its boot.
#[derive(Clone, Debug)]
pub struct SimClock {
    world_start: Instant,
    boot: Instant,
    /// What this machine's wall clock is ahead, in milliseconds.
    ahead_ms: Arc<AtomicI64>,
}

impl SimClock {
    /// The clocks of a machine that boots now, in a world that began at `world_start`.
    pub(super) fn new(world_start: Instant, ahead_ms: Arc<AtomicI64>) -> Self {
        Self { world_start, boot: now(), ahead_ms }
    }
}

impl Clock for SimClock {
    fn wall_ms(&self) -> u64 {
        let elapsed = (now() - self.world_start).as_millis() as u64;
        (WALL_START_MS + elapsed).saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        AT_BOOT + (now() - self.boot)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(sleep(duration))
    }
}

#[expect(clippy::disallowed_methods, reason = "tokio's clock is paused here")]
pub(super) fn sleep(duration: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(duration)
}

#[expect(clippy::disallowed_methods, reason = "tokio's clock is paused here")]
pub(super) fn now() -> Instant {
    Instant::now()
}
