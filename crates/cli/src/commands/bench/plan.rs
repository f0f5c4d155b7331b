//! When a producer sends: all decisions, no clock and no network.

use std::time::Duration;

/// The due times of one of several producers that keep a rate together: they take turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When the first message of all is due.
    pub(super) start: Duration,
    /// Messages per second of all producers, above 0.
    pub(super) per_second: f64,
    /// How many producers there are.
    pub(super) producers: u32,
    /// Which of them this is, from 0.
    pub(super) producer: u32,
}

/// What a producer sends, and when it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Without it, a message is due as soon as there is room for it.
    pub(super) pace: Option<Pace>,
    /// Messages that may be unacknowledged.
    pub(super) in_flight_max: usize,
    /// Messages that are left to send.
    pub(super) left: u64,
    /// From then on nothing is due. What was due before is still sent, as far as nothing has to be waited for.
    pub(super) end: Duration,
    /// Whether nothing more is sent.
    pub(super) is_over: bool,
    /// Messages that were sent.
    pub(super) sent: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send a message that was due at that time.
    Send { due: Duration },
    /// Nothing is due before that time.
    Wait { until: Duration },
    /// Wait for an acknowledgement.
    Settle,
    /// All is sent and acknowledged.
    Done,
}

impl Pace {
    /// When this producer's message of a number from 0 is due.
    fn due(&self, number: u64) -> Duration {
        let before = number as f64 * f64::from(self.producers) + f64::from(self.producer);
        // A rate near zero may be due beyond all time.
        let since = Duration::try_from_secs_f64(before / self.per_second);
        self.start.saturating_add(since.unwrap_or(Duration::MAX))
    }

    /// How many of its messages are due before a time.
    fn due_before(&self, time: Duration) -> u64 {
        let turns = time.saturating_sub(self.start).as_secs_f64() * self.per_second;
        ((turns - f64::from(self.producer)) / f64::from(self.producers)).ceil().max(0.0) as u64
    }
}

impl Plan {
    /// What to do at `now`, with so many messages in flight. What it says to send counts as sent.
    pub(super) fn step(&mut self, now: Duration, in_flight: usize) -> Step {
        let due = self.pace.map_or(now, |pace| pace.due(self.sent));
        let is_full = in_flight >= self.in_flight_max;
        let is_late = now >= self.end && (is_full || self.pace.is_none());
        self.is_over |= self.left == 0 || due >= self.end || is_late;
        if self.is_over {
            return if in_flight == 0 { Step::Done } else { Step::Settle };
        }
        if is_full {
            return Step::Settle;
        }
        if due > now {
            return Step::Wait { until: due };
        }
        self.left -= 1;
        self.sent += 1;
        Step::Send { due }
    }

    /// Makes `now` the end.
    pub(super) fn stop(&mut self, now: Duration) {
        self.end = self.end.min(now);
    }

