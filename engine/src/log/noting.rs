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
