//! Reads of what is in the page cache, every byte that is given out verified by its CRC.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use highwater_engine::log::{Log, Read, Step};
use highwater_engine::store::{Job, JobDone, Store};
use highwater_engine::units::Offset;
use memmap2::Mmap;

use super::ground::{self, Ground, MIB, Room, mb_rate, rate, timed};
use super::rows::{Asked, Rows};
use crate::error::{BenchError, Result};
use crate::goal::Goal;

const SCAN_BYTES: usize = 256 * MIB;
/// Reads of this size stay in the second-level cache of a core, where their CRC is then reckoned.
const READ_BYTES: usize = 256 << 10;
const POINTS: usize = 200_000;
const POINT_BATCHES: usize = 100_000;
/// So many batches of a point read lie between two entries of the index, which has one for more than 4 KiB.
const BATCHES_OF_ENTRY: usize = 4;
/// Where the header of a batch has these fields, and what the CRC covers.
const AT_LENGTH: usize = 8;
const AT_CRC: usize = 17;
const COVERED_FROM: usize = 21;

/// A scan of large batches and point reads of small ones.
pub(super) fn all(ground: &Ground, rows: &mut Rows) -> Result<()> {
    scan(ground, rows)?;
    points(ground, rows)
}

/// A log with so many batches, opened again so that nothing of it is kept in the engine's own memory.
fn filled(ground: &Ground, room: &Room, batch: &bytes::Bytes, count: usize) -> Result<(Store, Log)> {
    let store = ground.store(room.path())?;
    let log = ground.log(&store, 0)?;
    for _ in 0..count {
        ground::append(&log, bytes::Bytes::from(batch.to_vec()), ground.now())?;
        ground::write(&store);
    }
    store.wait(log.ticket(), Step::Written).map_err(BenchError::engine)?;
    store.close(serde_json::Map::new(), None).map_err(BenchError::engine)?;
    let store = ground.store(room.path())?;
    let log =
        store.logs().into_iter().next().ok_or_else(|| BenchError::Batch("the log is gone".to_owned()))?;
    Ok((store, log))
}

fn scan(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let batch = ground::batch(63, 1024)?;
    let count = SCAN_BYTES / batch.len();
    let room = ground.room()?;
    let (store, log) = filled(ground, &room, &batch, count)?;
    let map = map_of(&log)?;
    let bytes = count * batch.len();
    let asked = Asked {
        name: "warm scan, CRC verified",
        unit: "MB/s",
        limit_is: "mmap with CRC",
        goal: Goal::RatioAtLeast(0.8),
    };
    let ours = || {
        let (bytes_read, took) = timed(|| {
            let (mut from, mut bytes_read) = (Offset::ZERO, 0);
            while let Read::Records(records) = read(&store, &log, from, READ_BYTES)? {
                from = records.end;
                bytes_read += records.size;
            }
            Ok(bytes_read)
        })?;
        whole(bytes_read, bytes)?;
        Ok(mb_rate(bytes, took))
    };
    let limit = || {
        let (read, took) = timed(|| {
            let mut at = 0;
            while at < map.len() {
                at += verified(&map, at)?;
            }
            Ok(at)
        })?;
        whole(read, bytes)?;
        Ok(mb_rate(bytes, took))
    };
    let file = File::open(log_file(&log)).map_err(BenchError::io("the log's file"))?;
    let floor_is = "pread of 256 KiB into the same buffer, with CRC";
    let floor = || {
        let ((), took) = timed(|| copied_and_verified(&file, bytes))?;
        Ok(mb_rate(bytes, took))
    };
    rows.measure_above(ground.rounds, asked, floor_is, ours, limit, floor)
}

/// Copies all of a file into one buffer, a piece after the other, and checks every batch there.
fn copied_and_verified(file: &File, bytes: usize) -> Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while at < bytes {
        let count = file.read_at(&mut buffer, at as u64).map_err(BenchError::io("the log's file"))?;
        let piece = buffer.get(..count).unwrap_or_default();
        let mut verified_bytes = 0;
        while size_at(piece, verified_bytes).is_some_and(|size| verified_bytes + size <= count) {
            verified_bytes += verified(piece, verified_bytes)?;
        }
        if verified_bytes == 0 {
            return Err(BenchError::Batch(format!("there is no whole batch at {at}")));
        }
        at += verified_bytes;
    }
    Ok(())
}

