//! Looking at a log that another process is writing: no lock, no change, and another look whenever one is wanted.
//!
//! ```text
//! cargo run -p highwater-engine --example read_only
//! ```
//! It starts itself a second time; that process is the writer.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use highwater_engine::batch::{
    BatchBuilder, BatchLimits, Compression, DecompressLimits, ProducedBatch, scan,
};
use highwater_engine::disk::{IoMode, SyncThread, open_disk};
use highwater_engine::log::{LogConfig, Permit, Step};
use highwater_engine::store::{ReadOnlyReadError, ReadOnlyStore, Refreshed, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

const RECORDS: i64 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(directory) = std::env::args_os().nth(1) {
        return write(Path::new(&directory));
    }
    let place = tempfile::tempdir()?;
    let directory = place.path().join("data");
    let mut writer = Command::new(std::env::current_exe()?).arg(&directory).stdout(Stdio::piped()).spawn()?;
    let mut said = String::new();
    BufReader::new(writer.stdout.take().ok_or("it is piped")?).read_line(&mut said)?;

    let disk = open_disk(IoMode::Auto, SyncThread::Never)?.disk;
    let store = ReadOnlyStore::open(&disk, &directory, StoreConfig::default())?;
    let mut log = store.log(&name()?)?;
    println!("{} as it is now: {} to {}", log.name(), log.start(), log.end());
    let (mut next, mut looks) = (log.start(), 0);
    while next.value() < RECORDS {
        next = read_on(&log, next)?;
        // How often to look again is for the program to choose.
        std::thread::yield_now();
        match log.refresh()? {
            Refreshed::Same | Refreshed::Moved => {}
            // Records may be others from there on than those that were read.
            Refreshed::Cut { to } => next = next.min(to),
        }
        looks += 1;
    }
    assert!(writer.wait()?.success());
    println!("{RECORDS} records in {looks} looks, while process {} wrote them", writer.id());
    assert_eq!((next, log.generation()), (log.end(), 0));
    Ok(())
}

fn read_on(log: &highwater_engine::store::ReadOnlyLog, mut next: Offset) -> Result<Offset, Box<dyn Error>> {
    loop {
        let records = match log.read(next, 1 << 20) {
            Ok(Some(records)) => records,
            // All that was seen is read; or the writer has deleted or cut it, which the next look shows.
            Ok(None) | Err(ReadOnlyReadError::Changed) => return Ok(next),
            Err(error) => return Err(error.into()),
        };
        for item in records.parts.iter().flat_map(|part| scan(part, 0)) {
            let mut scratch = Vec::new();
            for record in item?.1.records(&DecompressLimits::default(), &mut scratch)? {
                let record = record?;
                let wanted = format!("record {}", record.offset);
                assert_eq!(record.value, Some(wanted.as_bytes()));
            }
        }
        next = records.end;
    }
}

/// The other process: an ordinary embedder.
fn write(directory: &Path) -> Result<(), Box<dyn Error>> {
    let disk = open_disk(IoMode::Auto, SyncThread::Never)?.disk;
    let store = Store::open(disk, directory, StoreConfig::default(), NOW)?.store;
    let mut config = LogConfig::default();
    config.segment_bytes_max = 4_096;
    let log = store.create_log(&name()?, None, config, NOW)?;
    println!("there is a log");
    for number in 0..RECORDS {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(Some(NOW.wall), None, Some(format!("record {number}").as_bytes()), &[])?;
        let batch = ProducedBatch::check(builder.finish()?, &BatchLimits::default(), NOW.wall)?;
        let appended = log.append(Permit::new(LeaderEpoch::ZERO), batch, NOW)?;
        store.wait(appended.ticket, Step::Written)?;
    }
    store.close(serde_json::Map::new(), None)?;
    Ok(())
}

fn name() -> Result<TopicPartition, Box<dyn Error>> {
    Ok(TopicPartition::new("looked-at", 0)?)
}

/// Time is an argument. Nothing here depends on it, so it stands still.
const NOW: Now =
    Now { monotonic: Monotonic::from_duration(std::time::Duration::ZERO), wall: Timestamp::from_millis(0) };
