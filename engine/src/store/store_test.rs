//! A store and its logs on every disk: append, read, roll, truncate, close, open again.

use super::test_support::*;
use super::*;
use crate::batch::scan;
use crate::disk::SimulatedDisk;
use crate::log::{
    AppendError, LogConfig, Permit, Read, ReadError, ReplicaAppendError, Step, TicketError, TimestampSource,
};
use crate::units::{Offset, Timestamp};

fn bases(bytes: &[u8]) -> Vec<(i64, i64)> {
    scan(bytes, 0)
        .map(|batch| {
            let header = *batch.unwrap().1.header();
            (header.base_offset.value(), header.last_offset().value())
        })
        .collect()
}

#[test]
fn what_is_appended_is_read_after_a_turn_and_after_reopening() {
    for place in places() {
        let (store, report) = open(&place.disk, &place.directory);
        assert_eq!(report.stop, Stop::FirstUse);
        let log = store.create_log(&name("orders-0"), None, LogConfig::default(), now(0)).unwrap();
        let first = append(&log, 3);
        assert_eq!((first.offsets.start(), first.offsets.end()), (at(0), at(3)));
        assert!(
            matches!(log.read(at(0), Offset::MAX, 100, true).unwrap(), Read::Empty),
            "nobody sees above written"
        );
        append(&log, 2);
        assert_eq!(turn(&store), vec![log.id()]);
        assert_eq!((log.written(), log.durable()), (at(5), at(0)));
        assert_eq!(bases(&read_all(&store, &log, 0)), [(0, 2), (3, 4)]);
        assert_eq!(bases(&read_all(&store, &log, 4)), [(3, 4)]);
        store.wait(first.ticket, Step::Durable).unwrap();
        assert!(log.durable() >= at(3));
        store.close(serde_json::Map::new(), None).unwrap();

        let (store, report) = open(&place.disk, &place.directory);
        assert_eq!(report.stop, Stop::Clean);
        assert!(!report.logs[0].suspect, "{}", report.logs[0].plan);
        let log = store.log(&name("orders-0")).unwrap();
        assert_eq!((log.start(), log.written(), log.durable()), (at(0), at(5), at(5)));
        assert_eq!(bases(&read_all(&store, &log, 0)), [(0, 2), (3, 4)]);
        assert_eq!(append(&log, 1).offsets.start(), at(5));
    }
}

#[test]
fn reads_keep_their_bounds() {
    let place = places().remove(1);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    for _ in 0..10 {
        append(&log, 2);
    }
    turn(&store);
    let one = read(&store, &log, 0, 1).unwrap();
    assert_eq!((one.first, one.end), (at(0), at(2)), "a whole batch at least");
    assert!(matches!(log.read(at(0), Offset::MAX, 1, false).unwrap(), Read::Empty));
    assert!(matches!(log.read(at(20), Offset::MAX, 100, true).unwrap(), Read::Empty));
    assert!(matches!(log.read(at(6), at(6), 100, true).unwrap(), Read::Empty));
    assert!(matches!(log.read(at(8), at(6), 100, true).unwrap(), Read::Empty));
    assert!(matches!(log.read(at(21), Offset::MAX, 100, true), Err(ReadError::OutOfRange { .. })));
    let Read::Records(below) = log.read(at(1), at(7), 1 << 20, true).unwrap() else { panic!() };
    assert_eq!((below.first, below.end), (at(0), at(6)), "no batch that reaches above the ceiling");
    assert_eq!(below.first_epoch, Some(epoch(0)));
}

#[test]
fn a_log_rolls_by_size_and_is_read_across_segments() {
    for place in places() {
        let (store, _) = open(&place.disk, &place.directory);
        let log = store.create_log(&name("t-0"), None, small_segments(1000), now(0)).unwrap();
        for _ in 0..50 {
            append(&log, 2);
        }
        turn(&store);
        assert!(log.segment_count() > 3, "{}", log.segment_count());
        let expected: Vec<(i64, i64)> = (0..50).map(|n| (2 * n, 2 * n + 1)).collect();
        assert_eq!(bases(&read_all(&store, &log, 0)), expected);
        let ticket = log.ticket();
        store.wait(ticket, Step::Durable).unwrap();
        assert_eq!(log.durable(), at(100));
        for job in store.due_jobs(now(1)) {
            job.run(&store);
        }
        for from in 0..100 {
            let records = read(&store, &log, from, 1).unwrap();
            assert_eq!(records.first, at(from / 2 * 2), "from {from}");
        }
        drop(store);
        let (store, report) = open(&place.disk, &place.directory);
        assert_eq!(report.stop, Stop::Unclean);
        let log = store.log(&name("t-0")).unwrap();
        assert_eq!(log.written(), at(100), "{}", report.logs[0].plan);
        assert_eq!(bases(&read_all(&store, &log, 0)), expected);
    }
}

