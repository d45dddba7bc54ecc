//! From the append to the disk nothing is allocated: what a log takes is the producer's memory, and buffers that come back.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{Disk, IoMode, Patience, PosixDisk, SyncThread, Wait, open_disk};
use highwater_engine::log::{Log, LogConfig, Permit, Read, Step, Ticket};
use highwater_engine::store::{Store, StoreConfig, TurnReport};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

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
/// Enough for the tail to be full, so that what is dropped from it serves what comes next.
const WARM: usize = 20_000;
const COUNTED: usize = 20_000;

/// A log whose index does not grow, and what is appended to it.
struct Bench {
    _directory: tempfile::TempDir,
    store: Store,
    log: Log,
    batch: Bytes,
    report: TurnReport,
}

impl Bench {
    fn new(disk: Arc<dyn Disk>, value_bytes: usize) -> Result<Self, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let mut config = StoreConfig::default();
        config.tail_bytes_max = 1 << 20;
        let store = Store::open(disk, directory.path(), config, NOW)?.store;
        let name = TopicPartition::new("counted", 0)?;
        let mut settings = LogConfig::default();
        settings.index_interval_bytes = i32::MAX.unsigned_abs();
        let log = store.create_log(&name, None, settings, NOW)?;
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(Some(NOW.wall), None, Some(&vec![7; value_bytes]), &[])?;
        let batch = builder.finish()?;
        Ok(Self { _directory: directory, store, log, batch, report: TurnReport::default() })
    }

    /// Checks and appends once; the producer's memory is not counted.
    fn append(&self) -> Result<(usize, Ticket), Box<dyn Error>> {
        let owned = Bytes::from(self.batch.to_vec());
        counted(|| {
            let checked = ProducedBatch::check(owned, &BatchLimits::default(), NOW.wall)?;
            Ok(self.log.append(Permit::new(LeaderEpoch::ZERO), checked, NOW)?.ticket)
        })
    }

    fn turn(&mut self) -> Result<usize, Box<dyn Error>> {
        let (count, ()) = counted(|| {
            self.store.turn_into(Wait::Not, Patience::MayBlock, &mut self.report);
            Ok(())
        })?;
        assert_eq!(self.report.moved, [self.log.id()]);
        Ok(count)
    }
}

fn counted<T>(call: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<(usize, T), Box<dyn Error>> {
    let before = ALLOCATIONS.get();
    let done = call()?;
    Ok((ALLOCATIONS.get() - before, done))
}

fn disks() -> Result<[Arc<dyn Disk>; 2], Box<dyn Error>> {
    Ok([Arc::new(PosixDisk::new(SyncThread::Never)), open_disk(IoMode::Auto, SyncThread::Never)?.disk])
}

/// How many allocations the appends make, and the turns between them.
fn allocations(
    disk: Arc<dyn Disk>,
    value_bytes: usize,
    written_every: usize,
) -> Result<(usize, usize), Box<dyn Error>> {
    let mut bench = Bench::new(disk, value_bytes)?;
    let (mut by_appends, mut by_turns) = (0, 0);
    for number in 0..WARM + COUNTED {
        let (by_append, _) = bench.append()?;
        let by_turn = if number % written_every == 0 { bench.turn()? } else { 0 };
        if number >= WARM {
            by_appends += by_append;
            by_turns += by_turn;
        }
    }
    Ok((by_appends, by_turns))
}

#[test]
fn neither_an_append_nor_a_turn_of_the_driver_allocates() -> Result<(), Box<dyn Error>> {
    for disk in disks()? {
        let what = format!("{disk:?}");
        let large = allocations(Arc::clone(&disk), 5000, 1)?;
        assert_eq!(large, (0, 0), "batches that are written from where they are, {what}");
        let small = allocations(Arc::clone(&disk), 100, 400)?;
        assert_eq!(small, (0, 0), "batches that are copied together, {what}");
        let one_by_one = allocations(disk, 100, 1)?;
        assert_eq!(one_by_one, (0, 0), "small batches that are each written at once, {what}");
    }
    Ok(())
}

#[test]
fn whoever_waits_until_it_is_durable_allocates_nothing() -> Result<(), Box<dyn Error>> {
    for disk in disks()? {
        let what = format!("{disk:?}");
        let mut bench = Bench::new(disk, 100)?;
        for _ in 0..WARM {
            bench.append()?;
            bench.turn()?;
        }
        for number in 0..300 {
            let (by_append, ticket) = bench.append()?;
            let (by_wait, ()) = counted(|| Ok(bench.store.wait(ticket, Step::Durable)?))?;
            // The first ones write the epoch and the directory down.
            assert!(number < 100 || (by_append, by_wait) == (0, 0), "{by_append} and {by_wait}, {what}");
        }
    }
    Ok(())
}

#[test]
fn a_fetch_of_the_tail_allocates_the_list_that_it_gives() -> Result<(), Box<dyn Error>> {
    for value_bytes in [100, 5000] {
        let [disk, _] = disks()?;
        let mut bench = Bench::new(disk, value_bytes)?;
        let mut counts = Vec::new();
        for _ in 0..200 {
            let (_, ticket) = bench.append()?;
            bench.turn()?;
            let from = Offset::new(ticket.end().value() - 1).ok_or("an offset")?;
            // Nobody has had these bytes before: whoever shares them for the first time makes the count of their users.
            let first = bench.log.read(from, Offset::MAX, 1 << 20, true)?;
            let (count, again) = counted(|| Ok(bench.log.read(from, Offset::MAX, 1 << 20, true)?))?;
            assert!(
                matches!((&first, &again), (Read::Records(first), Read::Records(again)) if first == again)
            );
            counts.push(count);
        }
        assert!(counts.iter().all(|count| *count == 1), "{counts:?}");
    }
    Ok(())
}
