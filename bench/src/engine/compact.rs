//! Compaction of a log in the page cache, beside the least that it takes: all of it read and checked, what stays written again and synced.

use std::os::unix::fs::FileExt as _;

use highwater_engine::batch::{BatchBuilder, Compression, scan};
use highwater_engine::log::{Cleanup, Log, LogConfig};
use highwater_engine::store::{Compaction, CompactionReport, Job, JobDone, Store};
use highwater_engine::units::{Offset, TopicPartition};

use super::ground::{self, Ground, MIB, Room, mb_rate, timed};
use super::rows::{Asked, Rows};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::goal::Goal;

const SEGMENT_BYTES: u32 = 64 << 20;
const RECORD_BYTES: usize = 1024;
const BATCH_RECORDS: usize = 60;
/// Each key is there four times, so that a quarter stays.
const OVERWRITTEN: usize = 4;
const PIECE_BYTES: u64 = 4 << 20;

/// A log of so many bytes, a quarter of which stays.
pub(super) fn quarter(ground: &Ground, rows: &mut Rows, log_bytes: usize) -> Result<()> {
    let asked = Asked {
        name: "compaction of which a quarter stays",
        unit: "MB/s of log",
        limit_is: "pread with CRC twice, a quarter written, fsync",
        goal: Goal::Shown,
    };
    let ours = || {
        let room = ground.room()?;
        let (store, log) = filled(ground, &room, log_bytes)?;
        let (report, took) = timed(|| compact(ground, &store, &log))?;
        let kept = report.bytes_after * OVERWRITTEN as u64;
        if kept < report.bytes_before || report.bytes_after * 2 > report.bytes_before {
            return Err(BenchError::Batch(format!("{report:?}")));
        }
        eprintln!("{} keys in a map of {} MiB", report.keys, report.key_map_bytes / MIB);
        Ok(mb_rate(usize::try_from(report.bytes_before).unwrap_or(usize::MAX), took))
    };
    let limit = || {
        let room = ground.room()?;
        let file = room.file()?;
        let batch = batch(0, 1)?;
        let count = log_bytes / batch.len();
        let error = || BenchError::io("the limit's file");
        for number in 0..count {
            file.write_all_at(&batch, (number * batch.len()) as u64).map_err(error())?;
        }
        file.sync_all().map_err(error())?;
        let to = std::fs::File::create(room.path().join("out")).map_err(error())?;
        let ((), took) = timed(|| {
            let mut piece = vec![0; MIB / batch.len() * batch.len()];
            for pass in 0..2 {
                let mut at = 0_u64;
                while at < (count * batch.len()) as u64 {
                    let read = file.read_at(&mut piece, at).map_err(error())?;
                    for found in scan(piece.get(..read).unwrap_or_default(), at) {
                        found.map_err(|stop| BenchError::Batch(stop.to_string()))?;
                    }
                    if pass == 1 {
                        let part = piece.get(..read / OVERWRITTEN).unwrap_or_default();
                        to.write_all_at(part, at / OVERWRITTEN as u64).map_err(error())?;
                    }
                    at += read as u64;
                }
            }
            to.sync_all().map_err(error())
        })?;
        Ok(mb_rate(count * batch.len(), took))
    };
    rows.measure(ground.rounds, asked, ours, limit)
}

fn batch(first: usize, keys: usize) -> Result<bytes::Bytes> {
    let mut random = fastrand::Rng::with_seed(first as u64);
    let mut builder = BatchBuilder::new(Compression::None);
    for number in first..first + BATCH_RECORDS {
        let key = format!("key {:012}", number % keys);
        let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(RECORD_BYTES).collect();
        builder.push(Some(clock::timestamp()), Some(key.as_bytes()), Some(&value), &[])?;
    }
    Ok(builder.finish()?)
}

/// A log that was closed and opened again, so that all of it is on the device.
fn filled(ground: &Ground, room: &Room, log_bytes: usize) -> Result<(Store, Log)> {
    let mut config = LogConfig::default();
    (config.segment_bytes_max, config.cleanup, config.dirty_ppm_min) = (SEGMENT_BYTES, Cleanup::Compact, 0);
    let store = ground.store(room.path())?;
    let name = TopicPartition::new("bench", 0).map_err(BenchError::engine)?;
    let log = store.create_log(&name, None, config.clone(), ground.now()).map_err(BenchError::engine)?;
    let batches = log_bytes / (BATCH_RECORDS * RECORD_BYTES);
    let keys = batches * BATCH_RECORDS / OVERWRITTEN;
    for number in 0..batches {
        ground::append(&log, batch(number * BATCH_RECORDS, keys)?, ground.now())?;
        ground::write(&store);
    }
    store.close(serde_json::Map::new(), None).map_err(BenchError::engine)?;
    let store = ground.store(room.path())?;
    let log = store.log(&name).ok_or_else(|| BenchError::Batch("the log is gone".to_owned()))?;
    store.set_config(log.id(), config).map_err(BenchError::engine)?;
    Ok((store, log))
}

fn compact(ground: &Ground, store: &Store, log: &Log) -> Result<CompactionReport> {
    loop {
        let (log, ceiling, now) = (log.id(), Offset::MAX, ground.now());
        let done = Job::Compact { log, ceiling, now, bytes_max: PIECE_BYTES }.run(store);
        let JobDone::Compacted { step, .. } = done else {
            return Err(BenchError::Batch(format!("{done:?}")));
        };
        match step {
            Compaction::UnderWay { .. } => {}
            Compaction::Done { report } => return Ok(report),
            Compaction::NotDue | Compaction::GivenUp | _ => {
                return Err(BenchError::Batch(format!("{step:?}")));
            }
        }
    }
}