#[test]
fn truncation_cuts_whole_batches_and_the_end_is_that_of_the_last_one() {
    for (to, end) in [(100, 100), (99, 98), (98, 98), (51, 50), (50, 50), (3, 2), (1, 0), (0, 0)] {
        for place in places() {
            let (store, _) = open(&place.disk, &place.directory);
            let log = store.create_log(&name("t-0"), None, small_segments(1000), now(0)).unwrap();
            for _ in 0..50 {
                append(&log, 2);
            }
            turn(&store);
            let job = Job::Truncate { log: log.id(), to: at(to) };
            let done = job.run(&store);
            assert!(
                matches!(done, JobDone::Truncated { end: e, .. } | JobDone::RestartedAt { offset: e, .. } if e == at(end)),
                "{to}: {done:?}"
            );
            assert_eq!((log.accepted(), log.written()), (at(end), at(end)));
            let expected: Vec<(i64, i64)> = (0..end / 2).map(|n| (2 * n, 2 * n + 1)).collect();
            assert_eq!(bases(&read_all(&store, &log, 0)), expected, "to {to}");
            assert_eq!(append(&log, 5).offsets.start(), at(end));
            turn(&store);
            let mut expected = expected;
            expected.push((end, end + 4));
            assert_eq!(bases(&read_all(&store, &log, 0)), expected, "to {to}, appended");
            store.close(serde_json::Map::new(), None).unwrap();
            let (store, report) = open(&place.disk, &place.directory);
            let log = store.log(&name("t-0")).unwrap();
            assert!(!report.logs[0].suspect, "{}", report.logs[0].plan);
            assert_eq!(bases(&read_all(&store, &log, 0)), expected, "to {to}, reopened");
        }
    }
}

#[test]
fn tickets_of_a_cut_generation_are_void() {
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    append(&log, 1);
    let late = append(&log, 1).ticket;
    Job::Truncate { log: log.id(), to: at(1) }.run(&store);
    assert_eq!(store.wait(late, Step::Written), Err(TicketError::Truncated));
}

#[test]
fn a_restart_elsewhere_leaves_an_empty_log_there() {
    for place in places() {
        let (store, _) = open(&place.disk, &place.directory);
        let log = store.create_log(&name("t-0"), None, small_segments(500), now(0)).unwrap();
        for _ in 0..20 {
            append(&log, 1);
        }
        turn(&store);
        let done = Job::RestartAt { log: log.id(), offset: at(1000) }.run(&store);
        assert!(matches!(done, JobDone::RestartedAt { .. }), "{done:?}");
        assert_eq!((log.start(), log.accepted(), log.segment_count()), (at(1000), at(1000), 1));
        assert!(matches!(log.read(at(0), Offset::MAX, 1, true), Err(ReadError::OutOfRange { .. })));
        let set = replicated(&[stamped(1000, 2, 3, 5), stamped(1002, 1, 4, 6)]);
        let appended = log.append_replicated(&set, now(9)).unwrap();
        assert_eq!(appended.offsets.end(), at(1003));
        turn(&store);
        drop(store);
        let (store, report) = open(&place.disk, &place.directory);
        let log = store.log(&name("t-0")).unwrap();
        assert_eq!((log.start(), log.written()), (at(1000), at(1003)), "{}", report.logs[0].plan);
        assert_eq!(log.epoch_at(at(1001)), Some(epoch(3)));
        assert_eq!(log.epoch_at(at(1002)), Some(epoch(4)));
    }
}

#[test]
fn followers_may_leave_gaps_and_may_not_go_back() {
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    log.append_replicated(&replicated(&[stamped(0, 2, 0, 1), stamped(10, 2, 0, 1)]), now(1)).unwrap();
    let far = 10 + i64::from(i32::MAX) + 5;
    log.append_replicated(&replicated(&[stamped(far, 1, 1, 1)]), now(1)).unwrap();
    turn(&store);
    assert_eq!(log.segment_count(), 2, "an offset that the segment cannot express rolls");
    assert_eq!(read(&store, &log, 3, 1).unwrap().first, at(10), "behind a gap the next batch is read");
    assert_eq!(read(&store, &log, 12, 1).unwrap().first, at(far));
    let refused = log.append_replicated(&replicated(&[stamped(11, 2, 1, 1)]), now(1));
    assert!(matches!(refused, Err(ReplicaAppendError::BelowEnd { .. })), "{refused:?}");
}

