//! Persistent, segmented logs in Apache Kafka's formats, for one machine.
//!
//! The crate knows nothing of replicas: there is no high watermark in it, only ceilings that a caller passes in.
//! It starts no thread and reads no clock on its own.
//!
//! The floors, from the ground up; a file imports from its own folder and from floors below:
//! [`units`], [`batch`], [`disk`], [`index`], [`state`], [`checkpoint`], [`recovery`], [`retention`], [`segment`], [`log`], [`store`].

pub mod batch;
pub mod checkpoint;
pub mod disk;
pub mod index;
pub mod log;
pub mod recovery;
pub mod retention;
mod rules;
pub mod segment;
pub mod state;
pub mod store;
pub mod units;

pub use rules::{Rule, Rules};
