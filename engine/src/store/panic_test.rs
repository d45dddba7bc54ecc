//! A thread that panics leaves nobody waiting: the log or the directory is offline, and the others are told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::test_support::*;
use super::*;
use crate::disk::simulated::{Completing, Fault};
use crate::disk::{Disk, SimulatedDisk};
use crate::log::{AppendError, Closed, Permit, Step, TicketError};

const DATA: &str = "/data";

/// A bound for things that take no time; only whoever is stuck meets it.
const STUCK: Duration = Duration::from_secs(60);

/// Runs something on a thread of its own and gives what came of it.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, told) = channel();
    let thread = thread::spawn(move || drop(done.send(work())));
    match told.recv_timeout(STUCK) {
        Ok(value) => {
            thread.join().unwrap();
            value
        }
        Err(RecvTimeoutError::Timeout) => panic!("{what}: stuck"),
        Err(RecvTimeoutError::Disconnected) => panic!("{what}: panicked"),
    }
}

fn start(disk: &SimulatedDisk) -> Store {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = StoreConfig { log: small_segments(700), reserve_bytes: None, ..StoreConfig::default() };
    open_with(&shared, Path::new(DATA), config).0
}

fn two_logs(disk: &SimulatedDisk) -> (Store, Log, Log) {
    let store = start(disk);
    let make = |text| store.create_log(&name(text), None, small_segments(700), now(1)).unwrap();
    let (first, second) = (make("t-0"), make("u-0"));
    (store, first, second)
}

fn panics<T>(work: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

/// Whoever waits for anything afterwards is told at once, and the directory opens again with all that was durable.
fn check_nobody_is_stuck(what: &str, disk: &SimulatedDisk, store: Store, logs: Vec<Log>) {
    let durable: Vec<_> = logs.iter().map(|log| (log.name().clone(), log.durable())).collect();
    let what = what.to_owned();
    in_time(&what, {
        let (logs, store) = (logs, store);
        move || {
            for log in &logs {
                let is_offline = store.failure().is_some() || log.closed().is_some();
                let appended = log.append(Permit::new(epoch(9)), produced(&[b"more"], 1), now(5));
                assert_eq!(appended.is_err(), is_offline, "{appended:?}");
                let waited = store.wait(log.ticket(), Step::Durable);
                assert!(waited.is_ok() || is_offline, "{waited:?}");
                read_all(&store, log, log.start().value());
            }
            for job in store.due_jobs(now(100_000)) {
                job.run(&store);
            }
            drop(store.close(serde_json::Map::new(), None));
        }
    });
    let disk = disk.crash_kill(&mut fastrand::Rng::with_seed(3));
    let store = start(&disk);
    for (name, durable) in durable {
        assert!(store.log(&name).unwrap().written() >= durable, "{name}");
    }
}

#[test]
fn whoever_panics_in_the_drivers_turn_gives_the_directory_up_and_those_who_wait_are_told() {
    let disk = SimulatedDisk::new(50);
    let (store, first, second) = two_logs(&disk);
    append(&first, 3);
    append(&second, 3);
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let (store, ticket) = (store.clone(), second.ticket());
            thread::spawn(move || store.wait(ticket, Step::Durable))
        })
        .collect();
    // Whoever has the driver first.
    disk.fail_call(disk.next_call(), Fault::Panic);
    let alone = panics(|| store.wait(first.ticket(), Step::Durable));
    let results: Vec<_> = waiting.into_iter().map(thread::JoinHandle::join).collect();
    let panicked = u32::from(alone) + u32::try_from(results.iter().filter(|it| it.is_err()).count()).unwrap();
    if store.failure().is_none() {
        // All was done before the call came.
        assert_eq!(panicked, 0);
    } else {
        assert_eq!(panicked, 1, "{results:?}");
        for result in results.into_iter().flatten() {
            let told = matches!(result, Ok(()) | Err(TicketError::Closed(Closed::StoreFailed)));
            assert!(told, "{result:?}");
        }
    }
    check_nobody_is_stuck("a turn", &disk, store, vec![first, second]);
}

