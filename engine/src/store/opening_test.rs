//! Opening many logs: with helpers and without, watched, and beside one that cannot be opened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fastrand::Rng;

use super::test_support::*;
use super::*;
use crate::disk::{Disk, Open, SimulatedDisk};
use crate::log::LogConfig;
use crate::units::Offset;

const LOGS: usize = 50;

/// Logs of different lengths, as a clean stop leaves them.
fn filled(disk: &Arc<dyn Disk>, directory: &Path) {
    let (store, _) = open(disk, directory);
    for number in 0..LOGS {
        let log =
            store.create_log(&name(&format!("t-{number}")), None, LogConfig::default(), now(0)).unwrap();
        for _ in 0..=number {
            append(&log, 3);
        }
    }
    turn(&store);
    store.close(serde_json::Map::new(), None).unwrap();
}

#[test]
fn logs_are_opened_by_helpers_as_without_and_each_is_told_of() {
    for place in places() {
        filled(&place.disk, &place.directory);
        let mut before = None;
        for opening_threads in [0, 1, 3, 2 * LOGS] {
            let told = Mutex::new(Vec::new());
            let config = StoreConfig { opening_threads, ..StoreConfig::default() };
            let watch = |progress: OpeningProgress| {
                let thread = std::thread::current().id();
                told.lock().unwrap().push((progress, thread));
            };
            let opened =
                Store::open_watched(Arc::clone(&place.disk), &place.directory, config, now(0), &watch);
            let Opened { store, report } = opened.unwrap();
            let mut told = told.into_inner().unwrap();
            let mine = told.iter().filter(|(_, thread)| *thread == std::thread::current().id()).count();
            assert!(opening_threads > 0 || mine == LOGS, "no thread that was not asked for");
            told.sort_unstable_by_key(|(progress, _)| progress.done);
            let done: Vec<usize> = told.iter().map(|(progress, _)| progress.done).collect();
            assert_eq!(done, (1..=LOGS).collect::<Vec<_>>());
            assert!(told.iter().all(|(progress, _)| progress.logs == LOGS));

            let found: Vec<_> =
                report.logs.iter().map(|log| (log.name.clone(), log.end, log.plan.clone())).collect();
            assert_eq!(*before.get_or_insert_with(|| found.clone()), found);
            for log in &report.logs {
                let by_name = store.log(&log.name).unwrap();
                assert_eq!((by_name.id(), by_name.written()), (log.log, log.end));
            }
            store.close(serde_json::Map::new(), None).unwrap();
        }
    }
}

fn interrupted_compaction() -> PathBuf {
    Path::new("/data/t-1/00000000000000000000.log.swap").to_owned()
}

#[test]
fn a_log_that_cannot_be_opened_is_left_as_it_is_and_recovered_another_day() {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    filled(&disk, Path::new("/data"));
    drop(open(&disk, Path::new("/data")));
    // What is no batch was not written by a compaction.
    disk.open(&interrupted_compaction(), Open::Create).unwrap().write_all_at(&[7; 100], 0).unwrap();
    let segment = Path::new("/data/t-1/00000000000000000000.log");
    let before = simulated.contents(segment).unwrap();

    let disk: Arc<dyn Disk> = Arc::new(simulated.crash_kill(&mut Rng::with_seed(1)));
    let (store, report) = open(&disk, Path::new("/data"));
    assert_eq!((report.logs.len(), report.refused.len()), (LOGS - 1, 1));
    let made = store.create_log(&name("t-1"), None, LogConfig::default(), now(0));
    assert!(matches!(made, Err(CreateLogError::LeftAlone { .. })), "{made:?}");
    append(&store.log(&name("t-0")).unwrap(), 3);
    turn(&store);
    store.close(serde_json::Map::new(), None).unwrap();

    disk.remove_file(&interrupted_compaction()).unwrap();
    let (store, report) = open(&disk, Path::new("/data"));
    assert_eq!((report.stop, report.logs.len()), (Stop::Clean, LOGS));
    let found = report.logs.iter().find(|log| log.name == name("t-1")).unwrap();
    assert_eq!((found.end, found.recovery_point), (at(6), Some(at(6))), "what was promised of it is known");
    // That stop was not its own.
    assert!(found.plan.steps.iter().any(|step| matches!(step, crate::recovery::Step::RewriteSegment { .. })));
    let log = store.log(&name("t-1")).unwrap();
    assert_eq!(read_all(&store, &log, Offset::ZERO.value()).len(), before.len());
}
