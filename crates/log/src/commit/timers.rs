//! When the commit loop has something to do by itself.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use danube_env::Clock;

/// Wakes the loop by the time when something is due, or before: what is set stays set, because setting it for each wait would
/// wake a thread of the runtime each time.
#[derive(Default)]
pub(super) struct Alarm(Option<(Duration, Sleep)>);

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// When something is due, by the monotonic clock.
#[derive(Default)]
pub(super) struct Timers {
    /// Rounds of `page_cache` logs want a sync.
    pub(super) sync: Option<Duration>,
    /// The last synced round wants to be entered.
    pub(super) quiet: Option<Duration>,
    /// Segments are looked at for their age.
    pub(super) age: Duration,
    /// A journal file could not be made: the next try comes not before this.
    pub(super) no_file_before: Duration,
    /// Writes took long lately: none is tried on a lent thread before this.
    pub(super) at_home_before: Duration,
}

impl Alarm {
    /// Completes by `due`. Cancel safe.
    pub(super) async fn by(&mut self, due: Duration, now: Duration, clock: &dyn Clock) {
        if self.0.as_ref().is_none_or(|(set, _)| *set > due) {
            self.0 = Some((due, clock.sleep(due.saturating_sub(now))));
        }
        let (_, sleep) = self.0.as_mut().expect("it was just set");
        sleep.await;
        self.0 = None;
    }
}

impl Timers {
    /// When something is due.
    pub(super) fn next(&self, now: Duration) -> Duration {
        let no_file = Some(self.no_file_before).filter(|before| *before > now);
        let due = [self.sync, self.quiet, no_file].into_iter().flatten();
        due.fold(self.age, Duration::min)
    }
}
