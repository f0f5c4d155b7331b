//! What is done to brokers, and what must be true afterwards. Each scenario takes its extent as parameters, panics when a
//! promise was broken, and returns what it measured.

pub mod ack_timeout;
pub mod consumers;
pub mod damage;
pub mod half_open;
pub mod kills;
pub mod lines;
pub mod order;
pub mod power;
pub mod ready;
pub mod retention;
pub mod seek;
pub mod slow;
pub mod steady;
pub mod swap;
pub mod topics;
pub mod wakeups;
