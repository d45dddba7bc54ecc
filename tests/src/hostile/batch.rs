//! The bytes are what a producer, a leader or a disk gives: one batch, or several.

use bytes::Bytes;
use highwater_engine::batch::{
    BatchLimits, BatchView, DecompressLimits, LegacyMessage, ProducedBatch, ReplicatedBatches, find_batch,
    scan,
};
use highwater_engine::units::{LeaderEpoch, Offset, Timestamp};

/// See the module's documentation.
pub fn batch(data: &[u8]) {
    let mut records = 0;
    for item in scan(data, 0) {
        let Ok((_, batch)) = item else { break };
        let mut scratch = Vec::new();
        if let Ok(walk) = batch.records(&DecompressLimits::default(), &mut scratch) {
            records += walk.take_while(Result::is_ok).count();
        }
    }
    std::hint::black_box((records, find_batch(data, 0), LegacyMessage::parse(data).is_ok()));

    let epoch = LeaderEpoch::new(i32::MAX).expect("an epoch");
    if let Ok(set) = ReplicatedBatches::check(Bytes::copy_from_slice(data), epoch) {
        for (at, header) in set.batches() {
            assert!(BatchView::parse(&set.bytes()[at..at + header.size_bytes]).is_ok());
        }
    }

    let now = Timestamp::from_millis(1_700_000_000_000);
    if let Ok(batch) = ProducedBatch::check(Bytes::copy_from_slice(data), &BatchLimits::default(), now) {
        let base = Offset::new(1_000).expect("an offset");
        let stamped = batch.stamp(base, LeaderEpoch::ZERO, None).expect("there is room for its offsets");
        let again = BatchView::parse(&stamped.bytes).expect("what a leader stamped is a batch");
        assert_eq!(*again.header(), stamped.header);
        assert_eq!(again.header().base_offset, base);
        assert!(ReplicatedBatches::check(stamped.bytes.clone(), LeaderEpoch::ZERO).is_ok());
        assert_eq!(scan(&stamped.bytes, 0).count(), 1);
    }
}
