//! Names of the files in the metadata directory.

use std::path::{Path, PathBuf};

/// The vote.
pub(crate) const VOTE: &str = "vote";
/// Space given up when the volume is full.
pub(crate) const RESERVE: &str = "reserve";
/// Ending of files that are not complete. They are never read.
pub(crate) const TEMPORARY: &str = ".tmp";

/// What a file's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// The vote.
    Vote,
    /// Entries from this index on.
    Log(u64),
    /// State after the entry of this index.
    Snapshot(u64),
    /// Space to give up.
    Reserve,
    /// Left over from a file that was never finished.
    Temporary,
}

impl Name {
    /// What this name says, or `None` if no rule makes it.
    pub(crate) fn parse(name: &str) -> Option<Name> {
        if name == VOTE {
            return Some(Name::Vote);
        }
        if name == RESERVE {
            return Some(Name::Reserve);
        }
        if name.ends_with(TEMPORARY) {
            return Some(Name::Temporary);
        }
        let numbered = |prefix: &str, suffix: &str| {
            let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            let canonical = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
            canonical.then(|| digits.parse::<u64>().ok()).flatten()
        };
        numbered("log-", ".rlog")
            .map(Name::Log)
            .or_else(|| numbered("snapshot-", ".snap").map(Name::Snapshot))
    }
}

/// Where entries from `first` on are.
pub(crate) fn log_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("log-{first:020}.rlog"))
}

/// Where the state after the entry `last` is.
pub(crate) fn snapshot_path(dir: &Path, last: u64) -> PathBuf {
    dir.join(format!("snapshot-{last:020}.snap"))
}

/// Where a file is written before it gets its name.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_paths_say() {
        let dir = Path::new("raft");
        let name = |path: PathBuf| path.file_name().and_then(|name| Name::parse(name.to_str()?));
        assert_eq!(name(log_path(dir, 17)), Some(Name::Log(17)));
        assert_eq!(name(log_path(dir, u64::MAX)), Some(Name::Log(u64::MAX)));
        assert_eq!(name(snapshot_path(dir, 0)), Some(Name::Snapshot(0)));
        assert_eq!(name(dir.join(VOTE)), Some(Name::Vote));
        assert_eq!(name(temporary_path(&log_path(dir, 3))), Some(Name::Temporary));
    }

    #[test]
    fn other_names_are_nobodys() {
        for name in [
            "log-1.rlog",
            "log-0000000000000000000x.rlog",
            "log-99999999999999999999.rlog",
            "vote2",
            "",
        ] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }
}
