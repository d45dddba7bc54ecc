//! Persistent, segmented logs in Apache Kafka's formats, for one machine: the part of a message broker or an event store that is on disk.
//!
//! The crate knows nothing of replicas: there is no high watermark in it, only ceilings that a caller passes in.
//! It starts no thread and reads no clock on its own.
//!
//! Who embeds it meets [`store`] (a data directory), [`log`] (one log of it), [`batch`] (what is appended and read), [`disk`] (how
//! files are reached) and [`units`]; [`guide`] explains what holds them together, and [`errors`] what each error ends. Who reads the
//! files with a tool of their own finds their formats in [`batch`], [`checkpoint`], [`index`], [`segment`] and [`state`]. What
//! [`recovery`] has found is told in its terms.
//!
//! The floors, from the ground up; a file imports from its own folder and from floors below:
//! [`units`], [`batch`], [`disk`], [`index`], [`state`], [`checkpoint`], [`segment`], [`recovery`], retention, compaction, [`log`], [`store`].

pub mod batch;
pub mod checkpoint;
mod compaction;
pub mod disk;
pub mod errors;
pub mod guide;
pub mod index;
pub mod log;
pub mod recovery;
mod retention;
mod rules;
pub mod segment;
pub mod state;
pub mod store;
mod sync;
pub mod units;

pub use rules::{Rule, Rules};

/// The examples of the crate's front page compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct FrontPage;
