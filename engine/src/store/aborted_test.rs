//! Kafka's index of aborted transactions has no more than its log has, wherever that was cut.

use std::path::Path;
use std::sync::Arc;

use super::test_support::*;
use super::{Job, JobDone, Store};
use crate::disk::simulated::Unsynced;
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::index::{AbortedTransaction, append_aborted, decode_aborted};
use crate::log::{Log, LogConfig};
use crate::segment::{FileKind, file_path};
use crate::units::ProducerId;

const DATA: &str = "/data";

fn open_log(simulated: &SimulatedDisk) -> (Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.log(&name("t-0")).unwrap();
    (store, log)
}

/// A log of 30 records in batches of 3.
fn log_of_thirty(simulated: &SimulatedDisk) -> (Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (store, _) = open(&disk, Path::new(DATA));
    let log = store.create_log(&name("t-0"), None, LogConfig::default(), now(0)).unwrap();
    for _ in 0..10 {
        append(&log, 3);
    }
    turn(&store);
    (store, log)
}

/// Aborted transactions with these markers, as a Kafka would have written them.
fn write_aborted(disk: &dyn Disk, log: &Log, markers: &[i64]) {
    let mut bytes = Vec::new();
    for marker in markers {
        let (first, marker, last_stable) = (at(marker - 2), at(*marker), at(marker + 1));
        let producer = ProducerId::new(7).unwrap();
        append_aborted(&mut bytes, &AbortedTransaction { producer, first, marker, last_stable });
    }
    let path = file_path(log.directory(), at(0), FileKind::AbortedIndex);
    let file = disk.open(&path, Open::Create).unwrap();
    file.set_size(0).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_directory(log.directory()).unwrap();
}

fn markers(disk: &dyn Disk, log: &Log) -> Vec<i64> {
    let path = file_path(log.directory(), at(0), FileKind::AbortedIndex);
    let mut bytes = vec![0; 1000];
    let count = disk.open(&path, Open::Read).unwrap().read_at(&mut bytes, 0).unwrap();
    decode_aborted(&bytes[..count], at(0)).unwrap().iter().map(|aborted| aborted.marker.value()).collect()
}

#[test]
fn aborted_transactions_go_with_what_is_cut_also_in_a_crash() {
    for (to, end) in [(29, 27), (24, 24), (13, 12), (12, 12), (6, 6), (3, 3)] {
        let simulated = SimulatedDisk::new(80);
        let (store, log) = log_of_thirty(&simulated);
        write_aborted(&simulated, &log, &[5, 12, 26]);
        let expected: Vec<i64> = [5, 12, 26].into_iter().filter(|marker| *marker < end).collect();
        let done = Job::Truncate { log: log.id(), to: at(to) }.run(&store);
        assert!(matches!(done, JobDone::Truncated { end: e, .. } if e == at(end)), "to {to}: {done:?}");
        assert_eq!(markers(&simulated, &log), expected, "to {to}");
        drop(store);
        let crashed = simulated.crash_power(Unsynced::Lost, &mut fastrand::Rng::with_seed(81));
        let (_store, log) = open_log(&crashed);
        assert_eq!(
            (log.written(), markers(&crashed, &log)),
            (at(end), expected),
            "to {to}, after power loss"
        );
    }
}

#[test]
fn an_opening_takes_aborted_transactions_out_that_the_log_does_not_have() {
    for stopped in [true, false] {
        let simulated = SimulatedDisk::new(82);
        let (store, log) = log_of_thirty(&simulated);
        write_aborted(&simulated, &log, &[5, 29, 30, 41]);
        if stopped {
            store.close(serde_json::Map::new(), None).unwrap();
        } else {
            drop(store);
        }
        let (_store, log) = open_log(&simulated.crash_kill(&mut fastrand::Rng::with_seed(83)));
        assert_eq!((log.written(), markers(log.0.shared.disk.as_ref(), &log)), (at(30), vec![5, 29]));
    }
}
