//! All that a directory says when it is opened: each log's records, what readers are told is damaged, epochs, producers and times.

use std::collections::BTreeMap;

use highwater_engine::batch::scan;
use highwater_engine::disk::SimulatedDisk;
use highwater_engine::log::{Log, Read, ReadError};
use highwater_engine::store::{Job, JobDone, OpenReport, Opened, Store};
use highwater_engine::units::{Offset, Timestamp, TopicPartition};

use super::directory::open;

/// One log, as readers and its owner see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogLook {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) batches: BTreeMap<i64, Vec<u8>>,
    pub(super) told: Vec<(i64, i64)>,
    pub(super) epochs: Vec<(i32, i64)>,
    pub(super) producers: Vec<(i64, i32, i64)>,
    /// Where the earliest transaction begins that is not decided.
    pub(super) unstable: Option<i64>,
    /// For times all over the log, the first record that is not older.
    pub(super) times: Vec<Option<(i64, i64)>>,
    /// Whether recovery says that something may be missing.
    pub(super) suspect: bool,
}

/// An opened directory.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) logs: BTreeMap<TopicPartition, LogLook>,
    pub(super) report: OpenReport,
}

/// Why there is nothing to be seen.
#[derive(Debug)]
pub(super) enum LookError {
    /// The directory is not opened.
    Refused,
    /// A reader is given what cannot be, or nothing.
    Wrong(String),
}

/// Opens and looks.
pub(super) fn look(disk: &SimulatedDisk) -> Result<Look, LookError> {
    let Opened { store, report } = open(disk).map_err(|_| LookError::Refused)?;
    let mut logs = BTreeMap::new();
    for log in store.logs() {
        let mut one = look_at(&store, &log).map_err(LookError::Wrong)?;
        let found = report.logs.iter().find(|found| found.name == *log.name());
        one.suspect = found.is_some_and(|found| found.suspect);
        logs.insert(log.name().clone(), one);
    }
    Ok(Look { logs, report })
}

fn look_at(store: &Store, log: &Log) -> Result<LogLook, String> {
    let (mut batches, mut told) = (BTreeMap::new(), Vec::new());
    let mut next = log.start();
    while next < log.written() {
        let mut read = log.read(next, Offset::MAX, 300, true);
        if let Ok(Read::Cold(asked)) = read {
            let JobDone::Read { result, .. } = Job::ColdRead(asked).run(store) else { panic!("a cold read") };
            read = result;
        }
        match read {
            Ok(Read::Records(records)) => {
                if records.first > next || records.end <= next || records.end > log.written() {
                    return Err(format!("{records:?} at {next} of {}", log.written()));
                }
                for batch in scan(&records.parts.concat(), 0) {
                    let (_, batch) =
                        batch.map_err(|stop| format!("what is served at {next} is not whole: {stop}"))?;
                    batches.insert(batch.header().base_offset.value(), batch.bytes().to_vec());
                }
                next = records.end;
            }
            Err(ReadError::Damaged { offsets: Some(offsets), .. }) if offsets.end() > next => {
                told.push((offsets.start().value(), offsets.end().value()));
                next = offsets.end();
            }
            other => return Err(format!("{other:?} at {next}, of {:?}", log.damaged())),
        }
    }
    let time = |ms| {
        let found = log.offset_for_timestamp(Timestamp::from_millis(ms), Offset::MAX);
        found.ok().flatten().map(|found| (found.offset.value(), found.timestamp.millis()))
    };
    Ok(LogLook {
        start: log.start().value(),
        end: log.written().value(),
        batches,
        told,
        epochs: log.with_facts(|facts| {
            let starts = facts.epochs.starts().iter();
            starts.map(|entry| (entry.epoch.value(), entry.start.value())).collect()
        }),
        producers: log.with_producers(|producers| {
            let last = producers.summaries().filter_map(|known| {
                let (_, sequence, _, last) = known.last_batch?;
                Some((known.id.value(), sequence.value(), last.value()))
            });
            last.collect()
        }),
        unstable: log.first_unstable(Offset::MAX).map(Offset::value),
        times: (995..1_100).step_by(7).map(time).collect(),
        suspect: false,
    })
}
