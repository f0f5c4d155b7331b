//! One node's topics: names become logs, logs are opened under new epochs, appended to, read, and closed.
//!
//! ```text
//!  name ─▶ metadata: which topic ─▶ slot: open here? ─ no ─▶ next epoch from the metadata ─▶ log opened under it
//!                                      │ yes
//!                                      └─▶ Topic: submit, read, describe
//! ```
//!
//! A [`Broker`] is the node; a [`Topic`] is a light handle of one topic, which stays good while the log behind it is
//! closed and opened again. Nothing here knows of gRPC or configuration files.
//!
//! Invariants:
//!
//! * A log is opened only after the metadata gave this broker the epoch, and never at an offset that the ceiling in the
//!   metadata does not cover.
//! * Where the end of a log can't be proven, it goes on at the ceiling with a gap; where its disk is lost or its end is
//!   damaged, it takes no writes until an operator accepts that.
//! * Files of a topic that the metadata do not know are never removed.
//!
//! Reading order: [`Broker`], [`Topic`], `slot` (opening and its refusals), `gather` (messages sent one by one), `admin` (creating, changing, deleting), `repair`, `retention`, `subscription`, `metrics` and `alarm` (what can be
//! seen from outside).

mod admin;
mod alarm;
mod broker;
mod error;
mod fan_out;
mod gather;
mod metrics;
mod repair;
mod retention;
mod slot;
mod subscription;
mod throttle;
mod topic;

pub use crate::admin::{Created, Listed, NewTopic, TopicChange};
pub use crate::alarm::{Alarm, AlarmConfig, AlarmMetrics, AlarmName};
pub use crate::broker::{Broker, Config};
pub use crate::error::{Error, Result};
pub use crate::metrics::{
    BrokerMetrics, Metrics, MetricsLimits, SubscriptionMetrics, TopicMetrics,
};
pub use crate::repair::{Finding, Remedy};
pub use crate::retention::RetentionConfig;
pub use crate::subscription::{
    Consumer, Delivered, MissingReason, Registration, Settle, Subscribe, SubscriptionChange,
    SubscriptionConfig, SubscriptionDescription, Window,
};
pub use crate::topic::{Appending, Attached, Description, Topic};
pub use danube_log::{Appended, Damage, Effect, Gap, Read, Reader, Report, Start};
pub use danube_log::{Config as LogConfig, Metrics as LogMetrics};
pub use danube_meta::Metrics as MetaMetrics;
pub use danube_meta::command::Change;
pub use danube_meta::state::Delivery;
