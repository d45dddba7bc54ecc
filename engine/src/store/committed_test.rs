//! What a reader of committed records is told of logs that Kafka wrote, with its index of aborted transactions and without.

use std::path::Path;
use std::sync::Arc;

use super::kafka_test::unpack_directory;
use super::test_support::*;
use super::*;
use crate::disk::{Disk, PosixDisk, SyncThread};
use crate::index::{AbortedTransaction, decode_aborted};
use crate::log::{Read, Records};
use crate::segment::FileKind;
use crate::units::Offset;

/// Up to where everything is decided, and what is told of the records from `from` on.
fn read_stable(store: &Store, log: &Log, from: i64) -> (Offset, Option<Records>) {
    let end = log.written();
    let stable = log.first_unstable(end).map_or(end, |first| first.min(end));
    let read = log.read_committed(at(from), stable, 1 << 20, true).unwrap();
    let records = match read {
        Read::Records(records) => Some(records),
        Read::Empty => None,
        Read::Cold(asked) => {
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { panic!("a cold read") };
            let Read::Records(records) = result.unwrap() else { panic!("there are records") };
            Some(records)
        }
    };
    (stable, records)
}

fn opened(directory: &Path) -> (Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let (store, _) = open(&disk, directory);
    let log = store.log(&name("transactions-0")).unwrap();
    (store, log)
}

fn index_of(directory: &Path) -> Vec<AbortedTransaction> {
    let path = crate::segment::file_path(&directory.join("transactions-0"), at(0), FileKind::AbortedIndex);
    decode_aborted(&std::fs::read(path).unwrap(), at(0)).unwrap()
}

#[test]
fn aborted_transactions_are_told_as_kafkas_index_has_them_also_without_it() {
    for which in ["clean-1", "killed-1"] {
        for is_kept in [true, false] {
            let kept = tempfile::tempdir().unwrap();
            unpack_directory(which, kept.path());
            let expected = index_of(kept.path());
            assert!(!expected.is_empty());
            if !is_kept {
                std::fs::remove_file(kept.path().join("transactions-0/00000000000000000000.txnindex"))
                    .unwrap();
            }
            let (store, log) = opened(kept.path());
            let (stable, records) = read_stable(&store, &log, 0);
            let records = records.unwrap();
            assert_eq!(records.end, stable, "{which}: no more than what is decided");
            assert_eq!((stable, log.written()), (at(28), at(33)), "one was left open by the kill");
            assert_eq!(records.aborted, expected, "{which}, kept {is_kept}");
            // Of what lies behind the first of them only the others are told.
            let behind = expected[0].marker.next().unwrap();
            let (_, rest) = read_stable(&store, &log, behind.value());
            let told = rest.map(|records| records.aborted).unwrap_or_default();
            assert_eq!(told, expected.iter().filter(|one| one.marker >= behind).copied().collect::<Vec<_>>());
            assert!(read(&store, &log, 0, 1 << 20).unwrap().aborted.is_empty(), "nobody asked");
        }
    }
}
