//! A scan says where it stopped and why.

use super::testing::{batch, epoch, header, sealed, stamped};
use super::{Compression, HeaderDamage, ScanStop, StopReason, find_batch, scan};

fn log() -> Vec<u8> {
    (0..3).flat_map(|at| stamped(Compression::None, 2, at * 2, Some(epoch(1)))).collect()
}

/// How many whole batches there are, and what stopped the scan.
fn outcome(bytes: &[u8]) -> (usize, Option<ScanStop>) {
    let mut whole = 0;
    for item in scan(bytes, 1000) {
        match item {
            Ok((position, view)) => {
                assert_eq!(position, 1000 + (whole * view.bytes().len()) as u64);
                whole += 1;
            }
            Err(stop) => return (whole, Some(stop)),
        }
    }
    (whole, None)
}

#[test]
fn a_scan_ends_silently_only_behind_a_whole_batch() {
    let log = log();
    let size = log.len() / 3;
    for length in 0..=log.len() {
        let (whole, stop) = outcome(&log[..length]);
        assert_eq!(whole, length / size);
        let position = 1000 + (whole * size) as u64;
        let have = length % size;
        let reason = match have {
            0 => None,
            // The first bytes of a batch with a low offset are zeros.
            1..=11 if whole == 0 => Some(StopReason::Zeros { have }),
            1..=7 => Some(StopReason::Zeros { have }),
            8..=16 => Some(StopReason::TornHeader { have }),
            _ => Some(StopReason::TornBatch { needs: size, have }),
        };
        assert_eq!(stop, reason.map(|reason| ScanStop { position, reason }), "{length}");
    }
}

#[test]
fn each_kind_of_damage_has_its_reason() {
    let log = log();
    let size = log.len() / 3;
    let damaged = |at: usize, byte: u8| {
        let mut bytes = log.clone();
        bytes[size + at] = byte;
        bytes
    };
    let mut codec = log[..size].to_vec();
    codec[22] = 6;
    let mut negative = header(Compression::None, 1);
    negative.record_count = -7;
    let cases: Vec<(&str, Vec<u8>, usize, StopReason)> = vec![
        ("length below any", damaged(11, 13), 1, StopReason::Length { length: 13 }),
        ("length below a header", damaged(11, 40), 1, StopReason::Length { length: 40 }),
        (
            "negative length",
            damaged(8, 0x80),
            1,
            StopReason::Length { length: i32::from_be_bytes([0x80, 0, 0, log[11]]) },
        ),
        (
            "huge length",
            damaged(8, 0x7f),
            1,
            StopReason::TornBatch { needs: (0x7f << 24) + size, have: 2 * size },
        ),
        ("magic", damaged(16, 3), 1, StopReason::Magic { magic: 3 }),
        ("legacy", damaged(16, 1), 1, StopReason::Legacy { magic: 1, size_bytes: size }),
        ("zeros", [&log[..], &[0; 100]].concat(), 3, StopReason::Zeros { have: 100 }),
        (
            "a hole",
            [&log[..size], &vec![0; size], &log[2 * size..]].concat(),
            1,
            StopReason::Length { length: 0 },
        ),
        ("codec 6", sealed(codec), 0, StopReason::Nonsense(HeaderDamage::Codec { codec: 6 })),
        ("count", batch(negative, &[]), 0, StopReason::Nonsense(HeaderDamage::Count { count: -7 })),
    ];
    for (name, bytes, whole, reason) in cases {
        let position = 1000 + (whole * size) as u64;
        assert_eq!(outcome(&bytes), (whole, Some(ScanStop { position, reason })), "{name}");
    }
    let (whole, stop) = outcome(&damaged(22, 6));
    assert!(
        whole == 1 && matches!(stop.unwrap().reason, StopReason::Crc { .. }),
        "a damaged codec is damage"
    );
    let mut batches = scan(&log[..size + 20], 0);
    assert!(batches.next().unwrap().is_ok() && batches.next().unwrap().is_err());
    assert!(batches.next().is_none(), "nothing more behind a stop");
    assert_eq!(batches.position(), size as u64);
}

#[test]
fn whole_batches_behind_a_hole_are_found() {
    let log = log();
    let size = log.len() / 3;
    let hole = [&log[..size], &vec![0; size], &log[2 * size..]].concat();
    assert_eq!(find_batch(&hole, size), Some(2 * size));
    assert_eq!(find_batch(&hole, 0), Some(0));
    let torn = &log[..2 * size - 1];
    assert_eq!(find_batch(torn, size), None, "nothing follows a torn tail");
    assert_eq!(find_batch(torn, torn.len() + 5), None);
}
