//! Opening again: after a clean stop and after a kill, one large log and many small ones. And verifying a large one.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use highwater_engine::disk::{IoMode, SyncThread, open_disk};
use highwater_engine::log::Step;
use highwater_engine::store::{ReadOnlyStore, Store, StoreConfig};
use highwater_engine::units::TopicPartition;

use super::ground::{self, Ground, MIB, timed};
use super::read;
use super::rows::{Asked, Rows};
use crate::error::{BenchError, Result};
use crate::goal::Goal;

/// As much as one segment of the default size takes.
const LARGE_BYTES: usize = 1023 * MIB;
const MANY: i32 = 10_000;

/// One log of 1 GiB.
pub(super) fn one_large(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let room = ground.room()?;
    close(filled(ground, room.path())?)?;
    let asked = Asked {
        name: "open 1 GiB after a clean stop",
        unit: "ms",
        limit_is: "CRC over all of it",
        goal: Goal::Below(5.0),
    };
    let ours = || {
        let (store, took) = timed(|| ground.store(room.path()))?;
        close(store)?;
        Ok(1e3 * took.as_secs_f64())
    };
    rows.measure(ground.rounds, asked, ours, || mapped_crc(room.path()))?;
    drop(room);

    let asked = Asked {
        name: "open 1 GiB after kill -9 with one helper, until it serves",
        unit: "ms",
        limit_is: "CRC over all of it, by one thread",
        goal: Goal::RatioAtMost(1.25),
    };
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..ground.rounds {
        let room = ground.room()?;
        let program = std::env::current_exe().map_err(BenchError::io("this program"))?;
        let status = Command::new(program).arg("fill-and-die").arg(room.path()).status();
        let status = status.map_err(BenchError::io("this program"))?;
        if status.signal().is_none() {
            let (program, said) = ("fill-and-die".to_owned(), status.to_string());
            return Err(BenchError::Program { program, said });
        }
        let mut config = StoreConfig::default();
        config.opening_threads = 1;
        let (store, took) = timed(|| ground.store_with(room.path(), config))?;
        ours.push(1e3 * took.as_secs_f64());
        limit.push(mapped_crc(room.path())?);
        drop(store);
    }
    rows.add(asked, ours, limit);
    Ok(())
}

/// All of one log of 1 GiB compared with itself, as `highwater verify` does.
pub(super) fn verify_large(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let room = ground.room()?;
    close(filled(ground, room.path())?)?;
    let asked = Asked {
        name: "verify 1 GiB after a clean stop, with one helper",
        unit: "ms",
        limit_is: "CRC over a map of it, by one thread",
        goal: Goal::RatioAtMost(1.43),
    };
    let disk = open_disk(IoMode::Auto, SyncThread::Never).map_err(BenchError::engine)?.disk;
    let mut config = StoreConfig::default();
    config.opening_threads = 1;
    let looker = ReadOnlyStore::open(&disk, room.path(), config).map_err(BenchError::engine)?;
    let name = TopicPartition::new("bench", 0).map_err(BenchError::engine)?;
    let ours = || {
        let verify = || looker.verify_log(&name, &|_| {}).map_err(BenchError::engine);
        let (verified, took) = timed(verify)?;
        match verified.findings.first() {
            None => Ok(1e3 * took.as_secs_f64()),
            Some(finding) => {
                Err(BenchError::Program { program: "verify".to_owned(), said: finding.to_string() })
            }
        }
    };
    rows.measure(ground.rounds, asked, ours, || mapped_crc(room.path()))
}

/// How many milliseconds the CRCs of all batches of the log take, in a map.
fn mapped_crc(room: &Path) -> Result<f64> {
    let map = read::map(&room.join("bench-0/00000000000000000000.log"))?;
    let ((), took) = timed(|| {
        let mut at = 0;
        while at < map.len() {
            at += read::verified(&map, at)?;
        }
        Ok(())
    })?;
    Ok(1e3 * took.as_secs_f64())
}

/// A store with one large log, nothing of it synced.
fn filled(ground: &Ground, directory: &Path) -> Result<Store> {
    let batch = ground::batch(63, 1024)?;
    let store = ground.store(directory)?;
    let log = ground.log(&store, 0)?;
    for _ in 0..LARGE_BYTES / batch.len() {
        ground::append(&log, Bytes::from(batch.to_vec()), ground.now())?;
        ground::write(&store);
    }
    store.wait(log.ticket(), Step::Written).map_err(BenchError::engine)?;
    Ok(store)
}

/// Fills a log, syncs nothing, and dies as by `kill -9`.
pub(crate) fn fill_and_die(directory: &Path) -> Result<()> {
    let _store = filled(&Ground::new(directory, 1), directory)?;
    std::process::abort()
}

fn close(store: Store) -> Result<()> {
    store.close(serde_json::Map::new(), None).map_err(BenchError::engine)
}

/// 10,000 logs with a record each.
pub(super) fn many_small(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let room = ground.room()?;
    let batch = ground::batch(1, 100)?;
    let store = ground.store(room.path())?;
    for number in 0..MANY {
        let log = ground.log(&store, number)?;
        ground::append(&log, Bytes::from(batch.to_vec()), ground.now())?;
    }
    ground::write(&store);
    close(store)?;
    let asked = Asked {
        name: "open 10,000 logs after a clean stop",
        unit: "ms",
        limit_is: "opening the .log of each",
        goal: Goal::Below(1000.0),
    };
    let ours = || {
        let (store, took) = timed(|| ground.store(room.path()))?;
        close(store)?;
        Ok(1e3 * took.as_secs_f64())
    };
    let limit = || {
        let (_files, took) = timed(|| {
            let open = |number| {
                let path = room.path().join(format!("bench-{number}/00000000000000000000.log"));
                let file = File::open(&path).map_err(BenchError::io(path.display().to_string()))?;
                file.metadata().map_err(BenchError::io(path.display().to_string()))
            };
            (0..MANY).map(open).collect::<Result<Vec<_>>>()
        })?;
        Ok(1e3 * took.as_secs_f64())
    };
    rows.measure(ground.rounds, asked, ours, limit)
}
