//! Following a log while it is written, from a thread and from a task. The engine has no runtime: who turns its driver learns which logs
//! have moved, and tells those who follow them.
//!
//! ```text
//! producer ── append, ring ──> pump: Store::turn ── which logs moved ──> a thread waits for that on a channel
//!                                                                  └──> a task is woken
//! ```
//!
//! ```text
//! cargo run -p highwater-engine --example tail
//! ```

use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use highwater_engine::batch::{
    BatchBuilder, BatchLimits, Compression, DecompressLimits, ProducedBatch, scan,
};
use highwater_engine::disk::{IoMode, Patience, SyncThread, Wait, open_disk};
use highwater_engine::log::{Log, LogConfig, Permit, Read, Step};
use highwater_engine::store::{Job, JobDone, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

const RECORDS: i64 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disk = open_disk(IoMode::Auto, SyncThread::Never)?.disk;
    let store = Store::open(disk, directory.path(), StoreConfig::default(), NOW)?.store;
    let log = store.create_log(&TopicPartition::new("greetings", 0)?, None, LogConfig::default(), NOW)?;

    let (ring, rings) = channel();
    let (tell, told) = channel();
    let (bell, followed) = (&Bell::default(), (&store, &log));
    let (by_thread, by_task) = thread::scope(|scope| {
        let thread = scope.spawn(move || follow(followed, &told));
        let task = scope.spawn(move || block_on(follow_as_a_task(followed, bell)));
        scope.spawn(move || pump(followed.0, &rings, &tell, bell));
        // The producer is a task as well: it awaits each hundredth record's ticket.
        block_on(produce(&store, &log, ring));
        (thread.join(), task.join())
    });
    let wanted: Vec<String> = (0..RECORDS).map(|number| format!("greeting {number}")).collect();
    assert_eq!(by_thread.expect("the thread ends by itself"), wanted);
    assert_eq!(by_task.expect("the task ends by itself"), wanted);
    println!("{RECORDS} records followed by a thread and by a task, in order and without a gap");
    store.close(serde_json::Map::new(), None)?;
    Ok(())
}

/// Appends, and tells the pump that there is something to do; dropping the bell's rope ends the pump.
async fn produce(store: &Store, log: &Log, ring: Sender<()>) {
    for number in 0..RECORDS {
        let batch = batch(format!("greeting {number}").as_bytes()).expect("a batch of one record is a batch");
        let appended = log.append(Permit::new(LeaderEpoch::ZERO), batch, NOW).expect("there is room");
        if number % 100 == 99 {
            let durable = store.wait_async(appended.ticket, Step::Durable);
            ring.send(()).expect("the pump runs");
            durable.await.expect("the disk works");
        } else {
            ring.send(()).expect("the pump runs");
        }
    }
}

/// The only thread that turns the driver. An event loop would do the same when [`Store::wake_descriptor`] is readable.
fn pump(store: &Store, rings: &Receiver<()>, tell: &Sender<()>, bell: &Bell) {
    while rings.recv().is_ok() {
        loop {
            let report = store.turn(Wait::ForOne, Patience::MayBlock);
            assert!(!report.store_failed && report.failed.is_empty());
            if !report.moved.is_empty() {
                // There is one log; with many, the report says which.
                let _is_still_there = tell.send(());
                bell.ring();
            }
            if report.in_flight == 0 {
                break;
            }
        }
    }
}

/// Reads what is there, then waits until it is told that the log moved.
fn follow((store, log): (&Store, &Log), told: &Receiver<()>) -> Vec<String> {
    let (mut values, mut next) = (Vec::new(), log.start());
    loop {
        next = read_on(store, log, next, &mut values);
        if next.value() >= RECORDS {
            return values;
        }
        told.recv().expect("the pump tells of every move");
    }
}

/// The same, awaiting the move.
async fn follow_as_a_task((store, log): (&Store, &Log), bell: &Bell) -> Vec<String> {
    let (mut values, mut next) = (Vec::new(), log.start());
    loop {
        // Counted before the read, so that a move during it is not missed.
        let count = bell.count();
        next = read_on(store, log, next, &mut values);
        if next.value() >= RECORDS {
            return values;
        }
        poll_fn(|context| bell.poll(count, context)).await;
    }
}

/// Takes in everything from an offset on, and gives where the next record will be.
fn read_on(store: &Store, log: &Log, mut next: Offset, values: &mut Vec<String>) -> Offset {
    loop {
        let mut read = log.read(next, Offset::MAX, 1 << 20, true).expect("nothing is deleted here");
        if let Read::Cold(asked) = read {
            // A server would give this to a pool; blocking is allowed here.
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { return next };
            read = result.expect("the disk works");
        }
        let Read::Records(records) = read else { return next };
        for item in records.parts.iter().flat_map(|part| scan(part, 0)) {
            let (_, batch) = item.expect("reads give whole batches");
            let mut scratch = Vec::new();
            let found = batch.records(&DecompressLimits::default(), &mut scratch).expect("it was checked");
            for record in found {
                let record = record.expect("it was checked");
                if record.offset >= next {
                    values.push(String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned());
                }
            }
        }
        next = records.end;
    }
}

/// Counts moves, and wakes the task that waits for the next one.
#[derive(Default)]
struct Bell {
    count: AtomicI64,
    waiting: Mutex<Option<Waker>>,
}

impl Bell {
    fn count(&self) -> i64 {
        self.count.load(Ordering::SeqCst)
    }

    fn ring(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if let Some(task) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.wake();
        }
    }

    fn poll(&self, count: i64, context: &Context<'_>) -> Poll<()> {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        if self.count() > count { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The smallest executor there is: polls one future, and sleeps until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

fn batch(value: &[u8]) -> Result<ProducedBatch, Box<dyn Error>> {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(Some(NOW.wall), None, Some(value), &[])?;
    Ok(ProducedBatch::check(builder.finish()?, &BatchLimits::default(), NOW.wall)?)
}

/// Time is an argument. Nothing here depends on it, so it stands still.
const NOW: Now =
    Now { monotonic: Monotonic::from_duration(std::time::Duration::ZERO), wall: Timestamp::from_millis(0) };
