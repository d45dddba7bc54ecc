//! An append allocates nothing: what it takes is the producer's memory, and a buffer of many small batches.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{Patience, PosixDisk, SyncThread, Wait};
use highwater_engine::log::{LogConfig, Permit};
use highwater_engine::store::{Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Timestamp, TopicPartition};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: everything is the system's allocator's; the counter neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised; the memory came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised; the memory came from `System`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const NOW: Now = Now {
    monotonic: Monotonic::from_duration(Duration::ZERO),
    wall: Timestamp::from_millis(1_600_000_000_000),
};
const WARM: usize = 400;
const COUNTED: usize = 20_000;

/// How many allocations `COUNTED` checked appends of a batch make, turns of the driver between them left out.
fn allocations(value_bytes: usize, written_every: usize) -> Result<usize, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disk = Arc::new(PosixDisk::new(SyncThread::Never));
    let mut config = StoreConfig::default();
    config.tail_bytes_max = 1 << 20;
    let store = Store::open(disk, directory.path(), config, NOW)?.store;
    // An index with room for all its entries does not grow, and neither does room that is reserved at once.
    let name = TopicPartition::new("counted", 0)?;
    let mut settings = LogConfig::default();
    settings.index_interval_bytes = i32::MAX.unsigned_abs();
    let log = store.create_log(&name, None, settings, NOW)?;
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(Some(NOW.wall), None, Some(&vec![7; value_bytes]), &[])?;
    let batch = builder.finish()?;
    let mut counted = 0;
    for number in 0..WARM + COUNTED {
        let owned = Bytes::from(batch.to_vec());
        let before = ALLOCATIONS.get();
        let checked = ProducedBatch::check(owned, &BatchLimits::default(), NOW.wall)?;
        log.append(Permit::new(LeaderEpoch::ZERO), checked, NOW)?;
        if number >= WARM {
            counted += ALLOCATIONS.get() - before;
        }
        if number % written_every == 0 {
            store.turn(Wait::Not, Patience::MayBlock);
        }
    }
    Ok(counted)
}

#[test]
fn an_append_allocates_nothing() -> Result<(), Box<dyn Error>> {
    assert_eq!(allocations(5000, 1)?, 0, "a batch that is written from where it is");
    let (bytes, buffer) = (COUNTED * 170, 256 << 10);
    let buffers = bytes.div_ceil(buffer) + 1;
    let small = allocations(100, 400)?;
    assert!(
        small <= 2 * buffers,
        "{small} allocations for {COUNTED} small batches, which fill {buffers} buffers"
    );
    Ok(())
}
