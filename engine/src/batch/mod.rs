//! Kafka's record batches: bytes in, bytes out. Knows no file, no log and no leader; performs no I/O and reads no clock.
//!
//! A batch of magic 2 is read through a [`BatchView`], which exists only for whole bytes. [`scan`] walks over concatenated ones.

mod builder;
mod codec;
mod compression;
mod header;
mod record;
mod scan;
mod snappy;
mod varint;
mod view;

pub use builder::{BatchBuilder, BuildError};
pub use codec::{CodecError, DecompressLimits};
pub use compression::Compression;
pub use header::{
    Attributes, BatchHeader, HEADER_BYTES, HeaderDamage, LENGTH_MIN, LENGTH_OVERHEAD_BYTES, MAGIC,
    PREFIX_BYTES, TimestampType,
};
pub use record::{RecordDamage, RecordHeaders, RecordView, Records};
pub use scan::{Scan, ScanStop, StopReason, find_batch, scan};
pub use view::{BatchDamage, BatchView};
