//! The log as the on-disk core of somebody else's program: open a data directory, append a batch, wait until it survives power loss,
//! read it back.
//!
//! ```text
//! cargo run -p highwater-engine --example embedded [DIRECTORY]
//! ```
//! Without a directory a temporary one is used and removed.

use std::error::Error;
use std::path::{Path, PathBuf};

use highwater_engine::batch::{
    BatchBuilder, BatchLimits, Compression, DecompressLimits, ProducedBatch, scan,
};
use highwater_engine::disk::{IoMode, SyncThread, open_disk};
use highwater_engine::log::{LogConfig, Permit, Read, Step};
use highwater_engine::store::{Job, JobDone, Opened, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args_os().nth(1) {
        Some(directory) => run(&PathBuf::from(directory)),
        None => run(&tempfile::tempdir()?.path().join("data")),
    }
}

fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    // Opening recovers: after a crash the torn end of the last write is cut, and the report says so.
    let disk = open_disk(IoMode::Auto, SyncThread::WhenNeeded)?.disk;
    let Opened { store, report } = Store::open(disk, directory, StoreConfig::default(), now()?)?;
    println!("{}: {} logs, last stop {:?}", directory.display(), report.logs.len(), report.stop);

    let name = TopicPartition::new("greetings", 0)?;
    let log = match store.log(&name) {
        Some(log) => log,
        None => store.create_log(&name, None, LogConfig::default(), now()?)?,
    };

    // One batch, checked once, as if a producer had sent it. The permit says in which epoch it is appended; without replicas one is enough.
    let mut builder = BatchBuilder::new(Compression::Lz4);
    for text in ["good morning", "good night"] {
        builder.push(Some(now()?.wall), None, Some(text.as_bytes()), &[])?;
    }
    let batch = ProducedBatch::check(builder.finish()?, &BatchLimits::default(), now()?.wall)?;
    let appended = log.append(Permit::new(LeaderEpoch::ZERO), batch, now()?)?;

    // The append has returned at once. This thread now writes and syncs by itself; many of them would share one sync.
    store.wait(appended.ticket, Step::Durable)?;
    println!("{} survive power loss", appended.offsets);

    for (offset, value) in read(&store, &log, appended.offsets.start())? {
        println!("{offset}: {value}");
    }
    store.close(serde_json::Map::new(), None)?;
    Ok(())
}

/// Every record from an offset on, up to a mebibyte.
fn read(
    store: &Store,
    log: &highwater_engine::log::Log,
    from: Offset,
) -> Result<Vec<(Offset, String)>, Box<dyn Error>> {
    let mut read = log.read(from, Offset::MAX, 1 << 20, true)?;
    if let Read::Cold(asked) = read {
        // Not in the page cache: to be run where blocking is allowed, which is here.
        let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { return Ok(Vec::new()) };
        read = result?;
    }
    let Read::Records(records) = read else { return Ok(Vec::new()) };
    let mut values = Vec::new();
    for part in &records.parts {
        for item in scan(part, 0) {
            let (_, batch) = item?;
            let mut scratch = Vec::new();
            for record in batch.records(&DecompressLimits::default(), &mut scratch)? {
                let record = record?;
                let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
                values.push((record.offset, value));
            }
        }
    }
    Ok(values)
}

/// The engine reads no clock: time is an argument. This program is the host, so it does.
#[expect(clippy::disallowed_methods, reason = "the host reads its clocks and passes the result down")]
fn now() -> Result<Now, Box<dyn Error>> {
    use std::sync::LazyLock;
    use std::time::{Instant, SystemTime};
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    Ok(Now {
        monotonic: Monotonic::from_duration(BEGUN.elapsed()),
        wall: Timestamp::from_millis(i64::try_from(wall)?),
    })
}
