//! Threads that want different things of one log at one moment: none may wait for another that waits for it.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use super::test_support::{at, epoch, name, now, places, produced, small_segments};
use super::{Job, Store, StoreConfig};
use crate::log::{Log, LogConfig, Permit, Step};
use crate::store::test_support::open_with;

const CUTS: usize = 150;
const APPENDS: usize = 2_000;

/// Appends, rolls, and makes durable in this thread, until the other end is gone. Appends that a cut refuses are tried again.
fn write_durably(store: &Store, log: &Log, stop: &Receiver<()>) {
    while stop.try_recv() != Err(TryRecvError::Disconnected) {
        let batch = produced(&[&[7; 400]], 1);
        if let Ok(appended) = log.append(Permit::new(epoch(0)), batch, now(1)) {
            // A cut may take what is waited for.
            let _cut = store.wait(appended.ticket, Step::Durable);
        }
    }
}

#[test]
fn a_cut_and_a_writer_who_seals_do_not_wait_for_each_other() {
    for place in places().into_iter().skip(1) {
        let (store, _) = open_with(&place.disk, &place.directory, StoreConfig::default());
        let log = store.create_log(&name("t-0"), None, small_segments(1_000), now(0)).unwrap();
        let (done, is_done) = channel();
        let (running, stop) = channel::<()>();
        let writer = thread::spawn({
            let (store, log) = (store.clone(), log.clone());
            move || write_durably(&store, &log, &stop)
        });
        let cutter = thread::spawn({
            let (store, log) = (store.clone(), log.clone());
            move || {
                let mut cuts = 0;
                while cuts < CUTS {
                    let end = log.accepted().value();
                    if end < 8 {
                        thread::yield_now();
                        continue;
                    }
                    Job::Truncate { log: log.id(), to: at(end - 2) }.run(&store);
                    cuts += 1;
                    if cuts % 8 == 0 {
                        Job::Truncate { log: log.id(), to: at(1) }.run(&store);
                    }
                }
                done.send(()).unwrap();
            }
        });
        let ended = is_done.recv_timeout(Duration::from_secs(30));
        assert!(ended.is_ok(), "a cut and a writer wait for each other");
        drop(running);
        writer.join().unwrap();
        cutter.join().unwrap();
        assert_eq!(log.closed(), None);
    }
}

/// Whoever finds the driver taken goes to sleep, and is woken also by one who only had a look.
#[test]
fn a_look_at_the_driver_leaves_nobody_asleep() {
    for place in places().into_iter().skip(1) {
        let (store, _) = open_with(&place.disk, &place.directory, StoreConfig::default());
        let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
        let (done, is_done) = channel();
        let (running, stop) = channel::<()>();
        let onlooker = thread::spawn({
            let store = store.clone();
            move || {
                while stop.try_recv() != Err(TryRecvError::Disconnected) {
                    store.counters();
                }
            }
        });
        thread::spawn(move || {
            for _ in 0..APPENDS {
                let appended = log.append(Permit::new(epoch(0)), produced(&[&[7; 400]], 1), now(1)).unwrap();
                store.wait(appended.ticket, Step::Written).unwrap();
            }
            done.send(()).unwrap();
        });
        let ended = is_done.recv_timeout(Duration::from_secs(60));
        assert!(ended.is_ok(), "nobody woke the one who waits");
        drop(running);
        onlooker.join().unwrap();
    }
}
