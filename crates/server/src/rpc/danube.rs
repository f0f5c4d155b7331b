//! The package `danube`: what existing clients speak. Their habits are kept, whatever they are; what is not served is
//! answered with `UNIMPLEMENTED`.
//!
//! * [`producer`]: registering producers, and sending, one message a call.
//! * [`producers`]: which producers are registered, and forgetting those that have gone without a word.
//! * [`consumer`]: subscribing, and settling; [`receive`]: the streams of what is delivered; [`consumers`]: ids that are no more.
//! * [`discovery`]: look-ups, which answer where a client is to connect; [`authority`] is what it connected to.
//! * [`health`]: whether a client may go on.
//!
//! Clients register again, after a look-up, at `UNAVAILABLE` and at no other status; `super::status` minds that.

pub(crate) mod authority;
pub(crate) mod consumer;
pub(crate) mod consumers;
pub(crate) mod discovery;
pub(crate) mod health;
pub(crate) mod producer;
pub(crate) mod producers;
mod receive;
