//! A simulated process: it uses what it is said to use.

use std::sync::{Arc, Mutex, PoisonError};

use crate::process::{Process, Usage};

/// All that it uses is set from outside; at first nothing. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct SimProcess(Arc<Mutex<Usage>>);

impl SimProcess {
    /// It uses this from now on.
    pub(super) fn set(&self, usage: Usage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }
}

impl Process for SimProcess {
    fn usage(&self) -> Usage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
