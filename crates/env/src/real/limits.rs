//! What the kernel lets this process use.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one, and returns the limit; None if there is none. Shells set the soft one
/// low for programs that use `select(2)`, which takes no higher numbers.
///
/// # Errors
///
/// What `setrlimit(2)` says; the limit is as it was then.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum)
}

/// How many files this process may have open; None: without limit.
#[must_use]
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_open_files_becomes_the_hard_one() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum }).unwrap();
        assert_eq!(raise_open_files().unwrap(), maximum);
        assert_eq!(open_files(), maximum);
    }
}
