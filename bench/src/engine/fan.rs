//! Appends over many logs in turn: what a log more costs.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::store::StoreConfig;
use rustix::fs::FallocateFlags;

use super::ground::{self, Ground, timed};
use super::rows::{Asked, Rows};
use crate::error::{BenchError, Result};
use crate::goal::Goal;

const APPENDS: usize = 4096;

/// 64 KiB to each of many logs in turn, beside the same appends to one; and beside both what the machine makes of as many files.
pub(super) fn in_turn(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let batch = ground::batch(63, 1024)?;
    let asked = |name, limit_is, goal| Asked { name, unit: "µs", limit_is, goal };
    for (ours, raw, count) in [
        ("64 KiB in turn over 100 logs", "the machine: 64 KiB in turn over 100 files", 100),
        ("64 KiB in turn over 4,000 logs", "the machine: 64 KiB in turn over 4,000 files", 4_000),
    ] {
        let (many, one) = (|| over_logs(ground, &batch, count, None), || over_logs(ground, &batch, 1, None));
        rows.measure(ground.rounds, asked(ours, "the same on one log", Goal::RatioAtMost(1.3)), many, one)?;
        let (many, one) = (|| over_files(ground, &batch, count), || over_files(ground, &batch, 1));
        let limit_is = "fallocate and write(2) likewise, on one file";
        rows.measure(ground.rounds, asked(raw, limit_is, Goal::Shown), many, one)?;
    }
    let name = "64 KiB in turn over 4,000 logs, of which 1,000 may be open";
    let few = || over_logs(ground, &batch, 4_000, Some(1_000));
    let all = || over_logs(ground, &batch, 4_000, None);
    rows.measure(ground.rounds, asked(name, "all of them open", Goal::Shown), few, all)
}

fn per_append(took: Duration) -> f64 {
    1e6 * took.as_secs_f64() / f64::from(u32::try_from(APPENDS).unwrap_or(u32::MAX))
}

fn over_logs(ground: &Ground, batch: &Bytes, logs: i32, open_files_max: Option<usize>) -> Result<f64> {
    let room = ground.room()?;
    let mut config = StoreConfig::default();
    config.open_files_max = open_files_max;
    let store = ground.store_with(room.path(), config)?;
    let logs = (0..logs).map(|number| ground.log(&store, number)).collect::<Result<Vec<_>>>()?;
    // The first append to a log writes its epoch down, which the next ones do not.
    for log in &logs {
        ground::append(log, Bytes::from(batch.to_vec()), ground.now())?;
        ground::write(&store);
    }
    let appends: Vec<_> = logs.iter().cycle().zip(ground::copies(batch, APPENDS)).collect();
    let ((), took) = timed(|| {
        for (log, batch) in appends {
            ground::append(log, batch, ground.now())?;
            ground::write(&store);
        }
        Ok(())
    })?;
    Ok(per_append(took))
}

/// A file that is written to, and the room that was reserved in it as a log reserves it.
struct Growing {
    file: File,
    size: u64,
    reserved: u64,
    step: u64,
}

impl Growing {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        const STEP_BYTES_MAX: u64 = 16 << 20;
        let failed = || BenchError::io("the limit's file");
        let end = self.size + bytes.len() as u64;
        if end > self.reserved {
            let wished = (self.size + self.step).max(end);
            rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.size, wished - self.size)
                .map_err(|error| failed()(error.into()))?;
            self.reserved = wished;
            self.step = (self.step * 2).min(STEP_BYTES_MAX);
        }
        self.file.write_all_at(bytes, self.size).map_err(failed())?;
        self.size = end;
        Ok(())
    }
}

fn over_files(ground: &Ground, batch: &Bytes, files: i32) -> Result<f64> {
    let room = ground.room()?;
    let new = |number: i32| {
        let path = room.path().join(number.to_string());
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(BenchError::io(path.display().to_string()))?;
        Ok(Growing { file, size: 0, reserved: 0, step: 64 << 10 })
    };
    let mut files = (0..files).map(new).collect::<Result<Vec<_>>>()?;
    for file in &mut files {
        file.append(batch)?;
    }
    let appends = ground::copies(batch, APPENDS);
    let ((), took) = timed(|| {
        let count = files.len();
        for (number, batch) in appends.into_iter().enumerate() {
            if let Some(file) = files.get_mut(number % count) {
                file.append(&batch)?;
            }
        }
        Ok(())
    })?;
    Ok(per_append(took))
}
