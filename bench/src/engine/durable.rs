//! Appends that survive power loss.

use std::cell::Cell;
use std::fs::File;
use std::future::Future as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::disk::{
    self, IoMode, Open, Operation, OperationKind, Patience, SyncThread, Wait, open_disk,
};
use highwater_engine::log::{Log, Step};
use highwater_engine::store::Store;
use rustix::fs::FallocateFlags;

use super::ground::{self, Ground, MIB, rate, timed};
use super::group::Group;
use super::read;
use super::rows::{Asked, Rows};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::goal::Goal;

const RECORD_BYTES: usize = 1024;
const SLICE: Duration = Duration::from_millis(400);
const MANY: usize = 64;

/// Appends and waits until it is durable, for a while; so many a second.
fn durable(ground: &Ground, store: &Store, log: &Log, batch: &Bytes) -> Result<f64> {
    let begun = clock::now();
    let mut count = 0;
    while clock::now().duration_since(begun) < SLICE {
        append_durable(ground, store, log, batch)?;
        count += 1;
    }
    Ok(rate(count, clock::now().duration_since(begun)))
}

fn append_durable(ground: &Ground, store: &Store, log: &Log, batch: &Bytes) -> Result<()> {
    let appended = ground::append(log, Bytes::from(batch.to_vec()), ground.now())?;
    store.wait(appended.ticket, Step::Durable).map_err(BenchError::engine)
}

/// Writes groups of batches into space that is there already, and syncs each group; so many batches a second.
fn grouped(file: &File, bytes: &[u8], group: usize) -> Result<f64> {
    grouped_by(file, group, || Ok(bytes))
}

/// As [`grouped`], of what is made anew for each group.
fn grouped_by<B: AsRef<[u8]>>(file: &File, group: usize, make: impl Fn() -> Result<B>) -> Result<f64> {
    const RESERVED: u64 = 64 * MIB as u64;
    let failed = || BenchError::io("the limit's file");
    let begun = clock::now();
    let (mut at, mut reserved, mut count) = (0, 0, 0);
    while clock::now().duration_since(begun) < SLICE {
        let bytes = make()?;
        let size = bytes.as_ref().len() as u64;
        if at + size > reserved {
            rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, reserved, RESERVED)
                .map_err(|error| failed()(error.into()))?;
            reserved += RESERVED;
        }
        file.write_all_at(bytes.as_ref(), at).map_err(failed())?;
        file.sync_data().map_err(failed())?;
        at += size;
        count += group;
    }
    Ok(rate(count, clock::now().duration_since(begun)))
}

/// One writer who waits for each record.
pub(super) fn one_writer(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let asked = Asked {
        name: "durable, 1 KiB, one writer",
        unit: "appends/s",
        limit_is: "pwrite and fdatasync into reserved space",
        goal: Goal::RatioAtLeast(0.95),
    };
    let batch = ground::batch(1, RECORD_BYTES)?;
    let ours = || {
        let room = ground.room()?;
        let store = ground.store(room.path())?;
        durable(ground, &store, &ground.log(&store, 0)?, &batch)
    };
    let limit = || {
        let room = ground.room()?;
        grouped(&room.file()?, &batch, 1)
    };
    rows.measure(ground.rounds, asked, ours, limit)
}

/// 64 tasks on one log, each awaiting its own record, all in the thread that turns the driver, as a broker's event loop does.
pub(super) fn many_tasks(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let asked = Asked {
        name: "durable, 1 KiB, 64 writers on one log, tasks of one thread",
        unit: "appends/s",
        limit_is: "one thread that writes and syncs groups of 64 into reserved space",
        goal: Goal::RatioAtLeast(0.9),
    };
    let batch = ground::batch(1, RECORD_BYTES)?;
    let ours = || {
        let room = ground.room()?;
        let store = ground.store(room.path())?;
        let log = ground.log(&store, 0)?;
        let end = clock::now() + SLICE;
        let writer = async || {
            let mut count = 0;
            while clock::now() < end {
                let appended = ground::append(&log, Bytes::from(batch.to_vec()), ground.now())?;
                store.wait_async(appended.ticket, Step::Durable).await.map_err(BenchError::engine)?;
                count += 1;
            }
            Ok::<usize, BenchError>(count)
        };
        let (count, took) = timed(|| {
            let mut writers: Vec<_> = (0..MANY).map(|_| Box::pin(writer())).collect();
            // All are polled after each turn, so that nobody need be woken.
            let (mut context, mut count) = (Context::from_waker(Waker::noop()), 0);
            while !writers.is_empty() {
                let mut left = Vec::with_capacity(MANY);
                for mut writer in writers {
                    match writer.as_mut().poll(&mut context) {
                        Poll::Ready(done) => count += done?,
                        Poll::Pending => left.push(writer),
                    }
                }
                writers = left;
                store.turn(Wait::ForOne, Patience::MayBlock);
            }
            Ok(count)
        })?;
        Ok(rate(count, took))
    };
    let limit = || {
        let room = ground.room()?;
        grouped(&room.file()?, &batch.repeat(MANY), MANY)
    };
    let floor_is = "the limit, each batch copied from memory of its own after its CRC was checked";
    let floor = || {
        let room = ground.room()?;
        grouped_by(&room.file()?, MANY, || {
            let mut group = Vec::with_capacity(MANY * batch.len());
            for batch in ground::copies(&batch, MANY) {
                read::verified(&batch, 0)?;
                group.extend_from_slice(&batch);
            }
            Ok(group)
        })
    };
    rows.measure_above(ground.rounds, asked, floor_is, ours, limit, floor)
}

