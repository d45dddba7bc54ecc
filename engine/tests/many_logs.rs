//! Many logs in one directory, in a process with few descriptors: they work, and cost nothing while nobody uses them.
//!
//! `HIGHWATER_LOGS` says how many. Each test looks at the whole process, so they take turns.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use highwater_engine::batch::{BatchBuilder, BatchLimits, Compression, ProducedBatch};
use highwater_engine::disk::{IoMode, Patience, SyncThread, Wait, open_disk};
use highwater_engine::log::{Log, Permit, Read, Step};
use highwater_engine::store::{Job, JobDone, Opened, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};
use rustix::process::{Resource, Rlimit, setrlimit};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

static TURNS: Mutex<()> = Mutex::new(());

const DESCRIPTORS: usize = 1024;
/// What a store, and a test beside it, have open that is no file of a segment.
const OTHER_DESCRIPTORS: usize = 64;
const MAPPED_INDEXES: usize = 200;
const SEGMENT_BYTES: u32 = 700;

fn now(ms: u64) -> Now {
    Now {
        monotonic: Monotonic::from_duration(Duration::from_millis(ms)),
        wall: Timestamp::from_millis(1_600_000_000_000),
    }
}

fn logs() -> i32 {
    std::env::var("HIGHWATER_LOGS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_200)
}

fn open(directory: &Path) -> Result<Store> {
    let disk = open_disk(IoMode::Auto, SyncThread::Never)?.disk;
    let mut config = StoreConfig::default();
    config.log.segment_bytes_max = SEGMENT_BYTES;
    config.opening_threads = 1;
    config.mapped_indexes_max = MAPPED_INDEXES;
    // Readers are sent to the files.
    config.tail_bytes_max = 4_096;
    let Opened { store, report } = Store::open(disk, directory, config, now(0))?;
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    Ok(store)
}

fn name(number: i32) -> Result<TopicPartition> {
    Ok(TopicPartition::new("many", number)?)
}

fn batch(number: i32, round: i32) -> Result<ProducedBatch> {
    let mut builder = BatchBuilder::new(Compression::None);
    let value = format!("round {round} of log {number}, {}", "x".repeat(200));
    builder.push(Some(now(0).wall), None, Some(value.as_bytes()), &[])?;
    Ok(ProducedBatch::check(builder.finish()?, &BatchLimits::default(), now(0).wall)?)
}

/// One record to each log in turn, in the operating system when it returns.
fn append_to_all(store: &Store, logs: &[Log], round: i32) -> Result<()> {
    for (number, log) in (0..).zip(logs) {
        log.append(Permit::new(LeaderEpoch::ZERO), batch(number, round)?, now(1))?;
        while store.turn(Wait::ForOne, Patience::MayBlock).in_flight > 0 {}
    }
    Ok(())
}

/// Every record of every log.
fn read_all(store: &Store, logs: &[Log], rounds: i32) -> Result<()> {
    for (number, log) in (0..).zip(logs) {
        let mut found = Vec::new();
        let mut next = log.start();
        assert_eq!(log.written(), Offset::new(i64::from(rounds)).ok_or("an offset")?, "log {number}");
        while next < log.written() {
            let mut read = log.read(next, Offset::MAX, 10_000, true)?;
            if let Read::Cold(asked) = read {
                let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { panic!() };
                read = result?;
            }
            let Read::Records(records) = read else { panic!("log {number} at {next:?}: {read:?}") };
            next = records.end;
            records.parts.iter().for_each(|part| found.extend_from_slice(part));
        }
        let text = String::from_utf8_lossy(&found);
        for round in 0..rounds {
            assert!(text.contains(&format!("round {round} of log {number},")), "log {number}: {round}");
        }
    }
    Ok(())
}

/// Descriptors, maps and threads of this process.
fn counts() -> Result<[usize; 3]> {
    let descriptors = fs::read_dir("/proc/self/fd")?.count();
    let maps = fs::read_to_string("/proc/self/maps")?;
    let maps = maps.lines().filter(|line| line.ends_with("index")).count();
    Ok([descriptors, maps, fs::read_dir("/proc/self/task")?.count()])
}

#[test]
fn many_logs_work_within_few_descriptors_maps_and_threads() -> Result<()> {
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = Some(DESCRIPTORS as u64);
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit })?;
    let directory = tempfile::tempdir()?;
    // The rest of the process has some too.
    let others: Vec<_> = (0..100).map(|_| fs::File::open("/dev/null")).collect::<std::io::Result<_>>()?;
    let threads = counts()?[2];
    let check = |when: &str| -> Result<()> {
        let [descriptors, maps, threads_now] = counts()?;
        println!("{when}: {descriptors} descriptors, {maps} maps, {threads_now} threads");
        assert!(descriptors <= DESCRIPTORS * 3 / 4 + OTHER_DESCRIPTORS + others.len(), "{when}");
        assert!(maps <= 2 * MAPPED_INDEXES, "{when}: {maps} maps");
        // The kernel's workers for the ring are threads of this process, too; they do not grow with logs.
        assert!(threads_now <= threads + 32, "{when}: {threads_now} threads");
        Ok(())
    };

    let store = open(directory.path())?;
    let config = || store.config().log.clone();
    let made: Vec<Log> = (0..logs())
        .map(|number| Ok(store.create_log(&name(number)?, None, config(), now(0))?))
        .collect::<Result<_>>()?;
    check("made")?;
    // Enough for a segment and the beginning of the next.
    for round in 0..3 {
        append_to_all(&store, &made, round)?;
        check("appended")?;
    }
    for log in &made {
        store.wait(log.ticket(), Step::Durable)?;
        assert!(log.segment_count() > 1);
    }
    check("durable")?;
    read_all(&store, &made, 3)?;
    check("read")?;
    for job in store.due_jobs(now(100_000)) {
        let done = job.run(&store);
        assert!(!matches!(done, JobDone::Failed { .. }), "{done:?}");
    }
    drop(made);
    store.close(serde_json::Map::new(), None)?;

    let store = open(directory.path())?;
    check("opened again")?;
    let found: Vec<Log> = (0..logs())
        .map(|number| Ok(store.log(&name(number)?).ok_or("a log is gone")?))
        .collect::<Result<_>>()?;
    read_all(&store, &found, 3)?;
    check("read again")?;
    append_to_all(&store, &found, 3)?;
    check("appended again")?;
    // As by a kill: what was written is there, and is made durable again within the same bounds.
    drop((store, found));
    let store = open(directory.path())?;
    check("recovered")?;
    let found: Vec<Log> = (0..logs())
        .map(|number| Ok(store.log(&name(number)?).ok_or("a log is gone")?))
        .collect::<Result<_>>()?;
    append_to_all(&store, &found, 4)?;
    check("appended after recovery")?;
    read_all(&store, &found, 5)?;
    Job::Sync { logs: found.iter().map(Log::id).collect() }.run(&store);
    assert!(found.iter().all(|log| log.durable() == log.written()));
    check("synced")?;
    Ok(())
}

