//! Appends into the page cache: what survives `kill -9`.

use std::io::{BufWriter, Write as _};

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, Compression};
use highwater_engine::log::Step;

use super::ground::{self, Ground, MIB, mb_rate, rate, timed};
use super::read;
use super::rows::{Asked, Rows};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::goal::Goal;

const LARGE_BYTES: usize = 256 * MIB;
const SMALL_RECORDS: usize = 1_000_000;
const SMALL_RECORD_BYTES: usize = 100;
const WRITTEN_EVERY: usize = 64 << 10;

/// Batches of 64 KiB: once into the page cache alone, once with a sync at the end.
pub(super) fn large(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let batch = ground::batch(63, 1024)?;
    let count = LARGE_BYTES / batch.len();
    let bytes = count * batch.len();
    for (name, limit_is, sync) in [
        ("append 64 KiB", "write(2) of the same bytes", false),
        ("append 64 KiB, a sync at the end", "write(2), then fdatasync", true),
    ] {
        let asked = Asked { name, unit: "MB/s", limit_is, goal: Goal::RatioAtLeast(0.9) };
        let ours = || {
            let (room, batches) = (ground.room()?, ground::copies(&batch, count));
            let store = ground.store(room.path())?;
            let log = ground.log(&store, 0)?;
            let ((), took) = timed(|| {
                for batch in batches {
                    ground::append(&log, batch, ground.now())?;
                    ground::write(&store);
                }
                let step = if sync { Step::Durable } else { Step::Written };
                store.wait(log.ticket(), step).map_err(BenchError::engine)
            })?;
            Ok(mb_rate(bytes, took))
        };
        let limit = || {
            let (room, batches) = (ground.room()?, ground::copies(&batch, count));
            let mut file = room.file()?;
            let ((), took) = timed(|| write_all(&mut file, &batches, sync))?;
            Ok(mb_rate(bytes, took))
        };
        let floor_is = "the limit, the CRC of each batch checked before and its memory given back behind";
        let floor = || {
            let (room, batches) = (ground.room()?, ground::copies(&batch, count));
            let mut file = room.file()?;
            let ((), took) = timed(|| {
                for batch in batches {
                    read::verified(&batch, 0)?;
                    write_all(&mut file, &[batch], false)?;
                }
                write_all(&mut file, &[], sync)
            })?;
            Ok(mb_rate(bytes, took))
        };
        rows.measure_above(ground.rounds, asked, floor_is, ours, limit, floor)?;
    }
    Ok(())
}

pub(super) fn write_all(file: &mut std::fs::File, batches: &[Bytes], sync: bool) -> Result<()> {
    let failed = || BenchError::io("the limit's file");
    batches.iter().try_for_each(|batch| file.write_all(batch)).map_err(failed())?;
    if sync { file.sync_data().map_err(failed()) } else { Ok(()) }
}

/// One record of 100 B a batch, built, checked and appended one a call, written every 64 KiB.
pub(super) fn small(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let value = [7; SMALL_RECORD_BYTES];
    let asked = Asked {
        name: "append batches of one 100 B record",
        unit: "records/s",
        limit_is: "the same batch, built anew, through a buffer of 64 KiB",
        goal: Goal::AtLeast(4_000_000.0),
    };
    let ours = || {
        let room = ground.room()?;
        let store = ground.store(room.path())?;
        let log = ground.log(&store, 0)?;
        let mut builder = BatchBuilder::new(Compression::None);
        let now = ground.now();
        let ((), took) = timed(|| {
            let mut waiting = 0;
            for _ in 0..SMALL_RECORDS {
                builder.push(Some(now.wall), None, Some(&value), &[])?;
                let batch = builder.finish()?;
                waiting += batch.len();
                ground::append(&log, batch, now)?;
                if waiting >= WRITTEN_EVERY {
                    waiting = 0;
                    ground::write(&store);
                }
            }
            store.wait(log.ticket(), Step::Written).map_err(BenchError::engine)
        })?;
        Ok(rate(SMALL_RECORDS, took))
    };
    let limit = || {
        let room = ground.room()?;
        let mut file = BufWriter::with_capacity(WRITTEN_EVERY, room.file()?);
        let mut builder = BatchBuilder::new(Compression::None);
        let now = clock::timestamp();
        let ((), took) = timed(|| {
            for _ in 0..SMALL_RECORDS {
                builder.push(Some(now), None, Some(&value), &[])?;
                file.write_all(&builder.finish()?).map_err(BenchError::io("the limit's file"))?;
            }
            file.flush().map_err(BenchError::io("the limit's file"))
        })?;
        Ok(rate(SMALL_RECORDS, took))
    };
    rows.measure(ground.rounds, asked, ours, limit)
}
