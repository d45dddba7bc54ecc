//! Makes the windows of producers whole again. A snapshot in Kafka's format has only the last batch of each producer, so that after an
//! opening or a truncation a repetition of an earlier one would be refused, or appended twice. The batches below the snapshot have the
//! others; they are read back as far as a bound goes. Nothing but the windows is taken from them.

use std::io;
use std::sync::Arc;

use super::inner::Inner;
use super::producers::replay;
use super::truncate::{CutError, walk_failed};
use crate::segment::{Segment, WalkError};
use crate::state::Producers;
use crate::units::{Monotonic, Offset};

/// How far back the batches are read: five of the greatest size that producers send by default, and more of what they usually send.
const BYTES_MAX: u64 = 8 << 20;

/// Gives `producers`, as a snapshot at `offset` has them, the batches that the log still has from before. Gives the segments in which it met
/// bytes that are no batch.
pub(super) fn recall_windows(
    log: &Inner,
    producers: &mut Producers,
    offset: Offset,
    now: Monotonic,
) -> Result<Vec<Arc<Segment>>, CutError> {
    if producers.is_empty() {
        return Ok(Vec::new());
    }
    let view = log.view();
    let mut parts: Vec<(&Arc<Segment>, Offset)> = Vec::new();
    let mut bytes_left = BYTES_MAX;
    for segment in view.segments.iter().rev().filter(|segment| segment.base() < offset) {
        let tail =
            tail(segment, offset, bytes_left).map_err(|error| walk_failed(segment, WalkError::Io(error)))?;
        let Some((from, bytes)) = tail else { break };
        parts.push((segment, from));
        bytes_left = bytes_left.saturating_sub(bytes);
        if from > segment.base() || bytes_left == 0 {
            break;
        }
    }
    let limits = log.shared.limits.producers;
    let mut earlier = Producers::new(limits);
    let mut damaged = Vec::new();
    for (segment, from) in parts.into_iter().rev() {
        match replay(log, &mut earlier, segment, from..offset, now) {
            Ok(()) => {}
            Err(error @ WalkError::Io(_)) => return Err(walk_failed(segment, error)),
            // What lies before damage is not what came right before the batches behind it.
            Err(WalkError::Damaged(_)) => {
                damaged.push(Arc::clone(segment));
                earlier = Producers::new(limits);
            }
        }
    }
    producers.recall(&earlier);
    Ok(damaged)
}

/// From which offset on the last `bytes_max` bytes of a segment below `offset` lie, and how many they are; `None` if the index cannot say.
fn tail(segment: &Segment, offset: Offset, bytes_max: u64) -> io::Result<Option<(Offset, u64)>> {
    let end = match segment.find(offset) {
        Ok(found) => found.map_or(segment.size(), |(position, _)| position),
        Err(WalkError::Io(error)) => return Err(error),
        Err(WalkError::Damaged(position)) => position,
    };
    if end <= bytes_max {
        return Ok(Some((segment.base(), end)));
    }
    let (mut low, mut high) = (segment.base().value(), offset.value());
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(place) = Offset::new(middle) else { return Ok(None) };
        if segment.floor(place)? < end - bytes_max {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let Some(from) = Offset::new(high) else { return Ok(None) };
    let bytes = end.saturating_sub(segment.floor(from)?);
    // An index without entries would have the whole segment read.
    Ok((bytes <= bytes_max).then_some((from, bytes)))
}
