//! What the checker found.

use std::fmt;

use super::history::Event;

/// Violations that are kept; the first ones tell the story.
const VIOLATIONS_MAX: usize = 100;
/// Events that are shown before and behind the first violation.
const EVENTS_AROUND: usize = 10;

/// A rule of the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// I1.
    NoLostAck,
    /// I2.
    NoPhantom,
    /// I3.
    OneValuePerOffset,
    /// I4.
    Dense,
    /// I5.
    AckOrder,
    /// I6.
    PerKeyOrder,
    /// I12.
    VisibleAfterDurable,
    /// Too little happened.
    NotVacuous,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLostAck => "I1 no lost ack",
            Self::NoPhantom => "I2 no phantom",
            Self::OneValuePerOffset => "I3 one value per offset",
            Self::Dense => "I4 dense",
            Self::AckOrder => "I5 ack order",
            Self::PerKeyOrder => "I6 per-key order",
            Self::VisibleAfterDurable => "I12 visible after durable",
            Self::NotVacuous => "not vacuous",
        })
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// How.
    pub what: String,
    /// The event that shows it, by its place in the history.
    pub event: Option<usize>,
}

/// How much happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages acknowledged.
    pub ok: usize,
    /// Messages definitely refused.
    pub failed: usize,
    /// Messages of which nobody knows.
    pub unknown: usize,
    /// Messages received before the drain.
    pub received: usize,
    /// Messages in the drains.
    pub drained: usize,
    /// Faults caused.
    pub faults: usize,
}

/// The checker's answer.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// How much happened.
    pub counts: Counts,
    /// What was wrong, at most so many as are kept; none means that all promises were kept.
    pub violations: Vec<Violation>,
    /// How many more there were.
    pub more: usize,
    /// The events around the first violation.
    context: Vec<String>,
}

impl Verdict {
    /// Whether all rules held.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    /// Demands that all rules held.
    ///
    /// # Panics
    ///
    /// If one did not, with the events around it.
    #[track_caller]
    pub fn assert_good(&self) {
        assert!(self.is_good(), "{self}");
    }

    pub(super) fn add(&mut self, rule: Rule, event: Option<usize>, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { rule, what, event });
        } else {
            self.more += 1;
        }
    }

    /// Keeps what is to be shown around the first violation that has an event.
    pub(super) fn explain(&mut self, events: &[Event]) {
        let Some(at) = self.violations.iter().find_map(|violation| violation.event) else { return };
        let first = at.saturating_sub(EVENTS_AROUND);
        let shown = events.iter().enumerate().skip(first).take(2 * EVENTS_AROUND + 1);
        self.context = shown
            .map(|(place, event)| {
                format!("{} {place:>7} {event}", if place == at { ">" } else { " " })
            })
            .collect();
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { ok, failed, unknown, received, drained, faults } = self.counts;
        writeln!(
            f,
            "{ok} ok, {failed} failed, {unknown} unknown, {received} received, {drained} drained, {faults} faults"
        )?;
        for Violation { rule, what, .. } in &self.violations {
            writeln!(f, "{rule}: {what}")?;
        }
        if self.more > 0 {
            writeln!(f, "and {} more", self.more)?;
        }
        self.context.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
