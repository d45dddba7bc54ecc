//! The bytes say how the files of a data directory are changed that an Apache Kafka 4.3.1 has written: one that was stopped cleanly, or one
//! whose broker was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use highwater_engine::batch::scan;
use highwater_engine::disk::{Disk, Open, SimulatedDisk};
use highwater_engine::log::{Log, Read, ReadError};
use highwater_engine::store::{Job, JobDone, Opened, ReadOnlyStore, Store, StoreConfig};
use highwater_engine::units::{Now, Offset, TopicPartition};

use super::directory::change;
use crate::recover::Choices;

const DIRECTORY: &str = "/data";
const CHANGES_MAX: usize = 6;
/// With all of them an input takes too long.
const LOGS: [&str; 5] = ["transactions-0", "compacted-0", "rolled-0", "idempotent-0", "raised-0"];

/// A directory, and what every batch of each log is from its magic number on: what lies before is not covered by the CRC.
#[derive(Debug)]
struct Original {
    disk: SimulatedDisk,
    batches: BTreeMap<TopicPartition, BTreeSet<Vec<u8>>>,
}

/// It is verified and opened, or it is said why not; nothing is read but what Kafka has written to that log, in ascending order; a reader of
/// committed records gets no others.
pub fn kafka(data: &[u8]) {
    let mut choices = Choices::bytes(data);
    let original = &originals()[usize::from(choices.once_in(2))];
    let disk = original.disk.fork(1);
    for _ in 0..CHANGES_MAX {
        if choices.are_used_up() {
            break;
        }
        change(&disk, Path::new(DIRECTORY), &mut choices);
    }
    verify(&disk);
    let Ok(Opened { store, .. }) = open(&disk) else { return };
    for log in store.logs() {
        let known = &original.batches[log.name()];
        for batch in read_all(&store, &log) {
            assert!(known.contains(&batch[16..]), "{}: what nobody wrote is read", log.name());
        }
    }
    drop(store);
    verify(&disk);
}

fn verify(disk: &SimulatedDisk) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let Ok(looker) = ReadOnlyStore::open(&shared, Path::new(DIRECTORY), StoreConfig::default()) else {
        return;
    };
    std::hint::black_box(looker.verify_files().is_ok());
    for name in looker.names().unwrap_or_default() {
        std::hint::black_box(looker.verify_log(&name, &|_| {}).is_ok());
    }
}

fn open(disk: &SimulatedDisk) -> Result<Opened, highwater_engine::store::StoreOpenError> {
    let mut config = StoreConfig::default();
    config.tail_bytes_max = 0;
    let disk = disk.crash_kill(&mut fastrand::Rng::with_seed(1));
    Store::open(Arc::new(disk), Path::new(DIRECTORY), config, Now::default())
}

/// Every batch that can be read.
fn read_all(store: &Store, log: &Log) -> Vec<Vec<u8>> {
    let (mut batches, mut next) = (Vec::new(), log.start());
    while next < log.written() {
        let read = from_device(store, log.read(next, Offset::MAX, 4_096, true));
        let committed = from_device(store, log.read_committed(next, log.written(), 4_096, true));
        match read {
            Ok(Read::Records(records)) => {
                assert!(records.end > next && records.end <= log.written());
                let bytes = records.parts.concat();
                if let Ok(Read::Records(committed)) = committed {
                    assert_eq!(committed.parts.concat(), bytes);
                    assert!(committed.aborted.iter().all(|aborted| aborted.first < records.end));
                }
                batches
                    .extend(scan(&bytes, 0).map(|batch| batch.expect("it was checked").1.bytes().to_vec()));
                next = records.end;
            }
            Err(ReadError::Damaged { offsets: Some(offsets), .. }) if offsets.end() > next => {
                next = offsets.end();
            }
            Ok(Read::Empty | Read::Cold(_)) | Err(_) => break,
        }
    }
    batches
}

fn from_device(store: &Store, read: Result<Read, ReadError>) -> Result<Read, ReadError> {
    let Ok(Read::Cold(asked)) = read else { return read };
    let done = Job::ColdRead(asked).run(store);
    let JobDone::Read { result, .. } = done else { panic!("a cold read gave {done:?}") };
    result
}

fn originals() -> &'static [Original; 2] {
    static ORIGINALS: OnceLock<[Original; 2]> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        [
            original(include_bytes!("../../../engine/testdata/kafka-dirs/clean-1.tar.gz")),
            original(include_bytes!("../../../engine/testdata/kafka-dirs/killed-1.tar.gz")),
        ]
    })
}

fn original(archive: &[u8]) -> Original {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(archive).read_to_end(&mut bytes).expect("the archive is whole");
    let disk = SimulatedDisk::new(7);
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + 512).filter(|header| header[0] != 0) {
        let text = |field: &[u8]| {
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).trim().to_owned()
        };
        let (name, size) = (text(&header[..100]), text(&header[124..136]));
        let size = usize::from_str_radix(&size, 8).expect("a size is octal");
        let is_wanted = !name.contains('/') || LOGS.iter().any(|log| name.starts_with(&format!("{log}/")));
        if header[156] != b'5' && is_wanted {
            let path = Path::new(DIRECTORY).join(name);
            disk.create_directory(path.parent().expect("it is below")).expect("nothing fails");
            let file = disk.open(&path, Open::Create).expect("nothing fails");
            file.write_all_at(&bytes[at + 512..at + 512 + size], 0).expect("nothing fails");
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    let Opened { store, report } = open(&disk.fork(1)).expect("Kafka's directory can be opened");
    assert_eq!((report.logs.len(), report.refused.len()), (LOGS.len(), 0));
    let batches = store.logs().into_iter().map(|log| {
        let batches = read_all(&store, &log).into_iter().map(|batch| batch[16..].to_vec()).collect();
        (log.name().clone(), batches)
    });
    Original { batches: batches.collect(), disk }
}
