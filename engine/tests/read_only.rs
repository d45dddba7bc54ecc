//! A real second process writes a log, rolls, cuts, deletes and seals, while this one looks at it without a lock: whatever it sees is a
//! log that was there.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;

use highwater_engine::batch::{
    BatchBuilder, BatchLimits, Compression, DecompressLimits, ProducedBatch, scan,
};
use highwater_engine::disk::{IoMode, Patience, SyncThread, Wait, open_disk};
use highwater_engine::log::{Log, LogConfig, Permit};
use highwater_engine::store::{
    Job, ReadOnlyLog, ReadOnlyReadError, ReadOnlyStore, Refreshed, Store, StoreConfig,
};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset, Timestamp, TopicPartition};

type Outcome<T> = Result<T, Box<dyn Error>>;

const DIRECTORY: &str = "HIGHWATER_TEST_LOOKED_AT";
const PHASES: usize = 60;
const ACTS: usize = 12;
const NOW: Now =
    Now { monotonic: Monotonic::from_duration(std::time::Duration::ZERO), wall: Timestamp::from_millis(0) };

fn seed() -> u64 {
    std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

fn name() -> TopicPartition {
    TopicPartition::new("looked-at", 0).expect("it is a name")
}

fn config() -> StoreConfig {
    let mut config = StoreConfig::default();
    config.log = log_config();
    config
}

fn log_config() -> LogConfig {
    let mut config = LogConfig::default();
    config.segment_bytes_max = 4_000;
    config.index_interval_bytes = 200;
    config.retention_bytes = Some(30_000);
    config
}

/// The other process: does nothing unless [`a_looker_beside_another_process_sees_a_log_that_was_there`] has started it.
#[test]
#[ignore = "the other process of the test beside it"]
fn writer() -> Outcome<()> {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return Ok(()) };
    let disk = open_disk(IoMode::Auto, SyncThread::Never)?.disk;
    let store = Store::open(disk, Path::new(&directory), config(), NOW)?.store;
    let log = store.create_log(&name(), None, log_config(), NOW)?;
    let mut chance = fastrand::Rng::with_seed(seed());
    let mut epoch = 0;
    println!("\n> ready");
    for line in std::io::stdin().lock().lines().take(PHASES) {
        line?;
        for _ in 0..ACTS {
            act(&store, &log, &mut epoch, &mut chance)?;
        }
        println!("\n> done");
    }
    let (start, end) = (log.start(), log.written());
    store.close(serde_json::Map::new(), None)?;
    println!("\n> closed {} {}", start.value(), end.value());
    Ok(())
}

fn act(store: &Store, log: &Log, epoch: &mut i32, chance: &mut fastrand::Rng) -> Outcome<()> {
    let id = log.id();
    match chance.u32(0..16) {
        0 => {
            let to =
                Offset::new(chance.i64(log.start().value()..=log.written().value())).ok_or("not negative")?;
            Job::Truncate { log: id, to }.run(store);
            *epoch += 1;
        }
        1 => drop(Job::Retention { log: id, ceiling: log.written(), now: NOW }.run(store)),
        2 => drop(Job::Seal { log: id }.run(store)),
        3 => drop(Job::Checkpoint { now: NOW }.run(store)),
        _ => {
            let mut builder = BatchBuilder::new(Compression::None);
            for record in 0..chance.i64(1..6) {
                let value = format!(
                    "{epoch} {} {}",
                    log.accepted().value() + record,
                    "x".repeat(chance.usize(..750))
                );
                builder.push(Some(NOW.wall), None, Some(value.as_bytes()), &[])?;
            }
            let batch = ProducedBatch::check(builder.finish()?, &BatchLimits::default(), NOW.wall)?;
            log.append(Permit::new(LeaderEpoch::new(*epoch).ok_or("not negative")?), batch, NOW)?;
            while store.turn(Wait::ForOne, Patience::MayBlock).in_flight > 0 {}
        }
    }
    Ok(())
}

