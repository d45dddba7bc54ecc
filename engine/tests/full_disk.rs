//! A real full disk: a small file system in memory, mounted in a name space of its own, which any user may make on most machines.
//!
//! Where it cannot be made the test fails and says so.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{Disk, IoMode, SyncThread, open_disk};
use highwater_engine::log::{AppendError, Log, LogConfig, Permit, RESERVE_FILE, Read, ReserveReport, Step};
use highwater_engine::store::{Job, JobDone, Opened, Stop, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

const DIRECTORY: &str = "HIGHWATER_SMALL_DISK";
const NAME: &str = "a_full_file_system_refuses_appends_and_all_else_goes_through";
const RESERVE: u64 = 1 << 20;

#[test]
fn a_full_file_system_refuses_appends_and_all_else_goes_through() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        for mode in [IoMode::Posix, IoMode::Auto] {
            fill_and_go_on(mode, &PathBuf::from(&directory).join(format!("{mode:?}")));
        }
        return;
    }
    let mounted = tempfile::tempdir().unwrap();
    let run = "mount -t tmpfs -o size=8m none \"$0\" && exec \"$1\" --exact \"$2\" --nocapture";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--", "sh", "-c", run])
        .arg(mounted.path())
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(DIRECTORY, mounted.path())
        .output()
        .unwrap_or_else(|error| {
            panic!("`unshare` of util-linux is needed to mount a small file system: {error}")
        });
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "on a small file system, mounted by `unshare --user --map-root-user --mount` (user name spaces have to be allowed here):\n{text}"
    );
}

fn now(ms: u64) -> Now {
    Now {
        monotonic: Monotonic::from_duration(Duration::from_millis(ms)),
        wall: Timestamp::from_millis(i64::try_from(ms).unwrap()),
    }
}

fn batch() -> ProducedBatch {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(Some(Timestamp::from_millis(1)), None, Some(&vec![7; 30_000]), &[]).unwrap();
    ProducedBatch::check(builder.finish().unwrap(), &BatchLimits::default(), Timestamp::from_millis(1))
        .unwrap()
}

fn config() -> LogConfig {
    let mut config = LogConfig::default();
    config.segment_bytes_max = 300_000;
    config
}

fn open(disk: &Arc<dyn Disk>, directory: &Path) -> Opened {
    let mut config = StoreConfig::default();
    config.reserve_bytes = Some(RESERVE);
    Store::open(Arc::clone(disk), directory, config, now(0)).unwrap()
}

/// Appends until there is no room; how many bytes are missing.
fn fill(store: &Store, log: &Log) -> u64 {
    loop {
        match log.append(Permit::new(LeaderEpoch::ZERO), batch(), now(1)) {
            Ok(appended) => store.wait(appended.ticket, Step::Written).unwrap(),
            Err(AppendError::OutOfSpace { missing_bytes, .. }) => return missing_bytes,
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn read_to_end(store: &Store, log: &Log) -> Offset {
    let mut from = log.start();
    while from < log.written() {
        let mut read = log.read(from, Offset::MAX, 100_000, true).unwrap();
        if let Read::Cold(asked) = read {
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { panic!("a cold read") };
            read = result.unwrap();
        }
        let Read::Records(records) = read else { panic!("{read:?} at {from}") };
        from = records.end;
    }
    from
}

fn fill_and_go_on(mode: IoMode, directory: &Path) {
    let disk = open_disk(mode, SyncThread::Never).unwrap().disk;
    let Opened { store, report, .. } = open(&disk, directory);
    assert_eq!(report.reserve, ReserveReport::Held { bytes: RESERVE });
    let name = TopicPartition::new("t", 0).unwrap();
    let log = store.create_log(&name, None, config(), now(1)).unwrap();
    assert!(fill(&store, &log) > 0);
    let reserve = directory.join(RESERVE_FILE);
    assert!(reserve.exists(), "appends do not take what is in reserve");
    // Somebody else takes what is left.
    let other = disk.open(&directory.join("other"), highwater_engine::disk::Open::Create).unwrap();
    let mut size = 0;
    let mut take_all = || {
        while other.write_all_at(&[1; 4096], size).is_ok() {
            size += 4096;
        }
    };
    take_all();
    // The seals have indexes to write.
    store.wait(log.ticket(), Step::Durable).unwrap();
    for job in store.due_jobs(now(1_000_000)) {
        let done = job.run(&store);
        assert!(!matches!(done, JobDone::Failed { .. }), "{done:?}");
    }
    // A seal gives room back that was reserved behind the end.
    take_all();
    assert!(matches!(Job::Checkpoint { now: now(2) }.run(&store), JobDone::Checkpointed));
    assert!(!reserve.exists(), "it was needed");
    assert!(fill(&store, &log) > 0, "it is not for appends");
    assert_eq!(read_to_end(&store, &log), log.written());
    assert!(store.failure().is_none() && log.closed().is_none());
    let end = log.written();
    drop(log);
    store.close(serde_json::Map::new(), None).unwrap();

    let Opened { store, report, .. } = open(&disk, directory);
    assert_eq!((report.stop, report.logs[0].end), (Stop::Clean, end));
    assert!(matches!(report.reserve, ReserveReport::NoRoom { .. }), "{:?}", report.reserve);
    let log = store.log(&name).unwrap();
    let mut keep_less = config();
    keep_less.retention_bytes = Some(600_000);
    store.set_config(log.id(), keep_less).unwrap();
    let done = Job::Retention { log: log.id(), ceiling: Offset::MAX, now: now(3) }.run(&store);
    assert!(matches!(done, JobDone::Retained { segments: 2.., .. }), "{done:?}");
    assert!(matches!(Job::Checkpoint { now: now(4) }.run(&store), JobDone::Checkpointed));
    assert!(reserve.exists(), "there is room for it again");
    let appended = log.append(Permit::new(LeaderEpoch::ZERO), batch(), now(1)).unwrap();
    store.wait(appended.ticket, Step::Durable).unwrap();
    assert_eq!(read_to_end(&store, &log), log.written());
    drop((log, other));
    store.close(serde_json::Map::new(), None).unwrap();
    disk.remove_directory(directory).unwrap();
}
