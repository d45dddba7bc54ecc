//! What everyone is asked to do.

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, Compression};

use crate::peer::{Call, Kind, Peer};
use crate::rows::timed;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) less_is_better: bool,
    /// As often as what this peer does.
    pub(crate) goal: Option<(Kind, f64)>,
    pub(crate) can: fn(Kind) -> bool,
    pub(crate) measure: fn(Kind, &Path) -> Result<f64>,
}

const RECORD_BYTES: usize = 1024;
/// With its header and its lengths the batch of so many has 64 KiB.
const RECORDS: usize = 63;
const CALLS: usize = 4096;
const SMALL_BYTES: usize = 100;
const SMALL_RECORDS: usize = 1_000_000;
const FLUSHED_EVERY: usize = 64 << 10;
const SLICE: Duration = Duration::from_millis(500);
const WRITERS: usize = 64;
const POINTS: usize = 50_000;
const POINT_RECORDS: usize = 100_000;

const MORE: Work = Work {
    name: "",
    unit: "MB/s",
    less_is_better: false,
    goal: None,
    can: |_| true,
    measure: |_, _| Ok(f64::NAN),
};

pub(crate) const APPEND: &[Work] = &[
    Work {
        name: "append 63 records of 1 KiB a call, into the page cache",
        goal: Some((Kind::NanoWal, 1.8)),
        can: Kind::caches,
        measure: |kind, room| large(kind, room, |peer| peer.flush()),
        ..MORE
    },
    Work {
        name: "append 63 records of 1 KiB a call, a sync at the end",
        measure: |kind, room| large(kind, room, |peer| peer.sync()),
        ..MORE
    },
];

pub(crate) const SMALL: &[Work] = &[Work {
    name: "append one record of 100 B a call, flushed every 64 KiB",
    unit: "records/s",
    can: Kind::caches,
    measure: small,
    ..MORE
}];

pub(crate) const DURABLE: &[Work] = &[
    Work {
        name: "durable, 1 KiB, one writer",
        unit: "appends/s",
        measure: |kind, room| durable(kind, room, 1),
        ..MORE
    },
    Work {
        name: "durable, 1 KiB, 64 writers",
        unit: "appends/s",
        goal: Some((Kind::RaftEngine, 1.0)),
        measure: |kind, room| durable(kind, room, WRITERS),
        ..MORE
    },
    Work {
        name: "durable, 1 KiB, 64 writers, tasks of one thread where there are such",
        unit: "appends/s",
        goal: Some((Kind::RaftEngine, 1.0)),
        measure: durable_in_tasks,
        ..MORE
    },
];

pub(crate) const READ: &[Work] = &[
    Work { name: "warm scan, records of 1 KiB in calls of 63", can: Kind::finds, measure: scan, ..MORE },
    Work {
        name: "point read by number, records of 1 KiB, one a call",
        unit: "reads/s",
        can: |kind| kind.finds() && kind.caches(),
        measure: points,
        ..MORE
    },
    Work {
        name: "open again 256 MiB after a clean stop",
        unit: "ms",
        less_is_better: true,
        measure: reopen,
        ..MORE
    },
];

/// Records that cannot be compressed, as they are and as a batch.
fn call(records: usize, bytes: usize) -> Result<Call> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut builder = BatchBuilder::new(Compression::None);
    let mut made = Vec::new();
    for _ in 0..records {
        let record: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(bytes).collect();
        builder.push(None, None, Some(&record), &[])?;
        made.push(Bytes::from(record));
    }
    Ok(Call { records: made, batch: builder.finish()? })
}

impl Call {
    /// The same, the batch in memory of its own, as a frame's from a socket is.
    pub(crate) fn anew(&self) -> Self {
        Self { records: self.records.clone(), batch: Bytes::from(self.batch.to_vec()) }
    }
}

fn mb(bytes: usize, took: Duration) -> f64 {
    bytes as f64 / f64::from(1 << 20) / took.as_secs_f64()
}

