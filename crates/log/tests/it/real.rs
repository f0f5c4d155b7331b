//! A real disk, and the real page cache.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use danube_env::Env;
use danube_env::disk::{Disk, Open};
use danube_env::real::RealDisk;
use danube_log::{Error, Report, Start, Store};
use danube_model::Durability;

use crate::support::{batch, plan_open, read_all, small};

/// Opens a store whose last process may still be on its way out.
async fn open_soon(root: &str, env: &Env) -> (Store, Report) {
    for _ in 0..2_000 {
        match Store::open(small(root), env.clone()).await {
            Err(Error::Busy { .. }) => env.clock.sleep(Duration::from_millis(5)).await,
            opened => return opened.expect("it opens"),
        }
    }
    panic!("the last process never ends");
}

/// Memory lets go of the files in `dir`, but for those that get another name meanwhile: nothing is in them yet.
fn forget(dir: &Path) {
    let disk = RealDisk::new();
    for entry in disk.list(dir).expect("there are files") {
        let file = match disk.open(&dir.join(&entry.name), Open::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => opened.expect("a file"),
        };
        file.sync_data().expect("it is synced");
        file.forget_cached();
    }
}

/// The end of the journal lies before a block that an earlier round was written to, long ago, and that memory has let go of.
#[test]
fn a_kill_loses_nothing_at_page_cache_in_recycled_files() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let root = dir.path().join("wal");
    let root = root.to_str().expect("text");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let env = Env::real();
        let mut ceiling = 0;
        let mut stored = 0;
        for rounds in [300, 1, 7, 20, 0] {
            let (store, _) = open_soon(root, &env).await;
            let planned = plan_open(&store, 0, Durability::PageCache, &mut ceiling).await;
            let log = store.open_log(planned.expect("a log")).await.expect("it opens");
            let read = read_all(&log, Start::Earliest).await;
            assert_eq!(read.len(), stored, "{:?}", read.last());
            forget(&dir.path().join("wal/journal"));
            for _ in 0..rounds {
                log.append(batch(&[vec![7; 2000]], None)).await.expect("it is stored");
            }
            stored += rounds;
            drop(log);
            drop(store);
        }
    });
}
