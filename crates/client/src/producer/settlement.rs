//! The fate of a batch, shared by those who wait for the messages in it: one allocation for each batch.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use danube_model::{Durability, Epoch, Offset, TopicName};

use crate::Result;

/// Where a message is stored; or that it was passed on, in a non-reliable topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The topic, or the partition of it.
    pub topic: TopicName,
    /// The message's offset. 0 in a non-reliable topic.
    pub offset: Offset,
    /// The ownership that took it. 0 in a non-reliable topic.
    pub epoch: Epoch,
    /// The level that it has reached. `None` in a non-reliable topic.
    pub durability: Option<Durability>,
}

/// A message that was handed over and is not confirmed yet.
///
/// Resolves when the broker has confirmed the message at the topic's durability, or when it failed. Dropping it does not
/// take the message back. Cancel safe.
#[derive(Debug)]
#[must_use = "an error shows only here"]
pub struct Delivery {
    settlement: Arc<Settlement>,
    /// The message's place in its batch.
    index: u32,
    /// Where this one's waker is among the batch's.
    waker_slot: Option<usize>,
}

impl Future for Delivery {
    type Output = Result<Receipt>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Receipt>> {
        let delivery = &mut *self;
        let mut state = delivery.settlement.lock();
        match &mut *state {
            State::Settled(Ok(first)) => {
                let mut receipt = first.clone();
                if receipt.durability.is_some() {
                    receipt.offset += u64::from(delivery.index);
                }
                Poll::Ready(Ok(receipt))
            }
            State::Settled(Err(error)) => Poll::Ready(Err(error.clone())),
            State::Waiting(wakers) => {
                match delivery.waker_slot {
                    Some(slot) => wakers[slot].clone_from(context.waker()),
                    None => {
                        delivery.waker_slot = Some(wakers.len());
                        wakers.push(context.waker().clone());
                    }
                }
                Poll::Pending
            }
        }
    }
}

/// One for each batch.
#[derive(Debug)]
pub(crate) struct Settlement {
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Waiting(Vec<Waker>),
    /// The receipt is the first message's.
    Settled(Result<Receipt>),
}

impl Settlement {
    pub(crate) fn new() -> Arc<Settlement> {
        Arc::new(Settlement { state: Mutex::new(State::Waiting(Vec::new())) })
    }

    pub(crate) fn delivery(self: &Arc<Settlement>, index: u32) -> Delivery {
        Delivery { settlement: self.clone(), index, waker_slot: None }
    }

    /// Tells everyone. `result` is the first message's.
    pub(crate) fn settle(&self, result: Result<Receipt>) {
        let before = std::mem::replace(&mut *self.lock(), State::Settled(result));
        match before {
            State::Waiting(wakers) => wakers.into_iter().for_each(Waker::wake),
            State::Settled(_) => unreachable!("a batch is settled once"),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
