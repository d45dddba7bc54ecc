//! The bytes are a set of messages of the formats before magic 2, plain and in wrappers.

use std::path::Path;
use std::sync::Arc;

use highwater_engine::batch::{DecompressLimits, LegacyMessage};
use highwater_engine::disk::{Disk, Open, SimulatedDisk};
use highwater_engine::store::ReadOnlyStore;

/// The offset, the size, the CRC and the magic number of a message.
const PREFIX_BYTES: usize = 17;
/// What is in front of what the size counts.
const OVERHEAD_BYTES: usize = 12;

/// The first byte says whether the CRCs are made right: nobody guesses them. What is a message is read the same twice, a plain one is one
/// record at its own offset, and of a file of them not more is found whole than there is.
pub fn legacy(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    let (mut at, mut messages) = (0, 0);
    while let Some(size) = size_at(&bytes, at) {
        if choice & 1 == 1 {
            let crc = crc32fast::hash(&bytes[at + 16..at + size]);
            bytes[at + 12..at + 16].copy_from_slice(&crc.to_be_bytes());
        }
        if let Ok(message) = LegacyMessage::parse(&bytes[at..]) {
            assert_eq!(records(&message), records(&message));
            messages += 1;
        }
        at += size;
    }
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let path = Path::new("/00000000000000000000.log");
    let file = disk.open(path, Open::Create).expect("nothing fails");
    file.write_all_at(&bytes, 0).expect("nothing fails");
    let verified = ReadOnlyStore::verify_file(&disk, path, 1 << 20, &|_| {});
    let verified = verified.expect("nothing fails").expect("it has the name of a segment");
    assert!(verified.entries <= bytes.len() as u64 / 14, "{verified:?}, of {messages} messages");
}

fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..).filter(|rest| rest.len() >= PREFIX_BYTES)?;
    let length = i32::from_be_bytes(*rest.get(8..)?.first_chunk()?);
    let size = usize::try_from(length).ok()?.checked_add(OVERHEAD_BYTES)?;
    (PREFIX_BYTES..=rest.len()).contains(&size).then_some(size)
}

/// What the message holds.
fn records(message: &LegacyMessage<'_>) -> Vec<(i64, Option<Vec<u8>>)> {
    let mut scratch = Vec::new();
    let Ok(records) = message.records(&DecompressLimits::default(), &mut scratch) else { return Vec::new() };
    records.map(|record| (record.offset.value(), record.value.map(<[u8]>::to_vec))).collect()
}
