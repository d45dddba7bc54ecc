//! What the device itself has written, by its own counters, beside what was appended.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use highwater_engine::log::Step;

use super::ground::{self, Ground, MIB};
use super::rows::{Asked, Rows};
use crate::error::{BenchError, Result};
use crate::goal::Goal;

const APPENDED_BYTES: usize = 256 * MIB;
/// The kernel counts in sectors of this size, whatever the device's are.
const SECTOR_BYTES: u64 = 512;
const COUNTERS: &str = "/proc/diskstats";
/// Where a line of the counters has these.
const AT_MAJOR: usize = 0;
const AT_MINOR: usize = 1;
const AT_SECTORS_WRITTEN: usize = 9;

/// Bytes that the device wrote for each byte of large appends, from the first one to the end of a sync. Whatever else the machine writes
/// meanwhile counts too.
pub(super) fn written(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let asked = Asked {
        name: "device bytes per byte appended, 64 KiB appends",
        unit: "bytes",
        limit_is: "write(2) of the same bytes, then fdatasync",
        goal: Goal::AtMost(1.1),
    };
    let room = ground.room()?;
    let device = match Device::of(room.path()) {
        Ok(device) => device,
        Err(error) => {
            rows.cannot(asked, &error);
            return Ok(());
        }
    };
    let batch = ground::batch(63, 1024)?;
    let count = APPENDED_BYTES / batch.len();
    let bytes = count * batch.len();
    let ours = || {
        let room = ground.room()?;
        let store = ground.store(room.path())?;
        let log = ground.log(&store, 0)?;
        device.per_byte(room.path(), bytes, || {
            for batch in ground::copies(&batch, count) {
                ground::append(&log, batch, ground.now())?;
                ground::write(&store);
            }
            store.wait(log.ticket(), Step::Durable).map_err(BenchError::engine)
        })
    };
    let limit = || {
        let room = ground.room()?;
        let mut file = room.file()?;
        device.per_byte(room.path(), bytes, || {
            super::append::write_all(&mut file, &ground::copies(&batch, count), true)
        })
    };
    rows.measure(ground.rounds, asked, ours, limit)
}

/// A block device with counters.
#[derive(Debug)]
struct Device {
    major: u32,
    minor: u32,
}

impl Device {
    /// The one that a directory lies on.
    fn of(directory: &Path) -> Result<Self> {
        let facts = fs::metadata(directory).map_err(BenchError::io(directory.display().to_string()))?;
        let device = Self { major: rustix::fs::major(facts.dev()), minor: rustix::fs::minor(facts.dev()) };
        device.written_bytes()?;
        Ok(device)
    }

    fn written_bytes(&self) -> Result<u64> {
        let counters = fs::read_to_string(COUNTERS).map_err(BenchError::io(COUNTERS))?;
        self.sectors_written(&counters).map(|sectors| sectors * SECTOR_BYTES).ok_or_else(|| {
            let Self { major, minor } = self;
            BenchError::Program { program: COUNTERS.to_owned(), said: format!("no device {major}:{minor}") }
        })
    }

    fn sectors_written(&self, counters: &str) -> Option<u64> {
        let lines = counters.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let is_number =
            |field: Option<&&str>, number: u32| field.is_some_and(|text| text.parse() == Ok(number));
        let mut lines = lines.filter(|fields| {
            is_number(fields.get(AT_MAJOR), self.major) && is_number(fields.get(AT_MINOR), self.minor)
        });
        lines.next()?.get(AT_SECTORS_WRITTEN)?.parse().ok()
    }

    /// What was waiting to be written before is written first, so that it does not count.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn per_byte(&self, directory: &Path, bytes: usize, append: impl FnOnce() -> Result<()>) -> Result<f64> {
        let file = fs::File::open(directory).map_err(BenchError::io(directory.display().to_string()))?;
        rustix::fs::syncfs(&file).map_err(|error| BenchError::io("syncfs")(error.into()))?;
        let before = self.written_bytes()?;
        append()?;
        Ok((self.written_bytes()? - before) as f64 / bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_one_device_is_found() {
        let counters = "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11\n 254       0 vda 145 0 904 12 8112 77 4242 5 0 6 7 0 0 0 0\n";
        let written = |major, minor| Device { major, minor }.sectors_written(counters);
        assert_eq!(written(254, 0), Some(4242));
        assert_eq!(written(7, 0), Some(7));
        assert_eq!(written(254, 1), None);
    }
}
