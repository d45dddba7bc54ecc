//! One partition's log: one writer at a time, readers on an immutable view.
//!
//! There is no high watermark here: who replicates passes ceilings in.
//!
//! ```text
//! append ──> Writer (short lock): order, producers, epochs, index ──> WriteQueue            accepted
//! Driver ──> one write in flight per log ─────────────────────────> segment, Tail           written
//!        └─> one sync, after the writes it covers, after older segments are sealed          durable
//! read   ──> View (Arc) + marks (atomics) + generation ──> Tail, page cache, or a job
//! ```

mod aborted;
mod append;
mod buffers;
mod committed;
mod config;
mod damage;
mod driver;
mod epochs;
mod error;
mod facts;
mod fetch;
mod flights;
mod gaps;
mod group;
mod handle;
mod inner;
mod ladder;
mod marks;
mod news;
mod noting;
mod producers;
mod progress;
mod queue;
mod read;
mod reserve;
mod retain;
mod room;
mod seal;
mod shared;
mod tail;
mod times;
mod trouble;
mod truncate;
mod watch;
mod windows;
mod writer;

pub use config::{Cleanup, LogConfig, TimestampSource};
pub use error::{
    AppendError, BeginEpochError, Closed, ReadError, ReplicaAppendError, StoreFailure, TicketError,
};
pub use facts::LogFacts;
pub use handle::Log;
pub use ladder::{Appended, LogId, Permit, Step, Ticket};
pub use read::{ColdRead, Isolation, Read, Records, TimestampedOffset};
pub use reserve::{RESERVE_FILE, ReserveReport};

pub(crate) use aborted::{AbortedIndexes, Settled};
pub(crate) use committed::Effort;
pub(crate) use fetch::{Known, Source, read_segments};
pub(crate) use inner::{Inner, View, Waiter};
pub(crate) use marks::Marks;
pub(crate) use news::sort;
pub(crate) use noting::transaction_marker;
pub(crate) use producers::rebuild_producers;
pub(crate) use progress::{Driving, Wish};
pub(crate) use queue::WriteQueue;
pub(crate) use room::new_active;
pub(crate) use shared::{Limits, Shared, lock, try_lock};
pub(crate) use tail::Tail;
pub(crate) use trouble::FileError;
pub(crate) use truncate::{CutCheckpoints, CutError, walk_failed};
pub(crate) use writer::{Active, Names, Phase, SyncState, Unsealed, Writer};
#[cfg(test)]
pub(crate) use writer::{Demand, Need};
