//! openraft's own tests of what its storage has to do, run on ours.

use danube_env::Env;
use danube_env::sim::SimDisk;
use openraft::testing::{StoreBuilder, Suite};
use openraft::{AnyError, StorageError, StorageIOError};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::raft::Types;
use crate::raft::group::Start;
use crate::raft::log_store::LogStore;
use crate::raft::machine::{Applied, Machine};
use crate::store::recover;
use crate::store::thread::StoreThread;

use super::*;

struct Builder;

impl StoreBuilder<Types, LogStore, Machine> for Builder {
    async fn build(&self) -> Result<((), LogStore, Machine), StorageError<u64>> {
        let env = Env { disk: SimDisk::new(1).mount(), ..Env::real() };
        let open = || {
            let contents = recover::read(&*env.disk, "/data/raft".as_ref())?;
            let start = Start::decode(&contents, danube_model::BrokerId::new(1))?;
            let store = contents.settle(&env, &start.vote(), 4096)?;
            Ok((start, store))
        };
        let opened: crate::Result<_> = open();
        let (start, store) = opened.map_err(|error| StorageIOError::read(AnyError::new(&error)))?;
        let (thread, _running) = StoreThread::spawn(&env, store, Failure::none());
        let (memory, facts) = start.into_parts();
        let (changes, _) = watch::channel(0);
        let applied = Arc::new(Applied::new(facts));
        let machine = Machine::new(env.clone(), thread.clone(), applied, changes, false);
        Ok(((), LogStore::new(1, thread, memory), machine))
    }
}

#[test]
fn openrafts_storage_suite() {
    Suite::test_all(Builder).unwrap();
}
