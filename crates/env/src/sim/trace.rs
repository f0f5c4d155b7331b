//! What happened, so that two runs of one seed can be compared.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::generator::mix;

/// A running hash over all that happens in a world, and on demand its lines. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    hash: u64,
    events: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A hash over all events so far and their order.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.state().hash
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.state().events
    }

    /// From here on keeps a line for each event.
    pub fn keep_lines(&self) {
        self.state().lines.get_or_insert_default();
    }

    /// The lines kept so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.state().lines.clone().unwrap_or_default()
    }

    /// Enters an event of a test or of a simulated component.
    pub fn note(&self, event: fmt::Arguments<'_>) {
        let line = event.to_string();
        self.enter(digest(line.as_bytes()), || line);
    }

    /// Enters an event by its digest; `line` is asked for only if lines are kept.
    pub(super) fn enter(&self, digest: u64, line: impl FnOnce() -> String) {
        let mut state = self.state();
        state.hash = mix(state.hash.rotate_left(5) ^ digest);
        state.events += 1;
        if let Some(lines) = &mut state.lines {
            lines.push(line());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is complete, so that a panic elsewhere does not matter.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hash of bytes: fast, equal in every process, of no other merit.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
    let step = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    // Four lanes, since each step waits for the one before it.
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut lanes = [bytes.len() as u64, 1, 2, 3];
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    let hash = lanes.into_iter().fold(0, step);
    mix(rest.iter().fold(hash, |hash, byte| step(hash, u64::from(*byte))))
}
