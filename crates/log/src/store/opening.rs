//! Opening a hot tier: first what may refuse it, then the recovery, then the two loops.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use danube_env::disk::Lock;
use danube_env::disk::names::create_dir_durably;
use danube_env::{Env, blocking};
use danube_model::{Epoch, TopicId};
use tokio::sync::{Semaphore, mpsc, watch};

use super::{Inner, Known, ROUNDS_MAX, Store, kib};
use crate::commit::{COMMANDS_MAX, Committer, Live};
use crate::config::{Config, Sizes};
use crate::error::{Error, Result};
use crate::fill::{Feedback, Filler};
use crate::journal::writer::Journal;
use crate::layout::Layout;
use crate::pool::Pool;
use crate::recovery::{self, Recovered, Report};

/// What the metadata say of a hot tier before it is opened: by that an older copy of it is told.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Sessions of the broker so far. The one that begins is the next; it is entered in the metadata once the hot tier is
    /// open, and before any log is.
    pub sessions: u64,
    /// The epoch of each topic.
    pub epochs: BTreeMap<TopicId, Epoch>,
}

/// A hot tier whose opening nothing refuses. It is locked, and nothing of what it holds was changed yet; `residency` notes
/// what was looked at.
pub struct Checked {
    config: Config,
    env: Env,
    layout: Layout,
    lock: Arc<dyn Lock>,
    sizes: Sizes,
    checked: recovery::Checked,
}

impl Store {
    /// Reads the hot tier at `config.root`.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if another process has it; [`Error::UnknownVersion`] for files of a newer build, which are left as they are;
    /// [`Error::Missing`] or [`Error::Corrupt`] where starting would hide a loss.
    pub async fn check(config: Config, env: Env) -> Result<Checked> {
        let spawn = Arc::clone(&env.spawn);
        let checked = blocking(&*spawn, move || {
            let layout = Layout::new(&config.root);
            let root = layout.root();
            create_dir_durably(&*env.disk, root).map_err(Error::dir)?;
            let lock = take_lock(&env, &layout)?;
            let space = env.disk.space(root).map_err(Error::io("measure", root))?;
            let sizes = Sizes::new(&config, space.total);
            let checked = recovery::check(&env, &layout, &sizes)?;
            Ok(Checked { config, env, layout, lock, sizes, checked })
        });
        checked.await
    }

    /// [`Store::check`], then [`Checked::open`], for a hot tier of which no metadata know.
    ///
    /// # Errors
    ///
    /// Those of both.
    pub async fn open(config: Config, env: Env) -> Result<(Self, Report)> {
        Self::check(config, env).await?.open(Expected::default()).await
    }

    /// Starts the two loops on a hot tier that was recovered. Blocks.
    fn start(
        config: Config,
        env: Env,
        layout: Layout,
        lock: Arc<dyn Lock>,
        sizes: Sizes,
        pool: Arc<Pool>,
        recovered: Recovered,
    ) -> Result<Self> {
        let Recovered { disk_id, writer, bodies, journal, report } = recovered;
        let logs = bodies.iter().map(|(topic, body)| (topic, Known::recovered(body))).collect();
        let (commands, told) = mpsc::channel(COMMANDS_MAX);
        let (fills, filler_told) = mpsc::channel(ROUNDS_MAX);
        let (stopped, stopped_seen) = watch::channel(None);
        let feedback = Feedback::default();
        let disk = Arc::clone(&env.disk);
        let Sizes { file_bytes, files_max, .. } = sizes;
        let committer = Committer::new(
            env.clone(),
            config.clone(),
            Journal::new(disk, layout.clone(), disk_id, file_bytes, files_max, journal)?,
            sizes,
            bodies.iter().map(|(topic, body)| (topic, Live::recovered(body))).collect(),
            (fills, feedback.clone()),
            stopped,
        );
        let (home, counters) = (committer.home(), committer.counters());
        bodies.iter().for_each(|(_, body)| counters.recovered(body, &layout));
        report.missing.iter().for_each(|(topic, damage)| counters.remember(*topic, damage));
        let mut filler = Filler {
            env: env.clone(),
            layout: layout.clone(),
            writer,
            bodies,
            fill_bytes: config.tail_bytes / 4,
            reserve: sizes.reserve,
            space_check: config.space_check,
            feedback,
            counters: Arc::clone(&counters),
            _lock: Arc::clone(&lock),
        };
        // Before the first append can come.
        filler.tell_space();
        let loops = vec![
            env.spawn.disk_thread("log-commit", Box::pin(home.run(Box::pin(committer.run(told))))),
            env.spawn.disk_thread("log-fill", Box::pin(filler.run(filler_told))),
        ];
        let queue_kib = kib(config.queue_bytes);
        let inner = Inner {
            layout,
            disk_id,
            commands,
            home,
            queue: Arc::new(Semaphore::new(queue_kib as usize)),
            queue_kib,
            stopped: stopped_seen,
            counters,
            logs: Mutex::new(logs),
            loops: Mutex::new(loops),
            pool,
            _lock: lock,
            env,
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Checked {
    /// Recovers what the last stop left, and runs.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] and its like: nothing but the disk stands in the way.
    pub async fn open(self, expected: Expected) -> Result<(Store, Report)> {
        let spawn = Arc::clone(&self.env.spawn);
        let opened = blocking(&*spawn, move || {
            let Self { config, env, layout, lock, sizes, checked } = self;
            let pool = Pool::new(config.open_files_max);
            let recovered = recovery::recover(&env, &layout, &sizes, &pool, checked, &expected)?;
            let report = recovered.report.clone();
            Ok((Store::start(config, env, layout, lock, sizes, pool, recovered)?, report))
        });
        opened.await
    }
}

fn take_lock(env: &Env, layout: &Layout) -> Result<Arc<dyn Lock>> {
    let path = layout.lock();
    env.disk.lock(&path).map(Arc::from).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Error::Busy { path },
        _ => Error::io("lock", path)(error),
    })
}
