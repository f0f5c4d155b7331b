//! The vocabulary of Danube, and the bytes of batch and frame.
//!
//! Nothing here does I/O, waits, or asks for the time: bytes and numbers come in, bytes and numbers go out. What
//! comes from a peer or from a disk is checked, and refused with a [`Result`]; it never makes this crate panic or
//! allocate beyond the limits in [`caps`].
//!
//! Reading order: [`id`] and [`name`] for the words, [`caps`] for all limits, [`batch`] for what producers send,
//! [`message`] for what applications see in it, [`frame`] for what is stored, [`subscription`] and [`cursor`] for who
//! reads it. `docs/format.md` describes the bytes in its sections 1, 2 and 9.

pub mod batch;
pub mod caps;
pub mod compression;
pub mod cursor;
pub mod durability;
pub mod error;
pub mod frame;
pub mod id;
pub mod message;
pub mod metric;
pub mod name;
pub mod subscription;
pub mod text;
pub mod units;
mod varint;

pub use batch::{Batch, BatchBuilder, BatchLimits, BatchProducer, Record, RecordHeader};
pub use compression::Compression;
pub use cursor::Chunk;
pub use durability::Durability;
pub use error::{Error, ErrorKind, Result};
pub use frame::{Frame, FrameError, FrameHeader, GapReason, Stamp};
pub use id::{BrokerId, DiskId, Epoch, Offset, ProducerId, Sequence, TimeMs, TopicId};
pub use message::{Message, SchemaRef, Sender};
pub use name::{Namespace, TopicName};
pub use subscription::{
    Backoff, ConsumerId, ConsumerName, FailurePolicy, PoisonPolicy, SubscriptionName,
    SubscriptionType,
};
pub use text::Text;
pub use units::ByteSize;