#[test]
fn a_panic_in_an_append_closes_that_log_alone() {
    let (mut closed, mut calls) = (0, 0);
    for call in 0.. {
        let disk = SimulatedDisk::new(51);
        let (store, first, second) = two_logs(&disk);
        for _ in 0..3 {
            append(&first, 4);
            append(&second, 4);
            turn(&store);
        }
        let from = disk.next_call();
        disk.fail_call(from + call, Fault::Panic);
        // It makes room, and the next segment.
        let panicked = panics(|| {
            for _ in 0..3 {
                first.append(Permit::new(epoch(1)), produced(&[&[1; 300]], 1), now(1)).unwrap();
            }
        });
        if !panicked {
            break;
        }
        calls += 1;
        if store.failure().is_none() {
            assert_eq!(first.closed(), Some(Closed::Panicked), "call {call}");
            closed += 1;
            append(&second, 2);
            turn(&store);
            assert_eq!(second.written(), second.accepted());
            let report = store.reopen_log(&name("t-0"), now(9)).unwrap().unwrap();
            assert!(report.end >= at(12), "{report:?}");
            append_in_epoch(&store, "t-0", 2);
        }
        let logs = vec![store.log(&name("t-0")).unwrap(), second];
        check_nobody_is_stuck(&format!("an append, call {call}"), &disk, store, logs);
    }
    assert!(closed > 3, "{closed} of {calls}");
}

fn append_in_epoch(store: &Store, text: &str, leader: i32) {
    let log = store.log(&name(text)).unwrap();
    log.append(Permit::new(epoch(leader)), produced(&[b"again"], 1), now(9)).unwrap();
    turn(store);
    assert_eq!(log.written(), log.accepted());
}

#[test]
fn a_panic_in_a_job_takes_its_log_or_the_directory_offline() {
    type Make = fn(&Log) -> Job;
    let jobs: [Make; 6] = [
        |log| Job::Seal { log: log.id() },
        |log| Job::Truncate { log: log.id(), to: at(7) },
        |log| Job::RestartAt { log: log.id(), offset: at(500) },
        |log| Job::Retention { log: log.id(), ceiling: at(12), now: now(1_000_000_000_000) },
        |_| Job::Checkpoint { now: now(5) },
        |log| Job::Sync { logs: vec![log.id()] },
    ];
    let mut panicked = 0;
    for make in jobs {
        for call in 0.. {
            let disk = SimulatedDisk::new(52);
            let (store, first, second) = two_logs(&disk);
            for _ in 0..5 {
                append(&first, 4);
                append(&second, 1);
                turn(&store);
            }
            let (job, what) = (make(&first), format!("{:?}, call {call}", make(&first).kind()));
            disk.fail_call(disk.next_call() + call, Fault::Panic);
            if !panics(|| job.run(&store)) {
                break;
            }
            panicked += 1;
            assert!(store.failure().is_some() || first.closed().is_some(), "{what}");
            check_nobody_is_stuck(&what, &disk, store, vec![first, second]);
        }
    }
    assert!(panicked > 50, "{panicked}");
}

#[test]
fn whoever_looks_at_the_facts_and_panics_closes_that_log() {
    let disk = SimulatedDisk::new(53);
    let (store, first, second) = two_logs(&disk);
    append(&first, 2);
    assert!(panics(|| first.with_facts(|_| panic!("the owner's"))));
    assert_eq!(first.closed(), Some(Closed::Panicked));
    let refused = first.append(Permit::new(epoch(0)), produced(&[b"x"], 1), now(1));
    assert!(matches!(refused, Err(AppendError::Closed(Closed::Panicked))), "{refused:?}");
    check_nobody_is_stuck("facts", &disk, store, vec![first, second]);
}

/// Counts, and panics if it is to.
struct Woken {
    count: AtomicU32,
    panics: bool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "the waker's own");
    }
}