    /// How many messages were due before the end and were not sent, because there was no room for them.
    pub(super) fn unsent(&self) -> u64 {
        let due = self.pace.map_or(0, |pace| pace.due_before(self.end));
        due.saturating_sub(self.sent).min(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::figures::Latencies;
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn plan(pace: Option<Pace>) -> Plan {
        Plan { pace, in_flight_max: 10, left: 1_000, end: Duration::MAX, is_over: false, sent: 0 }
    }

    fn pace(producers: u32, producer: u32) -> Option<Pace> {
        Some(Pace { start: ms(5_000), per_second: 1_000.0, producers, producer })
    }

    #[test]
    fn producers_take_turns() {
        let mut plans = [plan(pace(2, 0)), plan(pace(2, 1))];
        let mut due = Vec::new();
        for number in 0..4 {
            let Step::Send { due: at } = plans[number % 2].step(ms(6_000), 0) else {
                panic!("it is late")
            };
            due.push(at);
        }
        assert_eq!(due, [ms(5_000), ms(5_001), ms(5_002), ms(5_003)]);
        assert_eq!(plan(pace(2, 1)).step(ms(5_000), 0), Step::Wait { until: ms(5_001) });
        let never = Pace { per_second: 1e-300, ..pace(2, 1).unwrap() };
        assert_eq!(never.due(1), Duration::MAX);
    }

    #[test]
    fn the_window_and_the_ends_are_kept() {
        let mut plan = Plan { left: 2, ..plan(None) };
        assert_eq!(plan.step(ms(7), 10), Step::Settle);
        assert_eq!(plan.step(ms(7), 9), Step::Send { due: ms(7) });
        assert_eq!(plan.step(ms(8), 0), Step::Send { due: ms(8) });
        assert_eq!((plan.step(ms(9), 1), plan.step(ms(9), 0)), (Step::Settle, Step::Done));
        let mut plan = Plan { left: 1_000, end: ms(10), is_over: false, ..plan };
        assert_eq!(plan.step(ms(9), 0), Step::Send { due: ms(9) });
        assert_eq!((plan.step(ms(10), 1), plan.step(ms(10), 0)), (Step::Settle, Step::Done));
        let mut plan = Plan { end: Duration::MAX, is_over: false, ..plan };
        plan.stop(ms(20));
        assert_eq!(plan.step(ms(20), 0), Step::Done);
    }

    #[test]
    fn what_was_due_before_the_end_is_sent_behind_it_unless_the_window_is_full() {
        let plan = || Plan { end: ms(5_003), ..plan(pace(1, 0)) };
        let mut woken_late = plan();
        for due in [5_000, 5_001, 5_002] {
            assert_eq!(woken_late.step(ms(5_004), 0), Step::Send { due: ms(due) });
        }
        assert_eq!((woken_late.step(ms(5_004), 0), woken_late.unsent()), (Step::Done, 0));
        let mut full = plan();
        assert_eq!(full.step(ms(5_004), 0), Step::Send { due: ms(5_000) });
        assert_eq!(full.step(ms(5_004), 10), Step::Settle);
        assert_eq!((full.step(ms(5_004), 9), full.unsent()), (Step::Settle, 2));
    }

    #[test]
    fn what_could_not_be_sent_in_time_is_told() {
        let mut plan = Plan { end: ms(5_100), ..plan(pace(2, 1)) };
        for _ in 0..10 {
            assert!(matches!(plan.step(ms(5_050), 0), Step::Send { .. }));
        }
        assert_eq!(plan.step(ms(5_050), 10), Step::Settle);
        assert_eq!(plan.unsent(), 40);
        plan.left = 3;
        assert_eq!(plan.unsent(), 3);
        assert_eq!(Plan { end: ms(0), ..plan }.unsent(), 0);
    }

    /// A broker that acknowledges after 1 ms, and takes a break from 500 ms to 1000 ms, seen from a producer with this plan.
    fn stalled(mut plan: Plan) -> Latencies {
        let mut latencies = Latencies::new();
        let mut in_flight: VecDeque<(Duration, Duration)> = VecDeque::new();
        let mut now = ms(5_000);
        loop {
            while let Some((due, acknowledged)) = in_flight.front().copied()
                && acknowledged <= now
            {
                latencies.record(now - due);
                in_flight.pop_front();
            }
            match plan.step(now, in_flight.len()) {
                Step::Send { due } => {
                    let answers = match now >= ms(5_500) && now < ms(6_000) {
                        true => ms(6_000),
                        false => now + ms(1),
                    };
                    in_flight.push_back((due, answers));
                }
                Step::Wait { until } => {
                    now = in_flight.front().map_or(until, |(_, answer)| until.min(*answer));
                }
                Step::Settle => now = in_flight[0].1,
                Step::Done => return latencies,
            }
        }
    }

    #[test]
    fn a_stall_of_the_broker_shows_under_a_rate() {
        // 500 messages of 1000 were due meanwhile, though only 10 could be sent: each counts with its own delay.
        let percentiles = stalled(plan(pace(1, 0))).percentiles().unwrap();
        assert!(percentiles.p99 > 450.0, "{percentiles:?}");
        assert!(percentiles.p50 < 100.0, "{percentiles:?}");
        // Without due times the ten alone are late.
        let percentiles = stalled(Plan { left: 10_000, ..plan(None) }).percentiles().unwrap();
        assert!(percentiles.p99 < 10.0, "{percentiles:?}");
    }
}
