//! Which segments have to be read before anything can be decided.

use super::facts::{RecoveryPoint, Sorted, Stop};
use super::{FileFact, Refusal};
use crate::units::Offset;

/// One segment to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct ScanOrder {
    /// Its base offset.
    pub base: Offset,
    /// How much of it.
    pub depth: ScanDepth,
}

/// How much of a segment has to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) enum ScanDepth {
    /// From its first byte, every batch checked.
    Whole,
    /// From a batch near its end, which the index names; everything from there on checked. Where the index is of no use, the whole.
    Tail,
    /// Only the headers, for the leader epochs in them, because the epoch checkpoint cannot be believed.
    Epochs,
}

/// Says which segments to read, ascending.
///
/// After an unclean stop everything from the recovery point on, whole segments; after a clean one the tail of the last. The
/// last is read in any case. Older segments, and what lies before the tail, are read only where the epoch checkpoint (`epochs_known`)
/// leaves no other way.
pub(crate) fn plan_scan(
    files: &[FileFact],
    recovery_point: RecoveryPoint,
    stop: Stop,
    epochs_known: bool,
) -> Result<Vec<ScanOrder>, Refusal> {
    let sorted = Sorted::of(files);
    if let Some(file) = sorted.swap {
        return Err(Refusal::UnfinishedCompaction { file });
    }
    let bases: Vec<Offset> = sorted.segments.keys().copied().collect();
    let first_unsynced = match recovery_point {
        // A segment that ends just there was synced, and may not have been sealed: its indexes may be those of an earlier time.
        RecoveryPoint::Known(point) => bases.iter().rposition(|base| *base < point).unwrap_or(0),
        RecoveryPoint::NoEntry | RecoveryPoint::Unknown => 0,
    };
    let depth = |at: usize| match stop {
        _ if at + 1 < bases.len() && at < first_unsynced => ScanDepth::Epochs,
        // Where an epoch begins in front of the tail only the headers know.
        Stop::Clean { .. } if at + 1 == bases.len() && !epochs_known => ScanDepth::Whole,
        Stop::Clean { facts: Some(_) } if at + 1 == bases.len() => ScanDepth::Tail,
        // Our own mark says that everything was synced, whatever the checkpoint says.
        Stop::Clean { facts: Some(_) } => ScanDepth::Epochs,
        Stop::Clean { facts: None } if at + 1 == bases.len() && at >= first_unsynced => ScanDepth::Tail,
        Stop::Clean { facts: None } | Stop::Unclean => ScanDepth::Whole,
    };
    let orders = bases.iter().enumerate().map(|(at, base)| ScanOrder { base: *base, depth: depth(at) });
    Ok(orders.filter(|order| order.depth != ScanDepth::Epochs || !epochs_known).collect())
}
