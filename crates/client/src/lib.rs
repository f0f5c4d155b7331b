//! Danube for Rust programs: producing, consuming, reading and administration over the native protocol.
//!
//! ```no_run
//! # async fn example() -> danube_client::Result<()> {
//! use danube_client::{Client, Consumed, Message, Start};
//!
//! let client = Client::connect("http://127.0.0.1:6650")?;
//! let producer = client.producer("/default/orders")?.open().await?;
//! let delivery = producer.send(Message { payload: "hello".into(), ..Message::default() }).await?;
//! let receipt = delivery.await?;
//! assert_eq!(receipt.topic.as_str(), "/default/orders");
//!
//! let consumer = client.consumer("/default/orders", "billing")?.start(Start::Earliest);
//! let mut consumer = consumer.open().await?;
//! if let Some(Consumed::Message(delivered)) = consumer.next().await? {
//!     // Handle it; until it is acknowledged, it comes again when this consumer goes.
//!     consumer.ack(delivered.place);
//! }
//!
//! let mut reader = client.reader("/default/orders")?.start(Start::Earliest).open().await?;
//! while let Some(item) = reader.next().await? {
//!     // Messages, gaps and damage, in the order of the log.
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What may be relied on
//!
//! * A message is stored once, however often connections break: batches are numbered, and a broker that has one already
//!   says so. The messages of a producer keep their order within a partition.
//! * Every error says whether it is definite (nothing will appear) or unknown: [`Error::outcome`].
//! * What was acknowledged is not delivered again, but for what a crash of the broker or a broken connection took with it.
//! * Producers, consumers and readers reconnect by themselves. A connection whose other end went silent is noticed within 20 s.
//!
//! # Reading order
//!
//! [`client`] for the connection, [`producer`] (its heart is `producer::machine`), [`consumer`], [`reader`], [`admin`]. The clock,
//! randomness and tasks come from `world` alone.

pub mod admin;
mod backoff;
pub mod client;
pub mod consumer;
pub mod error;
pub mod producer;
pub mod reader;
mod world;

pub use admin::Admin;
pub use client::{Client, ClientSettings};
pub use consumer::{Connection, Consumed, Consumer, ConsumerBuilder, Delivered, Place, Settler};
pub use danube_model::{
    Compression, ConsumerName, Durability, Epoch, ErrorKind, Message, Offset, SubscriptionName,
    SubscriptionType, Text, TimeMs, TopicId, TopicName,
};
pub use danube_proto::{Failure, Outcome, Reliability, Start};
pub use error::{Error, Result};
pub use producer::{Creation, Delivery, Producer, ProducerBuilder, Receipt};
pub use reader::{Item, Reader, ReaderBuilder, Received};
