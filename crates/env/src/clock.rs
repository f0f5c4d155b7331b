//! Time.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Wall and monotonic time, and sleeping.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. May jump in both directions.
    fn wall_ms(&self) -> u64;
    /// Time since some fixed point; never goes back and counts while the machine is suspended (`CLOCK_BOOTTIME`).
    fn monotonic(&self) -> Duration;
    /// Completes after `duration`. Cancel safe.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
