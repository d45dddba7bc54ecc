//! What a log remembers of its own past: the history of its leader epochs and the state of its producers.
//!
//! Both are derived from the log's batches and can always be made again. Pure: no file is touched here, and no clock is read.

mod compare;
mod epochs;
mod producer;
mod producers;
#[cfg(test)]
mod producers_test;
mod snapshot;
mod summary;

pub(crate) use compare::Removed;
pub use epochs::{EpochEnd, EpochHistory, EpochStart};
pub use producer::{MarkerKind, ProducerBatch, ProducerRefusal, TransactionMarker, Verdict};
pub use producers::{ClosedTransaction, Producers, ProducersConfig};
pub use snapshot::SnapshotDamage;
pub use summary::ProducerSummary;