fn points(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let batch = ground::batch(1, 1024)?;
    let room = ground.room()?;
    let (store, log) = filled(ground, &room, &batch, POINT_BATCHES)?;
    let map = map_of(&log)?;
    let asked = Asked {
        name: "point read by offset, one 1 KiB record, warm, verified",
        unit: "reads/s",
        limit_is: "mmap with CRC, the position known",
        goal: Goal::AtLeast(600_000.0),
    };
    let some_batch = || fastrand::usize(..POINT_BATCHES);
    let ours = || {
        let ((), took) = timed(|| {
            for _ in 0..POINTS {
                let offset = Offset::new(i64::try_from(some_batch()).unwrap_or(0)).unwrap_or_default();
                let read = read(&store, &log, offset, 1)?;
                if !matches!(&read, Read::Records(records) if records.first == offset) {
                    return Err(BenchError::Batch(format!("at {offset}: {read:?}")));
                }
            }
            Ok(())
        })?;
        Ok(rate(POINTS, took))
    };
    let limit = || {
        let ((), took) =
            timed(|| (0..POINTS).try_for_each(|_| verified(&map, some_batch() * batch.len()).map(drop)))?;
        Ok(rate(POINTS, took))
    };
    let file = File::open(log_file(&log)).map_err(BenchError::io("the log's file"))?;
    let floor_is = "pread from the index entry before it, the position known, with CRC";
    let floor = || {
        let ((), took) = timed(|| {
            (0..POINTS).try_for_each(|_| {
                let wanted = some_batch();
                let entry = wanted / BATCHES_OF_ENTRY * BATCHES_OF_ENTRY;
                let mut bytes = vec![0; (wanted + 1 - entry) * batch.len()];
                let position = (entry * batch.len()) as u64;
                file.read_exact_at(&mut bytes, position).map_err(BenchError::io("the log's file"))?;
                verified(&bytes, (wanted - entry) * batch.len()).map(drop)
            })
        })?;
        Ok(rate(POINTS, took))
    };
    rows.measure_above(ground.rounds, asked, floor_is, ours, limit, floor)
}

/// What the kernel has dropped from the page cache meanwhile is read from the device, as a user of the engine has to.
fn read(store: &Store, log: &Log, from: Offset, bytes_max: usize) -> Result<Read> {
    let read = log.read(from, Offset::MAX, bytes_max, true).map_err(BenchError::engine)?;
    let Read::Cold(asked) = read else { return Ok(read) };
    let done = Job::ColdRead(asked).run(store);
    let JobDone::Read { result, .. } = done else { return Err(BenchError::Batch(format!("{done:?}"))) };
    result.map_err(BenchError::engine)
}

fn whole(read: usize, bytes: usize) -> Result<()> {
    if read == bytes { Ok(()) } else { Err(BenchError::Batch(format!("{read} bytes were read of {bytes}"))) }
}

/// The log's one file.
fn map_of(log: &Log) -> Result<Mmap> {
    map(&log_file(log))
}

fn log_file(log: &Log) -> PathBuf {
    log.directory().join("00000000000000000000.log")
}

/// A file in memory.
#[expect(unsafe_code, reason = "the limit is what can be done with a map")]
pub(super) fn map(path: &std::path::Path) -> Result<Mmap> {
    let failed = || BenchError::io(path.display().to_string());
    let file = File::open(path).map_err(failed())?;
    // SAFETY: the file is this run's own, and nobody cuts it while it is mapped.
    unsafe { Mmap::map(&file) }.map_err(failed())
}

/// Checks the CRC of the batch at a position and gives its size.
pub(super) fn verified(bytes: &[u8], at: usize) -> Result<usize> {
    let size = size_at(bytes, at);
    let batch = size.and_then(|size| bytes.get(at..at + size));
    let crc = batch.and_then(|batch| batch.get(AT_CRC..)?.first_chunk()).map(|crc| u32::from_be_bytes(*crc));
    match (batch, crc) {
        (Some(batch), Some(crc))
            if batch.get(COVERED_FROM..).is_some_and(|covered| crc32c::crc32c(covered) == crc) =>
        {
            Ok(batch.len())
        }
        _ => Err(BenchError::Batch(format!("the batch at {at} is damaged"))),
    }
}

fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at + AT_LENGTH..)?.first_chunk()?;
    Some(usize::try_from(i32::from_be_bytes(*length)).ok()? + AT_LENGTH + size_of::<i32>())
}
