//! A black-box checker: what clients did and saw, against the promises of `docs/guarantees.md`.
//!
//! Clients write down each call before it goes out and each answer after it came, in one [`History`], whose order is
//! therefore real-time order. In the end, after all faults, every topic is read from its start: the [`Drain`].
//! [`check`] compares the two and knows nothing of the product's insides.
//!
//! | rule | promise | |
//! |---|---|---|
//! | I1 no lost ack | P1 | what was acknowledged is in the drain, at its offset |
//! | I2 no phantom | | what is read was sent, is whole, and was not definitely refused |
//! | I3 one value per offset | P3, P6 | acknowledgements, readers and drain agree; a message has one offset |
//! | I4 dense | P3 | the drain has no hole that is not a gap, and begins at 0 |
//! | I5 ack order | P4 | offsets grow with real time, and along each producer's sends |
//! | I6 per-key order | P4 | the drain has a producer's messages of a key in the order of sending |
//! | I12 visible after durable | P2 | what anybody has seen is in the drain, at that offset |
//!
//! A send whose answer is unknown stays unknown for ever: it may be there or not, but only as it was sent. A run in
//! which too little happened is no proof: it fails as vacuous.

mod drain;
mod history;
mod message;
mod rules;
mod verdict;

pub use drain::{Drain, Drained};
pub use history::{Event, History};
pub use message::MessageId;
pub use rules::{Duplicates, Expectation, Loss, check};
pub use verdict::{Counts, Rule, Verdict, Violation};
