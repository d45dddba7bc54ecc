//! A `.log` file, read one batch at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use highwater_engine::batch::{BatchHeader, HEADER_BYTES};

/// Zeros behind a log may be many; no more than these are looked at together with a header that is not one.
const PEEK_BYTES: u64 = 64 << 10;
/// `offset i64 | size i32 | crc u32 | magic i8`
const PREFIX_BYTES: usize = 17;
const LENGTH_OVERHEAD_BYTES: usize = 12;
/// The CRC, magic, attributes and two lengths; zeros, which look like magic 0, claim less.
const LENGTH_MIN: usize = 14;

/// Reads the batch at the position, as far as the file has it; where there is none, a piece for saying what is there.
pub(super) fn read_batch(file: &File, position: u64, end: u64, batch: &mut Vec<u8>) -> io::Result<()> {
    let left = end - position;
    let mut header = [0; HEADER_BYTES];
    let head_bytes = usize::try_from(left).unwrap_or(usize::MAX).min(HEADER_BYTES);
    let head = header.get_mut(..head_bytes).unwrap_or_default();
    file.read_exact_at(head, position)?;
    let size_bytes = match BatchHeader::parse(head) {
        Ok(header) => Some(header.size_bytes),
        Err(_) => legacy_bytes(head),
    };
    let wanted = size_bytes.map_or(PEEK_BYTES, |bytes| bytes as u64);
    // Not more than the file has, whatever the length field says.
    batch.resize(usize::try_from(wanted.min(left)).unwrap_or(usize::MAX), 0);
    file.read_exact_at(batch, position)
}

/// How large the message claims to be whose first bytes these are; `None` if they are not one of magic 0 or 1.
pub(super) fn legacy_bytes(head: &[u8]) -> Option<usize> {
    let prefix: &[u8; PREFIX_BYTES] = head.first_chunk()?;
    let [.., a, b, c, d, _, _, _, _, magic] = prefix;
    let length = usize::try_from(i32::from_be_bytes([*a, *b, *c, *d])).ok()?;
    let is_message = matches!(magic, 0 | 1) && length >= LENGTH_MIN;
    is_message.then(|| length.saturating_add(LENGTH_OVERHEAD_BYTES))
}
