//! The bytes are one of the small files of a data directory.

use std::fmt::Debug;

use highwater_engine::checkpoint::{
    Reading, decode_clean_mark, decode_damage, decode_epochs, decode_offsets, decode_partition_metadata,
    decode_properties, encode_clean_mark, encode_damage, encode_epochs, encode_offsets,
    encode_partition_metadata, encode_properties,
};
use highwater_engine::state::{Producers, ProducersConfig};
use highwater_engine::units::Monotonic;

/// The first byte says which. What is believed can be written down again, and says the same then.
pub fn small(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 7 {
        0 => again(bytes, decode_offsets, encode_offsets),
        1 => again(bytes, decode_epochs, encode_epochs),
        2 => again(bytes, decode_clean_mark, encode_clean_mark),
        3 => again(bytes, decode_partition_metadata, |topic| encode_partition_metadata(*topic)),
        4 => again(bytes, decode_damage, |ranges| encode_damage(ranges)),
        5 => again(bytes, decode_properties, encode_properties),
        _ => snapshot(bytes),
    }
}

fn again<T: Debug + PartialEq>(bytes: &[u8], decode: fn(&[u8]) -> Reading<T>, encode: impl Fn(&T) -> String) {
    let Reading::Known { value, .. } = decode(bytes) else { return };
    let written = encode(&value);
    match decode(written.as_bytes()) {
        Reading::Known { value: same, .. } => assert_eq!(same, value, "written again as {written:?}"),
        other @ (Reading::Missing | Reading::Damaged { .. }) => {
            panic!("{value:?}, written again as {written:?}, is {other:?}")
        }
    }
}

fn snapshot(bytes: &[u8]) {
    let now = Monotonic::default();
    let read = |bytes: &[u8]| Producers::decode_snapshot(bytes, ProducersConfig::default(), now);
    let mut bytes = bytes.to_vec();
    // Nobody guesses a CRC; with the right one the entries are read.
    if let Some((_, rest)) = bytes.split_at_checked(6) {
        let crc = crc32c::crc32c(rest);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
    }
    let Ok(producers) = read(&bytes) else { return };
    let written = producers.encode_snapshot();
    let same = read(&written).expect("what is believed can be written down");
    assert_eq!(same.encode_snapshot(), written);
}
