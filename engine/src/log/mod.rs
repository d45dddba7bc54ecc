//! One partition's log: one writer at a time, readers on an immutable view.
//!
//! There is no high watermark here: who replicates passes ceilings in.

mod config;
mod error;
mod facts;
mod ladder;
mod read;

pub use config::{Cleanup, LogConfig, TimestampSource};
pub use error::{AppendError, BeginEpochError, Closed, ReadError, ReplicaAppendError, TicketError};
pub use facts::LogFacts;
pub use ladder::{Appended, LogId, Permit, Step, Ticket};
pub use read::{ColdRead, Read, Records, TimestampedOffset};
