//! The bytes are an offset index, a time index and an index of aborted transactions, one behind the other, of one segment.

use highwater_engine::index::{
    ActiveIndex, aborted_in, append_aborted, decode_aborted, offset_entries, time_entries,
};
use highwater_engine::units::{Offset, Timestamp};

const LOG_BYTES: u64 = 1 << 20;

/// The first bytes say how long each of the three is, and where the segment begins. What is believed leads a lookup to a place at or
/// before what is looked for; what is believed once is believed again.
pub fn index(data: &[u8]) {
    let Some(([base, offsets, times], rest)) = data.split_first_chunk() else { return };
    let base = Offset::new(i64::from(*base) * 7).expect("not negative");
    let (offsets, rest) = rest.split_at((usize::from(*offsets) * 2).min(rest.len()));
    let (times, aborted) = rest.split_at((usize::from(*times) * 2).min(rest.len()));
    std::hint::black_box((offset_entries(offsets, base).count(), time_entries(times, base).count()));
    active_index(base, offsets, times);
    if let Ok(found) = decode_aborted(aborted, base) {
        let mut again = Vec::new();
        for transaction in &found {
            append_aborted(&mut again, transaction);
        }
        assert_eq!(decode_aborted(&again, base).as_ref(), Ok(&found), "what is believed can be said again");
        let end = base.checked_add(1_000).expect("a small offset");
        std::hint::black_box(aborted_in(&found, base, end));
    }
}

fn active_index(base: Offset, offsets: &[u8], times: &[u8]) {
    let files = (offsets.to_vec(), times.to_vec());
    let Ok((mut index, from)) = ActiveIndex::reopen(base, 100, 4_096, files, LOG_BYTES) else { return };
    assert!(from < LOG_BYTES);
    let entries: Vec<_> = offset_entries(index.offset_bytes(), base).collect();
    assert_eq!(entries.len() * 8, offsets.len(), "an index that is believed has all its entries");
    for pair in entries.windows(2) {
        assert!(pair[0].last_offset < pair[1].last_offset && pair[0].position < pair[1].position);
    }
    for entry in &entries {
        assert!(entry.position < LOG_BYTES && entry.last_offset >= base);
        assert_eq!(index.floor(entry.last_offset), entry.position);
        let span = index.span(entry.last_offset);
        assert!(span.ceiling.is_none_or(|ceiling| ceiling.position > entry.position));
    }
    for entry in time_entries(index.time_bytes(), base) {
        let floor = index.time_floor(entry.timestamp).expect("there is one that is not above");
        assert!(floor.timestamp <= entry.timestamp);
    }
    let next = index.last_entry().map_or(base, |entry| entry.last_offset);
    let Some(next) = next.checked_add(1) else { return };
    index.note(next, LOG_BYTES, 200, Some(Timestamp::from_millis(1)));
    index.seal();
    std::hint::black_box((index.latest(), index.span(next), index.is_full()));
    assert!(index.truncate(base) == 0, "nothing is left of it");
    assert!(index.offset_bytes().is_empty());
}
