//! What a control batch says to the state of producers.

use crate::batch::{BatchHeader, BatchView, DecompressLimits};
use crate::state::{MarkerKind, TransactionMarker};

/// The marker that ends a transaction (`ControlRecordType`, `EndTransactionMarker`); `None` for anything else. `bytes` begin with
/// the whole batch.
pub(crate) fn transaction_marker(header: &BatchHeader, bytes: &[u8]) -> Option<TransactionMarker> {
    if !header.attributes.is_control() || !header.attributes.is_transactional() {
        return None;
    }
    let view = BatchView::parse(bytes).ok()?;
    let mut scratch = Vec::new();
    let record = view.records(&DecompressLimits::default(), &mut scratch).ok()?.next()?.ok()?;
    // Key: version, type. Value: version, epoch of the coordinator.
    let kind = match i16::from_be_bytes(*record.key?.get(2..)?.first_chunk()?) {
        0 => MarkerKind::Abort,
        1 => MarkerKind::Commit,
        _ => return None,
    };
    Some(TransactionMarker {
        producer: header.producer_id?,
        epoch: header.producer_epoch?,
        coordinator_epoch: i32::from_be_bytes(*record.value?.get(2..)?.first_chunk()?),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, Compression, TransactionEnd, transaction_marker as marker_batch};
    use crate::units::{ProducerEpoch, ProducerId, Timestamp};

    #[test]
    fn a_control_batch_without_records_says_nothing() {
        let (producer, epoch) = (ProducerId::new(7).unwrap(), ProducerEpoch::new(3).unwrap());
        let time = Timestamp::from_millis(1);
        let bytes = marker_batch(TransactionEnd::Commit, producer, epoch, 9, time).unwrap();
        let said = transaction_marker(BatchView::parse(&bytes).unwrap().header(), &bytes).unwrap();
        assert_eq!((said.kind, said.coordinator_epoch), (MarkerKind::Commit, 9));
        // As compaction leaves it.
        let emptied = BatchBuilder::new(Compression::None)
            .producer_without_sequence(producer, epoch)
            .transactional()
            .control()
            .finish()
            .unwrap();
        assert_eq!(transaction_marker(BatchView::parse(&emptied).unwrap().header(), &emptied), None);
    }
}