#[test]
fn duplicates_are_answered_with_their_first_offsets() {
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    let permit = Permit::new(epoch(0));
    append(&log, 4);
    let original = log.append(permit, numbered(7, 0, 2), now(1)).unwrap();
    let again = log.append(permit, numbered(7, 0, 2), now(1)).unwrap();
    assert!(again.duplicate && again.offsets == original.offsets);
    assert_eq!(log.accepted(), at(6));
    let gap = log.append(permit, numbered(7, 9, 2), now(1));
    assert!(matches!(gap, Err(AppendError::Producer(_))), "{gap:?}");
    log.append(permit, numbered(7, 2, 2), now(1)).unwrap();
    // A truncation takes the memory of what it cut.
    Job::Truncate { log: log.id(), to: at(6) }.run(&store);
    assert!(!log.append(permit, numbered(7, 2, 2), now(1)).unwrap().duplicate);
    turn(&store);
    store.close(serde_json::Map::new(), None).unwrap();
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.log(&name("t-0")).unwrap();
    assert!(log.append(permit, numbered(7, 2, 2), now(1)).unwrap().duplicate, "the snapshot remembers");
}

#[test]
fn times_roll_segments_and_find_records() {
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let config = LogConfig { segment_age_max: std::time::Duration::from_secs(1), ..LogConfig::default() };
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    let permit = Permit::new(epoch(0));
    for ms in [100, 50, 1100, 1101, 900, 2200] {
        log.append(permit, produced(&[b"x"], ms), now(1)).unwrap();
    }
    turn(&store);
    assert_eq!(log.segment_count(), 3, "1101 is 1001 after 100, 2200 is 1099 after 1101");
    let find = |ms| {
        let found = log.offset_for_timestamp(Timestamp::from_millis(ms), Offset::MAX).unwrap();
        found.map(|found| (found.offset.value(), found.timestamp.millis()))
    };
    assert_eq!(find(0), Some((0, 100)));
    assert_eq!(find(101), Some((2, 1100)));
    assert_eq!(find(1101), Some((3, 1101)));
    assert_eq!(find(2200), Some((5, 2200)));
    assert_eq!(find(2201), None);
    let latest = log.max_timestamp(at(5)).unwrap().unwrap();
    assert_eq!((latest.offset, latest.timestamp.millis()), (at(3), 1101));
}

#[test]
fn append_times_are_the_leaders() {
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let config = LogConfig { timestamps: TimestampSource::Append, ..LogConfig::default() };
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    let appended = log.append(Permit::new(epoch(2)), produced(&[b"x"], 5), now(77)).unwrap();
    assert_eq!(appended.log_append_time, Some(Timestamp::from_millis(77)));
    turn(&store);
    let bytes = read_all(&store, &log, 0);
    let (_, batch) = scan(&bytes, 0).next().unwrap().unwrap();
    assert_eq!(batch.header().max_timestamp, Some(Timestamp::from_millis(77)));
    assert_eq!(batch.header().leader_epoch, Some(epoch(2)));
    let stale = log.append(Permit::new(epoch(1)), produced(&[b"x"], 5), now(78));
    assert!(matches!(stale, Err(AppendError::StaleEpoch { .. })), "{stale:?}");
}

