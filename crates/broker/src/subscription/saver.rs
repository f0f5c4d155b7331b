//! Saving cursors: all that changed in one command, once an interval and at a stop.

use std::sync::Arc;

use danube_meta::command::{SaveCursor, SaveCursors};
use tokio::sync::oneshot;

use super::live::{Command, Handle};
use crate::broker::Broker;

/// Chunks that travel in one command; a chunk has at most 1 KiB, a command 1 MiB.
const CHUNKS_MAX: usize = 512;
/// Cursors that travel in one command.
const CURSORS_MAX: usize = 1024;

/// Saves what changed, once an interval, until the broker stops.
pub(crate) async fn run(broker: Broker) {
    let mut stopping = broker.inner.stopping.subscribe();
    let interval = broker.inner.config.subscriptions.cursor_flush_interval;
    loop {
        let clock = Arc::clone(&broker.inner.env.clock);
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = clock.sleep(interval) => {}
        }
        save(&broker).await;
    }
}

/// Saves the cursors that changed.
async fn save(broker: &Broker) {
    let mut collected = Vec::new();
    for handle in broker.inner.subscriptions.changed() {
        let (done, answer) = oneshot::channel();
        // A task that ended has saved everything before.
        if handle.send(Command::Collect { done }).await.is_ok()
            && let Ok(Some(cursor)) = answer.await
        {
            collected.push((handle, cursor));
        }
    }
    propose(broker, collected).await;
}

/// A clean stop: ends all tasks, and saves what they leave.
pub(crate) async fn stop(broker: &Broker) {
    let (mut collected, mut running) = (Vec::new(), Vec::new());
    for (handle, task) in broker.inner.subscriptions.take_all() {
        let (done, answer) = oneshot::channel();
        if handle.send(Command::Stop { done }).await.is_ok()
            && let Ok(Some(cursor)) = answer.await
        {
            collected.push((handle, cursor));
        }
        running.extend(task);
    }
    propose(broker, collected).await;
    for task in running {
        if let Err(panicked) = task.join().await {
            tracing::error!(%panicked, "a subscription ended before the broker did");
        }
    }
}

/// Saves cursors, in as few commands as they fit in, and tells their tasks.
async fn propose(broker: &Broker, collected: Vec<(Handle, SaveCursor)>) {
    let (handles, cursors): (Vec<_>, Vec<_>) = collected.into_iter().unzip();
    let mut saved = vec![true; handles.len()];
    let mut rest = (0..).zip(cursors).flat_map(parts).peekable();
    while rest.peek().is_some() {
        let (mut whose, mut cursors, mut chunks) = (Vec::new(), Vec::new(), 0);
        while let Some((index, part)) = rest.next_if(|(_, part)| {
            let fits = chunks + part.chunks.len() <= CHUNKS_MAX && cursors.len() < CURSORS_MAX;
            fits || cursors.is_empty()
        }) {
            chunks += part.chunks.len();
            whose.push(index);
            cursors.push(part);
        }
        let parts_saved = match broker.inner.meta.propose(SaveCursors { cursors }).await {
            Ok(parts_saved) => parts_saved,
            Err(error) => {
                tracing::warn!(%error, "cursors can't be saved; it is tried again");
                vec![false; whose.len()]
            }
        };
        for (index, is_saved) in whose.into_iter().zip(parts_saved) {
            saved[index] &= is_saved;
        }
    }
    for (handle, saved) in handles.into_iter().zip(saved) {
        // At a stop the task is gone.
        let _ = handle.send(Command::Saved(saved)).await;
    }
}

/// A cursor in parts that fit into a command each.
fn parts((index, cursor): (usize, SaveCursor)) -> impl Iterator<Item = (usize, SaveCursor)> {
    let SaveCursor { topic, epoch, subscription, incarnation, floor, mut chunks } = cursor;
    let mut is_first = true;
    std::iter::from_fn(move || {
        if chunks.is_empty() && !is_first {
            return None;
        }
        is_first = false;
        let rest = chunks.split_off(chunks.len().min(CHUNKS_MAX));
        let chunks = std::mem::replace(&mut chunks, rest);
        let subscription = subscription.clone();
        Some((index, SaveCursor { topic, epoch, subscription, incarnation, floor, chunks }))
    })
}
