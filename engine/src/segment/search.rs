//! Looks for a batch behind bytes that are none. Whoever asks decides what is between.

use std::io;

use crate::batch::find_batch;
use crate::disk::File;

/// The next batch is looked for in windows of twice this size; a larger one would be found by its successor.
const SEARCH_BYTES: usize = 4 << 20;

/// Where the first whole batch begins that lies at `position` or behind it; `size` if there is none.
pub(crate) fn find_batch_in(file: &File, mut position: u64, size: u64) -> io::Result<u64> {
    let mut window = Vec::new();
    while position < size {
        let had = window.len();
        let left = usize::try_from(size - position).unwrap_or(usize::MAX);
        window.resize(left.min(2 * SEARCH_BYTES).max(had), 0);
        let rest = window.get_mut(had..).unwrap_or_default();
        let count = file.read_at(rest, position + had as u64)?;
        window.truncate(had + count);
        if let Some(at) = find_batch(&window, 0) {
            return Ok(position + at as u64);
        }
        if count == 0 || position + window.len() as u64 >= size {
            break;
        }
        let passed = window.len().min(SEARCH_BYTES);
        window.drain(..passed);
        position += passed as u64;
    }
    Ok(size)
}
