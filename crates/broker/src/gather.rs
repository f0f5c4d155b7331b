//! Messages that come one by one and are appended together.
//!
//! ```text
//!  nothing under way:   message ─▶ batch of one ─▶ log ─▶ answer
//!  while it is:         message ─┐
//!                       message ─┼▶ next batch ─▶ log, once the one before is answered ─▶ answers
//!                       message ─┘
//! ```
//!
//! So a lone message waits for nothing, and many at a time cost little more than one. They are appended in the order in which they
//! came. A message that no batch may hold is refused alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use danube_model::batch::{BatchBuilder, BatchLimits};
use danube_model::{Compression, Offset, Record};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error::{Error, Result};
use crate::topic::Topic;

/// Messages are joined up to a batch of so many bytes, which every journal takes, and in which there are never too many records.
/// A larger message goes alone: what is wrong with it fails nobody else.
const JOINED_BYTES_MAX: usize = 48 << 10;
/// Of one topic: KiB of messages that are under way or wait. Others have to wait outside, where they are gone with their callers.
const GATHERED_KIB_MAX: u32 = 8 << 10;

/// Of one topic.
pub(crate) struct Gather {
    state: Mutex<State>,
    room: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    /// A batch is under way; who brings it there goes on with those that wait.
    is_appending: bool,
    /// In order.
    waiting: VecDeque<Gathered>,
}

/// A batch that waits, and those whose messages are in it, in their order.
struct Gathered {
    builder: BatchBuilder,
    callers: Vec<oneshot::Sender<Result<Offset>>>,
    room: OwnedSemaphorePermit,
}

/// How a message comes to the log.
enum Way {
    /// Alone and at once.
    Alone(BatchBuilder, Turn, OwnedSemaphorePermit),
    /// With others.
    Joined(oneshot::Receiver<Result<Offset>>),
}

/// A caller that appends. When it is done, or gone, what waits has its turn.
struct Turn {
    topic: Topic,
}

/// A task that appends what waits, until nothing does.
struct Burst {
    topic: Topic,
    is_over: bool,
}

impl Topic {
    /// Appends a message, together with those that others append meanwhile, and waits for the topic's level. Messages of one
    /// caller are appended in the order in which these futures are first polled. Dropping the future does not undo the append.
    ///
    /// # Errors
    ///
    /// [`Error::Model`] for a record that no batch of this topic may hold; [`Error::effect`] tells whether the message may
    /// appear all the same.
    pub async fn append_message(&self, record: &Record) -> Result<Offset> {
        let mut own = self.builder();
        let bytes = own.len_with(record);
        let is_large = bytes > JOINED_BYTES_MAX;
        if is_large {
            own.append(record)?;
        }
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(GATHERED_KIB_MAX);
        let room = Arc::clone(&self.slot.gather.room).acquire_many_owned(kib).await;
        let room = room.expect("nobody closes it");
        match self.gather(record, own, is_large, room)? {
            Way::Alone(builder, turn, _room) => {
                let appended = self.append(builder.finish(None)?).await;
                drop(turn);
                Ok(appended?.base)
            }
            // Without one the task has ended in the middle, and the message may be on its way.
            Way::Joined(answer) => answer.await.unwrap_or_else(|_| {
                let why = "the task that appends messages ended".into();
                Err(danube_log::Error::Stopped { why }.into())
            }),
        }
    }

    /// Hands a message of a non-reliable topic to whoever listens; it is kept nowhere.
    ///
    /// # Errors
    ///
    /// As [`Topic::publish`], and [`Error::Model`] for a record that no batch of this topic may hold.
    pub async fn publish_message(&self, record: &Record) -> Result<()> {
        let mut builder = self.builder();
        builder.append(record)?;
        self.publish(&builder.finish(None)?).await
    }

    /// `own` is for a batch of this message, and has it already if it `is_large`.
    fn gather(
        &self,
        record: &Record,
        mut own: BatchBuilder,
        is_large: bool,
        room: OwnedSemaphorePermit,
    ) -> Result<Way> {
        let mut state = self.slot.gather.lock();
        let joins =
            |last: &&mut Gathered| !is_large && last.builder.len_with(record) <= JOINED_BYTES_MAX;
        let (caller, answer) = oneshot::channel();
        if let Some(last) = state.waiting.back_mut().filter(joins) {
            last.builder.append(record)?;
            last.callers.push(caller);
            last.room.merge(room);
            return Ok(Way::Joined(answer));
        }
        if !is_large {
            own.append(record)?;
        }
        if !state.is_appending {
            state.is_appending = true;
            return Ok(Way::Alone(own, Turn { topic: self.clone() }, room));
        }
        state.waiting.push_back(Gathered { builder: own, callers: vec![caller], room });
        Ok(Way::Joined(answer))
    }

    fn builder(&self) -> BatchBuilder {
        let limits = BatchLimits::for_message_bytes(self.message_bytes_max() as usize);
        BatchBuilder::new(Compression::None, limits)
    }

    /// Appends batches in their order and answers all whose messages are in them.
    async fn append_gathered(&self, batches: VecDeque<Gathered>) {
        let mut under_way = Vec::with_capacity(batches.len());
        for Gathered { builder, callers, room } in batches {
            let submitted = match builder.finish(None) {
                Ok(batch) => self.submit(batch).await,
                Err(error) => Err(error.into()),
            };
            under_way.push((submitted, callers, room));
        }
        for (submitted, callers, room) in under_way {
            let appended = match submitted {
                Ok(appending) => appending.wait().await,
                Err(error) => Err(error),
            };
            for (place, caller) in callers.into_iter().enumerate() {
                let answer = appended.as_ref().map(|appended| appended.base + place as u64);
                // A caller that is gone needs none.
                let _ = caller.send(answer.map_err(Error::clone));
            }
            drop(room);
        }
    }
}

impl Default for Gather {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(GATHERED_KIB_MAX as usize));
        Self { state: Mutex::default(), room }
    }
}

impl Gather {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds what was gathered")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.topic.slot.gather.lock();
        if state.waiting.is_empty() {
            state.is_appending = false;
            return;
        }
        drop(state);
        let burst = Burst { topic: self.topic.clone(), is_over: false };
        // Owned by nobody: it ends by itself.
        drop(self.topic.broker.inner.env.spawn.task("gathered messages", Box::pin(burst.run())));
    }
}

impl Burst {
    async fn run(mut self) {
        while !self.is_over {
            // Those who have been answered, and others whose turn it is, come first: the more the less it costs.
            tokio::task::yield_now().await;
            let waiting = self.take();
            self.topic.append_gathered(waiting).await;
        }
    }

    /// What waits; without anything it is over.
    fn take(&mut self) -> VecDeque<Gathered> {
        let mut state = self.topic.slot.gather.lock();
        self.is_over = state.waiting.is_empty();
        state.is_appending = !self.is_over;
        std::mem::take(&mut state.waiting)
    }
}

impl Drop for Burst {
    /// In a panic, or at the end of the runtime, nobody is to wait for it.
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.topic.slot.gather.lock();
            *state = State::default();
        }
    }
}
