//! Segment files that stay open between two uses, of all logs and readers, under one limit.
//!
//! Who uses a file opens it, and has the pool keep it until the next time. Beyond the limit those go that were used
//! longest ago; who had one of them opens it again. A file that somebody is reading or writing right now stays open for as
//! long as that takes, whatever becomes of its place.
//!
//! What was written and not synced does not depend on the pool: `bodies::dirty` holds on to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use danube_env::File;

/// The open files.
pub(crate) struct Pool {
    files_max: usize,
    kept: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// By the turn of their last use.
    by_turn: BTreeMap<u64, Arc<dyn File>>,
    turns: u64,
}

/// A place in the pool. Letting go of it closes the file.
pub(crate) struct Kept {
    pool: Arc<Pool>,
    turn: u64,
}

impl Pool {
    pub(crate) fn new(files_max: usize) -> Arc<Self> {
        Arc::new(Self { files_max, kept: Mutex::default() })
    }

    /// Keeps a file that was just opened.
    pub(crate) fn keep(self: &Arc<Self>, file: Arc<dyn File>) -> Kept {
        let turn = self.files().enter(file);
        let kept = Kept { pool: Arc::clone(self), turn };
        // Files are closed outside of the lock.
        while let Some(_oldest) = self.take_surplus() {}
        kept
    }

    fn take_surplus(&self) -> Option<Arc<dyn File>> {
        let mut files = self.files();
        let is_over = files.by_turn.len() > self.files_max;
        is_over.then(|| files.by_turn.pop_first())?.map(|(_, file)| file)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.kept.lock().expect("nothing panics while it holds the files")
    }
}

impl Files {
    fn enter(&mut self, file: Arc<dyn File>) -> u64 {
        self.turns += 1;
        self.by_turn.insert(self.turns, file);
        self.turns
    }
}

impl Kept {
    /// The file, for a use right now; None if it was closed meanwhile.
    pub(crate) fn file(&mut self) -> Option<Arc<dyn File>> {
        let mut files = self.pool.files();
        let file = files.by_turn.remove(&self.turn)?;
        self.turn = files.enter(Arc::clone(&file));
        Some(file)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let file = self.pool.files().by_turn.remove(&self.turn);
        drop(file);
    }
}

#[cfg(test)]
mod tests {
    use danube_env::Disk;
    use danube_env::disk::Open;
    use danube_env::real::RealDisk;

    use super::*;

    #[test]
    fn the_file_that_was_used_longest_ago_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name| RealDisk::new().open(&dir.path().join(name), Open::Create).unwrap();
        let pool = Pool::new(2);
        let (mut a, mut b) = (pool.keep(open("a")), pool.keep(open("b")));
        let in_use = b.file().unwrap();
        assert!(a.file().is_some());
        let mut c = pool.keep(open("c"));
        assert!(b.file().is_none() && a.file().is_some() && c.file().is_some());
        assert_eq!(Arc::strong_count(&in_use), 1, "only its user has it");
        drop(a);
        assert_eq!(pool.files().by_turn.len(), 1);
        drop(c);
        assert!(pool.files().by_turn.is_empty());
    }
}
