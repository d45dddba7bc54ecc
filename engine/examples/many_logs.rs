//! Many logs, many writers, few syncs: whoever waits for a durable ticket syncs for all who have appended meanwhile, and the syncs of
//! several logs go to the disk together. No timer, no thread of the engine's own.
//!
//! ```text
//! cargo run -p highwater-engine --example many_logs
//! ```

use std::error::Error;
use std::sync::Barrier;
use std::thread;

use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{IoMode, SyncThread, open_disk};
use highwater_engine::log::{Log, LogConfig, Permit, Step};
use highwater_engine::store::{Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Timestamp, TopicPartition};

const LOGS: i32 = 16;
const WRITERS_PER_LOG: u32 = 4;
const ROUNDS: u32 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disk = open_disk(IoMode::Auto, SyncThread::Never)?.disk;
    let store = Store::open(disk, directory.path(), StoreConfig::default(), NOW)?.store;
    let create = |number| -> Result<Log, Box<dyn Error>> {
        Ok(store.create_log(&TopicPartition::new("orders", number)?, None, LogConfig::default(), NOW)?)
    };
    let logs = (0..LOGS).map(create).collect::<Result<Vec<_>, _>>()?;

    let before = store.counters();
    thread::scope(|scope| {
        for log in &logs {
            // The writers of a log append, and then each waits for its own record: that is what makes a group.
            let together = std::sync::Arc::new(Barrier::new(WRITERS_PER_LOG as usize));
            for _ in 0..WRITERS_PER_LOG {
                let (store, together) = (&store, std::sync::Arc::clone(&together));
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let batch = batch(b"an order").expect("a batch of one record is a batch");
                        let appended =
                            log.append(Permit::new(LeaderEpoch::ZERO), batch, NOW).expect("there is room");
                        together.wait();
                        store.wait(appended.ticket, Step::Durable).expect("the disk works");
                    }
                });
            }
        }
    });
    let after = store.counters();

    let records = LOGS.unsigned_abs() * WRITERS_PER_LOG * ROUNDS;
    let syncs = (after.syncs_inline + after.syncs_ring) - (before.syncs_inline + before.syncs_ring);
    let writes = (after.writes_inline + after.writes_ring) - (before.writes_inline + before.writes_ring);
    println!("{records} records in {LOGS} logs, each durable before its writer went on:");
    println!("{:.2} syncs and {:.2} writes for each", share(syncs, records), share(writes, records));
    println!("{} syncs went through the ring", after.syncs_ring - before.syncs_ring);
    for log in &logs {
        assert_eq!(log.durable().value(), i64::from(WRITERS_PER_LOG * ROUNDS), "all of {}", log.name());
    }
    assert!(syncs > 0 && syncs < u64::from(records), "writers share syncs");
    store.close(serde_json::Map::new(), None)?;
    Ok(())
}

fn batch(value: &[u8]) -> Result<ProducedBatch, Box<dyn Error>> {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(Some(NOW.wall), None, Some(value), &[])?;
    Ok(ProducedBatch::check(builder.finish()?, &BatchLimits::default(), NOW.wall)?)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn share(count: u64, records: u32) -> f64 {
    count as f64 / f64::from(records)
}

/// Time is an argument. Nothing here depends on it, so it stands still.
const NOW: Now =
    Now { monotonic: Monotonic::from_duration(std::time::Duration::ZERO), wall: Timestamp::from_millis(0) };