#[test]
fn a_full_disk_is_a_refusal_and_no_offset_is_lost() {
    let disk = SimulatedDisk::new(3);
    let shared: std::sync::Arc<dyn crate::disk::Disk> = std::sync::Arc::new(disk.clone());
    let (store, _) = open(&shared, std::path::Path::new("/data"));
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    append(&log, 1);
    turn(&store);
    disk.set_capacity(Some(80 << 10));
    let permit = Permit::new(epoch(0));
    let large = vec![b'x'; 30 << 10];
    let mut refused = 0;
    for _ in 0..5 {
        match log.append(permit, produced(&[&large], 1), now(1)) {
            Ok(_) => drop(turn(&store)),
            Err(AppendError::OutOfSpace { bytes, missing_bytes }) => {
                assert!(missing_bytes > 0 && missing_bytes <= bytes as u64, "{missing_bytes} of {bytes}");
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refused > 0);
    let before = log.accepted();
    disk.set_capacity(None);
    assert_eq!(append(&log, 1).offsets.start(), before);
    turn(&store);
    assert_eq!(log.written(), log.accepted());
}

#[test]
fn old_segments_go_and_one_remains() {
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let config = LogConfig { retention_bytes: Some(1500), retention_age: None, ..small_segments(500) };
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    for _ in 0..40 {
        append(&log, 1);
    }
    turn(&store);
    let run = |ceiling| Job::Retention { log: log.id(), ceiling, now: now(10) }.run(&store);
    assert!(matches!(run(at(0)), JobDone::Retained { segments: 0, .. }), "nothing above the ceiling goes");
    let done = run(Offset::MAX);
    let JobDone::Retained { start, segments, .. } = done else { panic!("{done:?}") };
    assert!(segments > 0 && log.size_bytes() >= 1500 && log.size_bytes() < 2000, "{}", log.size_bytes());
    assert_eq!(log.start(), start);
    let aged = LogConfig { retention_age: Some(std::time::Duration::ZERO), ..(*log.config()).clone() };
    store.set_config(log.id(), aged).unwrap();
    let done = run(Offset::MAX);
    assert!(matches!(done, JobDone::Retained { .. }), "{done:?}");
    assert_eq!((log.segment_count(), log.start(), log.size_bytes()), (1, at(40), 0));
    drop(store);
    let (store, report) = open(&place.disk, &place.directory);
    assert_eq!(store.log(&name("t-0")).unwrap().start(), at(40), "{}", report.logs[0].plan);
}

#[test]
fn a_raised_start_is_remembered() {
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    append(&log, 10);
    turn(&store);
    let above = Job::RaiseStart { log: log.id(), to: at(11) }.run(&store);
    assert!(matches!(above, JobDone::Failed { error: JobError::AboveEnd { .. }, .. }), "{above:?}");
    Job::RaiseStart { log: log.id(), to: at(4) }.run(&store);
    Job::Checkpoint { now: now(1) }.run(&store);
    drop(store);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.log(&name("t-0")).unwrap();
    assert_eq!(log.start(), at(4));
    assert!(matches!(log.read(at(3), Offset::MAX, 1, true), Err(ReadError::OutOfRange { .. })));
    assert_eq!(read(&store, &log, 4, 1).unwrap().first, at(0), "the start may lie inside a batch");
}

#[test]
fn a_deleted_log_leaves_nothing_and_its_name_is_free() {
    for place in places() {
        let (store, _) = open(&place.disk, &place.directory);
        let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
        append(&log, 1);
        turn(&store);
        let job = store.delete_log(&name("t-0")).unwrap();
        assert!(matches!(job.run(&store), JobDone::Deleted { .. }));
        assert!(store.log(&name("t-0")).is_none());
        assert!(matches!(
            log.append(Permit::new(epoch(0)), produced(&[b"x"], 1), now(1)),
            Err(AppendError::Closed(_))
        ));
        let entries = place.disk.list(&place.directory).unwrap();
        assert!(entries.iter().all(|entry| !entry.name.starts_with("t-0")), "{entries:?}");
        store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    }
}

#[test]
fn many_threads_share_one_sync() {
    let place = places().remove(1);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let ticket = append(&log, 1).ticket;
                    store.wait(ticket, Step::Durable).unwrap();
                    assert!(log.durable() >= ticket.end());
                }
            });
        }
    });
    assert_eq!(log.durable(), at(320));
    let counters = store.counters();
    assert!(counters.syncs_inline < 320, "{counters:?}");
}

