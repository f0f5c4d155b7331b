//! Bugs that are planted on purpose, so that the simulator can show that it finds such bugs.
//!
//! Each plant is a line or two at the place where the bug would be, behind [`is`]. Without the feature `mutants` that is
//! `false` at compile time, and nothing of a plant is left in the program.

use danube_env::File;

/// The name of every planted bug.
#[cfg(feature = "mutants")]
pub const MUTANTS: [&str; 9] = [
    "ack_before_sync",
    "no_directory_sync",
    "sync_retried",
    "cut_at_hole",
    "recovered_tail_not_synced",
    "older_epoch_replayed",
    "replay_refused",
    "likely_bytes_kept",
    "removed_before_start_is_durable",
];

#[cfg(feature = "mutants")]
mod chosen {
    use std::cell::Cell;

    thread_local! {
        static CHOSEN: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Lets the code that runs on this thread have this bug from here on; `None`: no bug.
    ///
    /// # Panics
    ///
    /// If there is no such bug.
    pub fn plant(name: Option<&str>) {
        let find = |name| super::MUTANTS.into_iter().find(|known| *known == name);
        CHOSEN.set(name.map(|name| find(name).expect("a planted bug has a name in the list")));
    }

    pub(crate) fn is(name: &str) -> bool {
        debug_assert!(super::MUTANTS.contains(&name), "{name} is not in the list");
        CHOSEN.get() == Some(name)
    }
}

#[cfg(feature = "mutants")]
pub(crate) use chosen::is;
#[cfg(feature = "mutants")]
pub use chosen::plant;

/// Whether a file shows these bytes already, and the bug `likely_bytes_kept` is planted.
pub(crate) fn looks_written(file: &dyn File, parts: &[&[u8]], position: u64) -> bool {
    let shows = || {
        let expected = parts.concat();
        let mut bytes = vec![0; expected.len()];
        file.read_at(&mut bytes, position).is_ok() && bytes == expected
    };
    is("likely_bytes_kept") && shows()
}

/// Whether this bug is planted.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_name: &str) -> bool {
    false
}
