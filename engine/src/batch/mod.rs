//! Kafka's record batches: bytes in, bytes out. Knows no file, no log and no leader; performs no I/O and reads no clock.
//!
//! A batch of magic 2 is read through a [`BatchView`], which exists only for whole bytes; [`scan`] walks over concatenated ones.
//! What a producer sent becomes a [`ProducedBatch`] when a leader may append it, and a [`StampedBatch`] with its place in the log; what a
//! leader sent becomes [`ReplicatedBatches`]. Each is proven once, where it is constructed, and never checked again.
//!
//! ```text
//! producer's bytes -> ProducedBatch::check -> stamp -> bytes for the disk, the followers and the consumers
//! leader's bytes   -> ReplicatedBatches::check -----> the same bytes
//! disk's bytes     -> scan -> BatchView -> records
//! ```

mod builder;
mod codec;
mod compression;
mod control;
mod header;
mod legacy;
mod libraries;
mod produced;
mod record;
mod refusal;
mod replicated;
mod rewrite;
mod scan;
#[cfg(feature = "snappy")]
mod snappy;
mod stream;
mod varint;
mod view;

pub use builder::{BatchBuilder, BuildError};
pub use codec::{CodecError, DecompressLimits};
pub use compression::Compression;
pub use control::{ControlDamage, ControlRecord, TransactionEnd, transaction_marker};
pub use header::{
    Attributes, BatchHeader, HEADER_BYTES, HeaderDamage, LENGTH_MIN, LENGTH_OVERHEAD_BYTES, MAGIC,
    PREFIX_BYTES, TimestampType,
};
pub use legacy::{LegacyDamage, LegacyMessage, LegacyRecord, LegacyRecords};
pub use produced::{
    BatchLimits, KeyRule, OffsetsExhausted, ProducedBatch, StampedBatch, TimestampRule, ValidateCompressed,
};
pub use record::{RecordDamage, RecordHeaders, RecordView, Records};
pub use refusal::{BatchRefusal, RecordRefusal, RefusalKind, RefusedRecords};
pub use replicated::{Dropped, ReplicaRefusal, ReplicatedBatches};
pub use scan::{Scan, ScanStop, StopReason, find_batch, scan};
pub use view::{BatchDamage, BatchView};

#[cfg(test)]
#[cfg(feature = "codecs")]
mod golden_test;
#[cfg(test)]
#[cfg(feature = "codecs")]
mod hostile_test;
#[cfg(test)]
#[cfg(feature = "codecs")]
mod produced_test;
#[cfg(test)]
mod replicated_test;
#[cfg(test)]
#[cfg(feature = "codecs")]
mod round_trip_test;
#[cfg(test)]
mod scan_test;
#[cfg(test)]
mod testing;