fn woken(panics: bool) -> (Arc<Woken>, Waker) {
    let woken = Arc::new(Woken { count: AtomicU32::new(0), panics });
    (Arc::clone(&woken), Waker::from(woken))
}

#[test]
fn a_waker_that_panics_and_a_future_that_is_dropped_hurt_nobody_else() {
    let disk = SimulatedDisk::new(54);
    let (store, log, other) = two_logs(&disk);
    disk.set_completing(Completing::WhenTold);
    append(&log, 2);
    let ((bad, bad_waker), (good, good_waker), (gone, gone_waker)) =
        (woken(true), woken(false), woken(false));
    let poll = |future: &mut TicketFuture, waker: &Waker| {
        std::pin::Pin::new(future).poll(&mut Context::from_waker(waker))
    };
    let [mut first, mut second, mut third] = [(); 3].map(|()| store.wait_async(log.ticket(), Step::Durable));
    assert!(poll(&mut first, &bad_waker).is_pending());
    assert!(poll(&mut third, &gone_waker).is_pending());
    assert!(poll(&mut second, &good_waker).is_pending());
    drop(third);
    turn(&store);
    let counts = [&bad, &good, &gone].map(|it| it.count.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 1, 0]);
    assert!(matches!(poll(&mut second, &good_waker), Poll::Ready(Ok(()))));
    assert!(store.failure().is_none() && log.closed().is_none());
    drop((first, second));
    check_nobody_is_stuck("wakers", &disk, store, vec![log, other]);
}

#[test]
fn tickets_and_futures_that_outlive_their_store_are_told() {
    let disk = SimulatedDisk::new(55);
    let (store, log, other) = two_logs(&disk);
    disk.set_completing(Completing::WhenTold);
    append(&log, 2);
    let (woken, waker) = woken(false);
    let mut future = store.wait_async(log.ticket(), Step::Durable);
    assert!(std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
    in_time("the drop of a store", move || drop(store));
    assert_eq!(woken.count.load(Ordering::SeqCst), 1);
    let polled = std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Ready(Err(TicketError::Closed(Closed::StoreClosed)))), "{polled:?}");
    let refused = log.append(Permit::new(epoch(0)), produced(&[b"x"], 1), now(1));
    assert!(matches!(refused, Err(AppendError::Closed(Closed::StoreClosed))), "{refused:?}");
    drop(other);
}

/// Many threads append, wait and read, and one of them panics in a call of the disk, whichever comes.
#[test]
fn of_many_threads_one_panics_and_the_others_come_to_an_end() {
    for seed in 0..12 {
        let disk = SimulatedDisk::new(seed);
        let (store, first, second) = two_logs(&disk);
        disk.fail_call(disk.next_call() + 5 + seed * 7, Fault::Panic);
        let barrier = Arc::new(Barrier::new(4));
        let threads: Vec<_> = [&first, &second, &first, &second]
            .into_iter()
            .map(|log| {
                let (store, log, barrier) = (store.clone(), log.clone(), Arc::clone(&barrier));
                move || {
                    barrier.wait();
                    for _ in 0..40 {
                        let batch = produced(&[b"of one of many threads".as_slice(); 3], 1);
                        let Ok(appended) = log.append(Permit::new(epoch(0)), batch, now(1)) else { break };
                        if store.wait(appended.ticket, Step::Durable).is_err() {
                            break;
                        }
                    }
                }
            })
            .map(thread::spawn)
            .collect();
        let panicked = in_time(&format!("seed {seed}"), move || {
            threads.into_iter().filter_map(|thread| thread.join().err()).count()
        });
        assert!(panicked <= 1, "seed {seed}: {panicked}");
        if panicked == 1 {
            assert!(store.failure().is_some() || first.closed().is_some() || second.closed().is_some());
        }
        check_nobody_is_stuck(&format!("seed {seed}"), &disk, store, vec![first, second]);
    }
}