fn large(kind: Kind, room: &Path, end: fn(&dyn Peer) -> Result<()>) -> Result<f64> {
    let call = call(RECORDS, RECORD_BYTES)?;
    let calls: Vec<Call> = (0..CALLS).map(|_| call.anew()).collect();
    let peer = kind.open(room)?;
    let ((), took) = timed(|| {
        calls.into_iter().try_for_each(|call| peer.append(call))?;
        end(&*peer)
    })?;
    peer.close()?;
    Ok(mb(CALLS * RECORDS * RECORD_BYTES, took))
}

fn small(kind: Kind, room: &Path) -> Result<f64> {
    let record = [7; SMALL_BYTES];
    let peer = kind.open(room)?;
    let ((), took) = timed(|| {
        let mut waiting = 0;
        for _ in 0..SMALL_RECORDS {
            peer.append_one(&record)?;
            waiting += record.len();
            if waiting >= FLUSHED_EVERY {
                waiting = 0;
                peer.flush()?;
            }
        }
        peer.flush()
    })?;
    peer.close()?;
    Ok(SMALL_RECORDS as f64 / took.as_secs_f64())
}

fn durable(kind: Kind, room: &Path, writers: usize) -> Result<f64> {
    let call = call(1, RECORD_BYTES)?;
    let peer = kind.open(room)?;
    // The first append may prepare a file, which is not what is measured.
    peer.append_durable(call.anew())?;
    let start = Barrier::new(writers + 1);
    let writer = || -> Result<usize> {
        start.wait();
        let end = Instant::now() + SLICE;
        let mut count = 0;
        while Instant::now() < end {
            peer.append_durable(call.anew())?;
            count += 1;
        }
        Ok(count)
    };
    let (counts, took) = thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(writer)).collect();
        start.wait();
        timed(|| {
            let joined = threads.into_iter().map(|thread| thread.join().expect("a writer does not panic"));
            joined.collect::<Result<Vec<usize>>>()
        })
    })?;
    peer.close()?;
    Ok(counts.iter().sum::<usize>() as f64 / took.as_secs_f64())
}

fn durable_in_tasks(kind: Kind, room: &Path) -> Result<f64> {
    let call = call(1, RECORD_BYTES)?;
    let peer = kind.open(room)?;
    peer.append_durable(call.anew())?;
    let (count, took) =
        timed(|| peer.append_durable_in_tasks(&call, WRITERS, Instant::now() + SLICE).transpose())?;
    peer.close()?;
    match count {
        Some(count) => Ok(count as f64 / took.as_secs_f64()),
        None => durable(kind, room, WRITERS),
    }
}

/// So many calls of so many records, closed and opened again.
fn filled(kind: Kind, room: &Path, calls: usize, records: usize) -> Result<Box<dyn Peer>> {
    let call = call(records, RECORD_BYTES)?;
    let peer = kind.open(room)?;
    (0..calls).try_for_each(|_| peer.append(call.anew()))?;
    peer.sync()?;
    peer.close()?;
    kind.open(room)
}

fn scan(kind: Kind, room: &Path) -> Result<f64> {
    let peer = filled(kind, room, CALLS, RECORDS)?;
    peer.scan()?;
    let ((records, bytes), took) = timed(|| peer.scan())?;
    ensure!(records == CALLS * RECORDS, "{records} records were read of {}", CALLS * RECORDS);
    peer.close()?;
    Ok(mb(bytes, took))
}

fn points(kind: Kind, room: &Path) -> Result<f64> {
    let peer = filled(kind, room, POINT_RECORDS, 1)?;
    let mut random = fastrand::Rng::with_seed(7);
    let numbers: Vec<usize> = (0..POINTS).map(|_| random.usize(..POINT_RECORDS)).collect();
    peer.points(&numbers)?;
    let (bytes, took) = timed(|| peer.points(&numbers))?;
    ensure!(bytes == POINTS * RECORD_BYTES, "{bytes} bytes were read of {}", POINTS * RECORD_BYTES);
    peer.close()?;
    Ok(POINTS as f64 / took.as_secs_f64())
}

fn reopen(kind: Kind, room: &Path) -> Result<f64> {
    filled(kind, room, CALLS, RECORDS)?.close()?;
    let (peer, took) = timed(|| kind.open(room))?;
    peer.close()?;
    Ok(took.as_secs_f64() * 1_000.0)
}