/// How often each thread of this process has given up the processor of its own accord.
fn voluntary_switches() -> Result<Vec<(String, u64)>> {
    let mut switches = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        let status = fs::read_to_string(task.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let id = task.file_name().to_string_lossy().into_owned();
        switches.push((id, line.ok_or("a thread has a count of switches")?.trim().parse()?));
    }
    switches.sort();
    Ok(switches)
}

#[test]
fn idle_logs_wake_nobody() -> Result<()> {
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir()?;
    let store = open(directory.path())?;
    let config = || store.config().log.clone();
    let made: Vec<Log> = (0..1_000)
        .map(|number| Ok(store.create_log(&name(number)?, None, config(), now(0))?))
        .collect::<Result<_>>()?;
    append_to_all(&store, &made, 0)?;
    Job::Sync { logs: made.iter().map(Log::id).collect() }.run(&store);
    for at in [0, 100_000, 200_000] {
        store.due_jobs(now(at)).into_iter().for_each(|job| drop(job.run(&store)));
    }
    assert_eq!(store.next_deadline(), None, "nothing is dirty");
    let me = fs::read_link("/proc/thread-self")?;
    let me = me.file_name().ok_or("a thread has a number")?.to_string_lossy().into_owned();
    // The kernel's workers for the ring go when they have had nothing to do for some seconds; that is the kernel's business. All others
    // have to sleep through a second.
    let mut quiet = Vec::new();
    for _ in 0..30 {
        let before = voluntary_switches()?;
        let (_keep, silence) = std::sync::mpsc::channel::<()>();
        assert!(silence.recv_timeout(Duration::from_secs(1)).is_err());
        let after = voluntary_switches()?;
        quiet = before;
        quiet.retain(|(id, count)| *id != me && after.iter().any(|(other, now)| other == id && now != count));
        if quiet.is_empty() {
            break;
        }
    }
    assert_eq!(quiet, [], "somebody woke up in each of many seconds");
    Ok(())
}