#[test]
fn a_task_is_woken_when_its_step_comes() {
    use std::future::Future;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake};
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let place = places().remove(0);
    let (store, _) = open(&place.disk, &place.directory);
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Arc::clone(&woken).into();
    let mut context = Context::from_waker(&waker);
    let mut future = Box::pin(store.wait_async(append(&log, 1).ticket, Step::Durable));
    assert!(future.as_mut().poll(&mut context).is_pending());
    turn(&store);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(matches!(future.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
}

#[test]
fn a_failed_sync_is_final_for_the_directory() {
    use crate::disk::simulated::{CallKind, Fault};
    let disk = SimulatedDisk::new(5);
    let shared: std::sync::Arc<dyn crate::disk::Disk> = std::sync::Arc::new(disk.clone());
    let (store, _) = open(&shared, std::path::Path::new("/data"));
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    let other = store.create_log(&name("t-1"), None, LogConfig::default(), now(0)).unwrap();
    let ticket = append(&log, 1).ticket;
    turn(&store);
    disk.take_calls();
    disk.fail_call(disk.next_call(), Fault::Io);
    assert!(store.wait(ticket, Step::Durable).is_err());
    assert!(disk.take_calls().iter().any(|call| call.kind == CallKind::Sync), "it was the sync that failed");
    assert!(store.failure().is_some());
    let refused = other.append(Permit::new(epoch(0)), produced(&[b"x"], 1), now(1));
    assert!(matches!(refused, Err(AppendError::Closed(crate::log::Closed::StoreFailed))), "{refused:?}");
    assert_eq!(log.durable(), at(0));
    assert!(store.close(serde_json::Map::new(), None).is_err(), "no mark");
    let (store, report) = open(&shared, std::path::Path::new("/data"));
    assert_eq!(report.stop, Stop::Unclean);
    assert_eq!(store.log(&name("t-0")).unwrap().written(), at(1));
}

#[test]
fn readers_see_whole_batches_in_order_while_the_log_rolls_syncs_and_forgets() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let place = places().remove(1);
    let (store, _) = open(&place.disk, &place.directory);
    let config = LogConfig { retention_bytes: Some(60_000), retention_age: None, ..small_segments(10_000) };
    let log = store.create_log(&name("t-0"), None, config, now(0)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut next = 0;
                while !done.load(Ordering::SeqCst) || next < log.written().value() {
                    next = next.max(log.start().value());
                    let records = match log.read(at(next), Offset::MAX, 4_000, true) {
                        Ok(Read::Records(records)) => records,
                        Ok(Read::Empty | Read::Cold(_)) | Err(ReadError::OutOfRange { .. }) => continue,
                        Err(error) => panic!("{error} at {next}"),
                    };
                    let bytes: Vec<u8> = records.parts.iter().flatten().copied().collect();
                    for (base, last) in bases(&bytes) {
                        assert!(base <= next && last >= next, "{base}..={last} at {next}");
                        next = last + 1;
                    }
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                for job in store.due_jobs(now(100_000)) {
                    job.run(&store);
                }
                Job::Retention { log: log.id(), ceiling: Offset::MAX, now: now(1) }.run(&store);
            }
        });
        for round in 0..2_000 {
            let ticket = append(&log, 3).ticket;
            let step = if round % 50 == 0 { Step::Durable } else { Step::Written };
            store.wait(ticket, step).unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(store.failure().is_none());
    assert!(log.start() > at(0) && log.written() == at(6_000));
}

#[test]
fn a_failed_write_closes_the_log_and_it_opens_again_under_a_new_epoch() {
    use crate::disk::simulated::Fault;
    let disk = SimulatedDisk::new(5);
    let shared: std::sync::Arc<dyn crate::disk::Disk> = std::sync::Arc::new(disk.clone());
    let (store, _) = open(&shared, std::path::Path::new("/data"));
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    append(&log, 2);
    turn(&store);
    let lost = append(&log, 3).ticket;
    disk.fail_call(disk.next_call(), Fault::ShortWrite);
    let report = store.turn(crate::disk::Wait::Not, crate::disk::Patience::MayBlock);
    assert_eq!(report.failed, vec![log.id()]);
    assert_eq!(store.wait(lost, Step::Written), Err(TicketError::Closed(crate::log::Closed::WriteFailed)));
    assert!(matches!(
        log.append(Permit::new(epoch(0)), produced(&[b"x"], 1), now(1)),
        Err(AppendError::Closed(_))
    ));
    assert_eq!(read(&store, &log, 0, 1).unwrap().end, at(2), "what was written is still read");
    let done = Job::Reopen { log: log.id(), now: now(2) }.run(&store);
    let JobDone::Reopened { log: closed, report: Some(report) } = done else { panic!("{done:?}") };
    assert_eq!((closed, report.end), (log.id(), at(2)), "{}", report.plan);
    let done = Job::Reopen { log: store.log(&name("t-0")).unwrap().id(), now: now(2) }.run(&store);
    assert!(matches!(done, JobDone::Reopened { report: None, .. }), "it is open: {done:?}");
    let log = store.log(&name("t-0")).unwrap();
    log.begin_epoch(epoch(1)).unwrap();
    let again = log.append(Permit::new(epoch(1)), produced(&[b"x"], 1), now(3)).unwrap();
    assert_eq!(again.offsets.start(), at(2));
    store.wait(again.ticket, Step::Durable).unwrap();
    assert_eq!(bases(&read_all(&store, &log, 0)), [(0, 1), (2, 2)]);
}