/// 64 threads on one log, each waiting for its own record.
pub(super) fn many_writers(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let asked = Asked {
        name: "durable, 1 KiB, 64 writers on one log, threads",
        unit: "appends/s",
        limit_is: "one thread that writes and syncs groups of 64 into reserved space",
        goal: Goal::RatioAtLeast(0.9),
    };
    let batch = ground::batch(1, RECORD_BYTES)?;
    let ours = || {
        let room = ground.room()?;
        let store = ground.store(room.path())?;
        let logs = vec![ground.log(&store, 0)?];
        with_threads(appends(ground, &store, &logs, &batch))
    };
    let limit = || {
        let room = ground.room()?;
        grouped(&room.file()?, &batch.repeat(MANY), MANY)
    };
    let floor_is =
        "64 threads that share syncs of the same bytes, each woken for itself, and do nothing else";
    let floor = || {
        let room = ground.room()?;
        let group = Group::new(room.file()?);
        with_threads((0..MANY).map(|_| || group.append(&batch)).collect::<Vec<_>>())
    };
    rows.measure_above(ground.rounds, asked, floor_is, ours, limit, floor)
}

/// 64 logs with a thread each, beside one thread that makes one log after another durable.
pub(super) fn many_logs(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let asked = Asked {
        name: "durable, 1 KiB, 64 logs with a writer each",
        unit: "appends/s",
        limit_is: "the same logs, one after another by one thread",
        goal: Goal::RatioAtLeast(3.0),
    };
    let batch = ground::batch(1, RECORD_BYTES)?;
    let room = ground.room()?;
    let store = ground.store(room.path())?;
    let numbers = 0..i32::try_from(MANY).unwrap_or(i32::MAX);
    let logs = numbers.map(|number| ground.log(&store, number)).collect::<Result<Vec<_>>>()?;
    let ours = || with_threads(appends(ground, &store, &logs, &batch));
    let one_after_another = || {
        let begun = clock::now();
        let mut count = 0;
        for log in logs.iter().cycle() {
            append_durable(ground, &store, log, &batch)?;
            count += 1;
            if clock::now().duration_since(begun) >= SLICE {
                break;
            }
        }
        Ok(rate(count, clock::now().duration_since(begun)))
    };
    rows.measure(ground.rounds, asked, ours, one_after_another)
}

/// What the machine gives to that: as many files, each written, then all synced in one submission, beside one file after another. Both by
/// one thread, so that nobody is woken.
pub(super) fn many_files(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let asked = Asked {
        name: "the machine: 64 files of 1 KiB, synced in one submission to the ring",
        unit: "appends/s",
        limit_is: "the same files, each written and synced one after another",
        goal: Goal::Shown,
    };
    let batch = ground::batch(1, RECORD_BYTES)?;
    let room = ground.room()?;
    let disk = open_disk(IoMode::Auto, SyncThread::Never).map_err(BenchError::engine)?.disk;
    let failed = || BenchError::io("the limit's file");
    let open = |number: usize| {
        let file = disk.open(&room.path().join(number.to_string()), Open::Create).map_err(failed())?;
        file.reserve(64 * MIB as u64).map_err(failed())?;
        Ok(file)
    };
    let files = (0..MANY).map(open).collect::<Result<Vec<_>>>()?;
    let mut queue = disk.queue().map_err(failed())?;
    let mut completed = Vec::new();
    let at = Cell::new(0);
    let rounds = |round: &mut dyn FnMut(u64) -> Result<()>| {
        let (begun, mut count) = (clock::now(), 0);
        while clock::now().duration_since(begun) < SLICE {
            round(at.replace(at.get() + batch.len() as u64))?;
            count += MANY;
        }
        Ok(rate(count, clock::now().duration_since(begun)))
    };
    let write = |file: &disk::File, at: u64| file.write_all_at(&batch, at).map_err(failed());
    let together = || {
        rounds(&mut |at| {
            files.iter().try_for_each(|file| write(file, at))?;
            let kind = || OperationKind::Sync { patience: Patience::MustNotBlock };
            let sync =
                |file: &disk::File| Operation { token: 0, file: disk::File::clone(file), kind: kind() };
            queue.submit(&mut files.iter().map(sync).collect());
            while queue.in_flight() > 0 {
                queue.reap(Wait::ForOne, &mut completed);
            }
            completed.drain(..).try_for_each(|done| done.result.map(drop)).map_err(failed())
        })
    };
    let one_after_another = || {
        rounds(&mut |at| {
            files.iter().try_for_each(|file| {
                write(file, at)?;
                file.sync().map_err(failed())
            })
        })
    };
    rows.measure(ground.rounds, asked, together, one_after_another)
}

/// What each of 64 threads does, over these logs in turn.
fn appends<'a>(
    ground: &'a Ground,
    store: &'a Store,
    logs: &'a [Log],
    batch: &'a Bytes,
) -> Vec<impl FnMut() -> Result<()> + Send> {
    logs.iter().cycle().take(MANY).map(move |log| move || append_durable(ground, store, log, batch)).collect()
}

/// Threads that each do the same again and again, for a while; how often a second.
fn with_threads<F: FnMut() -> Result<()> + Send>(each: Vec<F>) -> Result<f64> {
    let start = Barrier::new(each.len() + 1);
    let start = &start;
    thread::scope(|scope| {
        let threads: Vec<_> = each
            .into_iter()
            .map(|mut append| {
                scope.spawn(move || {
                    start.wait();
                    let end = clock::now() + SLICE;
                    let mut count = 0;
                    while clock::now() < end {
                        append()?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        start.wait();
        let (counts, took) = timed(|| {
            threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(count) => count,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect::<Result<Vec<usize>>>()
        })?;
        Ok(rate(counts.iter().sum(), took))
    })
}
