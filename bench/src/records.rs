//! The records that the generator sends: each says which one it is, and cannot be compressed.
//!
//! ```text
//! key    run u64 | partition i32 | number u64      so that the log can be checked afterwards
//! value  a window of random bytes                  so that key and value together have the size that was asked for
//! ```

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, Compression, HEADER_BYTES};

use crate::clock;
use crate::error::Result;

const KEY_BYTES: usize = 20;
/// The smallest record there can be: a key and one byte.
pub(crate) const RECORD_BYTES_MIN: usize = KEY_BYTES + 1;
/// What a record takes besides key and value: lengths, deltas, counts; at most.
const RECORD_OVERHEAD_BYTES: usize = 14;
const POOL_BYTES: usize = 1 << 20;

/// Which record of which run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) run: u64,
    pub(crate) partition: i32,
    pub(crate) number: u64,
}

impl Stamp {
    fn key(self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&self.run.to_be_bytes());
        key[8..12].copy_from_slice(&self.partition.to_be_bytes());
        key[12..].copy_from_slice(&self.number.to_be_bytes());
        key
    }

    /// The stamp of a record with this key, if it is one of ours.
    pub(crate) fn parse(key: &[u8]) -> Option<Self> {
        let (run, rest) = key.split_first_chunk::<8>()?;
        let (partition, number) = rest.split_first_chunk::<4>()?;
        Some(Self {
            run: u64::from_be_bytes(*run),
            partition: i32::from_be_bytes(*partition),
            number: u64::from_be_bytes(number.try_into().ok()?),
        })
    }
}

/// Makes batches of such records.
#[derive(Debug)]
pub(crate) struct Batches {
    pub(crate) run: u64,
    record_bytes: usize,
    pool: Vec<u8>,
    builder: BatchBuilder,
}

impl Batches {
    /// For records of `record_bytes`, key and value together.
    pub(crate) fn new(run: u64, record_bytes: usize) -> Self {
        let record_bytes = record_bytes.max(RECORD_BYTES_MIN);
        let mut pool = vec![0; POOL_BYTES + record_bytes];
        fastrand::Rng::with_seed(run).fill(&mut pool);
        Self { run, record_bytes, pool, builder: BatchBuilder::new(Compression::None) }
    }

    /// How many records fit into a batch of this size; at least one.
    pub(crate) fn records_in(&self, batch_bytes: usize) -> u32 {
        let records = batch_bytes.saturating_sub(HEADER_BYTES) / (self.record_bytes + RECORD_OVERHEAD_BYTES);
        u32::try_from(records).unwrap_or(u32::MAX).max(1)
    }

    /// A batch of `count` records of a partition, numbered from `first`.
    pub(crate) fn build(&mut self, partition: i32, first: u64, count: u32) -> Result<Bytes> {
        let timestamp = Some(clock::timestamp());
        for number in first..first + u64::from(count) {
            let key = Stamp { run: self.run, partition, number }.key();
            let value_bytes = self.record_bytes - KEY_BYTES;
            let at = usize::try_from(number.wrapping_mul(4099) % POOL_BYTES as u64).unwrap_or(0);
            let value = self.pool.get(at..at + value_bytes);
            self.builder.push(timestamp, Some(&key), value, &[])?;
        }
        Ok(self.builder.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use highwater_engine::batch::{BatchView, DecompressLimits};

    use super::*;

    #[test]
    fn a_record_says_which_one_it_is_and_has_the_size_that_was_asked_for() {
        let mut batches = Batches::new(7, 1024);
        let count = batches.records_in(128 << 10);
        let batch = batches.build(5, 1000, count).unwrap();
        assert!(batch.len() <= 128 << 10 && batch.len() > (128 << 10) - 2048, "{}", batch.len());
        let view = BatchView::parse(&batch).unwrap();
        let mut scratch = Vec::new();
        let mut numbers = Vec::new();
        for record in view.records(&DecompressLimits::default(), &mut scratch).unwrap() {
            let record = record.unwrap();
            let (key, value) = (record.key.unwrap(), record.value.unwrap());
            assert_eq!(key.len() + value.len(), 1024);
            let stamp = Stamp::parse(key).unwrap();
            assert_eq!((stamp.run, stamp.partition), (7, 5));
            numbers.push(stamp.number);
        }
        assert_eq!(numbers, (1000..1000 + u64::from(count)).collect::<Vec<_>>());
        assert_eq!(Stamp::parse(b"somebody else's key"), None);
        assert_eq!(Stamp::parse(&[0; KEY_BYTES + 1]), None);
    }

    #[test]
    fn a_batch_has_at_least_one_record() {
        assert_eq!(Batches::new(1, 4096).records_in(100), 1);
    }
}
