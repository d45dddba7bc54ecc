//! Where one batch begins and ends: as much of a header as reading and cutting need, of every version of the format.
//!
//! Knows nothing of what is inside, and checks a CRC only where it is asked to.

use crate::batch::{BatchHeader, BatchView, LENGTH_MIN, LENGTH_OVERHEAD_BYTES, LegacyMessage, PREFIX_BYTES};
use crate::units::{LeaderEpoch, Offset, Timestamp};

/// One batch, or one message of the legacy formats, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its first offset; of a legacy message its last one, because that is all it says.
    pub(crate) base: Offset,
    /// Its last offset.
    pub(crate) last: Offset,
    /// Its size in bytes.
    pub(crate) size: usize,
    /// Its leader epoch; legacy messages have none.
    pub(crate) epoch: Option<LeaderEpoch>,
    /// The greatest timestamp in it.
    pub(crate) max_timestamp: Option<Timestamp>,
}

impl Frame {
    /// What a reader needs of a header.
    #[inline]
    pub(crate) fn of(header: &BatchHeader) -> Self {
        Self {
            base: header.base_offset,
            last: header.last_offset(),
            size: header.size_bytes,
            epoch: header.leader_epoch,
            max_timestamp: header.max_timestamp,
        }
    }

    /// The first offset behind it.
    pub(crate) fn end(&self) -> Offset {
        self.last.next().unwrap_or(Offset::MAX)
    }
}

/// The batch whose header begins at the first byte; the rest of it need not be there. `None` if that is no header.
pub(crate) fn frame_at(bytes: &[u8]) -> Option<Frame> {
    let prefix = bytes.first_chunk::<PREFIX_BYTES>()?;
    if prefix[PREFIX_BYTES - 1] <= 1 {
        return legacy_at(bytes);
    }
    BatchHeader::parse(bytes).ok().map(|header| Frame::of(&header))
}

/// The CRC field in the header of a batch or of a legacy message.
pub(crate) fn crc_at(bytes: &[u8]) -> Option<u32> {
    if *bytes.get(PREFIX_BYTES - 1)? <= 1 {
        return Some(u32::from_be_bytes(*bytes.get(LENGTH_OVERHEAD_BYTES..)?.first_chunk()?));
    }
    BatchHeader::parse(bytes).ok().map(|header| header.crc)
}

fn legacy_at(bytes: &[u8]) -> Option<Frame> {
    let offset = Offset::new(i64::from_be_bytes(*bytes.first_chunk()?))?;
    let length = i32::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
    if length < LENGTH_MIN {
        return None;
    }
    let millis = match bytes.get(PREFIX_BYTES - 1)? {
        0 => -1,
        _ => i64::from_be_bytes(*bytes.get(PREFIX_BYTES + 1..)?.first_chunk()?),
    };
    Some(Frame {
        base: offset,
        last: offset,
        size: usize::try_from(length).ok()? + LENGTH_OVERHEAD_BYTES,
        epoch: None,
        max_timestamp: (millis >= 0).then_some(Timestamp::from_millis(millis)),
    })
}

/// Whether the batch, or the message of a legacy format, is as it was written.
pub(crate) fn is_whole(batch: &[u8]) -> bool {
    match batch.get(PREFIX_BYTES - 1) {
        Some(0 | 1) => LegacyMessage::parse(batch).is_ok(),
        Some(_) | None => BatchView::parse(batch).is_ok(),
    }
}
