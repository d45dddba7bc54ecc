//! Index files that somebody else cuts while a process has them mapped: it answers right, or it ends by the signal of a page that is not
//! there, and the next one makes the indexes again.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::test_support::*;
use super::{Store, StoreConfig};
use crate::disk::{Disk, PosixDisk, SyncThread};
use crate::log::{Log, LogConfig, Permit};
use crate::segment::{FileKind, file_path};
use crate::units::{Offset, Timestamp};

/// Tells the test that it is the process under which the file is cut, and where the directory is.
const DIRECTORY: &str = "HIGHWATER_MAPPED_INDEXES_IN";
const RECORDS: i64 = 2_000;

fn opened(directory: &Path) -> (Store, Log) {
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::WhenNeeded));
    let config = LogConfig { index_interval_bytes: 1, ..small_segments(60_000) };
    let all = StoreConfig { log: config.clone(), tail_bytes_max: 0, ..StoreConfig::default() };
    let (store, _) = open_with(&disk, directory, all);
    let log = store.log(&name("t-0"));
    let log = log.unwrap_or_else(|| store.create_log(&name("t-0"), None, config, now(0)).unwrap());
    (store, log)
}

fn time_of(offset: i64) -> i64 {
    1_000 + 10 * offset
}

/// What does not hold of all lookups, the newest first, so that what is answered does not depend on the page that is gone before it has to.
fn wrong(store: &Store, log: &Log) -> Option<String> {
    let newest = log.max_timestamp(Offset::MAX);
    if !matches!(&newest, Ok(Some(found)) if found.offset == at(RECORDS - 1)) {
        return Some(format!("the newest is {newest:?}"));
    }
    (0..RECORDS).rev().step_by(7).find_map(|offset| {
        let read = read(store, log, offset, 1).map(|records| records.first);
        if read != Some(at(offset)) {
            return Some(format!("{offset} is read at {read:?}"));
        }
        let time = Timestamp::from_millis(time_of(offset) - 3);
        let found = log.offset_for_timestamp(time, Offset::MAX);
        let is_right = matches!(&found, Ok(Some(found)) if found.offset == at(offset));
        (!is_right).then(|| format!("{time:?} is found at {found:?} instead of {offset}"))
    })
}

/// The process under which the file is cut; a test of its own only by name.
#[test]
fn looks_up_before_and_after_its_maps_are_cut() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let (store, log) = opened(Path::new(&directory));
    assert_eq!(wrong(&store, &log), None);
    println!("\nmapped {}", store.shared().files.mapped());
    std::io::stdout().flush().unwrap();
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    assert_eq!(wrong(&store, &log), None);
}

#[test]
fn a_process_whose_mapped_index_is_cut_answers_right_or_ends_by_a_signal() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("data");
    let (store, log) = opened(&directory);
    for offset in 0..RECORDS {
        let batch = produced(&[&offset.to_be_bytes()], time_of(offset));
        log.append(Permit::new(epoch(0)), batch, now(1)).unwrap();
        turn(&store);
    }
    assert!(log.segment_count() > 2);
    store.close(serde_json::Map::new(), None).unwrap();
    drop(log);
    let (mut right, mut ended) = (0, 0);
    for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
        let path = file_path(&directory.join("t-0"), Offset::ZERO, kind);
        let whole = std::fs::read(&path).unwrap();
        let size = whole.len() as u64;
        assert!(size > 4_096, "more than a page");
        for cut in [0, 1, 12, 1_000, 2_400, 4_000, 4_096, 4_104, size - 24, size - 12, size - 1] {
            match cut_under_a_process(&directory, &path, cut) {
                None => right += 1,
                Some(signal) => {
                    assert_eq!(signal, libc::SIGBUS, "{kind:?} cut to {cut}");
                    ended += 1;
                }
            }
            let (store, log) = opened(&directory);
            assert_eq!(wrong(&store, &log), None, "{kind:?} was cut to {cut}");
            store.close(serde_json::Map::new(), None).unwrap();
            drop(log);
            // It was made again in memory; the next process is to have a whole file.
            std::fs::write(&path, &whole).unwrap();
        }
    }
    assert!(right > 0 && ended > 0, "{right} answered, {ended} ended");
}

/// The signal that ended the process, if not everything it answered was right.
fn cut_under_a_process(directory: &Path, path: &Path, to: u64) -> Option<i32> {
    let test = "store::mapped_index_test::looks_up_before_and_after_its_maps_are_cut";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(DIRECTORY, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mapped = said.find_map(|line| Some(line.unwrap().strip_prefix("mapped ")?.parse::<usize>().unwrap()));
    assert!(mapped.is_some_and(|mapped| mapped > 1), "{mapped:?}");
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(to).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let ended = child.wait_with_output().unwrap();
    let told = format!("{}\n{}", rest.join("\n"), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() || ended.status.signal().is_some(), "cut to {to}: {told}");
    ended.status.signal()
}
