//! A file system that cannot reserve room, such as NFS or any outside of Linux: everything works, and a full disk, which is met by the
//! write then, closes the log instead of refusing the append. Nothing that was written is lost, and no offset is used twice.

use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{
    Completion, DirectoryLock, Disk, DiskFile, Entry, File, FileIdentity, Incarnation, LockError, Map, Open,
    Operation, Queue, QueueCounters, SimulatedDisk, Wait,
};
use highwater_engine::log::{AppendError, Closed, Log, LogConfig, Permit, Read, Step, TicketError};
use highwater_engine::store::{Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

const NOW: Now =
    Now { monotonic: Monotonic::from_duration(std::time::Duration::ZERO), wall: Timestamp::from_millis(0) };

#[derive(Debug)]
struct WithoutReserve(SimulatedDisk);

#[derive(Debug)]
struct FileWithoutReserve(File);

#[derive(Debug)]
struct QueueBehind(Box<dyn Queue>);

impl Disk for WithoutReserve {
    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        Ok(Arc::new(FileWithoutReserve(self.0.open(path, how)?)))
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.0.list(directory)
    }
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.0.create_directory(directory)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.0.remove_directory(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.0.sync_directory(directory)
    }
    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        self.0.lock(directory)
    }
    fn incarnation(&self, directory: &Path) -> Option<Incarnation> {
        self.0.incarnation(directory)
    }
    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        self.0.free_bytes(directory)
    }
    fn open_files_max(&self) -> Option<usize> {
        self.0.open_files_max()
    }

    fn queue(&self) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(QueueBehind(self.0.queue()?)))
    }
}

impl DiskFile for FileWithoutReserve {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buffer, position)
    }
    fn read_cached(&self, out: &mut BytesMut, length: usize, position: u64) -> io::Result<Option<usize>> {
        self.0.read_cached(out, length, position)
    }
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, position)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_size(size)
    }
    fn reserve(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn map(&self, length: usize) -> io::Result<Map> {
        self.0.map(length)
    }
    fn descriptor(&self) -> Option<i32> {
        None
    }
    fn identity(&self) -> io::Result<FileIdentity> {
        self.0.identity()
    }
}

impl Queue for QueueBehind {
    fn submit(&mut self, operations: &mut Vec<Operation>) {
        for operation in operations.iter_mut() {
            let file: &dyn Any = operation.file.as_ref();
            let file = file.downcast_ref::<FileWithoutReserve>().expect("all files are opened by this disk");
            operation.file = Arc::clone(&file.0);
        }
        self.0.submit(operations);
    }
    fn reap(&mut self, wait: Wait, completed: &mut Vec<Completion>) {
        self.0.reap(wait, completed);
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.0.wake_descriptor()
    }
    fn counters(&self) -> QueueCounters {
        self.0.counters()
    }
}

fn append(log: &Log, epoch: i32) -> Result<highwater_engine::log::Appended, AppendError> {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(Some(NOW.wall), None, Some(&[7; 1000]), &[]).expect("a record fits");
    let bytes = builder.finish().expect("nothing is compressed");
    let batch = ProducedBatch::check(bytes, &BatchLimits::default(), NOW.wall).expect("it is a batch");
    log.append(Permit::new(LeaderEpoch::new(epoch).expect("it is not negative")), batch, NOW)
}

#[test]
fn a_full_disk_closes_the_log_where_room_cannot_be_reserved_and_loses_nothing() {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(WithoutReserve(simulated.clone()));
    let directory = Path::new("/data");
    let store = Store::open(Arc::clone(&disk), directory, StoreConfig::default(), NOW).unwrap().store;
    let name = TopicPartition::new("t", 0).unwrap();
    let mut config = LogConfig::default();
    config.segment_bytes_max = 40_000;
    let log = store.create_log(&name, None, config, NOW).unwrap();
    // Over several rolls, too.
    for _ in 0..100 {
        let ticket = append(&log, 0).unwrap().ticket;
        store.wait(ticket, Step::Durable).unwrap();
    }
    assert!(log.segment_count() > 1);

    let free = store.disk().free_bytes(directory).unwrap();
    simulated.set_capacity(Some(150_000));
    assert!(store.disk().free_bytes(directory).unwrap() < free);
    let failed = loop {
        // A roll is refused where there is no room for the next segment; then nothing was given out.
        let appended = match append(&log, 0) {
            Ok(appended) => appended,
            Err(error) => panic!("{error}: the write was to meet it first"),
        };
        match store.wait(appended.ticket, Step::Written) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, TicketError::Closed(Closed::WriteFailed)), "{failed}");
    assert!(matches!(append(&log, 0), Err(AppendError::Closed(Closed::WriteFailed))));
    let written = log.written();
    assert!(written.value() >= 100);
    assert!(matches!(log.read(Offset::ZERO, Offset::MAX, 100, true), Ok(Read::Records(_) | Read::Cold(_))));

    simulated.set_capacity(None);
    let report = store.reopen_log(&name, NOW).unwrap().expect("it was closed");
    assert!(report.end >= written, "{report:?}");
    let log = store.log(&name).unwrap();
    // Offsets that were given out are used again only under a new epoch.
    let appended = append(&log, 1).unwrap();
    assert_eq!(appended.offsets.start(), report.end);
    store.wait(appended.ticket, Step::Durable).unwrap();
    store.close(serde_json::Map::new(), None).unwrap();
}