/// Reads all that is seen, or up to where the writer has changed it. Every record says itself in which epoch and at which offset it was
/// written.
fn check(log: &ReadOnlyLog) -> Outcome<bool> {
    let mut next = log.start();
    loop {
        let records = match log.read(next, 10_000) {
            Ok(Some(records)) => records,
            Ok(None) => break,
            Err(ReadOnlyReadError::Changed) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for item in records.parts.iter().flat_map(|part| scan(part, 0)) {
            let (_, batch) = item.expect("reads give whole batches");
            let epoch = batch.header().leader_epoch.expect("the writer stamps epochs");
            assert_eq!(log.epochs().epoch_at(batch.header().base_offset), Some(epoch));
            let mut scratch = Vec::new();
            for record in batch.records(&DecompressLimits::default(), &mut scratch)? {
                let record = record?;
                if record.offset < next {
                    continue;
                }
                assert_eq!(record.offset, next, "without a gap");
                let text = std::str::from_utf8(record.value.unwrap_or_default())?;
                let wanted = format!("{} {} ", epoch.value(), next.value());
                assert!(text.starts_with(&wanted), "{wanted} is {text}");
                next = next.next().ok_or("offsets do not end here")?;
            }
        }
    }
    assert_eq!(next, log.end());
    Ok(true)
}

#[test]
fn a_looker_beside_another_process_sees_a_log_that_was_there() -> Outcome<()> {
    let place = tempfile::tempdir()?;
    let directory = place.path().join("data");
    let mut other = Command::new(std::env::current_exe()?)
        .args(["--exact", "writer", "--ignored", "--nocapture"])
        .env(DIRECTORY, &directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut orders = other.stdin.take().expect("it is piped");
    let said = BufReader::new(other.stdout.take().expect("it is piped"));
    let (tell, told) = channel();
    let listener = thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            if let Some(word) = line.strip_prefix("> ") {
                let _is_heard = tell.send(word.to_owned());
            }
        }
    });
    assert_eq!(told.recv()?, "ready");
    let disk = open_disk(IoMode::Posix, SyncThread::Never)?.disk;
    let mut log = ReadOnlyStore::open(&disk, &directory, config())?.log(&name())?;
    let (mut looks, mut moved, mut cut, mut late) = (0, 0, 0, 0);
    for phase in 0..PHASES {
        writeln!(orders)?;
        let mut is_done = false;
        while !is_done {
            is_done = match told.try_recv() {
                Ok(word) => word == "done",
                Err(TryRecvError::Empty) => false,
                Err(TryRecvError::Disconnected) => {
                    panic!("seed {} phase {phase}: the writer has gone", seed())
                }
            };
            let end = log.end();
            match log.refresh()? {
                Refreshed::Same => assert_eq!(log.end(), end),
                Refreshed::Moved => moved += 1,
                Refreshed::Cut { to } => {
                    assert!(to <= end, "{to:?} {end:?}");
                    cut += 1;
                }
            }
            late += usize::from(!check(&log)?);
            looks += 1;
        }
    }
    drop(orders);
    let last = told.recv()?;
    assert!(other.wait()?.success());
    listener.join().expect("it only listens");
    let _news = log.refresh()?;
    println!(
        "{looks} looks: {moved} moves, {cut} cuts, {late} reads too late, generation {}",
        log.generation()
    );
    assert!(moved > 0 && cut > 0 && log.generation() > 0);
    assert_eq!(last, format!("closed {} {}", log.start().value(), log.end().value()));
    assert!(check(&log)?, "nobody changes it any more");
    // What was seen is what an opening finds, and the lock was never taken.
    let opened = Store::open(disk, &directory, config(), NOW)?;
    assert_eq!((opened.report.logs[0].start, opened.report.logs[0].end), (log.start(), log.end()));
    assert!(check(&log)?);
    Ok(())
}
